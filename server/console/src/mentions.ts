// Versions that a text mentions, such as "music v2", as links to them. Pure, but for the last function.
import { words } from "./format.ts";
import type { TurnReceipt } from "./types.ts";

/** A piece of a text; stream and version are empty for plain text. */
export interface Mention { text: string; stream: string; version: string }

/** A stream's name for people. */
export const streamWords = (stream: string) => STREAMS[stream] ?? words(stream);
const STREAMS: Record<string, string> = { order: "Order of the scenes", confirmed: "Chosen facts" };

function pattern(streams: string[]): [RegExp, Map<string, string>] | null {
  const names = new Map(streams.flatMap((stream) => [[stream.toLowerCase(), stream], [streamWords(stream).toLowerCase(), stream]] as [string, string][]));
  if (names.size === 0) return null;
  const escaped = [...names.keys()].sort((a, b) => b.length - a.length).map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return [new RegExp(`(?<![\\p{L}\\p{N}-])(${escaped.join("|")})(?: is)? (v\\d+)(?![\\p{L}\\p{N}])`, "giu"), names];
}

/** Split a text at the versions that it mentions. */
export function mentions(text: string, streams: string[]): Mention[] {
  const compiled = pattern(streams);
  if (!compiled) return [{ text, stream: "", version: "" }];
  const [regex, names] = compiled;
  const pieces: Mention[] = [];
  let end = 0;
  for (const match of text.matchAll(regex)) {
    const [whole, name = "", version = ""] = match;
    if (match.index > end) pieces.push({ text: text.slice(end, match.index), stream: "", version: "" });
    pieces.push({ text: whole, stream: names.get(name.toLowerCase()) ?? "", version: version.toLowerCase() });
    end = match.index + whole.length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), stream: "", version: "" });
  return pieces;
}

/** A receipt's line with links to the versions that it names. */
export function receiptPieces({ text, changed }: TurnReceipt): Mention[] {
  const pieces: Mention[] = [];
  let rest = text;
  for (const { name, stream, versionId } of changed) {
    const at = rest.indexOf(`${name} ${versionId}`);
    if (at < 0) continue;
    const end = at + name.length + 1;
    pieces.push({ text: rest.slice(0, end), stream: "", version: "" }, { text: versionId, stream, version: versionId });
    rest = rest.slice(end + versionId.length);
  }
  return [...pieces, { text: rest, stream: "", version: "" }];
}

export function versionLink(path: string, stream: string, version: string): string {
  return `${path}?${new URLSearchParams({ stream, version })}`;
}

/** Link the mentions inside of rendered Markdown. */
export function linkMentions(element: Element, streams: string[], path: string): void {
  if (streams.length === 0) return;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  for (const node of texts) {
    if (node.parentElement?.closest("a, code, pre")) continue;
    const pieces = mentions(node.data, streams);
    if (!pieces.some((one) => one.stream)) continue;
    node.replaceWith(...pieces.map((one) => {
      if (!one.stream) return one.text;
      const link = document.createElement("a");
      link.href = versionLink(path, one.stream, one.version);
      link.textContent = one.text;
      return link;
    }));
  }
}
