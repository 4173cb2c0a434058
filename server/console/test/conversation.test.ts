import assert from "node:assert/strict";
import { test } from "node:test";
import { branchesOf, checkpointBefore, type Item, itemsOf, newestOf, outcomes, settled, type Step, versionsOf, withMessage, withoutStreaming, withStep } from "../src/conversation.ts";
import { receiptPieces } from "../src/mentions.ts";
import type { Json, ThreadState, WireMessage } from "../src/types.ts";

const human = (id: string, content: string): WireMessage => ({ id, type: "human", content });
const chunk = (id: string, content: string): [WireMessage, {}] => [{ id, type: "AIMessageChunk", content }, {}];

test("a person's message has what they entered instead of the words for the model", () => {
  const prompt = "Create an audio ad.\nClient: Miel,\na bakery\nTarget Audience: None\nDuration: 30s\nMarket: US\nLanguage: the brief's language\nAdditional context: None";
  const of = (content: string, entered?: Json) =>
    itemsOf({ messages: [{ ...human("h", content), ...(entered !== undefined && { additional_kwargs: { entered } }) }] })[0];
  assert.deepEqual(of("louder"), { type: "person", id: "h", text: "louder" });
  assert.deepEqual(of(prompt, "an ad for Miel"), { type: "person", id: "h", text: "an ad for Miel", content: prompt });
  assert.deepEqual(of(prompt, { client: "Miel", file: "a.pdf" }), { type: "person", id: "h", text: "Client: Miel\nFile: a.pdf", content: prompt, form: { client: "Miel", file: "a.pdf" } });
  for (const odd of [null, 7, true, ["x"]]) assert.deepEqual(of("louder", odd), { type: "person", id: "h", text: "louder" });
  const stored = { Client: "Miel,\na bakery", Duration: "30s", Market: "US" };
  const item = of(prompt);
  assert.deepEqual(item?.type === "person" && item.form, stored, "a message of an earlier version");
});

test("chunks of one message become one streaming item", () => {
  const items = ["Hel", "lo ", "there"].reduce<Item[]>((all, text) => withMessage(all, chunk("m1", text)), []);
  assert.deepEqual(items, [{ type: "model", id: "m1", text: "Hello there", streaming: true }]);
  assert.deepEqual(settled(items), [{ type: "model", id: "m1", text: "Hello there", streaming: false }]);
});

test("a whole message replaces its chunks", () => {
  const items = withMessage(withMessage([], chunk("m1", "Hel")), [{ id: "m1", type: "ai", content: "Hello" }, {}]);
  assert.deepEqual(items, [{ type: "model", id: "m1", text: "Hello", streaming: false }]);
});

test("an answer that another one replaces is removed", () => {
  const items = withMessage(withMessage([], chunk("m1", "Hello")), [{ id: "m1", type: "remove", content: "" }, {}]);
  assert.deepEqual(items, []);
});

test("late chunks of a message that is whole change nothing", () => {
  const ended = settled(withMessage([], chunk("m1", "Hello")));
  assert.equal(withMessage(ended, chunk("m1", "Hel")), ended);
});

test("a stream that begins again drops the half of a message that it will repeat", () => {
  const items: Item[] = [{ type: "person", id: "h", text: "x" }, { type: "model", id: "m", text: "Hel", streaming: true }];
  assert.deepEqual(withoutStreaming(items).map((item) => item.id), ["h"]);
});

test("events of a plan's steps are one group that keeps the input and the name", () => {
  const event = { type: "step" as const, plan: "p", tool: "addScene" };
  let items: Item[] = withStep([], { ...event, stepId: "s1", name: "Adding a scene", status: "pending", input: { prompt: "x" } });
  items = withStep(items, { ...event, stepId: "s2", name: "Adding another", status: "pending" });
  items = withStep(items, { ...event, stepId: "s1", name: "", status: "completed", durationSeconds: 0.5, output: { versionId: "v1" } });
  assert.equal(items.length, 1);
  const [group] = items;
  assert.ok(group?.type === "steps");
  assert.deepEqual(group.steps.map((one) => [one.id, one.name, one.status]), [["s1", "Adding a scene", "completed"], ["s2", "Adding another", "pending"]]);
  assert.deepEqual(group.steps[0]?.input, { prompt: "x" });
  assert.equal(group.steps[0]?.seconds, 0.5);
});

test("stored messages become requests, words and steps with their results", () => {
  const values = {
    messages: [
      human("h", "make it"),
      { id: "a", type: "ai", content: "First I look.", tool_calls: [{ id: "c1", name: "search_voices", args: { count: 2 } }] },
      { id: "t", type: "tool", content: '{"count": 2}', tool_call_id: "c1" },
      { id: "b", type: "ai", content: "Done." },
    ],
    results: [{ id: "c1", plan: "a", tool: "search_voices", status: "completed", output: { count: 2 }, duration_s: 0.1 }],
  };
  const items = itemsOf(values);
  assert.deepEqual(items.map((item) => item.type), ["person", "model", "steps", "model"]);
  const steps = items[2];
  assert.ok(steps?.type === "steps");
  assert.deepEqual(steps.steps[0], {
    id: "c1", tool: "search_voices", name: "", status: "completed", input: { count: 2 }, output: { count: 2 }, error: "", seconds: 0.1,
  });
});

