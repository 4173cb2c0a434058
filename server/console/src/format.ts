// Numbers, times and names in words. Pure functions.

const UNITS: [number, Intl.RelativeTimeFormatUnit][] = [[31_536_000, "year"], [2_592_000, "month"], [86_400, "day"], [3_600, "hour"], [60, "minute"]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** "3 min. ago", "in 2 hr.", "now". */
export function ago(iso: string | null, now = Date.now()): string {
  if (!iso) return "";
  const seconds = (Date.parse(iso) - now) / 1000;
  if (Number.isNaN(seconds)) return "";
  for (const [size, unit] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return "now";
}

export function fullTime(iso: string | null): string {
  if (!iso) return "";
  const time = Date.parse(iso);
  return Number.isNaN(time) ? iso : moment.format(time);
}

/** "0.13 s", "4.2 s", "1 min 20 s". */
export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (value < 1) return `${value < 0.005 ? "0" : value.toFixed(2)} s`;
  if (value < 60) return `${value.toFixed(1).replace(/\.0$/, "")} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60 ? `${minutes} min${Math.round(value % 60) ? ` ${Math.round(value % 60)} s` : ""}` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function usd(value: number | null | undefined): string {
  if (value === null || value === undefined) return "";
  if (value === 0) return "free";
  return value < 0.01 ? "< $0.01" : `$${value.toFixed(2)}`;
}

/** A count with its noun: `count(1, "step")` is "1 step". */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString("en")} ${value === 1 ? one : many}`;
}

/** An identifier as words: "create_voice_draft", "saveStudentInfoTool" → "Create voice draft", "Save student info". */
export function words(name: string): string {
  const text = name
    .replace(/Tool$/, "")
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/[_-]+/g, " ")
    .trim()
    .toLowerCase()
    .replace(/\b(sfx|sound fx)\b/g, "sound effects");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A message of the server as a sentence that stands alone. */
export function sentence(text: string): string {
  const line = text.charAt(0).toUpperCase() + text.slice(1);
  return /[\p{L}\p{N}'"”)\]]$/u.test(line) ? `${line}.` : line;
}

export function shorten(text: string, most: number): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).trimEnd()}…`;
}

const MACHINE_ID = /^(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;

/** True for a name that a person chose, false for an id that a machine made. */
export function isName(text: string | null | undefined): text is string {
  return Boolean(text) && !MACHINE_ID.test(text ?? "");
}

/** A value of any shape in one line. */
export function line(value: unknown, most = 120): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return shorten(value, most);
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return shorten(value.map((one) => line(one, 40)).join(", "), most);
  const parts = Object.entries(value)
    .filter(([, one]) => one !== null && one !== "" && one !== undefined)
    .map(([name, one]) => `${words(name).toLowerCase()}: ${line(one, 40)}`);
  return shorten(parts.join(" · "), most);
}
