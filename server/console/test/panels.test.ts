import assert from "node:assert/strict";
import test from "node:test";
import { changesOf, curl, layersOf } from "../src/inspect.ts";
import { audibleParts, playhead } from "../src/panels/ad_player.tsx";
import { markStep, rowsOf } from "../src/panels/ad_timeline.tsx";
import { currencyWords, filterPairs, money, statementsOf, valueText } from "../src/panels/campaign_data.ts";
import { factNumbers, spokenWords } from "../src/panels/lesson_facts.ts";
import { moved } from "../src/panels/order.ts";
import { elementsOf, fieldsOf } from "../src/panels/page_elements.ts";
import { isPlain, keptWords, pathInWords, sentencesOf } from "../src/panels/version_words.ts";

test("spans that overlap are drawn in rows of their own", () => {
  const [a, b, c] = [{ start: 0, end: 5 }, { start: 4, end: 6 }, { start: 5, end: 9 }];
  assert.deepEqual(rowsOf([c, a, b]), [[a, c], [b]]);
  assert.equal(markStep(30), 5);
  assert.equal(markStep(10_000), 120);
});

test("a scene moves to its new place, and an unknown one moves nothing", () => {
  assert.deepEqual(moved(["a", "b", "c"], "a", 2), ["b", "c", "a"]);
  assert.deepEqual(moved(["a", "b", "c"], "c", -1), ["c", "a", "b"]);
  assert.deepEqual(moved(["a"], "x", 0), ["a"]);
});

test("the elements of a page are listed in its order with their depth", () => {
  const page = { id: "page", type: "page", children: [{ id: "s", type: "section", children: [{ id: "h", type: "heading" }] }, { id: "f", type: "footer" }] };
  assert.deepEqual(elementsOf(page).map((one) => [one.id, one.depth]), [["s", 0], ["h", 1], ["f", 0]]);
});

test("an amount is shown as it is stored", () => {
  assert.equal(money(123.45, "EUR"), "123.45 EUR");
  assert.equal(money(1_200_000, ""), "1,200,000");
});

test("only statements that were sent are shown as answered", () => {
  const call = { id: "1", name: "answer", args: { statements: [{ text: "Two offers.", campaigns: ["c1", "c2"] }, { text: "All are on radio." }] } };
  const messages = [
    { id: "0", type: "human", content: "q" },
    { id: "1", type: "ai", content: "", tool_calls: [call] },
    { id: "2", type: "tool", content: "{}" },
    { id: "3", type: "ai", content: "Two offers.\nOne statement was left out." },
  ];
  assert.deepEqual(statementsOf(messages), [{ text: "Two offers.", campaigns: ["c1", "c2"] }]);
  assert.deepEqual(statementsOf(messages.slice(0, 3)), []);
});

test("each value of a filter is a pair of its own", () => {
  assert.deepEqual(filterPairs({ channel: ["email", "radio"], has_offer: true, company: [], month: null }), [["channel", "email"], ["channel", "radio"], ["has_offer", "true"]]);
});

test("a text that was emptied can be written again", () => {
  assert.deepEqual(fieldsOf({ id: "heading-1", type: "heading" }).map(([, label]) => label), ["Text", "Level"]);
  assert.deepEqual(fieldsOf({ id: "section-1", type: "section" }), []);
});

test("amounts have their cents, days stay days, and unlike currencies are no sum", () => {
  assert.deepEqual([4902.2, 3000, 0.125].map((one) => money(one, "EUR")), ["4,902.20 EUR", "3,000 EUR", "0.125 EUR"]);
  assert.deepEqual(["out_of_home", "2026-08-29", "Cash Back / Rewards"].map(valueText), ["Out of home", "2026-08-29", "Cash Back / Rewards"]);
  assert.deepEqual(currencyWords(["EUR"]), { unit: "EUR", warning: "" });
  assert.deepEqual(currencyWords(["no currency"]), { unit: "", warning: "" });
  assert.match(currencyWords(["EUR", "USD"]).warning, /EUR, USD: the sums add unlike amounts/);
});

test("facts are numbered from one, and words are counted in any language", () => {
  assert.deepEqual([...factNumbers(["x", "y"])], [["x", 1], ["y", 2]]);
  assert.equal(spokenWords("It’s four o’clock."), 3);
  assert.ok(spokenWords("แม่น้ำไหลลงสู่ทะเล") > 2);
});

test("a checkpoint's changes name the fields that differ and the elements of a list that do", () => {
  assert.deepEqual(changesOf({ a: 1, list: [1], same: { x: 1 } }, { a: 2, list: [1, 2, 3], same: { x: 1 } }), [
    { name: "a", before: 1, after: 2, elements: null },
    { name: "list", before: [1], after: [1, 2, 3], elements: [2, 3] },
  ]);
  assert.deepEqual(changesOf({ list: [1, 2] }, { list: [2] })[0]?.elements, null);
});

test("nodes lie in layers from the start to the end, those without a way to them too", () => {
  const graph = { nodes: ["__start__", "plan", "work", "__end__", "alone"].map((id) => ({ id })), edges: [{ source: "__start__", target: "plan" }, { source: "plan", target: "work" }, { source: "plan", target: "__end__" }, { source: "work", target: "plan" }] };
  assert.deepEqual(layersOf(graph), [["__start__"], ["plan"], ["work", "alone"], ["__end__"]]);
});

test("a curl command quotes what a shell would read", () => {
  assert.equal(curl("POST", "http://h/x", { a: "it's" }), `curl -s -X POST 'http://h/x' -H 'Content-Type: application/json' -d '{"a":"it'\\''s"}'`);
});

const timeline = { spotSeconds: 20, durationSeconds: 14.3, fits: true, overSeconds: 0, voices: [{ id: "track-0", start: 1.5, end: 6 }], sfx: [], music: { start: 0, end: 20 } };

test("every voice and the music of an ad can be heard alone", () => {
  assert.deepEqual(audibleParts(timeline).map(([value]) => value), ["", "track-0", "music"]);
});

test("the playhead leaves out the silence at both ends of the file", () => {
  assert.deepEqual([0.2, 0.5, 7, 20.9].map((second) => playhead(second, 0.5, timeline)), [0, 0, 6.5, 20]);
});

test("a version is read in sentences, without its ids and settings", () => {
  assert.deepEqual(sentencesOf({ id: "a b c", text: "Bread at four.", voiceId: "x y z" } as never), ["Bread at four."]);
  assert.deepEqual(sentencesOf({ topic: "Plants", aim: "Say it in words.", facts: [{ details: "Plants eat light.", source: { quote: "Plants eat light." } }] }), ["Say it in words.", "Plants eat light."]);
  assert.deepEqual([isPlain({ a: 1, b: ["x"] }), isPlain({ a: { b: 1 } }), isPlain([{ a: 1 }])], [true, false, false]);
});

test("a path in a version is called in words", () => {
  assert.equal(pathInWords("elements.title.animations.0.start"), "Elements › title › animations 1 › start");
  assert.equal(pathInWords("soundFxPrompts"), "Sound effects prompts");
  assert.equal(pathInWords("segments.concept_introduction.narration"), "Concept introduction");
});

test("the newest version stands alone, or with the number that is left of all", () => {
  assert.deepEqual([keptWords("v8", 8), keptWords("v8", 4), keptWords("v1", 1)], ["v8", "v8, 4 kept", "v1"]);
});
