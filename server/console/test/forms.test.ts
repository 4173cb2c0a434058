import assert from "node:assert/strict";
import { test } from "node:test";
import { answerInWords, approveAll, askOf, choose, decide, planKey, rejectAll, schemaOf, sentenceOf, takesWords } from "../src/interrupts.ts";
import { fieldsOf, readForm, typedOf } from "../src/schema.ts";
import type { Schema } from "../src/types.ts";

const schema: Schema = {
  type: "object",
  required: ["name", "count"],
  properties: {
    name: { type: "string", description: "Who it is for" },
    count: { type: "integer", minimum: 1 },
    tone: { anyOf: [{ enum: ["calm", "urgent"] }, { type: "null" }] },
    tags: { type: "array", items: { type: "string" } },
    tracks: { type: "array", items: { $ref: "#/$defs/track" } },
  },
  $defs: { track: { type: "object", required: ["text"], properties: { text: { type: "string" }, speed: { type: "number" } } } },
};

test("each kind of property has its control", () => {
  assert.deepEqual(fieldsOf(schema).map((field) => [field.name, field.kind, field.required]), [
    ["name", "text", true], ["count", "integer", true], ["tone", "choice", false], ["tags", "list", false], ["tracks", "rows", false],
  ]);
});

test("a value survives the form unchanged", () => {
  const value = { name: "Ada", count: 2, tone: "calm", tags: ["a", "b"], tracks: [{ text: "Hello", speed: 1.1 }] };
  const fields = fieldsOf(schema, value);
  assert.deepEqual(readForm(fields, typedOf(fields, value)), { value, errors: {} });
});

test("a missing or wrong value is named in a sentence", () => {
  const fields = fieldsOf(schema);
  assert.deepEqual(readForm(fields, { name: "", count: "1.5", tracks: [{ text: "" }] }).errors, {
    name: "Name is needed", count: "Count is a whole number", "tracks.0.text": "Text is needed",
  });
});

test("what may be left out, and was, is left out", () => {
  const optional: Schema = {
    type: "object",
    properties: { news: { type: "boolean" }, address: { type: "object", properties: { city: { type: "string" } } }, tags: { type: "array", items: { type: "string" } } },
  };
  const fields = fieldsOf(optional);
  assert.deepEqual(readForm(fields, typedOf(fields, {})), { value: {}, errors: {} });
  assert.deepEqual(readForm(fields, typedOf(fields, { news: false, address: { city: "Lyon" } })).value, { news: false, address: { city: "Lyon" } });
});

test("what no control can hold is kept as it is", () => {
  const value = { anything: { a: [1] } };
  const fields = fieldsOf({ type: "object", properties: { anything: { type: "object" } } }, value);
  assert.deepEqual(readForm(fields, typedOf(fields, value)).value, value);
});

test("what no control can hold is typed as JSON where there is no value yet", () => {
  const fields = fieldsOf({ type: "object", required: ["order"], properties: { order: { type: "object" }, notes: { type: "array", items: { type: "object" } } } });
  assert.deepEqual(fields.map((field) => field.kind), ["json", "json"]);
  assert.deepEqual(readForm(fields, { order: '{"buns": 2}', notes: "" }), { value: { order: { buns: 2 } }, errors: {} });
  assert.match(readForm(fields, { order: "buns", notes: "[1]" }).errors.order ?? "", /Order is JSON/);
  assert.equal(readForm(fields, { order: " ", notes: "" }).errors.order, "Order is needed");
});

test("facts are a choice by checkboxes", () => {
  const ask = askOf({ facts: [{ id: "f1", concept: "Moon", details: "It is far.", confidence: 0.95 }], action_requests: [{ name: "select_facts" }] });
  assert.ok(ask.form === "choose");
  assert.deepEqual(ask.choices[0], { id: "f1", title: "Moon", details: "It is far.", note: "95 % sure" });
  assert.deepEqual(ask.chosen, ["f1"]);
  assert.deepEqual(choose("facts", ["f1"], "shorter"), { facts: ["f1"], message: "shorter" });
});

test("facts from before are choices, too, and a choice that stands is ticked", () => {
  const facts = [{ id: "f2", concept: "Sun", details: "It is hot." }];
  const earlierFacts = [{ id: "f1", concept: "Moon", details: "It is far.", confidence: 0.95 }];
  const ask = askOf({ facts, earlierFacts, chosenFacts: ["f1"] });
  assert.ok(ask.form === "choose");
  assert.deepEqual(ask.choices.map((one) => [one.id, one.note]), [["f2", ""], ["f1", "from before"]]);
  assert.deepEqual(ask.chosen, ["f1"]);
  const fresh = askOf({ facts, earlierFacts, chosenFacts: [] });
  assert.deepEqual(fresh.form === "choose" && fresh.chosen, ["f2"]);
});

