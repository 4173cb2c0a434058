// The pane beside a conversation: the panel of the artefact's kind and its versions, or a graph's state.
import { api, path } from "../api.ts";
import { words } from "../format.ts";
import { location, navigate, setQuery } from "../router.ts";
import { attempt } from "../store.ts";
import type { ThreadModel } from "../thread.ts";
import type { Fields, Json } from "../types.ts";
import { KindIcon } from "../ui/icon.tsx";
import { Boundary } from "../ui/boundary.tsx";
import { later } from "../ui/later.tsx";
import { Empty, Failure, Loading } from "../ui/states.tsx";
import { useRead } from "../ui/use_read.ts";
import { Value } from "../ui/value.tsx";
import { artefactOf, PANELS, WITHOUT_VERSIONS } from "./index.ts";
import type { PanelProps } from "./panel.ts";

const Versions = later(() => import("./versions.tsx").then((one) => one.Versions));

function StateView({ values }: { values: Fields }) {
  if (Object.keys(values).length === 0) return <Empty icon="graph" title="No state yet">The values of the graph’s state appear here.</Empty>;
  return <Value value={values as Json} />;
}

function ArtefactPane(props: PanelProps) {
  const panel = PANELS[props.kind];
  const begun = !props.busy || props.revision > 0;
  const [artefact, error] = useRead(() => api.artefact(props.kind, props.id), [props.kind, props.id, props.revision], begun);
  if (error && error.status !== 404 && !(error.status === 0 && artefact)) return <Failure error={error} />;
  if (error?.status === 404 || (!artefact && !begun)) {
    return (
      <Empty icon="layers" title={props.busy ? "In the making" : "Nothing was made yet"}>
        Each version of this {props.kind} is kept here, with the request that made it.
      </Empty>
    );
  }
  if (!artefact) return <Loading label={`Reading the ${props.kind}`} />;
  const versions = !panel || location.value.query.has("stream") || location.value.query.get("tab") === "versions";
  const Panel = panel?.view;
  return (
    <>
      {panel && (
        <div class="strip" role="group" aria-label="What to show">
          <button type="button" class="tab" aria-pressed={!versions} onClick={() => setQuery({ tab: null, stream: null, version: null })}>{panel.title}</button>
          <button type="button" class="tab" aria-pressed={versions} onClick={() => setQuery({ tab: "versions" })}>Versions</button>
        </div>
      )}
      {artefact.sources.filter((one) => one.kind in PANELS).map((one) => (
        <button key={one.id} type="button" class="tag link" onClick={() => void attempt(api.artefact(one.kind, one.id)).then((source) => source && navigate(path`/c/${source.conversationId ?? source.id}`))}>Made from {one.kind === "ad" ? "an ad" : `a ${one.kind}`}</button>
      ))}
      {versions || !Panel ? <Versions {...props} artefact={artefact} /> : <Panel {...props} />}
    </>
  );
}

export function Pane({ thread }: { thread: ThreadModel }) {
  const { messages = [], ...values } = thread.values.value;
  const workflow = thread.workflow.value;
  const artefact = artefactOf(workflow, thread.id, values);
  const props: PanelProps | null = artefact && {
    ...artefact, thread: thread.id, revision: thread.revision.value, busy: thread.busy.value, values, messages,
    say: (text) => thread.send(text), changed: () => thread.changed(),
    select: (id) => { thread.selected.value = id; },
  };
  const Own = artefact && WITHOUT_VERSIONS.has(artefact.kind) ? (PANELS[artefact.kind]?.view ?? null) : null;
  return (
    <section class="pane" aria-label="What is made">
      <header class="pane-head">
        <KindIcon of={artefact?.kind ?? workflow} size={24} />
        <h2>{artefact ? words(artefact.kind) : "State"}</h2>
      </header>
      <div class="pane-body"><Boundary key={thread.id}>
        {props && Own ? <Own {...props} />
          : props && !WITHOUT_VERSIONS.has(props.kind) ? <ArtefactPane key={props.id} {...props} />
          : <StateView values={values} />}
      </Boundary></div>
    </section>
  );
}
