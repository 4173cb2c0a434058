// A page: its preview at three widths; an element that is clicked is "this", and its text can be edited in place.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path, post, request } from "../api.ts";
import { shorten, words } from "../format.ts";
import { act, mayWrite, notify } from "../store.ts";
import "../styles/page.css";
import { Checks } from "../ui/checks.tsx";
import { Icon } from "../ui/icon.tsx";
import { Failure, Loading } from "../ui/states.tsx";
import { useRead, useScale } from "../ui/use_read.ts";
import { elementsOf, type PageElement } from "./page_elements.ts";
import type { PanelEntry, PanelProps } from "./panel.ts";
import { TakeWithYou } from "./take_with_you.tsx";
import { useTyped } from "./words_editor.tsx";

interface PageView {
  pageId: string; title: string; versionId: string | null; activeVersionId: string | null;
  page: { root: PageElement }; locks: { elementId: string; by: string }[];
}

const WIDTHS: [label: string, pixels: number][] = [["Phone", 390], ["Tablet", 820], ["Desktop", 1280]];
const MARK = "2px solid #0b6b60";

/** The preview, drawn at a device's width and scaled to the pane's. */
function Preview({ view, width, selected, onSelect }: { view: PageView; width: number; selected: string | null; onSelect: (id: string | null) => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [box, scale] = useScale(width, 1, 1);
  const [height, setHeight] = useState(400);
  const [loads, setLoads] = useState(0);
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
  const { typed: text, type: setText, save, problem } = useTyped(element.content ?? "", view.versionId, props.changed);
  const locked = view.locks.some((one) => one.elementId === element.id);
  const submit = (event: Event) => {
    event.preventDefault();
    const saved = request<{ id?: string }>("PATCH", path`/api/pages/${view.pageId}/elements/${element.id}`, { content: text, version: view.versionId ?? "start" });
    save(saved, (reply) => { notify(reply.id ? `Saved as ${reply.id}` : "Saved as a new version"); props.changed(); });
  };
  const lock = () => act(request(locked ? "DELETE" : "PUT", path`/api/pages/${view.pageId}/locks/${element.id}`), `${element.id} ${locked ? "can be changed again" : "stays as it is"}`, props.changed);
  return (
    <form class="part element-bar" onSubmit={submit} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <header class="part-head">
        <h3>{words(element.label ?? element.type)}</h3>
        <code class="muted">{element.id}</code>
        <button type="button" class="icon-button end" disabled={!mayWrite.value} aria-pressed={locked} aria-label={locked ? "Unlock this element" : "Lock this element"} onClick={lock}><Icon name={locked ? "lock" : "unlock"} size={18} /></button>
        <button type="button" class="icon-button" aria-label="Clear the selection" onClick={onClose}><Icon name="close" size={18} /></button>
      </header>
      {element.content === undefined
        ? <p class="help">It has no text of its own.</p>
        : <textarea aria-label={`Text of ${element.id}`} rows={2} value={text} readOnly={!mayWrite.value} disabled={locked || props.busy} onInput={(event) => setText(event.currentTarget.value)} />}
      {problem}
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
  const marked = useRef<PageElement | null>(null);
  const select = (id: string | null) => { setSelected(id); props.select(id); };
  useEffect(() => () => props.select(null), [props.id]);
  const [view, error] = useRead(() => get<PageView>(path`/api/pages/${props.id}`), [props.id, props.revision]);
  if (!view) return error ? <Failure error={error} /> : <Loading label="Reading the page" />;
  const elements = elementsOf(view.page.root);
  // One that a newer version does not have stays, with what was typed.
  const element = elements.find((one) => one.id === selected) ?? (marked.current?.id === selected ? marked.current : null);
  marked.current = element;
  const active = view.versionId === view.activeVersionId;
  const activate = () => act(post(path`/api/pages/${view.pageId}/versions/${view.versionId ?? ""}/activate`), `${view.versionId} is active`, props.changed);
  return (
    <div class="ad">
      {error && <Failure error={error} />}
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
