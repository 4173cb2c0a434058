import assert from "node:assert/strict";
import test from "node:test";
import { brokenLines, eased, lookAt, readSound } from "../film/film.ts";

const part = {
  x: 0, y: 0, width: 100, height: 50, opacity: 0.5, fill: null, round: false, radius: 0, text: "", color: "#ffffff", font: "Inter",
  size: 20, weight: 400, align: "left", note: "", screen: null, inset: 0, screenRadius: 0, motions: [],
};
const slide = { start: 10, end: 20, easing: "linear", steps: [{ at: 0, opacity: 0, move: [200, 0, 1, 0], hidden: null }, { at: 1, opacity: 1, move: [0, 0, 1, 0], hidden: null }] };
const type = { start: 0, end: 10, easing: "linear", steps: [{ at: 0, opacity: null, move: null, hidden: 1 }, { at: 1, opacity: null, move: null, hidden: 0 }] };

test("timing functions begin and end as in CSS, and differ between", () => {
  for (const name of ["linear", "ease-in", "ease-out", "ease-in-out"]) assert.deepEqual([eased(name, 0), eased(name, 1)], [0, 1]);
  assert.ok(eased("ease-in", 0.5) < 0.5 && eased("ease-out", 0.5) > 0.5);
  assert.ok(Math.abs(eased("ease-in-out", 0.5) - 0.5) < 1e-6);
  assert.ok(Math.abs(eased("ease-in", 0.5) - 0.3153) < 1e-3);
});

test("a part stands still before and after its movement, and moves between", () => {
  const moving = { ...part, motions: [slide] };
  assert.deepEqual(lookAt(moving, 0), { opacity: 0, move: [200, 0, 1, 0], hidden: 0 });
  assert.deepEqual(lookAt(moving, 15), { opacity: 0.25, move: [100, 0, 1, 0], hidden: 0 });
  assert.deepEqual(lookAt(moving, 99), { opacity: 0.5, move: [0, 0, 1, 0], hidden: 0 });
});

test("of two movements each sets what it names", () => {
  const look = lookAt({ ...part, motions: [slide, type] }, 5);
  assert.deepEqual(look, { opacity: 0, move: [200, 0, 1, 0], hidden: 0.5 });
});

test("lines break between words, and in a word that is too long", () => {
  const measure = (text: string) => text.length;
  assert.deepEqual(brokenLines("one two three", 7, measure), ["one two", "three"]);
  assert.deepEqual(brokenLines("unbreakable", 5, measure), ["unbre", "akabl", "e"]);
  assert.deepEqual(brokenLines("a\n\nb", 5, measure), ["a", "", "b"]);
});

test("a film whose sound is refused, or is gone, has none and says why", async () => {
  const globals = globalThis as Record<string, unknown>;
  const before = { AudioEncoder: globals.AudioEncoder, fetch: globals.fetch };
  const rendering = { url: "/sound", frames: [90], notices: ["A voice speaks"] };
  const refusal = { error: "the film lasts 400 s", remedy: "shorten it" };
  globals.AudioEncoder = { isConfigSupported: () => Promise.resolve({ supported: true }) };
  const scenes = [{ frames: 30, color: "#000000", to: null, angle: 0, parts: [] }];
  try {
    for (const [replies, reason] of [
      [[Response.json(refusal, { status: 413 })], "the film lasts 400 s. shorten it"],
      [[Response.json(rendering), new Response("", { status: 503 })], "The server replied 503"],
    ] as [Response[], string][]) {
      globals.fetch = () => Promise.resolve(replies.shift());
      const notices: string[] = [];
      assert.equal(await readSound("/film", { narration: true, music: "" }, scenes, notices), null);
      assert.deepEqual([notices, scenes[0]!.frames], [[`The film has no sound: ${reason}`], 30]);
    }
  } finally { Object.assign(globals, before); }
});
