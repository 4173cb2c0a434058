// The turns of a thread: requests, words as they come, tool calls, plans, and the question that waits.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api.ts";
import type { Item } from "../conversation.ts";
import { sentence } from "../format.ts";
import { headline, sentenceOf } from "../interrupts.ts";
import { receiptPieces, versionLink } from "../mentions.ts";
import { artefactOf, WITHOUT_VERSIONS } from "../panels/index.ts";
import { location } from "../router.ts";
import { takeFocus } from "../keyboard.ts";
import { mayWrite } from "../store.ts";
import type { ThreadModel } from "../thread.ts";
import type { Fields, Interrupt, TurnReceipt } from "../types.ts";
import { Icon } from "../ui/icon.tsx";
import { InterruptForm } from "../ui/interrupt_form.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { Empty, Failure, Loading } from "../ui/states.tsx";
import { useRead } from "../ui/use_read.ts";
import { Value } from "../ui/value.tsx";
import { PlanCard } from "./plan.tsx";
import { StepLine } from "./steps.tsx";

/** "‹ 1 of 2 ›" beside a message that was sent again in other words. */
function BranchSwitch({ message, thread }: { message: string; thread: ThreadModel }) {
  const all = thread.branches.value.get(message);
  const at = all?.findIndex((one) => one.message === message) ?? -1;
  if (!all || at < 0) return null;
  const step = (to: number, label: string, mark: string) => {
    const target = all[to];
    return <button type="button" class="icon-button" aria-label={label} title={label} disabled={!target || thread.busy.value} onClick={() => target && void thread.show(target, all)}>{mark}</button>;
  };
  return (
    <span class="branches" role="group" aria-label="Wordings of this request">
      {step(at - 1, "The wording before", "‹")}<span class="num">{at + 1} of {all.length}</span>{step(at + 1, "The wording after", "›")}
    </span>
  );
}

function Person({ item, thread }: { item: Extract<Item, { type: "person" }>; thread: ThreadModel }) {
  const [editing, edit] = useState(false);
  const sent = item.content ?? item.text;
  const [text, setText] = useState(sent);
  if (editing) {
    return (
      <form class="turn person editing" onSubmit={(event) => { event.preventDefault(); edit(false); void thread.resend(item.id, text.trim()).then((taken) => taken || edit(true)); }}>
        <label class="sr-only" for={`edit-${item.id}`}>Your request</label>
        <textarea id={`edit-${item.id}`} rows={3} value={text} ref={takeFocus} onInput={(event) => setText(event.currentTarget.value)} />
        <p class="help">The conversation continues from before this message. What came after it stays in reach beside it; versions that were made stay.</p>
        <div class="actions end">
          <button type="button" class="button small" onClick={() => edit(false)}>Cancel</button>
          <button type="submit" class="button small primary" disabled={!text.trim() || text.trim() === sent}>Send again</button>
        </div>
      </form>
    );
  }
  return (
    <div class="turn person">
      <div class="bubble">{item.form ? <Value value={item.form} /> : item.text}</div>
      <BranchSwitch message={item.id} thread={thread} />
      {mayWrite.value && (
        <button type="button" class="icon-button reveal" aria-label="Edit and send again" title="Edit and send again" disabled={thread.busy.value} onClick={() => { setText(sent); edit(true); }}><Icon name="edit" size={16} /></button>
      )}
    </div>
  );
}

/** The effects of a turn, as the server counted them; no words of a model. */
function ReceiptLine({ receipt }: { receipt: TurnReceipt }) {
  const { path } = location.peek();
  return (
    <p class={receipt.problems.length > 0 ? "turn receipt bad" : "turn receipt"}>
      {receiptPieces(receipt).map((one, i) => (one.stream ? <a key={i} href={versionLink(path, one.stream, one.version)}>{one.text}</a> : one.text))}
    </p>
  );
}

interface TurnProps {
  item: Item;
  thread: ThreadModel;
  newest: boolean;
  /** Streams by the calls of the newest turn that made versions of them. */
  streams: Map<string, string>;
  /** All streams that texts may name. */
  named: string[];
}

const NO_STREAMS = new Map<string, string>();

