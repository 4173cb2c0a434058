// What the whole page knows: the session, questions that wait, notices, and the state of its streams.
import { computed, signal } from "@preact/signals";
import { api, ApiError, signedOut } from "./api.ts";
import { openStream, type StreamStatus } from "./stream.ts";
import type { Question, Session } from "./types.ts";

export const session = signal<Session | null>(null);
export const sessionError = signal<ApiError | null>(null);
export const questions = signal<Question[]>([]);
export const questionsError = signal<ApiError | null>(null);
export const questionsRead = signal(false);

/** False for a key that may only read. */
export const mayWrite = computed(() => {
  const user = session.value?.user;
  return !user || user.permissions.some((one) => one === "write" || one === "admin");
});

/** Name of what the page shows, for its tab; empty for the name of the view. */
export const pageTitle = signal("");

const streams = signal<Record<string, StreamStatus>>({});
/** A stream has been lost and has not come back. */
export const disconnected = computed(() => Object.values(streams.value).includes("waiting"));

export function trackStream(name: string, status: StreamStatus): void {
  const { [name]: _old, ...others } = streams.value;
  streams.value = status === "closed" ? others : { ...others, [name]: status };
}

export interface Notice {
  id: number;
  text: string;
  remedy: string;
  bad: boolean;
  action: { label: string; run: () => void } | null;
}

export const notices = signal<Notice[]>([]);
let noticeId = 0;

export function dismiss(id: number): void {
  notices.value = notices.value.filter((one) => one.id !== id);
}

export function notify(text: string, options: Partial<Omit<Notice, "id" | "text">> = {}): void {
  const notice = { id: ++noticeId, text, remedy: "", bad: false, action: null, ...options };
  notices.value = [...notices.value.slice(-2), notice];
  setTimeout(() => dismiss(notice.id), notice.bad ? 12_000 : 6_000);
}

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, error instanceof Error ? error.message : String(error));
}

/** Show a failure as a notice; returns undefined so that a caller may go on. */
export async function attempt<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    const { message, remedy } = asApiError(error);
    notify(message, { remedy, bad: true });
    return undefined;
  }
}

/** Say that a change is done, or why it is not, and have what it changed shown. */
export async function act(change: Promise<unknown>, done: string, changed: () => void): Promise<void> {
  if (await attempt(change.then(() => true))) notify(done);
  changed();
}

export async function readQuestions(): Promise<void> {
  await api.questions().then((page) => { questions.value = page.questions; questionsError.value = null; }, (error) => { questionsError.value = asApiError(error); });
  questionsRead.value = true;
}

let closeQuestions = () => {};

function openQuestions(onStatus: (status: StreamStatus) => void, onChange: () => void, hiddenMs?: number): () => void {
  return openStream("/api/questions/events", {
    ...(hiddenMs === undefined ? {} : { hiddenMs }),
    onEvent: ({ event }) => { if (event === "questions") onChange(); },
    onGap: onChange,
    onStatus: (status) => { onStatus(status); if (status === "open") onChange(); },
    onRefused: onChange,
  });
}

/**
 * Follow the questions. One tab of all holds the stream and tells the others, since a browser has few connections;
 * where it cannot (no lock outside of a secure context), each visible tab has its own.
 */
function followQuestions(): void {
  closeQuestions();
  const status = (next: StreamStatus) => trackStream("questions", next);
  const change = () => void readQuestions();
  if (!navigator.locks || typeof BroadcastChannel === "undefined") {
    closeQuestions = openQuestions(status, change);
    return;
  }
  const channel = new BroadcastChannel("callsheet-questions");
  const ended = new AbortController();
  channel.onmessage = ({ data }: MessageEvent<StreamStatus | "changed">) => (data === "changed" ? change() : status(data));
  const lead = () => new Promise<void>((release) => {
    const tell = (message: StreamStatus | "changed") => channel.postMessage(message);
    const close = openQuestions((next) => { status(next); tell(next); }, () => { change(); tell("changed"); }, Infinity);
    ended.signal.addEventListener("abort", () => { close(); release(); });
  });
  navigator.locks.request("callsheet-questions", { signal: ended.signal }, lead).catch(() => undefined);
  // The tab that leads may be asleep: look oneself when one is looked at.
  document.addEventListener("visibilitychange", () => { if (!document.hidden) change(); }, { signal: ended.signal });
  change();
  closeQuestions = () => { ended.abort(); channel.close(); };
}

export async function startSession(): Promise<void> {
  try {
    const known = await api.session();
    session.value = known;
    sessionError.value = null;
    if (known.signedIn || known.auth === "none") followQuestions();
  } catch (error) {
    sessionError.value = asApiError(error);
  }
}

function forgetQuestions(): void {
  closeQuestions();
  questions.value = [];
  questionsRead.value = false;
}

export async function endSession(): Promise<void> {
  await attempt(api.signOut());
  forgetQuestions();
  await startSession();
}

signedOut.handler = () => {
  forgetQuestions();
  if (session.value?.signedIn) session.value = { ...session.value, signedIn: false, user: null };
};

/** The workflow's title as it begins a line; its own name if the server names none. */
export function workflowTitle(name: string): string {
  const title = session.value?.workflows.find((one) => one.name === name)?.title ?? name;
  return title.charAt(0).toUpperCase() + title.slice(1);
}
