// A page: its preview at three widths; an element that is clicked is "this", and its text can be edited in place.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path, post, request } from "../api.ts";
import { shorten, words } from "../format.ts";
import { attempt, mayWrite, notify } from "../store.ts";
import "../styles/page.css";
import { Checks } from "../ui/checks.tsx";
import { Icon } from "../ui/icon.tsx";
import { Failure, Loading } from "../ui/states.tsx";
import { useCall, useRead } from "../ui/use_read.ts";
import { elementsOf, type PageElement } from "./page_elements.ts";
import type { PanelEntry, PanelProps } from "./panel.ts";
import { TakeWithYou } from "./take_with_you.tsx";

interface PageView {
  pageId: string; title: string; versionId: string | null; activeVersionId: string | null;
  page: { root: PageElement }; locks: { elementId: string; by: string }[];
}

const WIDTHS: [label: string, pixels: number][] = [["Phone", 390], ["Tablet", 820], ["Desktop", 1280]];
const MARK = "2px solid #0b6b60";

/** The preview, drawn at a device's width and scaled to the pane's. */
function Preview({ view, width, selected, onSelect }: { view: PageView; width: number; selected: string | null; onSelect: (id: string | null) => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [scale, setScale] = useState(1);
  const [height, setHeight] = useState(400);
  const [loads, setLoads] = useState(0);
  useEffect(() => {
    const measure = () => box.current && setScale(Math.min(1, box.current.clientWidth / width));
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, [width]);
  useEffect(() => {
    const document = frame.current?.contentDocument;
    if (!document?.body) return undefined;
    setHeight(document.body.scrollHeight);
    const target = (event: Event) => (event.target as Element).closest<HTMLElement>("[id]");
    const click = (event: Event) => { event.preventDefault(); const id = target(event)?.id ?? null; onSelect(id === "page" ? null : id); };
    document.addEventListener("click", click, true);
    document.body.style.cursor = "pointer";
    for (const one of document.querySelectorAll<HTMLElement>("[id]")) {
      one.style.outline = one.id === selected ? MARK : "";
      one.style.outlineOffset = one.id === selected ? "2px" : "";
    }
    return () => document.removeEventListener("click", click, true);
  }, [selected, loads, width]);
  return (
    <div ref={box} class="page-box" style={{ height: `${Math.min(height * scale, 3000)}px` }}>
      <iframe ref={frame} title={`Preview of ${view.title}`} sandbox="allow-same-origin" onLoad={() => setLoads((count) => count + 1)}
        src={path`/api/pages/${view.pageId}/export?view=frame&version=${view.versionId ?? "start"}`}
        style={{ width: `${width}px`, height: `${height}px`, transform: `scale(${scale})` }} />
    </div>
  );
}

function ElementBar({ props, view, element, onClose }: { props: PanelProps; view: PageView; element: PageElement; onClose: () => void }) {
  const [text, setText] = useState(element.content ?? "");
  const [error, call] = useCall();
  const locked = view.locks.some((one) => one.elementId === element.id);
  const known = useRef(element.content ?? "");
  useEffect(() => {
    const [before, now] = [known.current, element.content ?? ""];
    known.current = now;
    setText((typed) => (typed === before ? now : typed)); // what somebody types is not cleared
  }, [element.content]);
  const save = (event: Event) => {
    event.preventDefault();
    const saved = request<{ id?: string }>("PATCH", path`/api/pages/${view.pageId}/elements/${element.id}`, { content: text, version: view.versionId ?? "start" });
    void call(saved, (reply) => { notify(reply.id ? `Saved as ${reply.id}` : "Saved as a new version"); props.changed(); });
  };
  const lock = async () => {
    await attempt(request(locked ? "DELETE" : "PUT", path`/api/pages/${view.pageId}/locks/${element.id}`));
    props.changed();
  };
  return (
    <form class="part element-bar" onSubmit={save} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <header class="part-head">
        <h3>{words(element.label ?? element.type)}</h3>
        <code class="muted">{element.id}</code>
        <button type="button" class="icon-button end" disabled={!mayWrite.value} aria-pressed={locked} aria-label={locked ? "Unlock this element" : "Lock this element"} onClick={lock}><Icon name={locked ? "lock" : "unlock"} size={18} /></button>
        <button type="button" class="icon-button" aria-label="Clear the selection" onClick={onClose}><Icon name="close" size={18} /></button>
      </header>
      {element.content === undefined
        ? <p class="help">It has no text of its own.</p>
        : <textarea aria-label={`Text of ${element.id}`} rows={2} value={text} readOnly={!mayWrite.value} disabled={locked || props.busy} onInput={(event) => setText(event.currentTarget.value)} />}
      {error && <Failure error={error} />}
      {mayWrite.value && <div class="actions">
        <p class="help">Write “make this blue” in the conversation: “this” is the marked element.</p>
        {element.content !== undefined && <button type="submit" class="button small primary end" disabled={locked || props.busy || text === element.content}>Save the text</button>}
      </div>}
    </form>
  );
}

function PagePanel(props: PanelProps) {
  const [width, setWidth] = useState(1280);
  const [selected, setSelected] = useState<string | null>(null);
  const select = (id: string | null) => { setSelected(id); props.select(id); };
  useEffect(() => () => props.select(null), [props.id]);
  const [view, error] = useRead(() => get<PageView>(path`/api/pages/${props.id}`), [props.id, props.revision]);
  if (error) return <Failure error={error} />;
  if (!view) return <Loading label="Reading the page" />;
  const elements = elementsOf(view.page.root);
  const element = elements.find((one) => one.id === selected) ?? null;
  const active = view.versionId === view.activeVersionId;
  const activate = async () => {
    if (await attempt(post(path`/api/pages/${view.pageId}/versions/${view.versionId ?? ""}/activate`).then(() => true))) notify(`${view.versionId} is active`);
    props.changed();
  };
  return (
    <div class="ad">
      <div class="ad-summary">
        <div class="segmented" role="group" aria-label="Width of the preview">
          {WIDTHS.map(([label, pixels]) => <button key={label} type="button" aria-pressed={width === pixels} onClick={() => setWidth(pixels)}>{label}</button>)}
        </div>
        {view.versionId && <span class="tag">{view.versionId}</span>}
        {view.versionId && (active ? <span class="pill ok"><span class="dot" aria-hidden="true" />Active</span> : mayWrite.value && <button type="button" class="button small" onClick={activate}>Activate</button>)}
      </div>
      {element && <ElementBar key={element.id} props={props} view={view} element={element} onClose={() => select(null)} />}
      <Preview view={view} width={width} selected={selected} onSelect={select} />
      <label class="field">
        <span class="label">Select an element</span>
        <select value={selected ?? ""} onChange={(event) => select(event.currentTarget.value || null)}>
          <option value="">None</option>
          {elements.map((one) => <option key={one.id} value={one.id}>{`${"\u2007".repeat(2 * one.depth)}${words(one.label ?? one.type)}${one.content ? `: ${shorten(one.content, 50)}` : ""}`}</option>)}
        </select>
      </label>
      <Checks of="a page that is published" when={[view.pageId, view.versionId]} read={() => get(path`/api/pages/${view.pageId}/check`)} />
      <TakeWithYou files={[
        ["HTML", path`/api/pages/${view.pageId}/export?view=attachment`, "one file"],
        ["ZIP", path`/api/pages/${view.pageId}/export?format=zip`, "with its images, to publish"],
      ]} />
    </div>
  );
}

export const pagePanel: PanelEntry = {
  title: "Page", view: PagePanel,
  picture: (id, _, version) => path`/api/pages/${id}/export?view=frame&version=${version}`,
};
