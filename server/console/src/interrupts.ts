// What an interrupt asks for, and the answers it takes. Pure functions over the interrupt's value.
import { line, shorten, words } from "./format.ts";
import { resolve, typeOf } from "./schema.ts";
import type { Fields, Json, Schema } from "./types.ts";

export interface Choice {
  id: string;
  title: string;
  details: string;
  note: string;
}

export interface Action {
  name: string;
  title: string;
  /** What it makes, below the title. */
  lines: string[];
  args: Fields;
  /** Of the edit's form; null if the call cannot be edited. */
  schema: Schema | null;
  allowed: string[];
}

/** The form that an interrupt needs. */
export type Ask =
  /** `chosen` are the ids that are ticked at first. */
  | { form: "choose"; field: string; choices: Choice[]; chosen: string[] }
  /** One of several values, which is the answer itself. */
  | { form: "pick"; values: Json[] }
  | { form: "actions"; actions: Action[]; canSkip: boolean }
  /** `field` is the property that the answer stands in; empty if it is the answer itself. */
  | { form: "yes-no"; field: string }
  | { form: "schema"; schema: Schema }
  | { form: "text" };

/** Fields of our workflows' questions, whose answer has the same field. */
const CHOICE_FIELDS = ["facts", "images"];
/** Fields in which any graph may list what can be chosen; its schema says how to answer. */
const OPTION_FIELDS = ["choices", "options"];

function choice(raw: Json, index: number): Choice {
  if (raw === null || typeof raw !== "object" || Array.isArray(raw)) {
    return { id: String(raw), title: String(raw), details: "", note: "" };
  }
  const one = raw as Fields;
  const text = (...names: string[]) => String(names.map((name) => one[name]).find((value) => typeof value === "string" && value) ?? "");
  const sure = typeof one.confidence === "number" ? `${Math.round(one.confidence * 100)} % sure` : "";
  return {
    id: text("id", "value", "name") || String(one.number ?? index + 1),
    title: text("concept", "title", "label", "name", "credit", "id"),
    details: text("details", "description", "text", "page"),
    note: sure,
  };
}

/** An object schema guessed from the arguments of a call that brings none. */
export function schemaOf(value: Json | undefined): Schema {
  if (value === null || value === undefined) return { type: "string" };
  if (Array.isArray(value)) return { type: "array", items: schemaOf(value[0]) };
  switch (typeof value) {
    case "object": {
      const parts = Object.entries(value).map(([name, one]): [string, Schema] => [name, { ...schemaOf(one), ...(name === "id" ? { readOnly: true } : {}) }]);
      return { type: "object", required: Object.keys(value), properties: Object.fromEntries(parts) };
    }
    case "boolean": return { type: "boolean" };
    case "number": return { type: "number" };
    default: return { type: "string" };
  }
}

/** A description without the problem of the last answer, which stands above the form. */
function withoutProblem(description: string, { problem }: Fields): string {
  return problem && description.startsWith(problem) ? description.slice(problem.length).trimStart() : description;
}

function actionsOf(value: Fields): Action[] {
  const configs: Fields[] = value.review_configs ?? [];
  return (value.action_requests as Fields[]).map((one) => {
    const config = configs.find((other) => other.action_name === one.name) ?? {};
    const allowed: string[] = config.allowed_decisions ?? ["approve", "edit", "reject"];
    const args = (one.args ?? {}) as Fields;
    const named: Schema = config.args_schema ?? schemaOf(args as Json);
    const [title = "", ...lines] = withoutProblem(one.description ?? "", value).split("\n");
    return {
      name: one.name,
      title: (lines.length > 0 ? title.replace(/:$/, "") : title) || words(one.name),
      lines,
      args,
      schema: allowed.includes("edit") && Object.keys(named.properties ?? {}).length > 0 ? named : null,
      allowed,
    };
  });
}

/** What somebody is asked to approve, for a key: the steps of each plan of a video are s1, s2, …, whatever they do. */
export function planKey(actions: Action[]): string {
  return JSON.stringify(actions.map(({ name, args }) => [name, args]));
}

function decisionTypes(schema: Schema | undefined): string[] {
  const alternatives = schema?.anyOf ?? (schema ? [schema] : []);
  const items = alternatives.map((one) => one.properties?.decisions?.items?.properties?.type?.enum).find(Boolean);
  return (items ?? []).map(String);
}

