// A version of any kind of artefact in words: what it says, and what a path in it is called. Pure functions.
import { words } from "../format.ts";
import type { Json } from "../types.ts";

/** Fields that people read, in any artefact; the others beside them are settings. */
const READ = ["narration", "text", "details", "content", "description", "prompt"];
const SENTENCE = /\S\s+\S+\s+\S/;

/** What a version says: the sentences in it, in order, without ids and settings. */
export function sentencesOf(value: Json | undefined): string[] {
  if (typeof value === "string") return SENTENCE.test(value) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap(sentencesOf);
  if (!value || typeof value !== "object") return [];
  const text = READ.map((name) => value[name]).find((one) => typeof one === "string" && one);
  return text ? [String(text)] : Object.values(value).flatMap(sentencesOf);
}

/** True for names with plain values, which are few and short enough to stand as they are. */
export function isPlain(value: Json | undefined): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    && Object.values(value).every((one) => typeof one !== "object" || one === null || (Array.isArray(one) && one.every((item) => typeof item !== "object")));
}

/** "elements.title.animations.0.start" → "Elements › title › animations 1 › start", "segments.hook.narration" → "Hook". */
export function pathInWords(path: string): string {
  const parts = path.replace(/^segments\.|\.narration$/g, "").split(".").map((part) => (/^\d+$/.test(part) ? String(Number(part) + 1) : words(part).toLowerCase()));
  const text = parts.map((part, i) => (i === 0 ? part : /^\d+$/.test(part) ? ` ${part}` : ` › ${part}`)).join("");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The newest version, and how many there are where old ones were removed: "v8", "v8, 4 kept". */
export const keptWords = (newest: string, kept: number) => (Number(newest.slice(1)) === kept ? newest : `${newest}, ${kept} kept`);
