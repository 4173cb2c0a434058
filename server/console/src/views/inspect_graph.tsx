// A graph as a picture: the nodes that come next are marked.
import { NODE_HEIGHT, NODE_WIDTH, placesOf, type Graph, type Place } from "../inspect.ts";

function edgePath(from: Place, to: Place): string {
  const [x1, y1] = [from.x + NODE_WIDTH / 2, from.y + NODE_HEIGHT];
  const [x2, y2] = [to.x + NODE_WIDTH / 2, to.y];
  if (to.y === from.y) return `M${x1 + 10} ${y1}C${x1 + 10} ${y1 + 30} ${x2 - 10} ${y1 + 30} ${x2 - 10} ${y1}`;
  if (to.y > from.y) return `M${x1} ${y1}C${x1} ${y1 + 26} ${x2} ${y2 - 26} ${x2} ${y2}`;
  const side = x2 <= x1 ? -1 : 1; // back to an earlier layer, around the side
  const [sx, sy] = [from.x + (side > 0 ? NODE_WIDTH : 0), from.y + NODE_HEIGHT / 2];
  const [tx, ty] = [to.x + (side > 0 ? NODE_WIDTH : 0), to.y + NODE_HEIGHT / 2];
  const out = (side > 0 ? Math.max(sx, tx) : Math.min(sx, tx)) + side * 24;
  return `M${sx} ${sy}C${out} ${sy} ${out} ${ty} ${tx} ${ty}`;
}

export function GraphPicture({ graph, next }: { graph: Graph; next: string[] }) {
  const { places, width, height } = placesOf(graph);
  const said = next.length > 0 ? `next: ${next.join(", ")}` : "at its end";
  return (
    <svg class="graph" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`The graph has the nodes ${graph.nodes.map((one) => one.id).join(", ")}; ${said}`} style={{ maxWidth: `${width}px` }}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
      {graph.edges.map((edge, i) => {
        const [from, to] = [places.get(edge.source), places.get(edge.target)];
        if (!from || !to) return null;
        return (
          <g key={i}>
            <path class={edge.conditional ? "edge maybe" : "edge"} d={edgePath(from, to)} marker-end="url(#arrow)"><title>{`${edge.source} → ${edge.target}${edge.data ? `: ${edge.data}` : edge.conditional ? ", by condition" : ""}`}</title></path>
            {edge.data && <text class="edge-label" x={(from.x + to.x + NODE_WIDTH) / 2} y={(from.y + to.y + NODE_HEIGHT) / 2} text-anchor="middle">{edge.data}</text>}
          </g>
        );
      })}
      {[...places.values()].map((one) => (
        <g key={one.id} class={next.includes(one.id) ? "node next" : one.id.startsWith("__") ? "node end" : "node"}>
          <rect x={one.x} y={one.y} width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" />
          <text x={one.x + NODE_WIDTH / 2} y={one.y + NODE_HEIGHT / 2 + 4} text-anchor="middle">{one.id.replaceAll("__", "")}</text>
        </g>
      ))}
    </svg>
  );
}