test("the extent of a search stands beside an answer whose words do not have it", () => {
  const searchExtent = { text: "Searched the copy only, not the offers." };
  const answer = (id: string, content: string): WireMessage => ({ id, type: "ai", content, additional_kwargs: { searchExtent } });
  const items = itemsOf({ messages: [human("a", "x"), answer("b", "Estas son."), answer("c", `These.\n\n${searchExtent.text}`)] });
  assert.deepEqual(items.flatMap((one) => (one.type === "receipt" ? [[one.id, one.receipt.text]] : [])), [["b:extent", searchExtent.text]]);
});

test("the reason of an error stands in the words of its turn, else at its step, and in the receipt where neither has it", () => {
  const failed = (id: string): WireMessage[] => [
    { id: `${id}-call`, type: "ai", content: "", tool_calls: [{ id, name: "move", args: {} }] },
    { id: `${id}-reply`, type: "tool", tool_call_id: id, content: JSON.stringify({ error: "it is locked", type: "permission_denied" }) },
  ];
  const answer = (id: string, content: string): WireMessage => ({ id, type: "ai", content, additional_kwargs: { receipt: { text: "Nothing was changed: it is locked; it is late.", changed: [], problems: ["it is locked", "it is late"] } } });
  const messages = [human("a", "x"), ...failed("one"), answer("b", "I cannot: it is locked."), human("c", "x"), ...failed("two"), answer("d", "Sorry.")];
  const items = itemsOf({ messages });
  assert.deepEqual(items.flatMap((one) => (one.type === "steps" ? [one.steps[0]?.inWords ?? false] : [])), [true, false]);
  assert.deepEqual(items.flatMap((one) => (one.type === "receipt" ? [one.receipt.text] : [])), Array(2).fill("Nothing was changed: it is late."));
});

test("a turn's receipt is a line of its own, and not repeated in the model's words", () => {
  const receipt = { text: "Changed: music v2.", changed: [{ name: "music", stream: "music", versionId: "v2" }], problems: [] };
  const message: WireMessage = { id: "b", type: "ai", content: [{ type: "text", text: "Done." }, { type: "text", text: "\n\nChanged: music v2." }], additional_kwargs: { receipt } };
  assert.deepEqual(itemsOf({ messages: [human("h", "x"), message] }).slice(1), [{ type: "model", id: "b", text: "Done.", streaming: false }, { type: "receipt", id: "b:receipt", receipt }]);
  assert.deepEqual(withMessage([], [message, {}]), [{ type: "model", id: "b", text: "Done.", streaming: false }]);
  assert.deepEqual(receiptPieces(receipt).map((one) => [one.text, one.version]), [["Changed: music ", ""], ["v2", "v2"], [".", ""]]);
});

test("a failed call of any graph shows the tool's error", () => {
  const items = itemsOf({
    messages: [
      { id: "a", type: "ai", content: "", tool_calls: [{ id: "c", name: "get_weather", args: {} }] },
      { id: "t", type: "tool", content: "no such town", tool_call_id: "c", status: "error" },
    ],
  });
  const [steps] = items;
  assert.ok(steps?.type === "steps");
  assert.equal(steps.steps[0]?.status, "failed");
  assert.equal(steps.steps[0]?.error, "no such town");
});

test("a refused call shows the reason as a sentence, without the suggestion for the model", () => {
  const content = JSON.stringify({ error: "A person rejected this: no", suggestion: "Do as they say, or ask", type: "permission_denied" });
  const [steps] = itemsOf({
    messages: [
      { id: "a", type: "ai", content: "", tool_calls: [{ id: "c", name: "delete_element", args: {} }] },
      { id: "t", type: "tool", content, tool_call_id: "c", status: "error" },
    ],
  });
  assert.ok(steps?.type === "steps");
  assert.equal(steps.steps[0]?.error, "A person rejected this: no.");
});

test("a submitted plan shows the steps of its results, and of its reply in earlier turns", () => {
  const submit = (id: string) => ({ id: `ai-${id}`, type: "ai", content: "", tool_calls: [{ id, name: "submit_plan", args: {} }] });
  const reply = (id: string, titles = {}) => ({ id: `tool-${id}`, type: "tool", tool_call_id: id, artifact: { titles }, content: JSON.stringify({ steps: [{ step: "s1", tool: "addScene", scene: "scene-1", status: "completed" }] }) });
  const items = itemsOf({
    messages: [human("h0", "none"), submit("c0"), reply("c0"), human("h1", "one"), submit("c1"), reply("c1", { s1: "Adding scene 1" }), human("h2", "two"), submit("c2"), reply("c2")],
    results: [{ id: "s1", plan: "p2", tool: "editScene", status: "completed", output: {} }],
  });
  const groups = items.filter((item) => item.type === "steps");
  assert.deepEqual(groups.map((group) => [group.plan, group.steps[0]?.name]), [["", "Add scene scene-1"], ["", "Adding scene 1"], ["p2", "Add scene scene-1"]]);
});

