// Loading, empty and failed: what a list shows instead of its rows.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ApiError } from "../api.ts";
import { ago, fullTime, sentence } from "../format.ts";
import { Icon } from "./icon.tsx";

export function Loading({ label = "Loading", rows = 3 }: { label?: string; rows?: number }) {
  return (
    <div class="skeleton" role="status">
      <span class="sr-only">{label}</span>
      {Array.from({ length: rows }, (_, i) => <span key={i} class="skeleton-row" />)}
    </div>
  );
}

export function Empty({ icon, title, children }: { icon?: string; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      {icon && <Icon name={icon} size={24} />}
      <p class="empty-title">{title}</p>
      {children && <div class="muted">{children}</div>}
    </div>
  );
}

/** A part that is made when it is unfolded. */
export function Fold({ title, children }: { title: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return <details class="part fold" onToggle={(event) => setOpen(event.currentTarget.open)}><summary>{title}</summary>{open && children}</details>;
}

export function Failure({ error, onRetry }: { error: ApiError; onRetry?: () => void }) {
  return (
    <div class="failure" role="alert">
      <p><strong>{sentence(error.message)}</strong></p>
      {error.remedy && <p>{sentence(error.remedy)}</p>}
      {onRetry && <button type="button" class="button small" onClick={onRetry}><Icon name="retry" size={16} />Try again</button>}
    </div>
  );
}

/** A time as its distance from now, with the whole time on hover. */
export function Ago({ of }: { of: string | null }) {
  return of ? <time dateTime={of} title={fullTime(of)}>{ago(of)}</time> : null;
}

const TONES: Record<string, string> = {
  busy: "run", running: "run", "in-progress": "run", pending: "idle", interrupted: "wait", paused: "wait", planned: "wait",
  error: "bad", failed: "bad", timeout: "bad", blocked: "bad", success: "ok", completed: "ok", idle: "idle", cancelled: "idle", skipped: "idle",
};
const STATUS_WORDS: Record<string, string> = {
  busy: "Running", interrupted: "Needs you", planned: "Waits for approval", error: "Failed", success: "Done", completed: "Done",
  idle: "Ready", "in-progress": "Running",
};

export function Status({ of }: { of: string }) {
  const text = STATUS_WORDS[of] ?? of.charAt(0).toUpperCase() + of.slice(1);
  return <span class={`pill ${TONES[of] ?? "idle"}`}><span class="dot" aria-hidden="true" />{text}</span>;
}