export function askOf(value: any): Ask {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return { form: "text" };
  const schema: Schema | undefined = value.response_schema;
  for (const field of CHOICE_FIELDS) {
    const list = value[field];
    if (!Array.isArray(list) || list.length === 0) continue;
    const earlier: Choice[] = ((field === "facts" && value.earlierFacts) || []).map((one: Json, i: number) => ({ ...choice(one, i), note: "from before" }));
    const choices = [...list.map(choice), ...earlier];
    return { form: "choose", field, choices, chosen: value.chosenFacts?.length ? value.chosenFacts : choices.slice(0, list.length).map((one) => one.id) };
  }
  if (Array.isArray(value.action_requests) && value.action_requests.length > 0) {
    return { form: "actions", actions: actionsOf(value), canSkip: decisionTypes(schema).includes("skip") };
  }
  const options: Json[] | undefined = OPTION_FIELDS.map((field) => value[field]).find((list) => Array.isArray(list) && list.length > 0);
  if (!schema) return options ? { form: "pick", values: options } : { form: "text" };
  if (options) return { form: "schema", schema: withOptions(schema, options) };
  const one = resolve(schema, schema);
  if (typeOf(one) === "boolean") return { form: "yes-no", field: "" };
  const [only, ...others] = Object.entries(one.properties ?? {});
  if (only && others.length === 0 && typeOf(resolve(only[1], schema)) === "boolean") return { form: "yes-no", field: only[0] };
  return { form: "schema", schema };
}

/** A schema whose only property takes one of these values, or several if it is a list. */
function withOptions(schema: Schema, options: Json[]): Schema {
  const one = resolve(schema, schema);
  const [only, ...others] = Object.entries(one.properties ?? {});
  if (!only || others.length > 0 || options.some((value) => typeof value === "object")) return schema;
  const [name, raw] = only;
  const part = resolve(raw, schema);
  const limited = typeOf(part) === "array" ? { ...part, items: { ...part.items, enum: options } } : { ...part, enum: options };
  return { ...one, properties: { [name]: limited } };
}

/** True for a question that a message answers; any other is left behind by one. */
export function takesWords(value: any): boolean {
  const ask = askOf(value);
  if (ask.form === "actions") return ask.actions.every((one) => one.allowed.includes("respond"));
  return ["choose", "text", "pick"].includes(ask.form);
}

/** Steps of the plan that is paused or waits for approval; a message ends it. */
export function stepsLeft(value: any): number {
  return (value?.type === "paused" ? value.steps : value?.action_requests)?.length ?? 0;
}

/** The sentence that asks. */
export function sentenceOf(value: any): string {
  if (typeof value === "string") return value;
  const text = value?.message ?? value?.question ?? value?.title ?? value?.action_requests?.[0]?.description;
  return typeof text === "string" ? withoutProblem(text, value) : "";
}

/** The sentence without the list of calls, which stand below it. */
export function headline(sentence: string, actions: number): string {
  const [first = "", rest] = sentence.split(/:\s/, 2);
  return actions > 1 && rest !== undefined ? `${first}.` : sentence;
}

export const approveAll = { decisions: [{ type: "approve" }] };

export function rejectAll(message: string): Fields {
  return { decisions: [{ type: "reject", ...(message ? { message } : {}) }] };
}

/** One decision for each action: the edited arguments, or approval; `left` are actions that are not carried out. */
export function decide(actions: Action[], edits: Record<number, Fields>, left: Set<number>): Fields {
  return {
    decisions: actions.map((action, i) => {
      if (left.has(i)) return { type: "skip" };
      const args = edits[i];
      return args ? { type: "edit", edited_action: { name: action.name, args } } : { type: "approve" };
    }),
  };
}

/** The chosen ones by id, with a wish for what is made of them. */
export function choose(field: string, ids: string[], message: string): Fields {
  return { [field]: ids, ...(message ? { message } : {}) };
}

/** An answer in a few words, for the list of decisions. */
export function answerInWords(answer: any): string {
  if (answer === true) return "yes";
  if (answer === false) return "no";
  if (typeof answer === "string") return shorten(answer, 60);
  const decisions: Fields[] | undefined = answer?.decisions;
  if (Array.isArray(decisions)) {
    const kinds = new Map<string, number>();
    for (const { type } of decisions) kinds.set(type, (kinds.get(type) ?? 0) + 1);
    const done: Record<string, string> = { approve: "approved", edit: "edited", reject: "rejected", skip: "skipped", respond: "answered" };
    return [...kinds].map(([kind, times]) => `${done[kind] ?? kind}${decisions.length > 1 ? ` ${times}` : ""}`).join(", ");
  }
  if (typeof answer?.resume === "boolean") return answer.resume ? "resumed" : "cancelled";
  for (const field of CHOICE_FIELDS) if (Array.isArray(answer?.[field])) return `chose ${answer[field].length}`;
  return line(answer, 60);
}
