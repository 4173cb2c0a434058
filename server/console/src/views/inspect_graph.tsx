// A graph as a picture: the nodes that come next are marked.
import { edgePath, NODE_HEIGHT, NODE_WIDTH, placesOf, type Graph } from "../inspect.ts";

export function GraphPicture({ graph, next }: { graph: Graph; next: string[] }) {
  const { places, width, height } = placesOf(graph);
  const said = next.length > 0 ? `next: ${next.join(", ")}` : "at its end";
  return (
    <svg class="graph" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`The graph has the nodes ${graph.nodes.map((one) => one.id).join(", ")}; ${said}`} style={{ maxWidth: `${width}px` }}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
      {graph.edges.map((edge, i) => {
        const [from, to] = [places.get(edge.source), places.get(edge.target)];
        if (!from || !to) return null;
        const { path, label } = edgePath(from, to);
        return (
          <g key={i}>
            <path class={edge.conditional ? "edge maybe" : "edge"} d={path} marker-end="url(#arrow)"><title>{`${edge.source} → ${edge.target}${edge.data ? `: ${edge.data}` : edge.conditional ? ", by condition" : ""}`}</title></path>
            {edge.data && <text class="edge-label" x={label[0]} y={label[1]} text-anchor="middle">{edge.data}</text>}
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
