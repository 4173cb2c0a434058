// A page: its preview at three widths; an element that is clicked is "this", and its texts can be edited in place.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path, post, request } from "../api.ts";
import { count, shorten, words } from "../format.ts";
import { act, mayWrite, notify } from "../store.ts";
import "../styles/page.css";
import { Checks } from "../ui/checks.tsx";
import { Icon } from "../ui/icon.tsx";
import { Failure, Loading } from "../ui/states.tsx";
import { useRead, useScale } from "../ui/use_read.ts";
import { elementsOf, fieldsOf, ROOT, type PageElement } from "./page_elements.ts";
import type { PanelEntry, PanelProps } from "./panel.ts";
import { TakeWithYou, type Takeaway } from "./take_with_you.tsx";
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
    const click = (event: Event) => { event.preventDefault(); const id = target(event)?.id ?? null; onSelect(id === ROOT ? null : id); };
    document.addEventListener("click", click, true);
    document.body.style.cursor = "pointer";
    for (const one of document.querySelectorAll<HTMLElement>("[id]")) {
      one.style.outline = one.id === selected ? MARK : "";
      one.style.outlineOffset = one.id === selected ? "2px" : "";
    }
    return () => document.removeEventListener("click", click, true);
  }, [selected, loads, width, scale > 0]); // not shown yet, it has no height
  return (
    <div ref={box} class="page-box" style={{ height: `${Math.min(height * scale, 3000)}px` }}>
      <iframe ref={frame} title={`Preview of ${view.title}`} sandbox="allow-same-origin" onLoad={() => setLoads((count) => count + 1)}
        src={path`/api/pages/${view.pageId}/export?view=frame&version=${view.versionId ?? "start"}`}
        style={{ width: `${width}px`, height: `${height}px`, transform: `scale(${scale})` }} />
    </div>
  );
}

/** A text or an attribute of an element; a check that leads to it focuses it. */
function ElementField({ props, view, element, attribute, label, focused, locked }: { props: PanelProps; view: PageView; element: PageElement; attribute: string; label: string; focused: boolean; locked: boolean }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const value = (attribute ? element.attributes?.[attribute] : element.content) ?? "";
  const { typed, type, save, problem } = useTyped(value, view.versionId, props.changed);
  useEffect(() => { if (focused) field.current?.focus(); }, [focused]);
  const submit = (event: Event) => {
    event.preventDefault();
    const change = attribute ? { attributes: { [attribute]: typed.trim() || null } } : { content: typed };
    const saved = request<{ id?: string }>("PATCH", path`/api/pages/${view.pageId}/elements/${element.id}`, { ...change, version: view.versionId ?? "start" });
    save(saved, (reply) => { notify(reply.id ? `Saved as ${reply.id}` : "Saved as a new version"); props.changed(); });
  };
  return (
    <form class="field" onSubmit={submit}>
      {attribute && <span class="label">{label}{typed.length > 20 && <span class="optional num"> {count(typed.length, "character")}</span>}</span>}
      <textarea ref={field} aria-label={`${label} of ${element.id}`} rows={typed.length > 60 || !attribute ? 2 : 1} value={typed} readOnly={!mayWrite.value} disabled={locked || props.busy} onInput={(event) => type(event.currentTarget.value)} />
      {problem}
      {mayWrite.value && (!attribute || typed !== value) && <div class="actions end"><button type="submit" class="button small primary" disabled={locked || props.busy || typed.trim() === value}>Save the {label.toLowerCase()}</button></div>}
    </form>
  );
}

function ElementBar({ props, view, element, focus, onClose }: { props: PanelProps; view: PageView; element: PageElement; focus: string; onClose: () => void }) {
  const locked = view.locks.some((one) => one.elementId === element.id);
  const lock = () => act(request(locked ? "DELETE" : "PUT", path`/api/pages/${view.pageId}/locks/${element.id}`), `${element.id} ${locked ? "can be changed again" : "stays as it is"}`, props.changed);
  const fields = fieldsOf(element);
  return (
    <section class="part element-bar" aria-label={element.id} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <header class="part-head">
        <h3>{words(element.label ?? element.type)}</h3>
        <code class="muted">{element.id}</code>
        <button type="button" class="icon-button end" disabled={!mayWrite.value} aria-pressed={locked} aria-label={locked ? "Unlock this element" : "Lock this element"} onClick={lock}><Icon name={locked ? "lock" : "unlock"} size={18} /></button>
        <button type="button" class="icon-button" aria-label="Clear the selection" onClick={onClose}><Icon name="close" size={18} /></button>
      </header>
      {fields.length === 0 && <p class="help">It has no text of its own.</p>}
      {fields.map(([attribute, label]) => <ElementField key={attribute} {...{ props, view, element, attribute, label, locked }} focused={focus === label.toLowerCase() || (focus !== "" && fields.length === 1)} />)}
      {mayWrite.value && <p class="help">{element.id === ROOT ? "Search engines and shared links show them." : "Write “make this blue” in the conversation: “this” is the marked element."}</p>}
    </section>
  );
}

