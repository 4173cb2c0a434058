// Text of a model: plain at first, and as the server's cleaned Markdown once it is complete and has any.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api.ts";

const MARKUP = /[*_`#|>[\]]|^\s*(?:[-+]|\d+\.)\s/m;
const MOST_KEPT = 500;
const rendered = new Map<string, Promise<string | null>>();

function render(text: string): Promise<string | null> {
  let reply = rendered.get(text);
  if (!reply) {
    if (rendered.size > MOST_KEPT) rendered.clear();
    reply = api.markdown(text).then(({ html }) => html, () => { rendered.delete(text); return null; });
    rendered.set(text, reply);
  }
  return reply;
}

export function Markdown({ text, streaming = false }: { text: string; streaming?: boolean }) {
  const [html, show] = useState<string | null>(null);
  const marked = !streaming && MARKUP.test(text);
  useEffect(() => {
    let current = true;
    show(null);
    if (marked) void render(text).then((reply) => { if (current) show(reply); });
    return () => { current = false; };
  }, [text, marked]);
  if (html !== null && marked) return <div class="prose" dangerouslySetInnerHTML={{ __html: html }} />;
  return <div class="prose plain">{text}{streaming && <span class="caret" aria-hidden="true" />}</div>;
}
