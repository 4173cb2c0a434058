// Runs that go on now: progress, cost so far, stop.
import { signal } from "@preact/signals";
import { api, type ApiError } from "../api.ts";
import { ago, count, usd } from "../format.ts";
import { attempt, asApiError, mayWrite, workflowTitle } from "../store.ts";
import type { RunningRun } from "../types.ts";
import { Icon, KindIcon } from "../ui/icon.tsx";
import { Failure } from "../ui/states.tsx";

export const runningRuns = signal<RunningRun[]>([]);
const failure = signal<ApiError | null>(null);
const stopping = signal<ReadonlySet<string>>(new Set());
const POLL_MS = 2_500;

const read = () => api.running().then((runs) => { runningRuns.value = runs; failure.value = null; }, (error) => { failure.value = asApiError(error); });

/** Read now and every few seconds while the page is visible; returns the way to end it. */
export function watchRunning(): () => void {
  void read();
  const timer = setInterval(() => { if (!document.hidden) void read(); }, POLL_MS);
  return () => clearInterval(timer);
}

async function stop(run: RunningRun): Promise<void> {
  stopping.value = new Set([...stopping.value, run.run]);
  await attempt(api.cancelRun(run.thread, run.run));
  await read();
}

function RunRow({ run }: { run: RunningRun }) {
  const { progress } = run;
  const title = run.title || workflowTitle(run.workflow);
  return (
    <li class="row" data-row tabIndex={-1}>
      <KindIcon of={run.workflow} size={28} />
      <div class="row-main">
        <a class="row-title" href={`/c/${encodeURIComponent(run.thread)}`}>{title}</a>
        <p class="meta">
          <span>{progress ? `${progress.done} of ${count(progress.total, "step")} finished` : "Running"}</span>
          <span>started {ago(run.startedAt)}</span>
          {run.costUsd !== null && <span>{usd(run.costUsd)}</span>}
        </p>
        <progress aria-label={`Progress of ${title}`} max={progress?.total} value={progress?.done} />
      </div>
      {mayWrite.value && (
        <button type="button" class="button small" disabled={stopping.value.has(run.run)} onClick={() => void stop(run)}>
          <Icon name="stop" size={16} />Stop
        </button>
      )}
    </li>
  );
}

export function Running() {
  if (runningRuns.value.length === 0 && !failure.value) return null;
  return (
    <section aria-labelledby="running">
      <div class="section-head"><h2 id="running">Running</h2></div>
      {failure.value && <Failure error={failure.value} onRetry={() => void read()} />}
      <ul class="rows">{runningRuns.value.map((run) => <RunRow key={run.run} run={run} />)}</ul>
    </section>
  );
}
