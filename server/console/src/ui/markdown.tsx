// Text of a model: plain at first, and as the server's cleaned Markdown once it is complete, has any, and is seen.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.ts";
import { linkMentions, mentions, versionLink } from "../mentions.ts";
import { location } from "../router.ts";

const MARKUP = /[*_`#|>[\]]|^\s*(?:[-+]|\d+\.)\s/m;
const MOST_KEPT = 2_000;
/** Characters that the server renders. */
const MOST_RENDERED = 20_000;
/** Requests at once: browsers open six connections to a host, and streams hold some. */
const AT_ONCE = 2;
const rendered = new Map<string, string>();
const waiting: (() => Promise<void>)[] = [];
let running = 0;

function next(): void {
  const job = running < AT_ONCE ? waiting.pop() : undefined;
  if (!job) return;
  running += 1;
  void job().finally(() => { running -= 1; next(); });
}

/** Render a text; the newest request goes first, since it is what is looked at. */
function render(text: string, done: (html: string) => void): () => void {
  let wanted = true;
  waiting.push(async () => {
    if (!wanted) return;
    const html = rendered.get(text) ?? (await api.markdown(text).then((reply) => reply.html, () => null));
    if (html === null) return; // the text stays as it is
    if (rendered.size > MOST_KEPT) rendered.clear();
    rendered.set(text, html);
    if (wanted) done(html);
  });
  next();
  return () => { wanted = false; };
}

const watched = new WeakMap<Element, () => void>();
const observer = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) watched.get(target)?.();
}, { rootMargin: "300px" });

const NONE: string[] = [];

/** `streams` are those whose versions are linked where the text mentions them. */
export function Markdown({ text, streaming = false, streams = NONE }: { text: string; streaming?: boolean; streams?: string[] }) {
  const marked = !streaming && text.length <= MOST_RENDERED && MARKUP.test(text);
  const [html, show] = useState<string | null>(marked ? (rendered.get(text) ?? null) : null);
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const box = element.current;
    const known = rendered.get(text) ?? null;
    show(marked ? known : null);
    if (!marked || known !== null || !box) return undefined;
    let cancel = () => {};
    watched.set(box, () => { observer.unobserve(box); cancel = render(text, show); });
    observer.observe(box);
    return () => { observer.unobserve(box); cancel(); };
  }, [text, marked]);
  useLayoutEffect(() => {
    if (html !== null && marked && element.current) linkMentions(element.current, streams, location.peek().path);
  }, [html, marked]);
  if (html !== null && marked) return <div class="prose" key="html" ref={element} dangerouslySetInnerHTML={{ __html: html }} />;
  const pieces = streaming ? [{ text, stream: "", version: "" }] : mentions(text, streams);
  return <div class="prose plain" key="plain" ref={element}>
    {pieces.map((one, i) => (one.stream ? <a key={i} href={versionLink(location.peek().path, one.stream, one.version)}>{one.text}</a> : one.text))}
    {streaming && <span class="caret" aria-hidden="true" />}
  </div>;
}
