// A plan as a live checklist: its steps may be edited, skipped, inserted, retried, and the whole paused or cancelled.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, get, path } from "../api.ts";
import { changedFields, hasFailed, isDone, isUnchanged, outcomes, type Step } from "../conversation.ts";
import { count, seconds, words } from "../format.ts";
import { schemaOf } from "../interrupts.ts";
import { attempt, mayWrite, notify, readQuestions } from "../store.ts";
import type { ThreadModel } from "../thread.ts";
import { editSchema, insertableTools, readTools, stepTitle, withScenes, type SceneName } from "../tools.ts";
import type { Execution, Fields, Json, PlanStep } from "../types.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Icon } from "../ui/icon.tsx";
import { IconButton } from "../ui/icon_button.tsx";
import { SchemaForm } from "../ui/schema_form.tsx";
import { Failure } from "../ui/states.tsx";
import { useCall, useRead } from "../ui/use_read.ts";
import { StepLine } from "./steps.tsx";

function EditStep({ plan, step, onClose, onDone }: { plan: string; step: PlanStep; onClose: () => void; onDone: () => void }) {
  const [error, change, busy] = useCall();
  const [tools] = useRead(readTools, []);
  const tool = tools?.find((one) => one.name === step.toolName);
  const schema = useMemo(() => (tool ? editSchema(tool, step.params) : tools && schemaOf(step.params as Json)), [tools, step.id]);
  return (
    <Dialog title={step.displayName} onClose={onClose}>
      {error && <Failure error={error} />}
      {schema && (
        <SchemaForm schema={schema} value={step.params} submit="Change the step" busy={busy} onCancel={onClose}
          onSubmit={(params: Fields) => void change(api.editStep(plan, step.id, changedFields(step.params, params)), onDone)} />
      )}
    </Dialog>
  );
}

function InsertStep({ execution, onClose, onDone }: { execution: Execution; onClose: () => void; onDone: () => void }) {
  const [tools] = useRead(readTools, []);
  const [chosen, choose] = useState("");
  const [after, setAfter] = useState("");
  const [error, change, busy] = useCall();
  const used = new Set(execution.plan.steps.map((one) => one.toolName));
  const all = tools ? insertableTools(tools, tools.find((one) => used.has(one.name))?.domain) : [];
  const isVideo = all[0]?.domain === "video";
  const [video] = useRead(() => get<{ scenes: SceneName[] }>(path`/api/projects/${execution.projectId}/scenes`), [], isVideo);
  const tool = all.find((one) => one.name === chosen) ?? all.find((one) => used.has(one.name)) ?? all[0];
  const name = tool?.name ?? "";
  return (
    <Dialog title="Insert a step" onClose={onClose}>
      {error && <Failure error={error} />}
      <div class="field">
        <label for="insert-tool">Step</label>
        <select id="insert-tool" value={name} onChange={(event) => choose(event.currentTarget.value)}>
          {all.map((one) => <option key={one.name} value={one.name}>{words(one.name)}</option>)}
        </select>
        {tool && <p class="help">{tool.description}</p>}
      </div>
      <div class="field">
        <label for="insert-after">After</label>
        <select id="insert-after" value={after} onChange={(event) => setAfter(event.currentTarget.value)}>
          <option value="">as soon as possible</option>
          {execution.plan.steps.map((one) => <option key={one.id} value={one.id}>{one.displayName}</option>)}
        </select>
      </div>
      {tool && (video || !isVideo) && (
        <SchemaForm key={name} schema={video && name !== "restoreScene" ? withScenes(tool.inputSchema, video.scenes) : tool.inputSchema} submit="Insert" busy={busy} onCancel={onClose} onSubmit={(params) => {
          const step: Fields = { toolName: name, params, ...(after ? { dependencies: [after] } : {}) };
          void change(api.insertStep(execution.id, step), onDone);
        }} />
      )}
    </Dialog>
  );
}

function merge(steps: Step[], execution: Execution | null): Step[] {
  if (!execution) return steps;
  const known = new Map(steps.map((one) => [one.id, one]));
  const listed = execution.plan.steps.map((one): Step => {
    const live = known.get(one.id);
    const status = live && isDone(live.status) && !isDone(one.status) && execution.status !== "running" ? live.status : one.status;
    return {
      id: one.id, tool: one.toolName, name: one.displayName, status,
      input: one.params, output: one.result ?? live?.output ?? null,
      error: typeof one.error === "string" ? one.error : ((one.error as Fields | null)?.message ?? live?.error ?? ""),
      seconds: live?.seconds ?? null, inWords: live?.inWords ?? false,
    };
  });
  const ids = new Set(listed.map((one) => one.id));
  return [...listed, ...steps.filter((one) => !ids.has(one.id))];
}

