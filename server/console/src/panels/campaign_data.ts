// Campaigns and answers about them, as the server sends them. Pure functions.
import type { Fields, WireMessage } from "../types.ts";

export interface Campaign {
  id: string; company: string; brand: string; channel: string; primary_product: string; offer: string;
  key_value_props: string[]; campaign_text: string; imagery_sentiment: string | null; capture_date: string | null;
  spend: number | null; currency: string;
}
export interface Group { value: string; count: number; spend: number | null; volume: number | null }
export interface Statement { text: string; campaigns: string[] }

function textOf(message: WireMessage): string {
  return typeof message.content === "string" ? message.content : message.content.map((part) => part.text ?? "").join("");
}

/** The statements of the newest answer with the campaigns that prove them; what was left out of it is not among them. */
export function statementsOf(messages: WireMessage[]): Statement[] {
  const from = messages.map((one) => one.type).lastIndexOf("human");
  const turn = messages.slice(from + 1);
  const last = turn[turn.length - 1];
  if (!last || last.type !== "ai") return [];
  const said = textOf(last);
  const calls = turn.flatMap((one) => one.tool_calls ?? []).filter((call) => call.name === "answer");
  const statements = (calls[calls.length - 1]?.args.statements ?? []) as Fields[];
  return statements
    .map((one) => ({ text: String(one.text ?? ""), campaigns: Array.isArray(one.campaigns) ? one.campaigns.map(String) : [] }))
    .filter((one) => one.text !== "" && said.includes(one.text));
}

/** Filters as pairs of name and value, one for each value of a list. */
export function filterPairs(filters: Fields): [name: string, value: string][] {
  return Object.entries(filters).flatMap(([name, value]) =>
    value === null || value === undefined || value === "" ? []
    : Array.isArray(value) ? value.map((one): [string, string] => [name, String(one)])
    : typeof value === "object" ? Object.entries(value).map(([part, one]): [string, string] => [`${name} ${part}`, String(one)])
    : [[name, String(value)]]);
}

/** A stored value to read: "out_of_home" as "Out of home", and a day as it is. */
export function valueText(value: string): string {
  const text = value.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Months and days sort by time; groups by another field keep their order. */
export function isOverTime(groupBy: string): boolean {
  return groupBy === "month" || groupBy === "day" || groupBy === "year" || groupBy === "quarter" || groupBy === "week";
}

/** An amount as it is stored, with all its cents or none. */
export function money(value: number | null, currency: string): string {
  if (value === null) return "";
  const figure = value.toLocaleString("en", { minimumFractionDigits: Number.isInteger(value) ? 0 : 2, maximumFractionDigits: 20 });
  return currency ? `${figure} ${currency}` : figure;
}

/** The unit of summed spends, and why a sum of several currencies is none. */
export function currencyWords(currencies: string[] = []): { unit: string; warning: string } {
  const known = currencies.filter((one) => one !== "no currency");
  if (currencies.length > 1) return { unit: "", warning: `These spends are in ${currencies.join(", ")}: the sums add unlike amounts, and are no amount of money.` };
  return { unit: known[0] ?? "", warning: "" };
}
