// Versions of any artefact: each with the request that made it, its content, and what it changed.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api.ts";
import { wordDiff } from "../diff.ts";
import { count, shorten } from "../format.ts";
import { streamWords } from "../mentions.ts";
import { location, setQuery } from "../router.ts";
import { act, mayWrite } from "../store.ts";
import type { ArtefactView, Json, Version } from "../types.ts";
import { Ago, Empty, Failure, Loading } from "../ui/states.tsx";
import { useRead } from "../ui/use_read.ts";
import { Value } from "../ui/value.tsx";
import { versionActions } from "./actions.ts";
import { PANELS } from "./index.ts";
import type { PanelProps } from "./panel.ts";
import { isPlain, pathInWords, sentencesOf } from "./version_words.ts";
import { Picture } from "./video.tsx";

function Changed({ before, after }: { before: Json | undefined; after: Json | undefined }) {
  const several = (value: Json | undefined): value is string => typeof value === "string" && /\s/.test(value);
  if (several(before) && several(after)) {
    return (
      <p class="diff-text">
        {wordDiff(before, after).map((piece, i) =>
          piece.kind === "same" ? <span key={i}>{piece.text}</span>
          : piece.kind === "added" ? <ins key={i}>{piece.text}</ins>
          : <del key={i}>{piece.text}</del>)}
      </p>
    );
  }
  const plain = [before, after].every((value) => value === null || typeof value !== "object");
  const old = before !== undefined && <del><Value value={before} /></del>;
  const now = after !== undefined && <ins><Value value={after} /></ins>;
  return plain ? <p class="diff-text">{old}{old && now && " → "}{now}</p> : <div class="diff-values">{old}{now}</div>;
}

function DiffView({ kind, id, stream, from, to }: { kind: string; id: string; stream: string; from: string; to: string }) {
  const [diff, error] = useRead(() => api.diff(kind, id, stream, from, to), [kind, id, stream, from, to]);
  if (error?.status === 410) return <p class="muted">{from} is not kept any more, so there is nothing to compare with.</p>;
  if (!diff) return error ? <Failure error={error} /> : <Loading label="Comparing" rows={2} />;
  if (diff.changes.length === 0) return <p class="muted">{to} is equal to {from}.</p>;
  return (
    <ul class="diff">
      {diff.changes.map((change, i) => (
        <li key={i}>
          <span class="diff-path">{pathInWords(change.path)}{change.kind !== "changed" && <span class="muted"> {change.kind}</span>}</span>
          <Changed before={change.before} after={change.after} />
        </li>
      ))}
    </ul>
  );
}

function Actions({ props, stream, version, active, newest }: { props: PanelProps; stream: string; version: Version; active: boolean; newest: boolean }) {
  const [busy, setBusy] = useState(false);
  const actions = versionActions(props.kind, props.id, stream, version.id, { active, newest });
  if (actions.length === 0 || !mayWrite.value) return null;
  return (
    <div class="actions">
      {actions.map((action) => (
        <button key={action.label} type="button" class="button small" disabled={busy} onClick={async () => {
          setBusy(true);
          await act(action.run(), action.done, props.changed);
          setBusy(false);
          setQuery({ version: null });
        }}>{action.label}</button>
      ))}
    </div>
  );
}

/** What a version is to a person: a picture, what it says or its few fields; all of it where somebody looks. */
function Content({ props, stream, version }: { props: PanelProps; stream: string; version: Version }) {
  const picture = PANELS[props.kind]?.picture?.(props.id, stream, version.id);
  const data = (version.data ?? null) as Json;
  const sentences = picture ? [] : sentencesOf(data);
  return (
    <>
      {picture && <Picture src={picture} title={`${streamWords(stream)} ${version.id}`} width={1280} />}
      {isPlain(data) ? <Value value={data} />
        : sentences.length > 0 && <ul class="version-words">{sentences.map((one, i) => <li key={i}>{one}</li>)}</ul>}
      {!isPlain(data) && <details class="fold"><summary>All fields</summary><Value value={data} /></details>}
    </>
  );
}