function timeLeft(execution: Execution | null): string {
  if (execution?.status !== "running" || !execution.startedAt || !execution.plan.estimatedTime) return "";
  const left = execution.plan.estimatedTime - (Date.now() - Date.parse(execution.startedAt)) / 1000;
  return left > 1 ? `about ${seconds(Math.ceil(left))} left` : "";
}

const MOST_STEPS = 10;
const TITLES: Record<string, string> = { planned: "Plan, waits for approval", paused: "Plan, paused", cancelled: "Plan, cancelled" };

/** Let a pending step begin before or after the pending one beside it. */
function MoveButtons({ step, pending, disabled, onMove }: { step: PlanStep; pending: PlanStep[]; disabled: boolean; onMove: (before: string | null) => Promise<void> }) {
  const at = pending.indexOf(step);
  const [wanted, want] = useState("");
  useEffect(() => {
    if (!wanted || disabled) return;
    document.querySelector<HTMLElement>(`[aria-label="${CSS.escape(wanted)}"]`)?.focus(); // the row has lost it by moving
    want("");
  }, [wanted, disabled]);
  const [earlier, later] = [pending[at - 1], pending[at + 1]];
  if (!earlier && !later) return null;
  const button = (word: string, icon: string, possible: boolean, before: string | null) => {
    const label = `Do “${step.displayName}” ${word}`;
    return <IconButton icon={icon} label={label} disabled={disabled || !possible} onClick={() => void onMove(before).then(() => want(label))} />;
  };
  return (
    <>
      {button("earlier", "up", Boolean(earlier && !step.dependencies.includes(earlier.id)), earlier?.id ?? null)}
      {button("later", "under", Boolean(later && !later.dependencies.includes(step.id)), pending[at + 2]?.id ?? null)}
    </>
  );
}

/** "4 steps completed", or "4 steps: 2 completed · 1 skipped · 1 failed". */
function PlanCounts({ steps }: { steps: Step[] }) {
  const ended = outcomes(steps);
  const total = count(steps.length, "step");
  if (ended.length === 1 && ended[0]?.[1] === steps.length) return <span class={ended[0][0] === "failed" ? "late" : ""}>{total} {ended[0][0]}</span>;
  return <>{total}{ended.map(([name, number], i) => <span key={name} class={name === "failed" ? "late" : ""}>{i === 0 ? ": " : " · "}{number} {name}</span>)}</>;
}

