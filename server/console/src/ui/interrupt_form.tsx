// The answer to an interrupt as a form: choose, approve or edit calls, yes or no, a schema's fields, or words.
import { useState } from "preact/hooks";
import { type Action, approveAll, askOf, choose, decide, planKey, rejectAll, type Choice } from "../interrupts.ts";
import { count, line } from "../format.ts";
import { takeFocus } from "../keyboard.ts";
import { mayWrite } from "../store.ts";
import type { Fields } from "../types.ts";
import { Icon } from "./icon.tsx";
import { SchemaForm } from "./schema_form.tsx";
import { Value } from "./value.tsx";

export interface AnswerProps {
  value: any;
  busy: boolean;
  /** What is put into the form stays while the question of this thread is drawn anew, or asked again. */
  thread: string;
  onAnswer: (answer: unknown) => void;
}

const keptStates = new Map<string, { state: any; sent: boolean }>();

/**
 * A state that outlives its form, and what to call when it is sent; `key` names the question. What was sent begins the form
 * again only if it was refused: an equal question that comes later has nothing to do with it.
 */
function useKept<T>(key: string, first: T, refused: boolean): [T, (state: T) => void, () => void] {
  const [state, set] = useState<T>(() => {
    const known = keptStates.get(key);
    return known && (refused || !known.sent) ? known.state : first;
  });
  return [state, (next) => { keptStates.set(key, { state: next, sent: false }); set(next); }, () => keptStates.set(key, { state, sent: true })];
}

/** Ticks by id, of choices that somebody saw. */
interface Ticks { by: Record<string, boolean>; wish: string }

function ChooseForm({ value, thread, field, choices, chosen: ticked, busy, onAnswer }: AnswerProps & { field: string; choices: Choice[]; chosen: string[] }) {
  // Ticks are those of one choice: after another one, in whatever way it was made, they begin with it.
  const [{ by, wish }, keep, markSent] = useKept<Ticks>(`${thread} ${field} ${value.chosenFacts ?? ""}`, { by: {}, wish: "" }, Boolean(value.problem));
  const noun = field === "facts" ? "fact" : field === "images" ? "image" : "item";
  const ids = choices.map((one) => one.id);
  const chosen = new Set(ids.filter((id) => by[id] ?? ticked.includes(id)));
  const tick = (on: (id: string) => boolean) => keep({ by: { ...by, ...Object.fromEntries(ids.map((id) => [id, on(id)])) }, wish });
  const all = chosen.size === choices.length;
  const send = (event: Event) => {
    event.preventDefault();
    markSent();
    onAnswer(choose(field, ids.filter((id) => chosen.has(id)), wish.trim()));
  };
  const findOthers = () => {
    keep({ by, wish: "" });
    onAnswer(rejectAll(wish.trim()));
  };
  return (
    <form class="answer" onSubmit={send}>
      <fieldset class="choices">
        <legend class="sr-only">Choose</legend>
        {choices.map((one) => (
          <label class="choice" key={one.id}>
            <input type="checkbox" checked={chosen.has(one.id)} onChange={(event) => { const { checked } = event.currentTarget; tick((id) => (id === one.id ? checked : chosen.has(id))); }} />
            <span class="choice-text">
              <span class="choice-title">{one.title}{one.note && <span class="muted"> · {one.note}</span>}</span>
              {one.details && <span>{one.details}</span>}
            </span>
          </label>
        ))}
      </fieldset>
      <div class="field">
        <label>
          <span>Wishes<span class="optional"> optional</span></span>
          <input value={wish} onInput={(event) => keep({ by, wish: event.currentTarget.value })} placeholder={field === "facts" ? "30 seconds, and easier" : ""} />
        </label>
      </div>
      <div class="actions">
        <button type="submit" class="button primary" data-key="a" disabled={busy || chosen.size === 0}>Use {count(chosen.size, noun)}</button>
        <button type="button" class="button quiet" onClick={() => tick(() => !all)}>
          {all ? "Choose none" : "Choose all"}
        </button>
        <button type="button" class="button quiet" data-key="r" disabled={busy} onClick={findOthers}>Find others</button>
      </div>
    </form>
  );
}

/** What somebody has made of a plan: edited arguments, what is typed in open forms, and steps that are left out. */
interface Edits { args: Record<number, Fields>; typed: Record<number, Fields>; open: number[]; left: number[] }

const without = <T,>(record: Record<number, T>, key: number): Record<number, T> => Object.fromEntries(Object.entries(record).filter(([one]) => Number(one) !== key));

