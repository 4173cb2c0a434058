// A thread as a list of turns: from the stored state, and from the events of a running one. Pure functions.
import { sentence, words } from "./format.ts";
import type { Fields, Json, StepEvent, StepResult, ThreadState, ToolCall, TurnReceipt, WireMessage } from "./types.ts";

export interface Step {
  id: string;
  tool: string;
  /** Its own title; empty for a step that is called as all of its tool. */
  name: string;
  status: string;
  input: Fields | null;
  output: Json;
  error: string;
  /** The model's words have the error. */
  inWords?: boolean;
  seconds: number | null;
}

export type Item =
  /** The person's words; a form has the `content` that the model reads beside it. */
  | { type: "person"; id: string; text: string; content?: string; form?: Record<string, string> | undefined }
  | { type: "model"; id: string; text: string; streaming: boolean }
  | { type: "receipt"; id: string; receipt: TurnReceipt }
  | { type: "steps"; id: string; plan: string; steps: Step[]; call?: string };

/** Calls by which a model talks to the server, not tools that a person cares about. */
export const CONTROL: ReadonlySet<string> = new Set(["submit_plan", "answer"]);
const DONE = new Set(["completed", "failed", "error", "cancelled", "skipped", "blocked", "timeout"]);

export function isDone(status: string): boolean {
  return DONE.has(status);
}

const FAILED = new Set(["failed", "error", "timeout"]);

export function hasFailed(status: string): boolean {
  return FAILED.has(status);
}

/** True for a completed step that changed nothing. */
export function isUnchanged({ status, output }: Step): boolean {
  return status === "completed" && typeof output === "object" && output !== null && !Array.isArray(output) && Boolean(output.unchanged);
}

/** How many of the steps that have ended came to what; each counts once: `[["completed", 3], ["failed", 1]]`. */
export function outcomes(steps: Step[]): [string, number][] {
  const counts = new Map(["completed", "unchanged", "failed", "blocked", "skipped", "cancelled"].map((name) => [name, 0]));
  for (const one of steps) {
    const name = isUnchanged(one) ? "unchanged" : hasFailed(one.status) ? "failed" : one.status;
    counts.set(name, (counts.get(name) ?? 0) + (isDone(one.status) ? 1 : 0));
  }
  return [...counts].filter(([, number]) => number > 0);
}

export function textOf(content: WireMessage["content"] | undefined): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => (part.type === "text" ? (part.text ?? "") : "")).join("");
}

/** The words of a message without the receipt, which the server may repeat behind them and has a line of its own. */
function ownText(message: WireMessage): string {
  const text = textOf(message.content);
  const line = message.additional_kwargs?.receipt?.text;
  return line && text.endsWith(`\n\n${line}`) ? text.slice(0, -line.length).trimEnd() : text;
}

/** The fields of a brief whose message has only the words for the model. */
function briefForm(text: string): Record<string, string> | undefined {
  if (!text.startsWith("Create an audio ad.\nClient: ")) return undefined;
  const [, ...parts] = text.split(/\n(Client|Target Audience|Format|Duration|Market|Language|Additional context): /);
  const pairs = parts.flatMap((name, i): [string, string][] => (i % 2 ? [] : [[name, parts[i + 1] ?? ""]]));
  return Object.fromEntries(pairs.filter(([, value]) => value !== "None" && value !== "the brief's language"));
}

/** A person's message as they entered it: a text, or the fields of a form. */
function ofPerson(message: WireMessage, id: string): Item {
  const text = textOf(message.content);
  const entered: unknown = message.additional_kwargs?.entered ?? briefForm(text);
  if (typeof entered === "string") return { type: "person", id, text: entered, content: text };
  if (!entered || typeof entered !== "object" || Array.isArray(entered)) return { type: "person", id, text };
  return { type: "person", id, text: Object.entries(entered).map(([name, value]) => `${words(name)}: ${value}`).join("\n"), content: text, form: entered as Record<string, string> };
}

