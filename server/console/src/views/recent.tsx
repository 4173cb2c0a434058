// Threads, last changed first, with a search over their words.
import { useEffect, useState } from "preact/hooks";
import { api, type ApiError } from "../api.ts";
import { isName } from "../format.ts";
import { asApiError, questions, workflowTitle } from "../store.ts";
import type { RecentThread } from "../types.ts";
import { Icon, KindIcon } from "../ui/icon.tsx";
import { Ago, Empty, Failure, Loading, Status } from "../ui/states.tsx";
import { runningRuns } from "./running.tsx";

const TYPING_MS = 200;

export function Recent() {
  const [query, setQuery] = useState("");
  const [threads, setThreads] = useState<RecentThread[] | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const waiting = questions.value.length;
  // A thread that is shown as running is looked at again with each reading of the runs.
  const runs = threads?.some((one) => one.status === "busy") ? runningRuns.value : runningRuns.value.map((one) => one.run).join();
  const asking = new Set(questions.value.map((question) => question.thread));
  const read = (text: string, current: () => boolean) =>
    api.recent(text).then(
      (reply) => { if (current()) { setThreads(reply); setError(null); } },
      (failure) => { if (current()) setError(asApiError(failure)); },
    );
  useEffect(() => {
    let live = true;
    const timer = setTimeout(() => void read(query.trim(), () => live), query ? TYPING_MS : 0);
    return () => { live = false; clearTimeout(timer); };
  }, [query, waiting, runs]);
  return (
    <section aria-labelledby="recent">
      <div class="section-head">
        <h2 id="recent">Recent</h2>
        <label class="search">
          <span class="sr-only">Search in recent work</span>
          <Icon name="search" size={16} />
          <input type="search" data-search placeholder="Search" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
          <kbd aria-hidden="true">/</kbd>
        </label>
      </div>
      {error && <Failure error={error} onRetry={() => void read(query, () => true)} />}
      {threads === null ? !error && <Loading label="Reading recent work" />
        : threads.length > 0 ? (
          <ul class="rows">
            {threads.map((one) => (
              <li class="row" key={one.thread}>
                <KindIcon of={one.artefact?.kind ?? one.workflow} size={28} />
                <div class="row-main">
                  <a class="row-title" data-row href={`/c/${encodeURIComponent(one.thread)}`}>{isName(one.title) ? one.title : workflowTitle(one.workflow) || "Empty thread"}</a>
                  <p class="meta"><span>{workflowTitle(one.workflow)}</span><Ago of={one.updatedAt} /></p>
                </div>
                {one.status !== "idle" && <Status of={one.status === "interrupted" && !asking.has(one.thread) ? "stopped" : one.status} />}
              </li>
            ))}
          </ul>
        )
        : query ? <Empty title={`Nothing has “${query}” in it`}>The search looks at titles, at what people wrote, and at what was made: the texts of ads, pages and videos, and a lesson’s facts, narration and quiz.</Empty>
        : <Empty icon="clock" title="Nothing was made yet">What you start is listed here, last changed first.</Empty>}
    </section>
  );
}
