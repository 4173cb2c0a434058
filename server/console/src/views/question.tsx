// A question that waits for a person, answered where it stands.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api.ts";
import { ago, fullTime, isName, shorten } from "../format.ts";
import { headline } from "../interrupts.ts";
import { asApiError, notify, readQuestions, workflowTitle } from "../store.ts";
import type { Question } from "../types.ts";
import { KindIcon } from "../ui/icon.tsx";
import { InterruptForm } from "../ui/interrupt_form.tsx";
import { Ago, Failure, Loading } from "../ui/states.tsx";
import { useRead } from "../ui/use_read.ts";

/** The form of a question; its value is read from the thread if the list does not bring it. */
function QuestionForm({ question }: { question: Question }) {
  const [tries, again] = useState(0);
  const [busy, setBusy] = useState(false);
  const [state, error] = useRead(() => api.state(question.thread), [question.id, tries], question.value === undefined);
  const known = state && (state.interrupts.find((one) => question.id.startsWith(one.id)) ?? state.interrupts[0])?.value;
  const value: any = question.value === undefined && state ? known ?? null : question.value;
  const answer = async (given: unknown) => {
    setBusy(true);
    const card = document.activeElement?.closest(".question");
    const next = (card?.nextElementSibling ?? card?.previousElementSibling ?? card?.closest("section")) as HTMLElement | null | undefined;
    try {
      await api.answer(question.id, given);
    } catch (failure) {
      const { status, message, remedy } = asApiError(failure);
      notify(message, { remedy, bad: status !== 409 });
    }
    await readQuestions();
    if (!card?.isConnected) next?.focus();
    setBusy(false);
  };
  if (error) return <Failure error={error} onRetry={() => again(tries + 1)} />;
  if (value === undefined) return <Loading label="Reading the question" rows={2} />;
  return (
    <>
      {value?.problem && <p class="field-error">{value.problem}</p>}
      <InterruptForm value={value} busy={busy} thread={question.thread} onAnswer={answer} />
    </>
  );
}

const MOST_CHANGES = 3;

function WouldChange({ changes }: { changes: string[] }) {
  return (
    <ul class="would-change">
      {changes.slice(0, MOST_CHANGES).map((one) => <li key={one}>{one}</li>)}
      {changes.length > MOST_CHANGES && <li>and {changes.length - MOST_CHANGES} more</li>}
    </ul>
  );
}

export function QuestionCard({ question, unfolded }: { question: Question; unfolded: boolean }) {
  const [open, setOpen] = useState(unfolded);
  useEffect(() => { if (unfolded) setOpen(true); }, [unfolded]);
  const changes = question.wouldChange ?? [];
  const [only] = question.kind === "plan" && changes.length === 1 ? changes : [];
  const title = only?.split(":\n")[0] ?? (headline(question.title, question.kind === "plan" ? changes.length : 1) || "A question waits");
  const name = question.about;
  const due = question.dueAt && Date.parse(question.dueAt) < Date.now();
  return (
    <li class="question" data-row tabIndex={-1}>
      <div class="question-head">
        <KindIcon of={question.artefact?.kind ?? question.workflow} size={28} />
        <div class="question-title">
          <h3><a href={`/c/${encodeURIComponent(question.thread)}`}>{title}</a></h3>
          <p class="meta">
            <span>{workflowTitle(question.workflow)}{isName(name) && ` “${shorten(name, 48)}”`}</span>
            {only && <span>waits for your approval</span>}
            <Ago of={question.createdAt} />
            {question.dueAt && <span class={due ? "late" : ""} title={fullTime(question.dueAt)}>expires {ago(question.dueAt)}</span>}
          </p>
        </div>
        {!open && <button type="button" class="button small" data-key="a" onClick={() => setOpen(true)}>Answer</button>}
      </div>
      {changes.length > 0 && (!open || question.kind === "interrupt") && !changes.every((one) => title.includes(one)) && <WouldChange changes={changes} />}
      {open && <QuestionForm question={question} />}
    </li>
  );
}
