// The answer to an interrupt as a form: choose, approve or edit calls, yes or no, a schema's fields, or words.
import { useState } from "preact/hooks";
import { type Action, approveAll, askOf, choose, decide, rejectAll, type Choice } from "../interrupts.ts";
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
  onAnswer: (answer: unknown) => void;
}

function ChooseForm({ field, choices, chosen: ticked, busy, onAnswer }: AnswerProps & { field: string; choices: Choice[]; chosen: string[] }) {
  const [chosen, setChosen] = useState(() => new Set(ticked));
  const [wish, setWish] = useState("");
  const noun = field === "facts" ? "fact" : field === "images" ? "image" : "item";
  const toggle = (id: string, on: boolean) => {
    const next = new Set(chosen);
    on ? next.add(id) : next.delete(id);
    setChosen(next);
  };
  const all = chosen.size === choices.length;
  const send = (event: Event) => {
    event.preventDefault();
    onAnswer(choose(field, choices.map((one) => one.id).filter((id) => chosen.has(id)), wish.trim()));
  };
  return (
    <form class="answer" onSubmit={send}>
      <fieldset class="choices">
        <legend class="sr-only">Choose</legend>
        {choices.map((one) => (
          <label class="choice" key={one.id}>
            <input type="checkbox" checked={chosen.has(one.id)} onChange={(event) => toggle(one.id, event.currentTarget.checked)} />
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
          <input value={wish} onInput={(event) => setWish(event.currentTarget.value)} placeholder={field === "facts" ? "30 seconds, and easier" : ""} />
        </label>
      </div>
      <div class="actions">
        <button type="submit" class="button primary" data-key="a" disabled={busy || chosen.size === 0}>Use {count(chosen.size, noun)}</button>
        <button type="button" class="button quiet" onClick={() => setChosen(new Set(all ? [] : choices.map((one) => one.id)))}>
          {all ? "Choose none" : "Choose all"}
        </button>
        <button type="button" class="button quiet" data-key="r" disabled={busy} onClick={() => onAnswer(rejectAll(wish.trim()))}>Find others</button>
      </div>
    </form>
  );
}

function ActionRow({ action, index, edited, left, canSkip, editing, onEditing, onEdit, onLeave }: {
  action: Action; index: number; edited: Fields | undefined; left: boolean; canSkip: boolean;
  editing: boolean; onEditing: (editing: boolean) => void; onEdit: (args: Fields | null) => void; onLeave: (left: boolean) => void;
}) {
  return (
    <li class={left ? "action left" : "action"}>
      <div class="action-line">
        {canSkip
          ? <label class="check"><input type="checkbox" checked={!left} onChange={(event) => onLeave(!event.currentTarget.checked)} /><span>{action.title}</span></label>
          : <span>{action.title}</span>}
        {edited && <span class="pill run">edited</span>}
        {action.schema && !left && (
          <button type="button" class="button small quiet" data-key={index === 0 ? "e" : undefined} aria-expanded={editing} onClick={() => onEditing(!editing)}>
            <Icon name="edit" size={16} />Edit
          </button>
        )}
      </div>
      {editing && action.schema && (
        <SchemaForm schema={action.schema} value={edited ?? action.args} submit="Keep this edit"
          onSubmit={(args) => { onEdit(args); onEditing(false); }} onCancel={() => { onEdit(null); onEditing(false); }} />
      )}
      {!editing && !action.schema && Object.keys(action.args).length > 0 && (
        <details class="fold"><summary>What it is called with</summary><Value value={edited ?? action.args} /></details>
      )}
    </li>
  );
}

function ActionsForm({ actions, canSkip, busy, onAnswer }: AnswerProps & { actions: Action[]; canSkip: boolean }) {
  const [edits, setEdits] = useState<Record<number, Fields>>({});
  const [left, setLeft] = useState<Set<number>>(new Set());
  const [editing, edit] = useState<number | null>(null);
  const [rejecting, reject] = useState(false);
  const [reason, setReason] = useState("");
  const changed = Object.keys(edits).length > 0 || left.size > 0;
  const several = actions.length > 1;
  return (
    <div class="answer">
      <ul class={several ? "actions-list" : "actions-list single"}>
        {actions.map((action, i) => (
          <ActionRow key={i} action={action} index={i} edited={edits[i]} left={left.has(i)} canSkip={canSkip && several}
            editing={editing === i} onEditing={(on) => edit(on ? i : null)}
            onEdit={(args) => {
              const { [i]: _old, ...rest } = edits;
              setEdits(args ? { ...rest, [i]: args } : rest);
            }}
            onLeave={(out) => { const next = new Set(left); out ? next.add(i) : next.delete(i); setLeft(next); }} />
        ))}
      </ul>
      {rejecting && (
        <div class="field">
          <label>
            <span>Why not<span class="optional"> optional</span></span>
            <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} ref={takeFocus} />
          </label>
        </div>
      )}
      <div class="actions">
        {!rejecting && <button type="button" class="button primary" data-key="a" disabled={busy || editing !== null || left.size === actions.length}
          onClick={() => onAnswer(changed ? decide(actions, edits, left) : approveAll)}><Icon name="check" size={16} />
          {changed ? `Approve ${count(actions.length - left.size, "step")}` : several ? "Approve all" : "Approve"}</button>}
        <button type="button" class={rejecting ? "button danger" : "button quiet"} data-key="r" disabled={busy}
          onClick={() => (rejecting ? onAnswer(rejectAll(reason.trim())) : reject(true))}>Reject</button>
        {rejecting && <button type="button" class="button quiet" onClick={() => reject(false)}>Back</button>}
      </div>
    </div>
  );
}

function YesNoForm({ field, busy, onAnswer }: AnswerProps & { field: string }) {
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

export function InterruptForm({ value, busy, onAnswer }: AnswerProps) {
  if (!mayWrite.value) return <p class="muted">Your key may read this, not answer it.</p>;
  const ask = askOf(value);
  const shared = { value, busy, onAnswer };
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
