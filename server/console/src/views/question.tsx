// A question that waits for a person, answered where it stands.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api.ts";
import { ago, fullTime } from "../format.ts";
import { headline } from "../interrupts.ts";
import { asApiError, notify, readQuestions, workflowTitle } from "../store.ts";
import type { ApiError } from "../api.ts";
import type { Interrupt, Question } from "../types.ts";
import { KindIcon } from "../ui/icon.tsx";
import { InterruptForm } from "../ui/interrupt_form.tsx";
import { Failure, Loading } from "../ui/states.tsx";

/** Send an answer; true if it counted. */
export async function sendAnswer(question: { id: string; thread: string; workflow: string }, answer: unknown, listed: boolean): Promise<boolean> {
  try {
    if (listed) await api.answer(question.id, answer);
    else await api.startRun(question.thread, { assistant_id: question.workflow, command: { resume: answer } });
    return true;
  } catch (error) {
    const { status, message, remedy } = asApiError(error);
    notify(status === 409 ? "Somebody answered this already." : message, { remedy: status === 409 ? "" : remedy, bad: status !== 409 });
    return status === 409;
  } finally {
    void readQuestions();
  }
}

/** The form of a listed question; its interrupt is read from the thread. */
export function QuestionForm({ question, interrupt, onDone }: { question: Question; interrupt?: Interrupt; onDone?: () => void }) {
  const [value, setValue] = useState<any>(interrupt?.value);
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const read = () => {
    setError(null);
    api.state(question.thread).then(
      ({ interrupts }) => setValue((interrupts.find((one) => one.id === question.id) ?? interrupts[0])?.value ?? null),
      (failure) => setError(asApiError(failure)),
    );
  };
  useEffect(() => { if (!interrupt) read(); }, [question.id]);
  const answer = async (given: unknown) => {
    setBusy(true);
    if (await sendAnswer(question, given, true)) onDone?.();
    setBusy(false);
  };
  if (error) return <Failure error={error} onRetry={read} />;
  if (value === undefined) return <Loading label="Reading the question" rows={2} />;
  return (
    <>
      {value?.problem && <p class="field-error">{value.problem}</p>}
      <InterruptForm value={value} busy={busy} onAnswer={answer} />
    </>
  );
}

export function QuestionCard({ question, unfolded }: { question: Question; unfolded: boolean }) {
  const [open, setOpen] = useState(unfolded);
  useEffect(() => { if (unfolded) setOpen(true); }, [unfolded]);
  const due = question.dueAt && Date.parse(question.dueAt) < Date.now();
  return (
    <li class="question" data-row tabIndex={-1}>
      <div class="question-head">
        <KindIcon of={question.artefact?.kind ?? question.workflow} size={28} />
        <div class="question-title">
          <h3><a href={`/c/${encodeURIComponent(question.thread)}`}>{headline(question.title, question.kind === "plan" ? 2 : 1) || "A question waits"}</a></h3>
          <p class="meta">
            <span>{question.artefact?.title || workflowTitle(question.workflow)}</span>
            <time dateTime={question.createdAt} title={fullTime(question.createdAt)}>{ago(question.createdAt)}</time>
            {question.dueAt && <span class={due ? "late" : ""}>due {ago(question.dueAt)}</span>}
          </p>
        </div>
        {!open && <button type="button" class="button small" data-key="a" onClick={() => setOpen(true)}>Answer</button>}
      </div>
      {question.wouldChange.length > 0 && (
        <p class="would-change"><span class="muted">Would change</span>{question.wouldChange.slice(0, 6).map((one) => <span class="tag" key={one}>{one}</span>)}
          {question.wouldChange.length > 6 && <span class="muted">and {question.wouldChange.length - 6} more</span>}</p>
      )}
      {open && <QuestionForm question={question} />}
    </li>
  );
}
