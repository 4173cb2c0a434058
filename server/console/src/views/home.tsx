// Home: what needs a person, what runs, what was done lately, and how to start something.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api.ts";
import { mayWrite, questions, questionsError, questionsRead, readQuestions } from "../store.ts";
import { count, shorten } from "../format.ts";
import { answerInWords, headline } from "../interrupts.ts";
import { Ago, Empty, Failure, Loading } from "../ui/states.tsx";
import { useRead } from "../ui/use_read.ts";
import { QuestionCard } from "./question.tsx";
import { Recent } from "./recent.tsx";
import { Running, runningRuns, watchRunning } from "./running.tsx";
import { Start } from "./start.tsx";

function NeedsYou() {
  const waiting = questions.value;
  return (
    <section aria-labelledby="needs-you" tabIndex={-1}>
      <div class="section-head">
        <h2 id="needs-you">Needs you</h2>
        {waiting.length > 0 && <span class="badge">{waiting.length}</span>}
      </div>
      <p class="sr-only" aria-live="polite">{questionsRead.value ? `${count(waiting.length, "question")} waiting` : ""}</p>
      {questionsError.value && <Failure error={questionsError.value} onRetry={() => void readQuestions()} />}
      {!questionsRead.value ? <Loading label="Reading the questions" />
        : waiting.length > 0 ? <ul class="questions">{waiting.map((one, i) => <QuestionCard key={one.id} question={one} unfolded={i === 0} />)}</ul>
        : !questionsError.value && <Empty icon="check" title="Nothing waits for you">Plans to approve and questions of a run appear here.</Empty>}
      <Decisions />
    </section>
  );
}

/** Who decided what, read when somebody looks. */
function Decisions() {
  const [open, setOpen] = useState(false);
  const [list, error] = useRead(api.decisions, [questions.value.length], open);
  return (
    <details class="fold decisions" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Answered lately</summary>
      {error && <Failure error={error} />}
      {list?.questions.length === 0 && <p class="muted">Nobody has answered a question yet.</p>}
      <ul>
        {list?.questions.map((one) => (
          <li key={one.id + one.answeredAt}>
            <a href={`/c/${encodeURIComponent(one.thread)}`}>{shorten(headline(one.title, 2), 90)}</a>
            <p class="meta"><span>{answerInWords(one.answer)}</span><span>{one.answeredBy}</span><Ago of={one.answeredAt} /></p>
          </li>
        ))}
      </ul>
    </details>
  );
}

export function Home() {
  useEffect(() => watchRunning(), []);
  const quiet = questions.value.length === 0 && runningRuns.value.length === 0;
  return (
    <div class={quiet ? "home quiet" : "home"}>
      <h1 class="sr-only">Home</h1>
      <div class="home-main">
        <NeedsYou />
        <Running />
        <Recent />
      </div>
      {mayWrite.value && <Start />}
    </div>
  );
}