function Turn({ item, thread, newest, streams: created, named }: TurnProps) {
  // The steps of each plan of a video are s1, s2, …: those of an earlier one have made other versions.
  const streams = newest || thread.workflow.value !== "scene_edit" ? created : NO_STREAMS;
  if (item.type === "person") return <Person item={item} thread={thread} />;
  if (item.type === "model") return <div class="turn model"><Markdown text={item.text} streaming={item.streaming} streams={named} /></div>;
  if (item.type === "receipt") return <ReceiptLine receipt={item.receipt} />;
  const [only] = item.steps;
  return (
    <div class="turn steps">
      {item.steps.length === 1 && only && item.plan !== "" && thread.workflow.value !== "scene_edit"
        ? <StepLine step={only} thread={thread.id} streams={streams} />
        : <PlanCard plan={item.plan} steps={item.steps} thread={thread} newest={newest} streams={streams} />}
    </div>
  );
}

/** One turn is drawn again only if it changed. */
function Row({ item, thread, newest, streams, named }: TurnProps) {
  return useMemo(() => <Turn item={item} thread={thread} newest={newest} streams={streams} named={named} />, [item, newest, streams, named]);
}

function Waiting({ interrupt, thread }: { interrupt: Interrupt; thread: ThreadModel }) {
  const [busy, setBusy] = useState(false);
  const { value } = interrupt;
  const question = sentenceOf(value) || "The run waits for an answer";
  const answer = async (given: unknown) => {
    setBusy(true);
    if (await thread.answer(given, interrupt.id)) document.querySelector<HTMLElement>(".conversation")?.focus();
    setBusy(false);
  };
  return (
    <section class="turn waiting" aria-label="Question" data-row tabIndex={-1}>
      <p class="waiting-label"><span class="dot wait" aria-hidden="true" />Needs you</p>
      {/* The plan above has the steps that are left, also after somebody has changed them. */}
      <p class="waiting-text">{value?.type === "paused" ? "The plan is paused. Go on with the steps that are left?" : headline(question, value?.action_requests?.length ?? 0)}</p>
      {value?.effect && !question.includes(value.effect) && <p class="muted">{value.effect}</p>}
      {Array.isArray(value?.warnings) && value.warnings.map((one: string) => <p class="warning" key={one}>{one}</p>)}
      {value?.problem && <p class="field-error">{value.problem}</p>}
      <InterruptForm value={value} busy={busy} thread={thread.id} onAnswer={answer} />
    </section>
  );
}

function Values({ title, of }: { title: string; of: Fields }) {
  return <section class="turn" aria-label={title}><p class="muted">{title}</p><Value value={of} /></section>;
}

/** The output values of a graph that keeps no messages. */
function Result({ thread }: { thread: ThreadModel }) {
  const [schemas] = useRead(() => api.schemas(thread.workflow.value), [thread.workflow.value]);
  const properties = schemas?.output_schema?.properties;
  const output = Object.entries(thread.values.value).filter(([name]) => !properties || name in properties);
  return schemas && <Values title="Result" of={Object.fromEntries(output)} />;
}

/** A conversation without messages: of what was made without one, as a page of an ad, or of nothing yet. */
function WithoutMessages({ thread }: { thread: ThreadModel }) {
  const of = artefactOf(thread.workflow.value, thread.id, thread.values.value);
  const kept = of !== null && !WITHOUT_VERSIONS.has(of.kind);
  const [made, error] = useRead(() => api.artefact(of?.kind ?? "", of?.id ?? thread.id), [of?.id], kept);
  if (kept && !made && !error) return null;
  if (!of || !made) return <Empty icon="edit" title="An empty conversation">Say below what should be made.</Empty>;
  const sources = made.sources.map(({ kind }) => `${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`).join(" and ");
  return <Empty icon="edit" title={sources ? `This ${of.kind} was made from ${sources}` : `This ${of.kind} was made without messages`}>Say below what should change.</Empty>;
}

/** Once a person has scrolled down closer to the end than this, new content is followed again. */
const NEAR_PX = 80;