test("a plan that waits for approval is shown before any message names its steps", () => {
  const items = itemsOf({ messages: [human("h", "x")], plan: { id: "p", steps: [{ id: "s1", tool: "editScene", display: "Editing scene 1", args: {} }] } });
  assert.deepEqual(items.map((item) => item.id), ["h", "p:steps"]);
});

test("an earlier plan keeps the names that its events gave when the next turn is read", () => {
  const submit = { id: "ai", type: "ai", content: "", tool_calls: [{ id: "c1", name: "submit_plan", args: {} }] };
  const results = [{ id: "s1", plan: "p1", tool: "addScene", status: "completed", output: {} }];
  const live = withStep([], { type: "step", plan: "p1", stepId: "s1", tool: "addScene", name: "Adding a scene “Opening”", status: "completed" });
  const first = itemsOf({ messages: [human("h1", "one"), submit], results }, live);
  const next = itemsOf({ messages: [human("h1", "one"), submit, human("h2", "two")], results: [] }, first);
  for (const items of [first, next]) {
    const group = items.find((item) => item.type === "steps");
    assert.equal(group?.id, "p1:steps");
    assert.equal(group?.type === "steps" ? group.steps[0]?.name : "", "Adding a scene “Opening”");
  }
});

test("the checkpoint to fork from is the one before the message", () => {
  const state = (id: string, ids: string[], parent: string | null): ThreadState => ({
    values: { messages: ids.map((one) => human(one, one)) }, next: [], checkpoint: { checkpoint_id: id },
    parent_checkpoint: parent ? { checkpoint_id: parent } : null, metadata: null, created_at: null, interrupts: [], tasks: [],
  });
  const history = [state("c3", ["h1", "h2"], "c2"), state("c2", ["h1"], "c1"), state("c1", ["h1"], "c0"), state("c0", [], null)];
  assert.equal(checkpointBefore(history, "h2"), "c2");
  assert.equal(checkpointBefore(history, "h1"), "c0");
  assert.equal(checkpointBefore(history, "unknown"), null);
});

test("the versions that a step made are named with their streams", () => {
  assert.deepEqual(versionsOf({ versionId: "v1", versions: { "scene-1": "v1", order: "v4" } }), [["scene-1", "v1"]]);
  assert.deepEqual(versionsOf({ versionId: "v2" }), [["", "v2"]]);
  assert.deepEqual(versionsOf("text"), []);
});

test("a call that a person rejected, or that failed, is not shown as done after a reload", () => {
  const call = (id: string) => ({ id: `ai-${id}`, type: "ai", content: "", tool_calls: [{ id, name: "delete_element", args: {} }] });
  const reply = (id: string, content: object) => ({ id: `t-${id}`, type: "tool", content: JSON.stringify(content), tool_call_id: id, status: "success" });
  const messages = [
    human("h1", "delete this"),
    call("c1"), reply("c1", { error: "A person rejected this: no reason given", type: "permission_denied" }),
    call("c2"), reply("c2", { error: "The run was cancelled before this call was carried out", type: "execution_error" }),
    call("c3"), reply("c3", { versionId: "v1" }),
  ];
  const steps = itemsOf({ messages, results: [] }, []).flatMap((item) => (item.type === "steps" ? item.steps : []));
  assert.deepEqual(steps.map((one) => one.status), ["skipped", "failed", "completed"]);
});

test("steps are counted by what came of them, and a completed step without a change apart", () => {
  const one = (status: string, output: Json = null): Step => ({ id: status, tool: "t", name: "T", status, input: null, output, error: "", seconds: null });
  const steps = [one("completed"), one("completed", { unchanged: true }), one("error"), one("timeout"), one("blocked"), one("skipped"), one("pending"), one("in-progress")];
  assert.deepEqual(outcomes(steps), [["completed", 1], ["unchanged", 1], ["failed", 2], ["blocked", 1], ["skipped", 1]]);
});

test("messages sent in each other's place are found by where their runs began, and each branch by its newest state", () => {
  const state = (id: string, parent: string, message = ""): ThreadState => ({
    values: {}, next: [], checkpoint: { checkpoint_id: id }, parent_checkpoint: parent ? { checkpoint_id: parent } : null, metadata: null,
    created_at: null, interrupts: [], tasks: [{ id: "t", name: "__start__", error: null, interrupts: [], result: { messages: message ? [{ id: message }] : null } }],
  });
  // "a" is sent again as "b" and "c", of which "b" goes on with "d".
  const begins = [state("5", "4", "d"), state("3", "0", "c"), state("2", "0", "b"), state("0", "", "a")];
  const branches = branchesOf(begins);
  assert.deepEqual([...branches.keys()].sort(), ["a", "b", "c"]);
  const all = branches.get("b") ?? [];
  assert.deepEqual(all.map((one) => one.message), ["a", "b", "c"]);
  const history = [state("6", "5"), state("5", "4"), state("3b", "3"), state("3", "0"), state("4", "2"), state("2", "0"), state("1", "0"), state("0", "")];
  assert.deepEqual(all.map((one) => newestOf(one, all, history)), ["1", "6", "3b"]);
});
