// Captions of a film as an SRT file. Pure functions.

export interface SpokenText { start: number; end: number; text: string }

const LINE = 42;
const LINES = 2;

/** A text in parts of two lines each, broken between words; one without blanks is broken between letters. */
function partsOf(text: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(/\s+/).flatMap((one) => one.match(new RegExp(`.{1,${LINE}}`, "gu")) ?? [])) {
    const last = lines.length - 1;
    if (last >= 0 && lines[last]!.length + 1 + word.length <= LINE) lines[last] += ` ${word}`;
    else lines.push(word);
  }
  return lines.flatMap((_, i) => (i % LINES === 0 ? [lines.slice(i, i + LINES).join("\n")] : []));
}

function clock(seconds: number): string {
  return new Date(Math.round(seconds * 1000)).toISOString().slice(11, 23).replace(".", ",");
}

/** An SRT file; the parts of a long text share its time by their lengths. */
export function captions(words: SpokenText[]): string {
  const cues = words.flatMap(({ start, end, text }) => {
    const parts = partsOf(text);
    const total = parts.reduce((sum, one) => sum + one.length, 0);
    let before = 0;
    return parts.map((part) => {
      const from = start + ((end - start) * before) / total;
      before += part.length;
      return { from, to: start + ((end - start) * before) / total, part };
    });
  });
  return cues.map(({ from, to, part }, i) => `${i + 1}\n${clock(from)} --> ${clock(to)}\n${part}\n`).join("\n");
}
