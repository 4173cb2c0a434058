// The difference of two texts, word by word (longest common subsequence).

export interface Piece { kind: "same" | "added" | "removed"; text: string }

const LARGEST = 4_000_000;
/** Spaces, words with what joins them, and single signs. */
const PIECE = /\s+|[\p{L}\p{N}]+(?:[-'’.][\p{L}\p{N}]+)*|[^\s]/gu;

export function wordDiff(before: string, after: string): Piece[] {
  const a = before.match(PIECE) ?? [];
  const b = after.match(PIECE) ?? [];
  if (a.length * b.length > LARGEST) return [{ kind: "removed", text: before }, { kind: "added", text: after }];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const pieces: Piece[] = [];
  const push = (kind: Piece["kind"], text: string) => {
    const last = pieces.at(-1);
    if (last?.kind === kind) last.text += text;
    else pieces.push({ kind, text });
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      push("same", a[i++] ?? "");
      j++;
    } else if (j >= b.length || (i < a.length && at(i + 1, j) >= at(i, j + 1))) push("removed", a[i++] ?? "");
    else push("added", b[j++] ?? "");
  }
  return pieces;
}
