// Numbers of facts and words of a text. Pure functions.

/** Number of each chosen fact, from 1, as its sentences show it. */
export function factNumbers(ids: string[]): Map<string, number> {
  return new Map(ids.map((id, i) => [id, i + 1]));
}

/** Words of a text in any language, as the browser separates them. */
export function spokenWords(text: string): number {
  const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  let words = 0;
  for (const part of segmenter.segment(text)) if (part.isWordLike) words += 1;
  return words;
}
