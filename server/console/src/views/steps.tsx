// Tool calls: one line each, which unfolds; several together are a plan, which a person may change while it runs.
import { useState } from "preact/hooks";
import { api } from "../api.ts";
import { isDone, type Step, versionsOf } from "../conversation.ts";
import { count, fullTime, line, seconds, sentence, shorten } from "../format.ts";
import { streamWords, versionLink } from "../mentions.ts";
import { location } from "../router.ts";
import { stepTitle } from "../tools.ts";
import type { Fields, Json } from "../types.ts";
import { Icon } from "../ui/icon.tsx";
import { useRead } from "../ui/use_read.ts";
import { Value } from "../ui/value.tsx";

const MARKS: Record<string, [icon: string, tone: string, text: string]> = {
  pending: ["", "idle", "waiting"],
  "in-progress": ["", "run", "running"],
  completed: ["check", "ok", "done"],
  failed: ["close", "bad", "failed"],
  error: ["close", "bad", "failed"],
  timeout: ["close", "bad", "timed out"],
  blocked: ["close", "bad", "blocked"],
  skipped: ["skip", "idle", "skipped"],
  cancelled: ["close", "idle", "cancelled"],
};

export function Mark({ status }: { status: string }) {
  const [icon, tone, text] = MARKS[status] ?? ["", "idle", status];
  return (
    <span class={`mark-step ${tone} ${status}`}>
      {icon && <Icon name={icon} size={14} />}
      <span class="sr-only">{text}: </span>
    </span>
  );
}

/** What came of a step, in a few words; its error has a line of its own. */
function outcome(step: Step): string {
  if (step.error) return "";
  const output = step.output;
  if (output === null || typeof output !== "object" || Array.isArray(output)) return line(output, 80);
  const message = output.message ?? output.summary;
  if (typeof message === "string") return line(message, 90);
  if (typeof output.count === "number" && step.tool.startsWith("search")) return `${output.count} found`;
  return "";
}

const SUBJECTS = ["prompt", "query", "text", "content", "message", "details"];

/** What a step came to; what it is about while it runs. */
function noteOf(step: Step): string {
  const subject = SUBJECTS.map((name) => step.input?.[name]).find((value) => typeof value === "string" && value);
  if (step.status === "blocked") return "waits for a step that did not complete";
  if (step.status === "completed") return outcome(step) || line(subject, 80);
  return isDone(step.status) ? outcome(step) : step.status === "in-progress" ? line(subject, 80) : "";
}

/** The scene whose version a step of an earlier plan has made; deleting one makes a version of the order alone. */
function sceneOf({ tool, output }: Step): string {
  const { sceneId, scene } = (output ?? {}) as Fields;
  return /^(delete|restore)Scene$/.test(tool) ? "" : String(sceneId ?? scene ?? "");
}

function VersionLinks({ step, streams }: { step: Step; streams: Map<string, string> }) {
  const versions = versionsOf(step.output);
  return (
    <>
      {versions.map(([name, id]) => {
        const stream = name || sceneOf(step) || streams.get(step.id) || "";
        if (!stream) return <span class="tag" key={id}>{id}</span>;
        return <a class="tag link" key={stream} href={versionLink(location.value.path, stream, id)}>{name || stream === "order" ? `${name || streamWords(stream).toLowerCase()} ` : ""}{id}</a>;
      })}
    </>
  );
}

/** The record of a call, read when somebody looks. */
function ReceiptLine({ thread, step }: { thread: string; step: Step }) {
  const [list] = useRead(() => api.receipts(thread), [step.id, step.status]);
  const receipt = list?.executions.find((one) => one.toolCallId === step.id);
  if (!receipt) return null;
  return (
    <p class="meta">
      <span>{count(receipt.tries, "try", "tries")}{receipt.cached && ", from the cache"}</span>
      <time dateTime={receipt.startTime}>{fullTime(receipt.startTime)}</time>
      <span class="id">receipt {receipt.id}</span>
    </p>
  );
}

export function StepLine({ step, thread, streams, children }: { step: Step; thread: string; streams: Map<string, string>; children?: preact.ComponentChildren }) {
  const [open, setOpen] = useState(false);
  // What a blocked step waits for has an error of its own to read, and what the words say is read there.
  const error = step.status === "blocked" || step.inWords ? "" : step.error;
  return (
    <div class={error ? "step failed" : `step ${step.status}`}>
      <div class="step-line">
        <Mark status={step.status} />
        <button type="button" class="step-name" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span>{stepTitle(step)}</span><Icon name="chevron" size={14} />
        </button>
        <span class="step-note">{noteOf(step)}</span>
        <VersionLinks step={step} streams={streams} />
        {(step.seconds ?? 0) >= 0.01 && <span class="step-time num">{seconds(step.seconds)}</span>}
        {children}
      </div>
      {error && !open && <p class="step-error">{sentence(shorten(error, 300))}</p>}
      {open && (
        <div class="step-more">
          <h4>Called with</h4>
          <Value value={(step.input ?? null) as Json} />
          {step.error ? <><h4>Why it failed</h4><p class="field-error">{step.error}</p></> : step.output !== null && <><h4>Result</h4><Value value={step.output} /></>}
          {isDone(step.status) && <ReceiptLine thread={thread} step={step} />}
        </div>
      )}
    </div>
  );
}
