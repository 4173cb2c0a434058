// The inspector of a thread, for engineers: graph, checkpoints with what they changed, state, model calls, events.
import { useEffect, useState } from "preact/hooks";
import { api, get, path, post, type ApiError } from "../api.ts";
import { ago, count, fullTime, line, usd } from "../format.ts";
import { changesOf, checkpointOf, curl, modelCalls, type Graph } from "../inspect.ts";
import { location, setQuery } from "../router.ts";
import { asApiError, mayWrite, notify } from "../store.ts";
import { openStream, type StreamEvent } from "../stream.ts";
import type { Fields, Json, Run, Thread, ThreadState } from "../types.ts";
import { Empty, Failure, Loading, Status } from "../ui/states.tsx";
import { DataTable } from "../ui/table.tsx";
import { useRead } from "../ui/use_read.ts";
import { Value } from "../ui/value.tsx";
import { ForkDialog } from "./inspect_fork.tsx";
import { GraphPicture } from "./inspect_graph.tsx";

const TABS: [name: string, title: string][] = [["changes", "Changes"], ["state", "State"], ["model", "Model"], ["events", "Events"]];
const MOST_EVENTS = 500;
/** Pause between two reads of a thread whose run goes on. */
const REFRESH_MS = 1_000;

function Copy({ text }: { text: string }) {
  return <button type="button" class="button small" onClick={() => void navigator.clipboard.writeText(text).then(() => notify("Copied"), () => notify("The browser does not let the page copy", { bad: true }))}>Copy as curl</button>;
}

function Changes({ state, parent }: { state: ThreadState; parent: ThreadState | undefined }) {
  const changes = changesOf(parent?.values ?? {}, state.values);
  if (changes.length === 0) return <p class="muted">This checkpoint changed nothing.</p>;
  return (
    <ul class="diff">
      {changes.map((one) => (
        <li key={one.name}>
          <p><strong>{one.name}</strong> {one.elements && <span class="muted">{count(one.elements.length, "element")} added or changed</span>}</p>
          {one.elements
            ? <ins class="block"><Value value={one.elements} /></ins>
            : <div class="diff-values">{one.before !== undefined && <del><Value value={one.before} /></del>}{one.after !== undefined && <ins><Value value={one.after} /></ins>}</div>}
        </li>
      ))}
    </ul>
  );
}

function ModelUse({ thread, values }: { thread: string; values: Fields }) {
  const [usage] = useRead(() => get<{ total: { costUsd: number; modelCalls: number } }>(path`/api/usage?conversationId=${thread}`), [thread]);
  const calls = modelCalls(values);
  if (calls.length === 0) return <p class="muted">No answer of a model is in this state.</p>;
  return (
    <>
      {usage && usage.total.modelCalls > 0 && <p>The whole thread: {count(usage.total.modelCalls, "call")}, {usd(usage.total.costUsd)}.</p>}
      <DataTable caption="Calls of models" rows={calls} keyOf={(row) => row.id} columns={[
        { name: "model", title: "Model", cell: (row) => row.model, value: (row) => row.model },
        { name: "input", title: "Tokens in", cell: (row) => row.input.toLocaleString("en"), value: (row) => row.input, number: true },
        { name: "output", title: "Tokens out", cell: (row) => row.output.toLocaleString("en"), value: (row) => row.output, number: true },
        { name: "calls", title: "Called", cell: (row) => row.calls.join(", ") || "answered in words" },
      ]} />
    </>
  );
}

function Events({ thread }: { thread: string }) {
  const [runs, setRuns] = useState<Run[] | null>(null);
  const [run, setRun] = useState("");
  const [events, setEvents] = useState<(StreamEvent & { number: number })[]>([]);
  useEffect(() => void api.runs(thread, 20).then((list) => { setRuns(list); setRun(list[0]?.run_id ?? ""); }, () => setRuns([])), [thread]);
  useEffect(() => {
    setEvents([]);
    if (!run) return undefined;
    let number = 0;
    const close = openStream(path`/threads/${thread}/runs/${run}/stream`, {
      lastEventId: "-1",
      onEvent: (event) => { number += 1; const one = { ...event, number }; setEvents((before) => [...before, one].slice(-MOST_EVENTS)); },
      onGap: () => undefined, onRefused: () => undefined, onEnd: () => undefined,
    });
    return close;
  }, [thread, run]);
  if (runs === null) return <Loading />;
  if (runs.length === 0) return <p class="muted">The thread has no runs.</p>;
  return (
    <>
      <div class="actions">
        <label class="field"><span class="sr-only">Run</span>
          <select value={run} onChange={(event) => setRun(event.currentTarget.value)}>{runs.map((one) => <option key={one.run_id} value={one.run_id}>{`${fullTime(one.created_at)}, ${one.status}`}</option>)}</select>
        </label>
        <Copy text={curl("GET", window.location.origin + path`/threads/${thread}/runs/${run}/stream` + "?stream_mode=updates") + " -H 'Last-Event-ID: -1'"} />
      </div>
      <ol class="events">
        {events.map((one) => <li key={one.number}><details><summary><span class="num muted">{one.number}</span> <strong>{one.event}</strong> <span class="muted">{line(one.data, 90)}</span></summary><pre>{JSON.stringify(one.data, null, 2)}</pre></details></li>)}
      </ol>
      {events.length === MOST_EVENTS && <p class="help">The newest {MOST_EVENTS} are shown.</p>}
    </>
  );
}

