// The shapes that the console reads from the server. Only what is used; the OpenAPI document has the rest.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Fields = Record<string, any>;

export interface WorkflowInfo { name: string; title: string; description: string; examples: string[] }

export interface Session {
  auth: "none" | "keys" | "jwt";
  signedIn: boolean;
  user: { owner: string; permissions: string[]; name: string | null } | null;
  version: string;
  model: { provider: string; name: string; reason?: string; offline: boolean };
  workflows: WorkflowInfo[];
}

export interface ArtefactRef { kind: string; id: string }

export interface ListedArtefact extends ArtefactRef { updatedAt: string }

export interface ArtefactTitle extends ArtefactRef { title: string }

/** A run that waits for a person. */
export interface Question {
  id: string;
  thread: string;
  workflow: string;
  kind: "interrupt" | "plan" | "paused" | null;
  /** The title of its conversation. */
  about: string | null;
  title: string;
  wouldChange: string[] | null;
  /** The interrupt's value. */
  value?: any;
  artefact: ArtefactTitle | null;
  createdAt: string | null;
  dueAt: string | null;
}

/** A question that somebody answered. */
export interface Decision extends Pick<Question, "id" | "thread" | "workflow" | "title"> {
  answer: Json;
  answeredBy: string | null;
  answeredAt: string | null;
}

export interface QuestionPage { questions: Question[]; next: string | null }

export interface RunningRun {
  run: string;
  thread: string;
  workflow: string;
  title: string;
  startedAt: string | null;
  progress: { done: number; total: number } | null;
  costUsd: number | null;
}

export interface RecentThread { thread: string; workflow: string; title: string; status: string; updatedAt: string | null; artefact: ArtefactTitle | null }

/** The part of JSON Schema that forms are made of. */
export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: Json[]; const?: Json;
  /** Of values of `enum`, as people read them; the page's own. */
  names?: Record<string, string>;
  anyOf?: Schema[]; oneOf?: Schema[]; allOf?: Schema[];
  $ref?: string; $defs?: Record<string, Schema>;
  default?: Json;
  format?: string;
  readOnly?: boolean;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
}

export interface ToolCall { id: string; name: string; args: Fields }

/** A message of the thread's state, in LangChain's form. */
export interface WireMessage {
  id: string | null;
  type: string;
  content: string | { type: string; text?: string }[];
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  status?: string;
  additional_kwargs?: { receipt?: TurnReceipt; searchExtent?: { text: string }; entered?: string | Record<string, string> };
  /** In the reply to a plan: what its steps are called. */
  artifact?: { plan?: string; titles?: Record<string, string> } | null;
}

/** What a turn did, written by the server from versions and errors. */
export interface TurnReceipt {
  text: string;
  changed: { name: string; stream: string; versionId: string }[];
  problems: string[];
}

export interface StepResult { id: string; plan: string; tool: string; status: string; output?: Json; error?: Json; duration_s?: number }

export interface Interrupt { id: string; value: any }

export interface ThreadState {
  values: Fields;
  next: string[];
  checkpoint: { checkpoint_id: string } | null;
  parent_checkpoint: { checkpoint_id: string } | null;
  metadata: Fields | null;
  created_at: string | null;
  interrupts: Interrupt[];
  tasks: { id: string; name: string; error: Json; interrupts: Interrupt[]; result?: Fields | null }[];
}

export interface Thread {
  thread_id: string;
  metadata: Fields;
  status: "idle" | "busy" | "interrupted" | "error";
  values?: Fields;
}

export interface Run { run_id: string; thread_id: string; status: string; created_at: string }

/** The record of a tool call. */
export interface Receipt {
  id: string;
  toolCallId: string;
  status: string;
  cached: boolean;
  tries: number;
  startTime: string;
}

/** The `step` event of the custom stream. */
export interface StepEvent {
  type: "step";
  stepId: string;
  plan: string;
  tool: string;
  name: string;
  status: string;
  input?: Fields;
  output?: Json;
  error?: Json;
  durationSeconds?: number;
}

export interface PlanStep {
  id: string;
  status: string;
  canEdit: boolean;
  toolName: string;
  displayName: string;
  params: Fields;
  dependencies: string[];
  error: Json;
  result: Json;
}

export interface Execution {
  id: string;
  projectId: string;
  kind: string;
  status: "planned" | "running" | "paused" | "completed" | "failed" | "cancelled";
  startedAt: string | null;
  plan: { totalSteps: number; estimatedTime: number; steps: PlanStep[] };
}

export interface StreamHead { newest: string | null; active: string | null; count: number; updatedAt: string | null }

export interface ArtefactView extends ArtefactRef { conversationId: string | null; streams: Record<string, StreamHead>; sources: ArtefactRef[] }

export interface Version {
  id: string;
  status: string;
  createdAt: string;
  createdBy: string;
  parent: string | null;
  by: string;
  model: string;
  request: string;
  summary: string;
  data?: Fields;
}

export interface VersionDiff {
  changes: { kind: string; path: string; text: string; before?: Json; after?: Json }[];
}
