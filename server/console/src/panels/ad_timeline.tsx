// The timeline of an ad to scale: voices, effects and music over the seconds of the spot.

export interface Span { id?: string; description?: string; voiceId?: string; start: number; end: number }
export interface Timeline { spotSeconds: number; durationSeconds: number; fits: boolean; overSeconds: number; timing?: "estimated" | "measured"; voices: Span[]; sfx: Span[]; music: Span | null }

/** Seconds between two marks, so that there are at most ten. */
export function markStep(total: number): number {
  return [1, 2, 5, 10, 15, 30, 60].find((step) => total / step <= 10) ?? 120;
}

/** Rows without overlaps: each span goes to the first row that is free at its start. */
export function rowsOf(spans: Span[]): Span[][] {
  const rows: Span[][] = [];
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    const free = rows.find((row) => (row[row.length - 1]?.end ?? 0) <= span.start + 0.001);
    if (free) free.push(span);
    else rows.push([span]);
  }
  return rows;
}

const WIDTH = 640;
const LEFT = 64;
const ROW = 26;

export function AdTimeline({ timeline, second = null }: { timeline: Timeline; second?: number | null }) {
  const total = Math.max(timeline.spotSeconds, timeline.durationSeconds, timeline.music?.end ?? 0, 1);
  const x = (second: number) => LEFT + ((WIDTH - LEFT - 8) * second) / total;
  const lanes: [name: string, tone: string, rows: Span[][]][] = [
    ["Voices", "voice", rowsOf(timeline.voices)],
    ["Effects", "effect", rowsOf(timeline.sfx)],
    ["Music", "music", timeline.music ? [[timeline.music]] : []],
  ];
  const step = markStep(total);
  const marks = Array.from({ length: Math.floor(total / step) + 1 }, (_, i) => i * step);
  const rows = lanes.flatMap(([name, tone, spans]) => spans.map((row, i) => ({ label: i === 0 ? name : "", tone, row })));
  const height = rows.length * ROW + 24;
  const said = `${timeline.voices.length} voice tracks, ${timeline.sfx.length} effects${timeline.music ? ", music" : ""}; ${timeline.durationSeconds.toFixed(1)} of ${timeline.spotSeconds} seconds`;
  return (
    <svg class="ad-timeline" viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={`Timeline: ${said}`}>
      {timeline.durationSeconds > timeline.spotSeconds && <rect class="over" x={x(timeline.spotSeconds)} y="0" width={x(total) - x(timeline.spotSeconds)} height={height - 22} />}
      {marks.map((mark) => (
        <g key={mark}>
          <line class="mark" x1={x(mark)} x2={x(mark)} y1="0" y2={height - 20} />
          <text class="mark-text" x={x(mark)} y={height - 5} text-anchor={mark === 0 ? "start" : x(mark) > WIDTH - 24 ? "end" : "middle"}>{mark} s</text>
        </g>
      ))}
      <line class="end" x1={x(timeline.spotSeconds)} x2={x(timeline.spotSeconds)} y1="0" y2={height - 20} />
      {rows.map(({ label, tone, row }, i) => (
        <g key={i} transform={`translate(0 ${i * ROW + 2})`}>
          {label && <text class="lane" x="0" y="16">{label}</text>}
          {row.map((span, j) => (
            <rect key={j} class={tone} x={x(span.start)} y="2" rx="4" height={ROW - 6} width={Math.max(3, x(span.end) - x(span.start) - 1)}>
              <title>{`${span.description ?? span.voiceId ?? label}: ${span.start.toFixed(1)} to ${span.end.toFixed(1)} s`}</title>
            </rect>
          ))}
        </g>
      ))}
      {second !== null && <line class="playhead" x1={x(second)} x2={x(second)} y1="0" y2={height - 20} />}
    </svg>
  );
}
