// Charts as SVG, drawn by pure functions. Each has a title for who cannot see it; put its table beside it.

export interface Point { label: string; value: number }

/** A round number at or above the largest value, so that the axis ends on a figure that can be read. */
export function niceMax(values: number[]): number {
  const largest = Math.max(0, ...values);
  if (largest === 0) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return ([1, 2, 2.5, 5, 10].find((step) => step * power >= largest) ?? 10) * power;
}

export function compact(value: number): string {
  return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
}

/** Horizontal bars, one for each point, with the value at the end. */
export function BarChart({ title, points, format = compact }: { title: string; points: Point[]; format?: (value: number) => string }) {
  const max = niceMax(points.map((one) => one.value));
  return (
    <ul class="bars" aria-label={title}>
      {points.map((one) => (
        <li key={one.label}>
          <span class="bar-label">{one.label.replaceAll("_", " ")}</span>
          <span class="bar-track" aria-hidden="true"><span class="bar" style={{ width: `${(100 * one.value) / max}%` }} /></span>
          <span class="bar-value num">{format(one.value)}</span>
        </li>
      ))}
    </ul>
  );
}

const WIDTH = 640;
const HEIGHT = 200;
const LEFT = 44;
const BOTTOM = 24;

export function linePath(values: number[], max: number, width: number, height: number): string {
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  return values.map((value, i) => `${i === 0 ? "M" : "L"}${(i * step).toFixed(1)} ${(height - (height * value) / max).toFixed(1)}`).join("");
}

/** A line over time: one value for each label, in their order. */
export function LineChart({ title, points, format = compact }: { title: string; points: Point[]; format?: (value: number) => string }) {
  const values = points.map((one) => one.value);
  const max = niceMax(values);
  const [width, height] = [WIDTH - LEFT - 8, HEIGHT - BOTTOM - 8];
  const every = Math.ceil(points.length / 6);
  const path = linePath(values, max, width, height);
  return (
    <svg class="line-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={title}>
      <g transform={`translate(${LEFT} 8)`}>
        {[0, 0.5, 1].map((part) => (
          <g key={part}>
            <line x2={width} y1={height * (1 - part)} y2={height * (1 - part)} />
            <text x="-8" y={height * (1 - part) + 4} text-anchor="end">{format(max * part)}</text>
          </g>
        ))}
        {path && <path class="area" d={`${path}L${width} ${height}L0 ${height}Z`} />}
        <path class="line" d={path} />
        {points.map((one, i) => {
          const x = points.length > 1 ? (i * width) / (points.length - 1) : 0;
          return (
            <g key={one.label}>
              <circle cx={x} cy={height - (height * one.value) / max} r="2.5"><title>{`${one.label}: ${format(one.value)}`}</title></circle>
              {i % every === 0 && <text x={x} y={height + 18} text-anchor={i === 0 ? "start" : "middle"}>{one.label}</text>}
            </g>
          );
        })}
      </g>
    </svg>
  );
}
