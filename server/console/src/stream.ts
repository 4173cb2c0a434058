// Server-sent events over fetch: resumes after the last id, reconnects with growing pauses, and notices a stream
// that went silent (the server sends a comment every few seconds) or a machine that slept.
import { createParser } from "eventsource-parser";
import { type ApiError, errorOf, signedOut } from "./api.ts";

export interface StreamEvent {
  event: string;
  data: any;
  id: string | null;
}

/** `paused`: the tab is hidden, and has given its connection to the others. */
export type StreamStatus = "connecting" | "open" | "waiting" | "paused" | "closed";

export interface StreamOptions {
  onEvent(event: StreamEvent): void;
  onStatus?(status: StreamStatus): void;
  /** The server no longer keeps the events after the last id: read the state again. */
  onGap?(): void;
  /** A refusal that another try will not change. */
  onRefused?(error: ApiError): void;
  /** Called when the server ends the stream; then it is not opened again. */
  onEnd?(): void;
  lastEventId?: string;
  /** Milliseconds without a word from the server, whose heartbeat comes every few seconds, after which it is asked again. */
  silenceMs?: number;
  /** Milliseconds after which a hidden tab lets go of its connection: browsers open six to a host, for all tabs. */
  hiddenMs?: number;
}

const SILENCE_MS = 20_000;
const HIDDEN_MS = 15_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;

export function pauseMs(failures: number, random = Math.random()): number {
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1), LONGEST_PAUSE_MS);
  return Math.round(pause * (0.75 + random / 2));
}

/** Open a stream; call the returned function to close it. */
export function openStream(url: string, options: StreamOptions): () => void {
  const silenceMs = options.silenceMs ?? SILENCE_MS;
  const hiddenMs = options.hiddenMs ?? HIDDEN_MS;
  let resting = false;
  let hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  let closed = false;
  let failures = 0;
  let lastId = options.lastEventId ?? "";
  let abort = new AbortController();
  let wake = () => {};
  let heardAt = Date.now();
  const status = (next: StreamStatus) => options.onStatus?.(next);

  async function read(): Promise<void> {
    abort = new AbortController();
    heardAt = Date.now();
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const reply = await fetch(url, { headers, signal: abort.signal, credentials: "same-origin", cache: "no-store" });
    if (reply.status === 410) {
      lastId = "";
      options.onGap?.();
      return;
    }
    if (!reply.ok || !reply.body) {
      const error = await errorOf(reply);
      if (reply.status === 401) signedOut.handler();
      if (reply.status >= 400 && reply.status < 500 && reply.status !== 429 && reply.status !== 408) {
        options.onRefused?.(error);
        close();
      }
      throw error;
    }
    failures = 0;
    status("open");
    const parser = createParser({
      onEvent: ({ event, data, id }) => {
        if (id) lastId = id;
        if (event === "gap") options.onGap?.();
        else options.onEvent({ event: event ?? "message", data: data ? JSON.parse(data) : null, id: id ?? null });
      },
    });
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heardAt = Date.now();
      parser.feed(value);
    }
  }

  async function run(): Promise<void> {
    while (!closed) {
      if (resting) {
        status("paused");
        await new Promise<void>((resolve) => { wake = resolve; });
        continue;
      }
      status(failures === 0 ? "connecting" : "waiting");
      try {
        await read();
        if (options.onEnd && !closed) {
          close();
          options.onEnd();
        }
        failures = Math.max(failures, 1);
      } catch {
        failures += 1;
      }
      if (closed) return;
      if (resting) {
        failures = 0;
        continue;
      }
      if (failures > 1) status("waiting");
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pauseMs(failures));
        wake = () => { clearTimeout(timer); resolve(); };
      });
    }
  }

  const watch = setInterval(() => {
    if (Date.now() - heardAt > silenceMs) abort.abort();
  }, silenceMs / 10);
  const retry = () => {
    if (Date.now() - heardAt > silenceMs) abort.abort();
    wake();
  };
  const turn = () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) {
      if (hiddenMs === Infinity) return;
      hiddenTimer = setTimeout(() => { resting = true; abort.abort(); }, hiddenMs);
      return;
    }
    resting = false;
    retry();
  };
  addEventListener("online", retry);
  document.addEventListener("visibilitychange", turn);
  if (document.hidden) turn();

  function close(): void {
    if (closed) return;
    closed = true;
    clearInterval(watch);
    clearTimeout(hiddenTimer);
    removeEventListener("online", retry);
    document.removeEventListener("visibilitychange", turn);
    abort.abort();
    wake();
    status("closed");
  }

  void run();
  return close;
}
