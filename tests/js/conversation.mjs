// A conversation through LangGraph's JavaScript client, on both wires; prints what it saw as JSON.
import { Client } from "@langchain/langgraph-sdk";

const client = new Client({ apiUrl: process.argv[2] });
const input = { messages: [{ role: "user", content: "hello" }] };
const approved = { decisions: [{ type: "approve" }] };

async function overRuns() {
  const thread = await client.threads.create();
  const events = [];
  const first = client.runs.stream(thread.thread_id, "agent", { input, streamMode: ["values", "updates"] });
  for await (const part of first) events.push(part.event);
  const paused = await client.threads.get(thread.thread_id);
  const done = await client.runs.wait(thread.thread_id, "agent", { command: { resume: approved } });
  const state = await client.threads.getState(thread.thread_id);
  const history = await client.threads.getHistory(thread.thread_id);
  const runs = await client.runs.list(thread.thread_id);
  return {
    events,
    paused: paused.status,
    questions: Object.values(paused.interrupts).flat().length,
    decision: done.decision,
    next: state.next,
    history: history.length,
    runs: runs.map((run) => run.status),
  };
}

async function overEvents(transport) {
  const thread = client.threads.stream({ assistantId: "agent", transport });
  const lives = [];
  const off = thread.onEvent((event) => {
    if (event.method === "lifecycle" && event.params.namespace.length === 0) lives.push(event.params.data.event);
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
  while (!lives.includes("completed")) await new Promise((resolve) => setTimeout(resolve, 10));
  const state = await client.threads.getState(thread.threadId);
  off?.();
  await thread.close();
  return { words, lives, decision: state.values.decision };
}

const told = { runs: await overRuns(), sse: await overEvents("sse"), socket: await overEvents("websocket") };
process.stdout.write(JSON.stringify(told));
process.exit(0);