export function errorText(error: unknown): string {
  if (!error) return "";
  if (typeof error === "string") return error;
  const fields = error as Fields;
  const text = fields.message ?? fields.error ?? JSON.stringify(error);
  // A suggestion is for the model.
  return sentence(String(text));
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

/** The kind of error that the reply to a call tells; empty for a result. */
function typeOfError(output: Json): string {
  if (!output || typeof output !== "object" || Array.isArray(output) || typeof output.error !== "string") return "";
  return typeof output.type === "string" ? output.type : "error";
}

/** Status of a call that was not carried out, by the kind of error. */
const NOT_CARRIED_OUT: Record<string, string> = { permission_denied: "skipped" };

function step(call: ToolCall, result: StepResult | undefined, reply: WireMessage | undefined, known: Step | undefined): Step {
  const output = result?.output ?? (reply ? parsed(textOf(reply.content)) : null);
  const type = typeOfError(output);
  const failed = reply?.status === "error" || type !== "";
  return {
    id: call.id,
    tool: call.name,
    name: known?.name ?? "",
    status: result?.status ?? (reply ? (failed ? (NOT_CARRIED_OUT[type] ?? "failed") : "completed") : (known?.status ?? "pending")),
    input: call.args,
    output,
    error: errorText(result?.error) || (failed ? errorText(output) : ""),
    seconds: result?.duration_s ?? known?.seconds ?? null,
  };
}

/** Steps that a submitted plan reports in the reply to its call. */
function reported(reply: WireMessage | undefined): Step[] {
  const content = reply ? parsed(textOf(reply.content)) : null;
  const { titles = {} } = reply?.artifact ?? {};
  const list = content && typeof content === "object" && !Array.isArray(content) ? content.steps : null;
  if (!Array.isArray(list)) return [];
  return list.map((one, i) => {
    const fields = (one ?? {}) as Fields;
    const name = titles[fields.step] ?? [words(fields.tool ?? "step"), fields.scene].filter(Boolean).join(" ");
    return {
      id: fields.step ?? String(i), tool: fields.tool ?? "", name, status: fields.status ?? "completed",
      input: null, output: fields as Json, error: errorText(fields.error), seconds: null,
    };
  });
}

function ofResult(result: StepResult, known: Step | undefined): Step {
  return {
    id: result.id, tool: result.tool, name: known?.name ?? "", status: result.status,
    input: known?.input ?? null, output: result.output ?? null, error: errorText(result.error || (typeOfError(result.output ?? null) && result.output)), seconds: result.duration_s ?? null,
  };
}

/** All items of a stored state. `before` are the items on the screen: names of steps that the state lacks are kept. */
export function itemsOf(values: Fields, before: Item[] = []): Item[] {
  const messages: WireMessage[] = values.messages ?? [];
  const results = new Map<string, StepResult>((values.results ?? []).map((one: StepResult) => [`${one.plan}/${one.id}`, one]));
  const byCall = new Map([...results.values()].map((one) => [one.id, one]));
  const known = new Map(before.flatMap((item) => (item.type === "steps" ? item.steps.map((one) => [`${item.plan}/${one.id}`, one] as const) : [])));
  const replies = new Map(messages.filter((one) => one.tool_call_id).map((one) => [one.tool_call_id ?? "", one]));
  const ofPlan = (plan: string | undefined) => [...results.values()].filter((one) => one.plan === plan).map((one) => ofResult(one, known.get(`${plan}/${one.id}`)));
  const placed = new Set<string>();
  const lastPerson = messages.findLastIndex((one) => one.type === "human");
  const items: Item[] = [];
  for (const [i, message] of messages.entries()) {
    const id = message.id ?? `message-${i}`;
    const text = ownText(message);
    if (message.type === "human") items.push(ofPerson(message, id));
    if (message.type !== "ai") continue;
    if (text) items.push({ type: "model", id, text, streaming: false });
    const calls = message.tool_calls ?? [];
    const own = calls.filter((call) => !CONTROL.has(call.name));
    const steps = own.map((call) => step(call, byCall.get(call.id), replies.get(call.id), known.get(`${id}/${call.id}`)));
    if (steps.length > 0) items.push({ type: "steps", id: groupId(before, id, `${id}:steps`), plan: id, steps });
    for (const call of calls.filter((one) => one.name === "submit_plan")) {
      const shown = before.find((item) => item.type === "steps" && item.call === call.id);
      const reply = replies.get(call.id);
      const plan = reply?.artifact?.plan
        ?? (i > lastPerson ? [...results.values()].find((one) => !placed.has(one.plan) && !own.some((c) => c.id === one.id))?.plan : undefined);
      if (plan) placed.add(plan);
      const ended = ofPlan(plan);
      const inReply = reported(reply);
      const listed = inReply.length > 0 ? inReply.map((one) => { const known = ended.find((other) => other.id === one.id); return known ? { ...known, name: known.name || one.name } : one; }) : ended;
      if (shown && !plan) items.push(shown);
      else if (listed.length > 0) items.push({ type: "steps", id: groupId(before, plan ?? "", `${call.id}:plan`), plan: plan ?? "", steps: listed, call: call.id });
    }
    const { receipt, searchExtent } = message.additional_kwargs ?? {};
    if (searchExtent && !text.includes(searchExtent.text)) items.push({ type: "receipt", id: `${id}:extent`, receipt: { ...searchExtent, changed: [], problems: [] } });
    if (receipt) items.push({ type: "receipt", id: `${id}:receipt`, receipt });
  }
  // What a person undid, restored or had done again was no call of a model; of earlier turns it is not kept.
  for (const plan of new Set([...results.values()].map((one) => one.plan))) {
    if (items.some((item) => item.type === "steps" && item.plan === plan)) continue;
    const group: Item = { type: "steps", id: groupId(before, plan, `${plan}:steps`), plan, steps: ofPlan(plan) };
    items.splice(items.findLastIndex((item) => item.type === "person") + 1, 0, group);
  }
  return withUnplaced(withReasonsOnce(items), before, values);
}

const plain = (text: string) => text.replace(/\.+$/, "").toLowerCase();

/** A receipt's line without the reason of an error, which it has shortened. */
function withoutReason(line: string, error: string): string {
  const whole = error.split(/\s+/).join(" ").replace(/\.+$/, "");
  const reason = whole.length > 240 ? `${whole.slice(0, 240)}…` : whole;
  return line.replace(`; ${reason}`, "").replace(`: ${reason}; `, ": ").replace(`: ${reason}`, "");
}

/** Each reason of an error once in a turn: in the model's words, else at its step, and in the receipt if neither has it. */
function withReasonsOnce(items: Item[]): Item[] {
  const turns: Item[][] = [];
  for (const item of items) item.type === "person" || turns.length === 0 ? turns.push([item]) : turns.at(-1)?.push(item);
  return turns.flatMap((turn) => {
    const words = plain(turn.map((one) => (one.type === "model" ? one.text : "")).join("\n"));
    const inWords = (error: string) => error !== "" && words.includes(plain(error));
    const atSteps = new Set(turn.flatMap((one) => (one.type === "steps" ? one.steps.map((step) => plain(step.error)) : [])));
    return turn.map((one): Item => {
      if (one.type === "steps") return { ...one, steps: one.steps.map((step) => (inWords(step.error) ? { ...step, inWords: true } : step)) };
      if (one.type !== "receipt") return one;
      const known = one.receipt.problems.filter((error) => inWords(error) || atSteps.has(plain(error)));
      return { ...one, receipt: { ...one.receipt, text: known.reduce(withoutReason, one.receipt.text) } };
    });
  });
}

/** A plan keeps the id that it has on the screen. */
function groupId(before: Item[], plan: string, fallback: string): string {
  return (plan && before.find((item) => item.type === "steps" && item.plan === plan)?.id) || fallback;
}

/** A plan that waits has no message yet that names its steps; keep it while the state says that it is open. */
function withUnplaced(items: Item[], before: Item[], values: Fields): Item[] {
  const plan: string | undefined = values.plan?.id ?? undefined;
  if (!plan || items.some((item) => item.type === "steps" && item.plan === plan)) return items;
  const shown = before.find((item) => item.type === "steps" && item.plan === plan);
  const steps: Step[] = (values.plan.steps ?? []).map((one: Fields) => ({
    id: one.id, tool: one.tool, name: one.display ?? "", status: "pending",
    input: one.args ?? one.params ?? null, output: null, error: "", seconds: null,
  }));
  return [...items, shown ?? { type: "steps", id: `${plan}:steps`, plan, steps }];
}

function upsert(items: Item[], item: Item): Item[] {
  const i = items.findLastIndex((one) => one.id === item.id);
  return i < 0 ? [...items, item] : items.with(i, item);
}

/** The items after a `messages` event: `[chunk, metadata]`. */
export function withMessage(items: Item[], [message, metadata]: [WireMessage, Fields]): Item[] {
  const type = message.type;
  if (type === "remove") return items.filter((item) => item.id !== message.id); // another answer takes its place
  if (type === "human" || type === "HumanMessageChunk") {
    return message.id ? upsert(items, ofPerson(message, message.id)) : items;
  }
  if (type !== "ai" && type !== "AIMessageChunk") return items;
  if ((metadata.tags as string[] | undefined)?.includes("nostream")) return items;
  const text = ownText(message);
  const id = message.id ?? "";
  if (!text || !id) return items;
  const shown = items.findLast((one) => one.id === id);
  if (type === "AIMessageChunk" && shown?.type === "model" && !shown.streaming) return items; // the stored message is whole
  const whole = type === "AIMessageChunk" && shown?.type === "model" && shown.streaming ? shown.text + text : text;
  return upsert(items, { type: "model", id, text: whole, streaming: type === "AIMessageChunk" });
}

/** The items after a `step` event. */
export function withStep(items: Item[], event: StepEvent): Item[] {
  const id = items.findLast((one) => one.type === "steps" && one.plan === event.plan)?.id ?? `${event.plan}:steps`;
  const group = items.findLast((one) => one.id === id);
  const steps = group?.type === "steps" ? group.steps : [];
  const i = steps.findIndex((one) => one.id === event.stepId);
  const known = steps[i];
  const next: Step = {
    id: event.stepId,
    tool: event.tool,
    name: event.name || known?.name || "",
    // An event may come late, after the state was read: what is done runs no more.
    status: known?.status === "completed" && event.status === "in-progress" ? known.status : event.status,
    input: event.input ?? known?.input ?? null,
    output: event.output ?? known?.output ?? null,
    error: errorText(event.error) || (isDone(event.status) ? "" : (known?.error ?? "")),
    seconds: event.durationSeconds ?? known?.seconds ?? null,
  };
  return upsert(items, { type: "steps", id, plan: event.plan, steps: i < 0 ? [...steps, next] : steps.with(i, next) });
}

/** Without the messages that are still streaming: their events come again from the beginning. */
export function withoutStreaming(items: Item[]): Item[] {
  return items.filter((item) => item.type !== "model" || !item.streaming);
}

/** No message streams any more. */
export function settled(items: Item[]): Item[] {
  return items.map((item) => (item.type === "model" && item.streaming ? { ...item, streaming: false } : item));
}

/**
 * The checkpoint to fork from, so that the message `id` is not part of the conversation: the first of the ancestors of
 * the newest one, or of the one with the id `newest`, without it. Null if there is none, undefined if the history at hand, newest first, ends before it.
 */
export function checkpointBefore(history: ThreadState[], id: string, newest = ""): string | null | undefined {
  const has = (state: ThreadState) => (state.values.messages ?? []).some((one: WireMessage) => one.id === id);
  const known = new Map(history.map((state) => [state.checkpoint?.checkpoint_id, state]));
  let state = newest ? known.get(newest) : history[0];
  if (newest && !state) return undefined;
  if (!state || !has(state)) return null;
  while (state && has(state)) {
    const parent: string | undefined = state.parent_checkpoint?.checkpoint_id;
    if (!parent) return null;
    state = known.get(parent);
  }
  return state?.checkpoint?.checkpoint_id;
}

const idOf = (state: ThreadState) => state.checkpoint?.checkpoint_id ?? "";
const parentOf = (state: ThreadState) => state.parent_checkpoint?.checkpoint_id ?? "";

/** A message at which the conversation goes two ways or more, and the checkpoint at which its run began. */
export interface Branch { message: string; checkpoint: string }

/** Messages that were sent in each other's place, by the id of each, oldest first: from the states at which runs began. */
export function branchesOf(begins: ThreadState[]): Map<string, Branch[]> {
  const known = new Map(begins.map((one) => [idOf(one), one]));
  // A message sent again begins where the first one began, or where the one before it ended.
  const point = (state: ThreadState): string => {
    const earlier = known.get(parentOf(state));
    return earlier ? point(earlier) : parentOf(state) || idOf(state);
  };
  const groups = new Map<string, Branch[]>();
  for (const state of begins.toReversed()) {
    const sent = (state.tasks?.[0]?.result?.messages ?? []) as WireMessage[];
    const message = Array.isArray(sent) ? sent.at(-1)?.id : undefined;
    if (message) groups.set(point(state), [...(groups.get(point(state)) ?? []), { message, checkpoint: idOf(state) }]);
  }
  return new Map([...groups.values()].filter((all) => all.length > 1).flatMap((all) => all.map((one) => [one.message, all])));
}

/** The newest state of a branch; null if the history, newest first, has none. */
export function newestOf(branch: Branch, all: Branch[], history: ThreadState[]): string | null {
  const parents = new Map(history.map((one) => [idOf(one), parentOf(one)]));
  const begins = new Set(all.map((one) => one.checkpoint));
  const begin = (id: string): string => (!id || begins.has(id) ? id : begin(parents.get(id) ?? ""));
  return history.map(idOf).find((id) => begin(id) === branch.checkpoint) ?? null;
}

/** Fields of a form that a person changed: a server may refuse the others, even as they are. */
export function changedFields(before: Fields, after: Fields): Fields {
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])));
}

/** Streams and versions in the output of a step: `[["music", "v2"]]`; the stream is empty where the output does not name it. */
export function versionsOf(output: Json | undefined): [string, string][] {
  if (!output || typeof output !== "object" || Array.isArray(output)) return [];
  const several = output.versions;
  if (several && typeof several === "object" && !Array.isArray(several)) {
    return Object.entries(several).filter(([name]) => name !== "order").map(([name, id]) => [name, String(id)]);
  }
  return typeof output.versionId === "string" ? [["", output.versionId]] : [];
}
