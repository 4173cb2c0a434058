// What the inspector shows, computed: the places of a graph's nodes, and what a checkpoint changed. Pure functions.
import type { Fields, Json, ThreadState } from "./types.ts";

export interface GraphNode { id: string }
export interface GraphEdge { source: string; target: string; conditional?: boolean; data?: string | null }
export interface Graph { nodes: GraphNode[]; edges: GraphEdge[] }
export interface Place { id: string; x: number; y: number }

export const NODE_WIDTH = 132;
export const NODE_HEIGHT = 34;
const GAP_X = 28;
const GAP_Y = 40;

/** Nodes in layers by their distance from the start; the end comes last. */
export function layersOf(graph: Graph): string[][] {
  const distance = new Map<string, number>();
  const first = graph.nodes.find((one) => one.id === "__start__")?.id ?? graph.nodes[0]?.id;
  let layer = first ? [first] : [];
  for (let depth = 0; layer.length > 0; depth += 1) {
    for (const id of layer) distance.set(id, depth);
    const next = graph.edges.filter((edge) => layer.includes(edge.source)).map((edge) => edge.target);
    layer = [...new Set(next)].filter((id) => !distance.has(id));
  }
  const deepest = Math.max(0, ...distance.values());
  for (const one of graph.nodes) if (!distance.has(one.id)) distance.set(one.id, deepest);
  if (distance.has("__end__")) distance.set("__end__", Math.max(0, ...[...distance].filter(([id]) => id !== "__end__").map(([, depth]) => depth)) + 1);
  const layers: string[][] = [];
  for (const one of graph.nodes) (layers[distance.get(one.id) ?? 0] ??= []).push(one.id);
  return layers.filter(Boolean);
}

export function placesOf(graph: Graph): { places: Map<string, Place>; width: number; height: number } {
  const layers = layersOf(graph);
  const widest = Math.max(1, ...layers.map((layer) => layer.length));
  const width = widest * (NODE_WIDTH + GAP_X) + GAP_X;
  const places = new Map<string, Place>();
  layers.forEach((layer, depth) => {
    const used = layer.length * (NODE_WIDTH + GAP_X) - GAP_X;
    layer.forEach((id, i) => places.set(id, { id, x: (width - used) / 2 + i * (NODE_WIDTH + GAP_X), y: 8 + depth * (NODE_HEIGHT + GAP_Y) }));
  });
  return { places, width, height: layers.length * (NODE_HEIGHT + GAP_Y) - GAP_Y + 16 };
}

/** `elements` are those of a list that is no shorter which were added or replaced; null for any other field. */
export interface Change { name: string; before: Json | undefined; after: Json | undefined; elements: Json[] | null }

/** Fields that differ between two states; of a list, the elements that do. */
export function changesOf(before: Fields, after: Fields): Change[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => {
    const [old, now] = [before[name] as Json | undefined, after[name] as Json | undefined];
    if (JSON.stringify(old) === JSON.stringify(now)) return [];
    const known = old ?? [];
    const isList = Array.isArray(now) && Array.isArray(known) && now.length >= known.length;
    const elements = isList ? now.filter((one, i) => JSON.stringify(one) !== JSON.stringify(known[i])) : null;
    return [{ name, before: old, after: now, elements }];
  });
}

export interface ModelCall { id: string; model: string; input: number; output: number; calls: string[] }

/** The calls of models whose answers a state holds. */
export function modelCalls(values: Fields): ModelCall[] {
  const messages = (Array.isArray(values.messages) ? values.messages : []) as Fields[];
  return messages
    .filter((one) => one.type === "ai" && one.usage_metadata)
    .map((one) => ({
      id: String(one.id ?? ""), model: String(one.response_metadata?.model_name ?? ""),
      input: Number(one.usage_metadata.input_tokens ?? 0), output: Number(one.usage_metadata.output_tokens ?? 0),
      calls: ((one.tool_calls ?? []) as Fields[]).map((call) => String(call.name)),
    }));
}

export function checkpointOf(state: ThreadState): string {
  return state.checkpoint?.checkpoint_id ?? "";
}

/** A command for the terminal; a text is safe between single quotes. */
export function curl(method: string, url: string, body?: unknown): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const data = body === undefined ? "" : ` -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
  return `curl -s -X ${method} ${quoted(url)}${data}`;
}
