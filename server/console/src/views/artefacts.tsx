// Everything that was made, by kind: open, export, delete.
import { useEffect, useState } from "preact/hooks";
import { api, path } from "../api.ts";
import { isName } from "../format.ts";
import { servedKinds, threadsOf } from "../panels/index.ts";
import { location, setQuery } from "../router.ts";
import { attempt, mayWrite, notify } from "../store.ts";
import type { ListedArtefact, RecentThread } from "../types.ts";
import { Confirm } from "../ui/dialog.tsx";
import { Icon, KindIcon } from "../ui/icon.tsx";
import { Ago, Empty, Failure, Loading } from "../ui/states.tsx";
import { useCall, useRead } from "../ui/use_read.ts";

const MOST_TITLES = 100;

/** Titles by thread and by artefact, of what was changed lately. */
async function readTitles(): Promise<Map<string, RecentThread>> {
  const threads = await api.recent("", MOST_TITLES).catch(() => []);
  return new Map(threads.flatMap((one) => [[one.thread, one], [one.artefact?.id ?? one.thread, one]] as [string, RecentThread][]));
}

/** An artefact, or the thread of a workflow that keeps nothing else, which is not deleted here. */
function ArtefactRow({ artefact, thread, onDeleted }: { artefact: ListedArtefact; thread: RecentThread | undefined; onDeleted?: () => void }) {
  const [asking, ask] = useState(false);
  const name = thread?.title || artefact.id;
  const remove = async () => {
    if (await attempt(api.deleteArtefact(artefact.kind, artefact.id))) { notify(`“${name}” is deleted.`); onDeleted?.(); }
  };
  return (
    <li class="row">
      <KindIcon of={artefact.kind} size={28} />
      <div class="row-main">
        <a class="row-title" data-row href={`/c/${encodeURIComponent(thread?.thread ?? artefact.id)}`}>{name}</a>
        <p class="meta">
          <Ago of={artefact.updatedAt} />
          {name !== artefact.id && isName(artefact.id) && <span class="id">{artefact.id}</span>}
        </p>
      </div>
      <a class="icon-button" href={path`/api/threads/${thread?.thread ?? artefact.id}/export`} download aria-label={`Export ${name}`}><Icon name="down" size={18} /></a>
      {mayWrite.value && onDeleted && <button type="button" class="icon-button" aria-label={`Delete ${name}`} onClick={() => ask(true)}><Icon name="trash" size={18} /></button>}
      {asking && <Confirm title={`Delete this ${artefact.kind}?`} action="Delete" onConfirm={() => void remove()} onClose={() => ask(false)}
        lost={`“${name}” is deleted with all its versions, files, plans and its conversation. This cannot be undone. Export it first if you may need it.`} />}
    </li>
  );
}

/** Threads of a workflow that keeps nothing but its conversations. */
function ThreadList({ workflow }: { workflow: string }) {
  const [threads, error] = useRead(() => api.recent(workflow, MOST_TITLES), [workflow]);
  if (!threads) return error ? <Failure error={error} /> : <Loading label="Reading the list" />;
  const own = threads.filter((one) => one.workflow === workflow);
  if (own.length === 0) return <Empty icon="chart" title="No question was asked yet"><a href="/">Ask one on Home</a></Empty>;
  return <ul class="rows">{own.map((one) => <ArtefactRow key={one.thread} artefact={{ kind: workflow, id: one.thread, updatedAt: one.updatedAt ?? "" }} thread={one} />)}</ul>;
}

function ArtefactList({ kind }: { kind: string }) {
  const [list, setList] = useState<ListedArtefact[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [error, call] = useCall();
  const read = (after = "") => call(api.artefacts(kind, after), (page) => {
    setList((before) => [...(after ? (before ?? []) : []), ...page.artefacts]);
    setNext(page.next);
  });
  const [titles] = useRead(readTitles, []);
  useEffect(() => void read(), [kind]);
  return (
    <>
      {error && <Failure error={error} onRetry={() => void read()} />}
      {list === null ? !error && <Loading label="Reading the list" />
        : list.length === 0 ? <Empty icon="layers" title="Nothing of this kind yet"><a href="/">Start something on Home</a></Empty>
        : <ul class="rows">{list.map((one) => <ArtefactRow key={one.id} artefact={one} thread={titles?.get(one.id)} onDeleted={() => void read()} />)}</ul>}
      {next && <button type="button" class="button" onClick={() => void read(next)}>Show more</button>}
    </>
  );
}

export function Artefacts() {
  const kind = location.value.query.get("kind") ?? servedKinds()[0]?.[0] ?? "";
  const workflow = threadsOf(kind);
  return (
    <div class="page">
      <h1>Artefacts</h1>
      <div class="strip wrap" role="group" aria-label="Kind">
        {servedKinds().map(([name, plural]) => (
          <button key={name} type="button" class="tab" aria-pressed={name === kind} onClick={() => setQuery({ kind: name }, true)}>{plural}</button>
        ))}
      </div>
      {workflow ? <ThreadList key={kind} workflow={workflow} /> : <ArtefactList key={kind} kind={kind} />}
    </div>
  );
}
