import assert from "node:assert/strict";
import { test } from "node:test";
import { compact, linePath, niceMax } from "../src/ui/chart.tsx";

test("an axis ends on a round number at or above the largest value", () => {
  assert.deepEqual([[3], [17, 9], [240], [0], []].map(niceMax), [5, 20, 250, 1, 1]);
  assert.equal(compact(4_915_500), "4.9M");
});

test("a line runs from the left to the right edge, upwards for more", () => {
  assert.equal(linePath([0, 5, 10], 10, 100, 50), "M0.0 50.0L50.0 25.0L100.0 0.0");
  assert.equal(linePath([5], 10, 100, 50), "M0.0 25.0");
});
