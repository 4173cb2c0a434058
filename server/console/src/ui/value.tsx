// A value of any shape for people: nested lists of names and values, never raw JSON.
import { words } from "../format.ts";
import type { Json } from "../types.ts";

const LONG_LIST = 20;

/** A list of plain values, which fits on a line. */
function flat(value: Json): boolean {
  return Array.isArray(value) && value.every((one) => typeof one !== "object" || one === null);
}

export function Value({ value, depth = 0 }: { value: Json | undefined; depth?: number }) {
  if (value === null || value === undefined || value === "") return <span class="muted">none</span>;
  if (typeof value === "boolean") return <span>{value ? "yes" : "no"}</span>;
  if (typeof value === "number") return <span class="num">{value.toLocaleString("en", { maximumFractionDigits: 6 })}</span>;
  if (typeof value === "string") return <span class="value-text">{value}</span>;
  const list = Array.isArray(value);
  const entries = list ? value.map((one, i) => [String(i + 1), one] as const) : Object.entries(value);
  if (entries.length === 0) return <span class="muted">none</span>;
  if (list && flat(value)) return <span class="value-text">{value.join(", ")}</span>;
  const shown = entries.slice(0, LONG_LIST);
  return (
    <dl class={list ? "value list" : "value"} data-depth={depth}>
      {shown.map(([name, one]) => (
        <div key={name} class={typeof one === "object" && one !== null && !flat(one) && !list ? "stack" : undefined}>
          <dt>{list ? `${name}.` : words(name)}</dt>
          <dd><Value value={one} depth={depth + 1} /></dd>
        </div>
      ))}
      {entries.length > LONG_LIST && <div><dt /><dd class="muted">and {entries.length - LONG_LIST} more</dd></div>}
    </dl>
  );
}
