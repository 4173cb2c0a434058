// What the inspector shows, computed: the places of a graph's nodes, and what a checkpoint changed. Pure functions.
import type { Fields, Json, ThreadState } from "./types.ts";

export interface GraphNode { id: string }
export interface GraphEdge { source: string; target: string; conditional?: boolean; data?: string | null }
export interface Graph { nodes: GraphNode[]; edges: GraphEdge[] }
export interface Place { id: string; layer: number; x: number; y: number }

export const NODE_WIDTH = 132;
export const NODE_HEIGHT = 34;
const GAP_X = 28;
const GAP_Y = 30;
/** Room at the sides for each layer that an edge passes. */
const SIDE = 22;

/** Nodes in layers, each below all that lead to it, except by edges that go back; the end comes last. */
export function layersOf(graph: Graph): string[][] {
  const targets = (id: string) => graph.edges.filter((edge) => edge.source === id).map((edge) => edge.target);
  const seen = new Set<string>();
  const sorted: string[] = [];
  const forward: [string, string][] = [];
  const visit = (id: string) => {
    seen.add(id);
    for (const target of targets(id)) {
      if (!seen.has(target)) visit(target);
      if (sorted.includes(target)) forward.push([id, target]); // an edge to an open node goes back
    }
    sorted.unshift(id);
  };
  const first = graph.nodes.find((one) => one.id === "__start__") ?? graph.nodes[0];
  for (const one of first ? [first, ...graph.nodes] : []) if (!seen.has(one.id)) visit(one.id);
  const depths = new Map(sorted.map((id) => [id, 0]));
  for (const id of sorted) for (const [from, to] of forward) if (from === id) depths.set(to, Math.max(depths.get(to) ?? 0, (depths.get(id) ?? 0) + 1));
  // What nothing leads to stands beside the last.
  const deepest = Math.max(0, ...[...depths].filter(([id]) => id !== "__end__").map(([, depth]) => depth));
  for (const id of sorted) if (id !== first?.id && !forward.some(([, to]) => to === id)) depths.set(id, deepest);
  if (depths.has("__end__")) depths.set("__end__", deepest + 1);
  const layers: string[][] = [];
  for (const one of graph.nodes) (layers[depths.get(one.id) ?? 0] ??= []).push(one.id);
  return layers.filter(Boolean);
}

export function placesOf(graph: Graph): { places: Map<string, Place>; width: number; height: number } {
  const layers = layersOf(graph);
  const widest = Math.max(1, ...layers.map((layer) => layer.length));
  const width = widest * (NODE_WIDTH + GAP_X) - GAP_X + 2 * SIDE * (layers.length - 1);
  const places = new Map<string, Place>();
  layers.forEach((ids, layer) => {
    const used = ids.length * (NODE_WIDTH + GAP_X) - GAP_X;
    ids.forEach((id, i) => places.set(id, { id, layer, x: (width - used) / 2 + i * (NODE_WIDTH + GAP_X), y: 8 + layer * (NODE_HEIGHT + GAP_Y) }));
  });
  return { places, width, height: layers.length * (NODE_HEIGHT + GAP_Y) - GAP_Y + 16 };
}

/** The path of an edge: down to the next layer, past layers on the right, and back up on the left. */
export function edgePath(from: Place, to: Place): { path: string; label: [x: number, y: number] } {
  const [x1, y1, x2, y2] = [from.x + NODE_WIDTH / 2, from.y + NODE_HEIGHT, to.x + NODE_WIDTH / 2, to.y];
  if (to.layer === from.layer + 1) {
    const middle = (y1 + y2) / 2;
    return { path: `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`, label: [(x1 + x2) / 2, middle + 3] };
  }
  const down = to.layer > from.layer;
  const edge = (place: Place) => place.x + (down ? NODE_WIDTH : 0);
  const reach = SIDE * Math.max(1, Math.abs(to.layer - from.layer)) * (down ? 1 : -1);
  const out = (down ? Math.max(edge(from), edge(to)) : Math.min(edge(from), edge(to))) + reach;
  const [leave, arrive] = [from.y + NODE_HEIGHT / 2 + (down ? 7 : -7), to.y + NODE_HEIGHT / 2 + (down ? -7 : 7)];
  return { path: `M${edge(from)} ${leave}C${out} ${leave} ${out} ${arrive} ${edge(to)} ${arrive}`, label: [out - reach / 4, (leave + arrive) / 2] };
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