function PagePanel(props: PanelProps) {
  const [width, setWidth] = useState(innerWidth < 900 ? 390 : 1280);
  const [selected, setSelected] = useState<string | null>(null);
  const [focus, setFocus] = useState("");
  const marked = useRef<PageElement | null>(null);
  const select = (id: string | null, field = "") => { setSelected(id); setFocus(field); props.select(id); };
  useEffect(() => () => props.select(null), [props.id]);
  const [view, error] = useRead(() => get<PageView>(path`/api/pages/${props.id}`), [props.id, props.revision]);
  if (!view) return error ? <Failure error={error} /> : <Loading label="Reading the page" />;
  const elements = elementsOf(view.page.root);
  // One that a newer version does not have stays, with what was typed.
  const element = [view.page.root, ...elements].find((one) => one.id === selected) ?? (marked.current?.id === selected ? marked.current : null);
  marked.current = element;
  const active = view.versionId === view.activeVersionId;
  const activate = () => act(post(path`/api/pages/${view.pageId}/versions/${view.versionId ?? ""}/activate`), `${view.versionId} is active`, props.changed);
  const exported = [view.versionId ?? "start", ...(active || !view.activeVersionId ? [] : [view.activeVersionId])];
  const of = (version: string) => (exported.length === 1 ? "" : ` of ${version}, the ${version === view.activeVersionId ? "active" : "newest"} one`);
  return (
    <div class="ad">
      {error && <Failure error={error} />}
      <div class="ad-summary">
        <div class="segmented" role="group" aria-label="Width of the preview">
          {WIDTHS.map(([label, pixels]) => <button key={label} type="button" aria-pressed={width === pixels} onClick={() => setWidth(pixels)}>{label}</button>)}
        </div>
        {view.versionId && <span class="tag">{view.versionId}</span>}
        {view.activeVersionId && <span class="pill ok"><span class="dot" aria-hidden="true" />{active ? "Active" : `${view.activeVersionId} is active`}</span>}
        {view.versionId && !active && mayWrite.value && <button type="button" class="button small" onClick={activate}>Activate</button>}
      </div>
      {element && <ElementBar key={element.id} props={props} view={view} element={element} focus={focus} onClose={() => select(null)} />}
      <Preview view={view} width={width} selected={selected} onSelect={select} />
      <label class="field">
        <span class="label">Select an element</span>
        <select value={selected ?? ""} onChange={(event) => select(event.currentTarget.value || null)}>
          <option value="">None</option>
          <option value={ROOT}>The page itself: title, description, language</option>
          {elements.map((one) => <option key={one.id} value={one.id}>{`${"\u2007".repeat(2 * one.depth)}${words(one.label ?? one.type)}${one.content ? `: ${shorten(one.content, 50)}` : ""}`}</option>)}
        </select>
      </label>
      {exported.map((one, i) => (
        <Checks key={i} of={`a page that is published${exported.length > 1 ? `,${of(one).slice(3)},` : ""}`} when={[view.pageId, one]} read={() => get(path`/api/pages/${view.pageId}/check?version=${one}`)} onOpen={i === 0 ? select : undefined} />
      ))}
      <TakeWithYou files={exported.flatMap((one): Takeaway[] => [
        [`HTML${of(one)}`, path`/api/pages/${view.pageId}/export?view=attachment&version=${one}`, "one file"],
        [`ZIP${of(one)}`, path`/api/pages/${view.pageId}/export?format=zip&version=${one}`, "with its images, to publish"],
      ])} />
    </div>
  );
}

export const pagePanel: PanelEntry = {
  title: "Page", view: PagePanel,
  picture: (id, _, version) => path`/api/pages/${id}/export?view=frame&version=${version}`,
};