/** One version, which a link may name that is not kept any more or never was; `onAbsent` if the list has such a one. */
function VersionView({ props, stream, id, listed, active, newest, onAbsent }: {
  props: PanelProps; stream: string; id: string; listed: Version | undefined; active: boolean; newest: boolean; onAbsent: () => void;
}) {
  const [version, error] = useRead(() => api.version(props.kind, props.id, stream, id), [listed?.status]);
  const absent = error?.status === 410 || error?.status === 404;
  useEffect(() => { if (absent && listed) onAbsent(); }, [absent]);
  if (absent) {
    return (
      <Empty title={error.status === 410 ? `${id} is not kept any more` : `There is no ${id}`}>
        <button type="button" class="button small" onClick={() => setQuery({ version: null })}>Show the newest</button>
      </Empty>
    );
  }
  if (!version) return error ? <Failure error={error} /> : <Loading label="Reading the version" />;
  return (
    <article class="version" aria-label={`${streamWords(stream)} ${id}`}>
      <div class="version-head">
        <div>
          {version.request && <p class="version-request">“{shorten(version.request, 200)}”</p>}
          <p class="meta">
            <span>by {version.by === "model" ? `the ${version.model || ""} model` : version.by !== "person" ? version.by : version.createdBy === "local" ? "hand" : version.createdBy}</span>
            <Ago of={version.createdAt} />
            {version.parent && <span>from {version.parent}</span>}
          </p>
        </div>
        <Actions props={props} stream={stream} version={version} active={active} newest={newest} />
      </div>
      {version.parent && (
        <section class="version-changes">
          <h3>Changed since {version.parent}</h3>
          <DiffView kind={props.kind} id={props.id} stream={stream} from={version.parent} to={id} />
        </section>
      )}
      <Content props={props} stream={stream} version={version} />
    </article>
  );
}

/** The versions of one stream: a strip to choose from, and the chosen one. */
function StreamVersions({ props, stream }: { props: PanelProps; stream: string }) {
  const [reads, again] = useState(0);
  const [list, error] = useRead(() => api.versions(props.kind, props.id, stream), [stream, props.revision, reads]);
  if (error && !(error.status === 0 && list)) return <Failure error={error} />;
  if (!list) return <Loading label="Reading the versions" />;
  const newest = list.versions.at(-1)?.id;
  const chosen = location.value.query.get("version") ?? newest;
  if (!chosen) return <Empty title="No version yet">It appears here as soon as one is made.</Empty>;
  return (
    <>
      <div class="strip" role="group" aria-label="Versions">
        {list.versions.map((one) => (
          <button key={one.id} type="button" class="chip" aria-pressed={one.id === chosen} title={one.request || one.summary}
            onClick={() => setQuery({ version: one.id === newest ? null : one.id })}>
            {one.id}{one.id === list.active && <span class="chip-note">active</span>}
          </button>
        ))}
      </div>
      <VersionView key={`${stream}/${chosen}`} props={props} stream={stream} id={chosen} listed={list.versions.find((one) => one.id === chosen)}
        active={chosen === list.active} newest={chosen === newest} onAbsent={() => again(reads + 1)} />
    </>
  );
}

/** Streams of an artefact, and the versions of the chosen one. */
export function Versions(props: PanelProps & { artefact: ArtefactView }) {
  const { streams } = props.artefact;
  const names = Object.keys(streams).filter((name) => (streams[name]?.count ?? 0) > 0);
  const wanted = location.value.query.get("stream") ?? "";
  const newest = names.reduce<string | undefined>((best, name) => ((streams[name]?.updatedAt ?? "") > (streams[best ?? ""]?.updatedAt ?? "") ? name : best), names[0]);
  const stream = wanted || newest;
  if (!stream) return <Empty icon="layers" title="Nothing was made yet">Each version of this {props.kind} is kept here, with the request that made it.</Empty>;
  return (
    <div class="versions">
      <div class="strip wrap" role="group" aria-label="Parts">
        {names.map((name) => (
          <button key={name} type="button" class="tab" aria-pressed={name === stream} onClick={() => setQuery({ stream: name, version: null })}>
            {streamWords(name)}<span class="tab-note">{count(streams[name]?.count ?? 0, "version")}</span>
          </button>
        ))}
      </div>
      <StreamVersions key={stream} props={props} stream={stream} />
    </div>
  );
}
