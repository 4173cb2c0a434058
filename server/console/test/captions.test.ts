import assert from "node:assert/strict";
import { test } from "node:test";
import { captions } from "../src/panels/captions.ts";

test("captions have the times of their words, and long texts share theirs by length", () => {
  assert.equal(captions([{ start: 0.25, end: 2, text: "Plants make food." }]), "1\n00:00:00,250 --> 00:00:02,000\nPlants make food.\n");
  const long = "word ".repeat(30).trim();
  const cues = captions([{ start: 3600, end: 3610, text: long }, { start: 3611, end: 3612, text: "End." }]).split("\n\n");
  assert.deepEqual(cues.map((one) => one.split("\n")[0]), ["1", "2", "3"]);
  assert.ok(cues.every((one) => one.split("\n").slice(2).every((line) => line.length <= 42)));
  assert.match(cues[1] ?? "", /--> 01:00:10,000/);
  assert.match(captions([{ start: 0, end: 9, text: "光".repeat(90) }]), /光{42}\n光{42}\n\n2\n/);
});
