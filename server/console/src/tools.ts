// The tools of the server, read once: their forms, and what their steps are called.
import { signal } from "@preact/signals";
import { get } from "./api.ts";
import { words } from "./format.ts";
import type { Schema } from "./types.ts";

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
