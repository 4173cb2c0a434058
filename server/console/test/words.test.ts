import assert from "node:assert/strict";
import { test } from "node:test";
import { onPage } from "../src/api.ts";
import { wordDiff } from "../src/diff.ts";
import { mentions } from "../src/mentions.ts";
import { ago, count, line, seconds, sentence, shorten, usd, words } from "../src/format.ts";

test("times, amounts and names read as words", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  assert.equal(ago("2026-01-01T11:57:00Z", now), "3 min. ago");
  assert.equal(ago("2026-01-01T11:59:50Z", now), "now");
  assert.equal(ago("2026-01-01T14:00:00Z", now), "in 2 hr.");
  assert.equal(seconds(0.128), "0.13 s");
  assert.equal(seconds(80), "1 min 20 s");
  assert.equal(usd(0), "free");
  assert.equal(usd(0.001), "< $0.01");
  assert.equal(usd(null), "");
  assert.equal(count(1, "step"), "1 step");
  assert.equal(count(2, "step"), "2 steps");
  assert.equal(words("saveStudentInfoTool"), "Save student info");
  assert.equal(words("create_sfx_draft"), "Create sound effects draft");
  assert.equal(sentence("there is no thread 'x'"), "There is no thread 'x'.");
  assert.equal(sentence("Try again?"), "Try again?");
  assert.equal(shorten("one two three", 8), "one two…");
  assert.equal(line({ versionId: "v1", empty: "" }), "version id: v1");
});

test("a difference is given word by word", () => {
  assert.deepEqual(wordDiff("make it calm", "make it more upbeat"), [
    { kind: "same", text: "make it " }, { kind: "removed", text: "calm" }, { kind: "added", text: "more upbeat" },
  ]);
  assert.deepEqual(wordDiff("a voice-over", "a voice-over, louder").map((one) => one.kind), ["same", "added"]);
  assert.deepEqual(wordDiff("same", "same"), [{ kind: "same", text: "same" }]);
});

test("the pieces of a difference make up both texts", () => {
  const before = "a quick brown  fox\njumps";
  const after = "a slow brown fox jumps over";
  const pieces = wordDiff(before, after);
  assert.equal(pieces.filter((one) => one.kind !== "added").map((one) => one.text).join(""), before);
  assert.equal(pieces.filter((one) => one.kind !== "removed").map((one) => one.text).join(""), after);
});

test("versions that a text mentions become links", () => {
  const pieces = mentions("Ready: Music v2, sound effects v11 and the scene-1 is v3. v4 of nothing.", ["music", "sfx", "scene-1"]);
  assert.deepEqual(pieces.filter((one) => one.stream).map((one) => [one.text, one.stream, one.version]), [
    ["Music v2", "music", "v2"], ["sound effects v11", "sfx", "v11"], ["scene-1 is v3", "scene-1", "v3"],
  ]);
  assert.equal(pieces.map((one) => one.text).join(""), "Ready: Music v2, sound effects v11 and the scene-1 is v3. v4 of nothing.");
  assert.deepEqual(mentions("music v2", []), [{ text: "music v2", stream: "", version: "" }]);
});

test("a remedy of the server names what the page has in place of a route", () => {
  assert.equal(onPage("render it: POST /api/ads/a-1/render with the same fields"), "press Listen first");
  assert.equal(onPage("render it: POST /api/agent-create/session/narration/render"), "press Listen first");
  assert.equal(onPage("list them with GET /api/artefacts/page"), "look under Artefacts");
  assert.equal(onPage("try again in a moment"), "try again in a moment");
});