export function PlanCard({ plan, steps, thread, newest, streams }: {
  plan: string; steps: Step[]; thread: ThreadModel; newest: boolean; streams: Map<string, string>;
}) {
  const [execution, setExecution] = useState<Execution | null>(null);
  const [editing, edit] = useState<PlanStep | null>(null);
  const [inserting, insert] = useState(false);
  const [busy, setBusy] = useState(false);
  const [undone, note] = useState<string[]>([]);
  const live = steps.some((one) => !isDone(one.status));
  const pulse = steps.map((one) => one.status).join();
  const follow = newest && plan !== "";
  const reads = useRef(0);
  const read = async () => {
    const number = ++reads.current;
    const record = await api.execution(plan).catch(() => null);
    if (number === reads.current) setExecution(record); // a slower, older reply is dropped
  };
  useEffect(() => {
    if (!follow) return undefined;
    const timer = setTimeout(() => void read(), execution ? 150 : 0);
    return () => clearTimeout(timer);
  }, [plan, pulse, follow, thread.revision.value, thread.run.value]);
  const act = async (call: Promise<unknown>) => {
    setBusy(true);
    await attempt(call);
    await read();
    void readQuestions();
    setBusy(false);
  };
  const change = (action: "pause" | "resume" | "cancel") => void act(api.changePlan(plan, action));
  const changeStep = (step: Step, action: "skip" | "retry") => void act(api.changeStep(plan, step.id, action));
  const shown = merge(steps, execution).map((one) => ({ ...one, name: stepTitle(one) }));
  const done = shown.filter((one) => isDone(one.status)).length;
  const failed = shown.some((one) => hasFailed(one.status));
  const status = execution?.status ?? (live ? "running" : failed ? "failed" : "completed");
  const [unfolded, unfold] = useState(false);
  const open = status === "running" || status === "paused";
  const changed = (one: Step) => one.status === "completed" && !isUnchanged(one) && !undone.includes(one.id);
  const undoable = execution && !open && status !== "planned" && execution.kind === "plan" && thread.workflow.value === "scene_edit" && shown.some(changed);
  const byId = new Map(execution?.plan.steps.map((one) => [one.id, one]));
  const pending = execution?.plan.steps.filter((one) => one.canEdit) ?? [];
  // A long plan that has ended folds to what failed, and one that is paused to what is left, too.
  const folded = status !== "running" && status !== "planned" && shown.length > MOST_STEPS && !unfolded;
  const visible = folded ? shown.filter((one) => one.error !== "" || (open && !isDone(one.status))) : shown;
  const undo = async (only?: string[]) => {
    if (!execution) return;
    await act(api.undoPlan(execution.projectId, plan, only).then(() => {
      note([...undone, ...(only ?? shown.map((one) => one.id))]);
      notify(only ? "The step is undone." : "The plan is undone.");
    }));
    thread.changed();
  };
  return (
    <div class={`plan ${status}`} role="group" aria-label={`Plan of ${count(shown.length, "step")}`}>
      <header class="plan-head">
        <strong>{TITLES[status] ?? "Plan"}</strong>
        <span class="muted num"><PlanCounts steps={shown} /></span>
        <span class="muted">{timeLeft(execution)}</span>
        {mayWrite.value && <span class="plan-buttons">
          {open && execution && <IconButton icon="plus" size={18} label="Insert a step" onClick={() => insert(true)} />}
          {status === "running" && execution && (
            <button type="button" class="button small" disabled={busy} onClick={() => change("pause")}><Icon name="pause" size={16} />Pause</button>
          )}
          {status === "paused" && (
            <button type="button" class="button small primary" disabled={busy} onClick={() => change("resume")}><Icon name="play" size={16} />Resume</button>
          )}
          {open && execution && <button type="button" class="button small quiet" disabled={busy} onClick={() => change("cancel")}>Cancel</button>}
          {undoable && (
            <button type="button" class="button small quiet" disabled={busy} onClick={() => void undo()}><Icon name="undo" size={16} />Undo the plan</button>
          )}
        </span>}
      </header>
      {open && <progress aria-label="Steps that have ended" max={shown.length} value={done} />}
      <ol class="plan-steps" hidden={visible.length === 0}>
        {visible.map((one) => {
          const known = byId.get(one.id);
          const retry = plan && (hasFailed(one.status) || one.status === "cancelled") && execution;
          return (
            <li key={one.id}>
              <StepLine step={one} thread={thread.id} streams={streams}>
                {mayWrite.value && <span class={open || retry ? "step-buttons" : "step-buttons on-hover"}>
                  {known?.canEdit && <MoveButtons step={known} pending={pending} disabled={busy} onMove={(before) => act(api.moveStep(plan, one.id, before))} />}
                  {known?.canEdit && <IconButton icon="edit" label={`Edit “${one.name}”`} onClick={() => edit(known)} />}
                  {known && one.status === "pending" && open
                    && <IconButton icon="skip" label={`Skip “${one.name}”`} disabled={busy} onClick={() => changeStep(one, "skip")} />}
                  {retry && <IconButton icon="retry" label={`Retry “${one.name}”`} disabled={busy} onClick={() => changeStep(one, "retry")} />}
                  {undoable && changed(one)
                    && <IconButton icon="undo" label={`Undo “${one.name}”`} disabled={busy} onClick={() => void undo([one.id])} />}
                </span>}
              </StepLine>
            </li>
          );
        })}
      </ol>
      {folded && <button type="button" class="plan-more" onClick={() => unfold(true)}>Show all {shown.length} steps</button>}
      {editing && <EditStep plan={plan} step={editing} onClose={() => edit(null)} onDone={() => { edit(null); void read(); }} />}
      {inserting && execution && <InsertStep execution={execution} onClose={() => insert(false)} onDone={() => { insert(false); void read(); }} />}
    </div>
  );
}