test("calls that wait are approved, edited, left out or rejected", () => {
  const value = {
    action_requests: [{ name: "editScene", args: { prompt: "faster" }, description: "Editing scene 1" }, { name: "editScene", args: {} }],
    review_configs: [{ action_name: "editScene", allowed_decisions: ["approve", "edit", "reject"], args_schema: { type: "object", properties: { prompt: { type: "string" } } } }],
    response_schema: { type: "object", properties: { decisions: { type: "array", items: { type: "object", properties: { type: { enum: ["approve", "edit", "skip", "reject"] } } } } } },
  };
  const ask = askOf(value);
  assert.ok(ask.form === "actions" && ask.canSkip);
  assert.deepEqual(ask.actions.map((one) => one.title), ["Editing scene 1", "Edit scene"]);
  assert.deepEqual(decide(ask.actions, { 0: { prompt: "slower" } }, new Set([1])), {
    decisions: [{ type: "edit", edited_action: { name: "editScene", args: { prompt: "slower" } } }, { type: "skip" }],
  });
  assert.deepEqual(approveAll, { decisions: [{ type: "approve" }] });
  assert.deepEqual(rejectAll("too fast"), { decisions: [{ type: "reject", message: "too fast" }] });
});

test("any other interrupt is a form of its schema, yes or no, or words", () => {
  assert.equal(askOf("Which colour?").form, "text");
  assert.equal(askOf({ question: "Go on?", response_schema: { type: "boolean" } }).form, "yes-no");
  const paused = { message: "Go on?", response_schema: { type: "object", properties: { resume: { type: "boolean" } } } };
  assert.deepEqual(askOf(paused), { form: "yes-no", field: "resume" });
  assert.equal(askOf({ response_schema: schema }).form, "schema");
  assert.equal(sentenceOf({ question: "Go on?" }), "Go on?");
  assert.equal(sentenceOf("Which colour?"), "Which colour?");
});

test("what any graph offers to choose is picked, or limits the only field of its schema", () => {
  assert.deepEqual(askOf({ message: "Which?", choices: ["red", "blue"] }), { form: "pick", values: ["red", "blue"] });
  const counted = askOf({ choices: [1, 2], response_schema: { type: "object", required: ["count"], properties: { count: { type: "integer" } } } });
  assert.ok(counted.form === "schema");
  const [field] = fieldsOf(counted.schema);
  assert.deepEqual([field?.kind, field?.options], ["choice", [1, 2]]);
  assert.deepEqual(readForm(fieldsOf(counted.schema), { count: "2" }).value, { count: 2 });
  const several = askOf({ options: ["a", "b"], response_schema: { type: "object", properties: { tags: { type: "array", items: { type: "string" } } } } });
  assert.ok(several.form === "schema");
  assert.equal(fieldsOf(several.schema)[0]?.kind, "choices");
});

test("arguments without a schema get one from their values", () => {
  assert.deepEqual(schemaOf({ id: "a", loud: true, notes: ["a"] }), {
    type: "object", required: ["id", "loud", "notes"],
    properties: { id: { type: "string", readOnly: true }, loud: { type: "boolean" }, notes: { type: "array", items: { type: "string" } } },
  });
  const value = { segments: [{ id: "hook", narration: "Hello" }] };
  const fields = fieldsOf(schemaOf(value), value);
  assert.deepEqual(readForm(fields, typedOf(fields, value)), { value, errors: {} });
});

test("words answer a question that says so, and leave any other behind", () => {
  const review = (allowed: string[]) => ({ action_requests: [{ name: "review", args: {} }], review_configs: [{ action_name: "review", allowed_decisions: allowed }] });
  assert.deepEqual(
    ["Which?", { facts: [{ id: "f" }] }, review(["approve", "respond"]), review(["approve"]), { response_schema: { type: "boolean" } }].map(takesWords),
    [true, true, true, false, false],
  );
});

test("an answer is described in a few words", () => {
  const type = (name: string) => ({ type: name });
  assert.deepEqual(
    [true, "1 and 3", { decisions: [type("approve")] }, { decisions: [type("approve"), type("skip"), type("approve")] }, { resume: false }, { facts: ["a", "b"] }].map(answerInWords),
    ["yes", "1 and 3", "approved", "approved 2, skipped 1", "cancelled", "chose 2"],
  );
});

test("two plans with steps of the same ids have keys of their own, and a refused answer keeps that of its plan", () => {
  const plan = (prompt: string, problem = "") => {
    const ask = askOf({ steps: ["s1"], problem, action_requests: [{ name: "editScene", args: { sceneId: "scene-1", prompt }, description: `${problem}Making scene-1 ${prompt}` }] });
    return ask.form === "actions" ? planKey(ask.actions) : "";
  };
  assert.notEqual(plan("blue"), plan("red"));
  assert.equal(plan("blue", "No such colour. "), plan("blue"));
});