export function Inspect({ thread }: { thread: string }) {
  const [record, setRecord] = useState<Thread | null>(null);
  const [graph, setGraph] = useState<Graph | null>(null);
  const [history, setHistory] = useState<ThreadState[] | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [forking, fork] = useState(false);
  const tab = location.value.query.get("tab") ?? "changes";
  const chosen = location.value.query.get("checkpoint");
  useEffect(() => {
    const read = async () => {
      const known = await api.thread(thread);
      await follow();
      const assistants = await post<{ assistant_id: string }[]>("/assistants/search", { graph_id: known.metadata.graph_id ?? "", limit: 1 });
      if (assistants[0]) setGraph(await get<Graph>(path`/assistants/${assistants[0].assistant_id}/graph`));
    };
    let timer: ReturnType<typeof setTimeout> | undefined;
    const follow = async () => {
      const known = await api.thread(thread);
      setRecord(known);
      setHistory(await api.history(thread));
      if (known.status === "busy") timer = setTimeout(() => void follow().catch(() => undefined), REFRESH_MS);
    };
    read().catch((failure) => setError(asApiError(failure)));
    return () => clearTimeout(timer);
  }, [thread]);
  if (error) return <div class="page"><Failure error={error} /></div>;
  if (!record || !history) return <div class="page"><Loading label="Reading the history" /></div>;
  const state = history.find((one) => checkpointOf(one) === chosen) ?? history[0];
  const parent = state && history.find((one) => checkpointOf(one) === state.parent_checkpoint?.checkpoint_id);
  const url = window.location.origin + path`/threads/${thread}/history`;
  return (
    <div class="page wide">
      <header class="page-head">
        <div><h1>Inspector</h1><p class="meta"><span><code>{thread}</code></span><span>{record.metadata.graph_id}</span></p></div>
        <Status of={record.status} />
        <div class="actions"><Copy text={curl("POST", url, { limit: 100 })} /><a class="button small" href={path`/c/${thread}`}>Conversation</a></div>
      </header>
      {graph && <section class="part graph-part" aria-label="Graph"><GraphPicture graph={graph} next={state?.next ?? []} /></section>}
      {!state ? <Empty icon="graph" title="No checkpoints yet">They appear with the first run.</Empty> : (
        <div class="inspect">
          <nav class="part" aria-label="Checkpoints">
            <h2>Checkpoints</h2>
            <ol class="checkpoints">
              {history.map((one) => (
                <li key={checkpointOf(one)}>
                  <button type="button" aria-pressed={one === state} onClick={() => setQuery({ checkpoint: checkpointOf(one) })}>
                    <span>{one.metadata?.step ?? ""}</span>
                    <span>{one.next.length > 0 ? `before ${one.next.join(", ").replaceAll("__", "")}` : "end"}{one.interrupts.length > 0 ? " · asks" : ""}</span>
                    <time class="muted" dateTime={one.created_at ?? undefined} title={fullTime(one.created_at ?? "")}>{ago(one.created_at)}</time>
                  </button>
                </li>
              ))}
            </ol>
          </nav>
          <section class="part" aria-label="Checkpoint">
            <header class="part-head">
              <div class="strip" role="group" aria-label="What to show">
                {TABS.map(([name, title]) => <button key={name} type="button" class="tab" aria-pressed={tab === name} onClick={() => setQuery({ tab: name })}>{title}</button>)}
              </div>
              {mayWrite.value && <button type="button" class="button small end" disabled={record.status === "busy"} onClick={() => fork(true)}>Continue from here</button>}
            </header>
            {tab === "changes" && <Changes state={state} parent={parent} />}
            {tab === "state" && <Value value={state.values as Json} />}
            {tab === "model" && <ModelUse thread={thread} values={state.values} />}
            {tab === "events" && <Events thread={thread} />}
            <p class="help">Checkpoint <code>{checkpointOf(state)}</code>{state.metadata?.prompt && <>, prompt <code>{String(state.metadata.prompt)}</code></>}</p>
          </section>
        </div>
      )}
      {forking && state && <ForkDialog thread={thread} state={{ ...state, metadata: { ...state.metadata, graph_id: record.metadata.graph_id } }} onClose={() => fork(false)} />}
    </div>
  );
}