export function Conversation({ thread }: { thread: ThreadModel }) {
  const scroller = useRef<HTMLDivElement>(null);
  const [away, setAway] = useState(false);
  const items = thread.items.value;
  const created = thread.values.value.created;
  const streams = useMemo(
    () => new Map<string, string>((created ?? []).map((one: { toolCallId: string; stream: string }) => [one.toolCallId, one.stream])),
    [created],
  );
  const drafts = thread.values.value.drafts;
  // Of earlier turns their receipts know.
  const earlier = items.flatMap((item) => (item.type === "receipt" ? item.receipt.changed.map((one) => one.stream) : [])).join("\n");
  const named = useMemo(() => [...new Set([...Object.keys(drafts ?? {}), ...streams.values(), ...earlier.split("\n")])].filter(Boolean), [drafts, streams, earlier]);
  const newestSteps = items.findLast((item) => item.type === "steps")?.id;
  const waiting = thread.run.value ? [] : thread.interrupts.value;
  const last = items.at(-1);
  const given = items.length === 0 && Object.keys(thread.input.value).length > 0;
  // A plan or a list that waits for an answer stands in its question: once is enough.
  const asked = waiting.length > 0 && waiting[0]?.value?.action_requests ? thread.values.value.plan?.id : undefined;
  const shown = (item: Item) =>
    item.type === "steps" ? !asked || item.plan !== asked
    : item.type !== "model" || waiting.length === 0 || item !== last || !item.id.endsWith(":question");
  const visible = last?.type === "model" ? last.streaming : last?.type === "steps" && last.steps.some((one) => one.status === "in-progress");
  const thinking = thread.busy.value && !visible;
  useEffect(() => {
    const box = scroller.current;
    const content = box?.firstElementChild;
    if (!box || !content) return undefined;
    let stuck = true;
    let top = 0;
    const gap = () => box.scrollHeight - box.scrollTop - box.clientHeight;
    const note = () => {
      if (gap() <= 1) stuck = true;
      else if (box.scrollTop < top - 1) stuck = false; // only a person scrolls up
      else if (box.scrollTop > top && gap() < NEAR_PX) stuck = true;
      top = box.scrollTop;
      setAway(!stuck);
    };
    // Nothing moves under somebody who writes in it.
    const writes = () => document.activeElement?.matches("input, textarea, select") && box.contains(document.activeElement);
    const follow = () => {
      if (!stuck || writes()) return;
      box.scrollTop = box.scrollHeight;
      top = box.scrollTop; // two moves before a drawing are one event
    };
    const observer = new ResizeObserver(follow);
    observer.observe(content);
    observer.observe(box);
    box.addEventListener("scroll", note, { passive: true });
    return () => { observer.disconnect(); box.removeEventListener("scroll", note); };
  }, []);
  const toNewest = () => scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  return (
    <div class="conversation" ref={scroller} tabIndex={0} role="region" aria-label="Conversation">
      <div class="turns">
        {thread.error.value && !(thread.error.value.status === 0 && items.length > 0) && <Failure error={thread.error.value} onRetry={() => void thread.load()} />}
        {given && <Values title="Input" of={thread.input.value} />}
        {!thread.read.value ? <Loading label="Reading the conversation" />
          : items.length === 0 && waiting.length === 0 && !thread.busy.value && !artefactOf(thread.workflow.value, thread.id, {}) && Object.keys(thread.values.value).length > 0 ? <Result thread={thread} />
          : items.length === 0 && waiting.length === 0 && !thread.error.value && !given && <WithoutMessages thread={thread} />}
        {items.filter(shown).map((item) => (
          <Row key={item.id} item={item} thread={thread} newest={item.id === newestSteps} streams={streams} named={named} />
        ))}
        {thinking && <div class="turn thinking"><span class="pulse" aria-hidden="true" /><span class="muted">{thread.stopping.value ? "Stopping" : "Thinking"}</span></div>}
        {thread.failure.value && !thread.busy.value && <div class="failure" role="alert"><p><strong>{sentence(thread.failure.value)}</strong></p><p>Send the request again, or change it.</p></div>}
        {waiting.map((one) => <Waiting key={one.id} interrupt={one} thread={thread} />)}
      </div>
      {away && <button type="button" class="button small to-newest" onClick={toNewest}><Icon name="chevron" size={16} />Newest</button>}
    </div>
  );
}