function ActionRow({ action, index, kept, keep, canSkip }: { action: Action; index: number; kept: Edits; keep: (edits: Edits) => void; canSkip: boolean }) {
  const { args, typed, open, left } = kept;
  const edited = args[index];
  const editing = open.includes(index);
  const out = left.includes(index);
  const closed = { typed: without(typed, index), open: open.filter((one) => one !== index) };
  const changed = Object.entries(edited ?? {}).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(action.args[name]));
  return (
    <li class={out ? "action left" : "action"}>
      <div class="action-line">
        {canSkip
          ? <label class="check"><input type="checkbox" checked={!out} onChange={() => keep({ ...kept, left: out ? left.filter((one) => one !== index) : [...left, index] })} /><span>{action.title}</span></label>
          : <span>{action.title}</span>}
        {edited && <span class="pill run">edited</span>}
        {action.schema && !out && (
          <button type="button" class="button small quiet" data-key={index === 0 ? "e" : undefined} aria-expanded={editing} onClick={() => keep({ ...kept, open: editing ? closed.open : [...open, index] })}>
            <Icon name="edit" size={16} />Edit
          </button>
        )}
      </div>
      {editing && action.schema ? (
        <SchemaForm schema={action.schema} value={edited ?? action.args} typed={typed[index]} submit="Keep this edit" cancel={edited ? "Undo the edit" : "Cancel"}
          onTyped={(now) => keep({ ...kept, typed: { ...typed, [index]: now } })}
          onSubmit={(now) => keep({ ...kept, ...closed, args: { ...args, [index]: now } })}
          onCancel={() => keep({ ...kept, ...closed, args: without(args, index) })} />
      ) : changed.length > 0 ? <Value value={Object.fromEntries(changed)} />
        : action.lines.length > 0 && <ul class="action-about">{action.lines.map((line, i) => <li key={i}>{line}</li>)}</ul>}
      {!editing && !action.schema && Object.keys(action.args).length > 0 && (
        <details class="fold"><summary>What it is called with</summary><Value value={action.args} /></details>
      )}
    </li>
  );
}

function ActionsForm({ value, thread, actions, canSkip, busy, onAnswer }: AnswerProps & { actions: Action[]; canSkip: boolean }) {
  const [kept, keep, markSent] = useKept<Edits>(`${thread} ${(value.steps ?? []).join()} ${planKey(actions)}`, { args: {}, typed: {}, open: [], left: [] }, Boolean(value.problem));
  const [rejecting, reject] = useState(false);
  const [reason, setReason] = useState("");
  const { left } = kept;
  const editing = kept.open.some((one) => !left.includes(one));
  const changed = Object.keys(kept.args).length > 0 || left.length > 0;
  const several = actions.length > 1;
  const send = (given: unknown) => { markSent(); onAnswer(given); };
  return (
    <div class="answer">
      <ul class={several ? "actions-list" : "actions-list single"}>
        {actions.map((action, i) => <ActionRow key={i} action={action} index={i} kept={kept} keep={keep} canSkip={canSkip && several} />)}
      </ul>
      {rejecting && (
        <div class="field">
          <label>
            <span>Why not<span class="optional"> optional</span></span>
            <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} ref={takeFocus} />
          </label>
        </div>
      )}
      {editing && !rejecting && <p class="help">Keep or cancel the open edit, then approve.</p>}
      <div class="actions">
        {!rejecting && <button type="button" class="button primary" data-key="a" disabled={busy || editing || left.length === actions.length}
          onClick={() => send(changed ? decide(actions, kept.args, new Set(left)) : approveAll)}><Icon name="check" size={16} />
          {changed ? `Approve ${count(actions.length - left.length, "step")}` : several ? "Approve all" : "Approve"}</button>}
        <button type="button" class={rejecting ? "button danger" : "button quiet"} data-key="r" disabled={busy}
          onClick={() => (rejecting ? send(rejectAll(reason.trim())) : reject(true))}>Reject</button>
        {rejecting && <button type="button" class="button quiet" onClick={() => reject(false)}>Back</button>}
      </div>
    </div>
  );
}

function YesNoForm({ field, busy, onAnswer }: Omit<AnswerProps, "value" | "thread"> & { field: string }) {
  const send = (yes: boolean) => onAnswer(field ? { [field]: yes } : yes);
  const paused = field === "resume";
  return (
    <div class="actions">
      <button type="button" class="button primary" data-key="a" disabled={busy} onClick={() => send(true)}>
        {paused && <Icon name="play" size={16} />}{paused ? "Resume" : "Yes"}
      </button>
      <button type="button" class="button quiet" data-key="r" disabled={busy} onClick={() => send(false)}>{paused ? "Cancel the plan" : "No"}</button>
    </div>
  );
}

export function InterruptForm({ value, busy, thread, onAnswer }: AnswerProps) {
  if (!mayWrite.value) return <p class="muted">Your key may read this, not answer it.</p>;
  const ask = askOf(value);
  const shared = { value, busy, thread, onAnswer };
  switch (ask.form) {
    case "choose": return <ChooseForm {...shared} field={ask.field} choices={ask.choices} chosen={ask.chosen} />;
    case "actions": return <ActionsForm {...shared} actions={ask.actions} canSkip={ask.canSkip} />;
    case "pick":
      return (
        <div class="actions">
          {ask.values.map((one, i) => {
            const label = typeof one === "object" ? line(one, 60) : String(one);
            return <button key={i} type="button" class="button" disabled={busy} onClick={() => onAnswer(one)}>{label}</button>;
          })}
        </div>
      );
    case "yes-no": return <YesNoForm {...shared} field={ask.field} />;
    case "schema": return <SchemaForm schema={ask.schema} submit="Answer" busy={busy} onSubmit={onAnswer} />;
    default: return <SchemaForm schema={{ type: "string", maxLength: 4_000 }} submit="Answer" busy={busy} onSubmit={onAnswer} />;
  }
}
