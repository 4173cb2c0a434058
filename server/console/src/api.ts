// A typed client of the server: requests, errors with the server's remedy, and the calls that the views make.
import type {
  ArtefactView, Decision, Execution, Fields, ListedArtefact, QuestionPage, Receipt, RecentThread, Run, RunningRun, Schema, Session,
  Thread, ThreadState, Version, VersionDiff,
} from "./types.ts";

/** Routes as remedies name them, and where people of the page find the same. */
const PLACES: [route: RegExp, words: string][] = [
  [/\brender it: POST \/\S+\/render( with the same fields)?/i, "press Listen first"],
  [/\bPOST \/api\/campaigns\/import\b/, "“Import” under Campaigns"],
  [/; PATCH \/api\/pages\/\S+ with the page's version and attributes\.\w+/, ""],
  [/\blist them with GET \/api\/artefacts\/\w+/i, "look under Artefacts"],
];

/** A remedy with buttons and views in place of the routes. */
export const onPage = (remedy: string) => PLACES.reduce((text, [route, words]) => text.replace(route, words), remedy);

/** An error reply: what happened, and what to do about it. */
export class ApiError extends Error {
  readonly status: number;
  readonly remedy: string;
  readonly details: unknown;

  constructor(status: number, message: string, remedy = "", details: unknown = null) {
    super(message);
    this.status = status;
    this.remedy = remedy;
    this.details = details;
  }
}

/** Called when a request is refused because nobody is signed in. */
export const signedOut: { handler: () => void } = { handler: () => undefined };

const OFFLINE = new ApiError(0, "The server does not answer.", "Check that it runs; the page tries again by itself.");

export function path(strings: TemplateStringsArray, ...parts: (string | number)[]): string {
  return strings.reduce((text, next, i) => text + next + (i < parts.length ? encodeURIComponent(String(parts[i])) : ""), "");
}

export async function errorOf(reply: Response): Promise<ApiError> {
  const body: unknown = await reply.json().catch(() => null);
  const fields = (body ?? {}) as Fields;
  const detail = fields.error ?? fields.message ?? fields.detail ?? "";
  const message = typeof detail === "string" ? detail : JSON.stringify(detail);
  return new ApiError(reply.status, message || `The server replied ${reply.status}.`, onPage(fields.remedy ?? ""), fields.details);
}

/** Send a request; an object as `body` is sent as JSON. Throws ApiError. */
export async function send(method: string, url: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const raw = body instanceof Blob || body instanceof FormData;
  if (body !== undefined && !raw) headers.set("Content-Type", "application/json");
  let reply: Response;
  try {
    reply = await fetch(url, {
      ...init,
      method,
      headers,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body: raw ? (body as BodyInit) : JSON.stringify(body) }),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw OFFLINE;
  }
  if (reply.status === 401) signedOut.handler();
  if (!reply.ok) throw await errorOf(reply);
  return reply;
}

export async function request<T>(method: string, url: string, body?: unknown, init?: RequestInit): Promise<T> {
  const reply = await send(method, url, body, init);
  if (reply.status === 204) return undefined as T;
  const text = await reply.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

export const get = <T>(url: string, init?: RequestInit) => request<T>("GET", url, undefined, init);
export const post = <T>(url: string, body: unknown = {}, init?: RequestInit) => request<T>("POST", url, body, init);

/** Pages of a hundred questions that the inbox reads. */
const MOST_PAGES = 10;

export const api = {
  session: () => get<Session>("/api/session"),
  signIn: (key: string) => post<void>("/api/session", { key }),
  signOut: () => request<void>("DELETE", "/api/session"),

  questions: async (): Promise<QuestionPage> => {
    const all: QuestionPage = { questions: [], next: null };
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const reply: QuestionPage = await get<QuestionPage>(`/api/questions?state=waiting&limit=100` + (all.next ? path`&cursor=${all.next}` : ""));
      all.questions.push(...reply.questions);
      all.next = reply.next;
      if (!all.next) break;
    }
    return all;
  },
  decisions: () => get<{ questions: Decision[] }>("/api/questions?state=answered&limit=20"),
  answer: (id: string, answer: unknown) => post<Fields>(path`/api/questions/${id}/answer`, { answer }),
  running: () => get<RunningRun[]>("/api/running"),
  recent: (q: string, limit = 20) => get<RecentThread[]>(path`/api/recent?q=${q}&limit=${limit}`),
  /** The thread as lists have it; none for a thread that is not there. */
  listed: (thread: string) => get<RecentThread[]>(path`/api/recent?thread=${thread}`),
  markdown: (text: string) => post<{ html: string }>("/api/markdown", { text }),

  createThread: (workflow: string) => post<Thread>("/threads", { metadata: { graph_id: workflow } }),
  rename: (thread: string, title: string) => request<Thread>("PATCH", path`/threads/${thread}`, { metadata: { title } }),
  thread: (id: string) => get<Thread>(path`/threads/${id}`),
  state: (id: string, checkpoint = "") => get<ThreadState>(path`/threads/${id}/state` + (checkpoint ? path`/${checkpoint}` : "")),
  history: (id: string, limit = 100, before: string | null = null) =>
    post<ThreadState[]>(path`/threads/${id}/history`, { limit, ...(before ? { before: { configurable: { checkpoint_id: before } } } : {}) }),
  /** The states at which the newest runs began, each with the message that began it. */
  begins: (id: string) =>
    post<ThreadState[]>(path`/threads/${id}/history`, { limit: 20, metadata: { source: "input" }, select: ["checkpoint", "parent_checkpoint", "tasks"] }),
  /** The newest thousand states without their values. */
  checkpoints: (id: string) => post<ThreadState[]>(path`/threads/${id}/history`, { limit: 1000, select: ["checkpoint", "parent_checkpoint"] }),
  runs: (id: string, limit = 5) => get<Run[]>(path`/threads/${id}/runs?limit=${limit}`),
  schemas: (graph: string) => get<{ graph_id: string; input_schema: Schema | null; output_schema: Schema | null }>(path`/assistants/${graph}/schemas`),
  startRun: (thread: string, body: Fields) =>
    post<Run>(path`/threads/${thread}/runs`, {
      stream_mode: ["messages-tuple", "custom", "updates"],
      stream_resumable: true,
      multitask_strategy: "reject",
      ...body,
    }),
  cancelRun: (thread: string, run: string) => post<unknown>(path`/threads/${thread}/runs/${run}/cancel?action=interrupt`),

  receipts: (thread: string) => get<{ executions: Receipt[] }>(path`/api/tool-executions?conversationId=${thread}&limit=100`),

  execution: (id: string) => get<Execution>(path`/api/executions/${id}`),
  changePlan: (id: string, action: "pause" | "resume" | "cancel") => post<Execution>(path`/api/executions/${id}/${action}`),
  changeStep: (id: string, step: string, action: "skip" | "retry" | "rerun") =>
    post<Execution>(path`/api/executions/${id}/steps/${step}/${action}`),
  editStep: (id: string, step: string, params: Fields) =>
    request<Execution>("PATCH", path`/api/executions/${id}/steps/${step}`, { params }),
  moveStep: (id: string, step: string, before: string | null) =>
    post<Execution>(path`/api/executions/${id}/steps/${step}/move`, { before }),
  insertStep: (id: string, step: Fields) => post<Execution>(path`/api/executions/${id}/steps`, { step }),
  undoPlan: (project: string, execution: string, steps?: string[]) =>
    post<Fields>(path`/api/projects/${project}/undo`, { executionId: execution, ...(steps ? { steps } : {}) }),

  artefacts: (kind: string, after = "") =>
    get<{ artefacts: ListedArtefact[]; next: string | null }>(path`/api/artefacts/${kind}` + (after ? path`?after=${after}` : "")),
  artefact: (kind: string, id: string) => get<ArtefactView>(path`/api/artefacts/${kind}/${id}`),
  deleteArtefact: (kind: string, id: string) => request<Fields>("DELETE", path`/api/artefacts/${kind}/${id}`),
  versions: (kind: string, id: string, stream: string) =>
    get<{ versions: Version[]; active: string | null }>(path`/api/artefacts/${kind}/${id}/${stream}`),
  version: (kind: string, id: string, stream: string, version: string) =>
    get<Version>(path`/api/artefacts/${kind}/${id}/${stream}/${version}`),
  diff: (kind: string, id: string, stream: string, from: string, to: string) =>
    get<VersionDiff>(path`/api/artefacts/${kind}/${id}/${stream}/${from}/diff/${to}`),
};
