// A conversation through LangGraph's JavaScript client, over REST, SSE and web socket; prints results as JSON.
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.argv[2] });
const input = { messages: [{ role: "user", content: "hello" }] };
const approved = { decisions: [{ type: "approve" }] };

async function streamRuns() {
  const thread = await client.threads.create();
  const events = [];
  const first = client.runs.stream(thread.thread_id, "agent", { input, streamMode: ["values", "updates"] });
  for await (const part of first) events.push(part.event);
  const interrupted = await client.threads.get(thread.thread_id);
  const resumed = await client.runs.wait(thread.thread_id, "agent", { command: { resume: approved } });
  const state = await client.threads.getState(thread.thread_id);
  const history = await client.threads.getHistory(thread.thread_id);
  const runs = await client.runs.list(thread.thread_id);
  return {
    events,
    interrupted: interrupted.status,
    interrupts: Object.values(interrupted.interrupts).flat().length,
    decision: resumed.decision,
    next: state.next,
    history: history.length,
    runs: runs.map((run) => run.status),
  };
}

async function streamEvents(transport) {
  const thread = client.threads.stream({ assistantId: "agent", transport });
  const statuses = [];
  const unsubscribe = thread.onEvent((event) => {
    if (event.method === "lifecycle" && event.params.namespace.length === 0) statuses.push(event.params.data.event);
  });
  await thread.run.start({ input });
  const words = [];
  for await (const message of thread.messages) {
    for await (const word of message.text) words.push(word);
    break;
  }
  while (thread.interrupts.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  const { interruptId, namespace } = thread.interrupts[0];
  await thread.input.respond({ namespace, interrupt_id: interruptId, response: approved });
  while (!statuses.includes("completed")) await new Promise((resolve) => setTimeout(resolve, 10));
  const state = await client.threads.getState(thread.threadId);
  unsubscribe?.();
  await thread.close();
  return { words, statuses, decision: state.values.decision };
}

/** Leaves the stream of a run and rejoins it, then cancels another run. */
async function leaveAndRejoin() {
  const { thread_id } = await client.threads.create();
  const ticks = [];
  let run;
  let last;
  const options = { input: { x: 30, log: [] }, streamMode: ["custom"], streamResumable: true, onDisconnect: "continue" };
  const onRunCreated = ({ run_id }) => (run = run_id);
  for await (const part of client.runs.stream(thread_id, "slow", { ...options, onRunCreated })) {
    if (part.event !== "custom") continue;
    ticks.push(part.data.tick);
    last = part.id;
    if (ticks.length === 5) break;
  }
  const rest = client.runs.joinStream(thread_id, run, { lastEventId: last, streamMode: ["custom"] });
  for await (const part of rest) if (part.event === "custom") ticks.push(part.data.tick);
  const long = await client.runs.create(thread_id, "slow", { input: { x: 400, log: [] } });
  await client.runs.cancel(thread_id, long.run_id, true);
  const { status } = await client.runs.get(thread_id, long.run_id);
  return { ticks, status };
}

/** Runs from an earlier checkpoint, and from an updated state. */
async function fork() {
  const { thread_id } = await client.threads.create();
  await client.runs.wait(thread_id, "counter", { input: { x: 0, log: [] } });
  const history = await client.threads.getHistory(thread_id);
  const { checkpoint } = history.find(({ values }) => values.x === 1);
  const forked = await client.runs.wait(thread_id, "counter", { checkpoint });
  await client.threads.updateState(thread_id, { values: { x: 10 } });
  const changed = await client.runs.wait(thread_id, "counter", { input: { log: ["said"] } });
  return { forked, changed: changed.x };
}

const results = {
  rejoined: await leaveAndRejoin(),
  forks: await fork(),
  runs: await streamRuns(),
  sse: await streamEvents("sse"),
  socket: await streamEvents("websocket"),
};
process.stdout.write(JSON.stringify(results));
process.exit(0);
