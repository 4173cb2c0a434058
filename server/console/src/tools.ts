// The tools of the server, read once: their forms, and what their steps are called.
import { signal } from "@preact/signals";
import { get } from "./api.ts";
import { CONTROL } from "./conversation.ts";
import { words } from "./format.ts";
import type { Fields, Schema } from "./types.ts";

export interface ToolInfo {
  name: string;
  displayName: string;
  description: string;
  domain: string;
  inputSchema: Schema;
  internal: boolean;
}

const titles = signal<ReadonlyMap<string, string>>(new Map());
let tools: Promise<ToolInfo[]> | null = null;

export function readTools(): Promise<ToolInfo[]> {
  tools ??= get<{ tools: ToolInfo[] }>("/api/tools").then((reply) => {
    titles.value = new Map(reply.tools.map((one) => [one.name, one.displayName]));
    return reply.tools;
  }, () => { tools = null; return []; });
  return tools;
}

/** The title of a step that has none of its own: as its tool's steps are called while they run. */
export function stepTitle({ name, tool }: { name: string; tool: string }): string {
  if (name) return name;
  if (!tools) void readTools();
  return titles.value.get(tool) ?? words(tool);
}

/** Parameters of a video's step that a person may change. */
const EDITABLE = new Set(["prompt", "name", "durationSeconds", "volume", "queries", "sources"]);
/** Parameters of a video's inserted step that the server sets itself, or does not take. */
const SET_BY_SERVER = new Set(["addScene.sceneId", "duplicateScene.newSceneId", "addAudio.volume", "contextGatherer.extractStyle"]);

function withFields(schema: Schema, change: (name: string, field: Schema) => Schema | null): Schema {
  const fields = Object.entries(schema.properties ?? {}).map(([name, one]) => [name, change(name, one)] as const);
  return { ...schema, properties: Object.fromEntries(fields.filter((one): one is [string, Schema] => one[1] !== null)) };
}

/** The form of a step that waits: what cannot be edited is shown, if it has a value. */
export function editSchema(tool: ToolInfo, params: Fields): Schema {
  if (tool.domain !== "video") return tool.inputSchema;
  return withFields(tool.inputSchema, (name, field) => (EDITABLE.has(name) ? field : params[name] === undefined ? null : { ...field, readOnly: true }));
}

/** The tools of a plan's steps; those of a video are called by its plans alone, not by a model. */
export function insertableTools(all: ToolInfo[], domain: string | undefined): ToolInfo[] {
  return all.filter((one) => one.domain === domain && one.internal === (domain === "video") && !CONTROL.has(one.name))
    .map((one) => ({ ...one, inputSchema: withFields(one.inputSchema, (name, field) => (SET_BY_SERVER.has(`${one.name}.${name}`) ? null : field)) }));
}

export interface SceneName { id: string; position: number | null; name: string }

/** The form of a step about a scene of the video, which is chosen by its place and name. */
export function withScenes(schema: Schema, scenes: SceneName[]): Schema {
  const names = Object.fromEntries(scenes.map((one) => [one.id, `${one.position ?? ""} ${one.name}`.trim()]));
  return withFields(schema, (name, field) => (name === "sceneId" ? { ...field, title: "Scene", description: "", enum: Object.keys(names), names } : field));
}
