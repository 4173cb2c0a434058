// A form's fields from a JSON Schema. Pure functions; `ui/schema_form.tsx` draws them.
import { words } from "./format.ts";
import type { Fields, Json, Schema } from "./types.ts";

export type FieldKind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "choices" | "list" | "rows" | "group" | "json" | "fixed";
// `fixed` is a value that no control can hold: it is kept as it is.

export interface Field {
  name: string;
  label: string;
  help: string;
  kind: FieldKind;
  required: boolean;
  schema: Schema;
  /** Values of a choice. */
  options: Json[];
  fields: Field[];
}

const LONG_TEXT = 60;
const DEEPEST = 3;

/** Follow `$ref`, merge `allOf`, and take the first alternative that is not null. */
export function resolve(schema: Schema, root: Schema): Schema {
  if (schema.$ref?.startsWith("#/$defs/")) {
    const target = root.$defs?.[schema.$ref.slice("#/$defs/".length)];
    return target ? resolve({ ...target, ...strip(schema) }, root) : {};
  }
  if (schema.allOf) return schema.allOf.reduce<Schema>((all, part) => ({ ...all, ...resolve(part, root) }), strip(schema));
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives) {
    const constants = alternatives.filter((one) => one.const !== undefined);
    if (constants.length === alternatives.length) return { ...strip(schema), enum: constants.map((one) => one.const as Json) };
    const first = alternatives.map((one) => resolve(one, root)).find((one) => one.type !== "null");
    return { ...first, ...strip(schema) };
  }
  return schema;
}

function strip(schema: Schema): Schema {
  const { $ref: _ref, allOf: _all, anyOf: _any, oneOf: _one, ...rest } = schema;
  return rest;
}

export function typeOf(schema: Schema): string {
  if (Array.isArray(schema.type)) return schema.type.find((one) => one !== "null") ?? "string";
  return schema.type ?? (schema.properties ? "object" : schema.items ? "array" : schema.enum ? "string" : "");
}

function kindOf(schema: Schema, value: Json | undefined, root: Schema, depth: number): FieldKind {
  if (schema.readOnly) return "fixed";
  if (schema.enum) return "choice";
  switch (typeOf(schema)) {
    case "boolean": return "boolean";
    case "integer": return "integer";
    case "number": return "number";
    case "array": {
      const items = resolve(schema.items ?? {}, root);
      if (items.enum) return "choices";
      if (typeOf(items) === "object" && items.properties && depth < DEEPEST) return "rows";
      return ["string", "integer", "number"].includes(typeOf(items)) ? "list" : "fixed";
    }
    case "object": return schema.properties && depth < DEEPEST ? "group" : "fixed";
    case "string":
      return (schema.maxLength ?? 0) > 500 || (typeof value === "string" && value.length > LONG_TEXT) ? "long" : "text";
    default: return typeof value === "object" && value !== null ? "fixed" : "text";
  }
}

/** The longest text of each column, which decides how large its control is. */
function longest(rows: unknown): Fields {
  const widest: Fields = {};
  for (const row of Array.isArray(rows) ? rows : []) {
    for (const [name, value] of Object.entries((row ?? {}) as Fields)) {
      if (String(value).length > String(widest[name] ?? "").length) widest[name] = value;
    }
  }
  return widest;
}

export function fieldsOf(schema: Schema, values: Fields = {}, root: Schema = schema, depth = 0): Field[] {
  const own = resolve(schema, root);
  return Object.entries(own.properties ?? {}).map(([name, raw]) => {
    const part = resolve(raw, root);
    const value = values[name];
    const drawn = kindOf(part, value, root, depth);
    const kind = drawn === "fixed" && value === undefined && !part.readOnly ? "json" : drawn;
    const items = resolve(part.items ?? {}, root);
    return {
      name,
      label: part.title ?? words(name),
      help: part.description ?? "",
      kind,
      required: own.required?.includes(name) ?? false,
      schema: part,
      options: (kind === "choices" ? items.enum : part.enum) ?? [],
      fields:
        kind === "group" ? fieldsOf(part, value ?? {}, root, depth + 1)
        : kind === "rows" ? fieldsOf(items, longest(value), root, depth + 1)
        : [],
    };
  });
}

/** The value of a field from what was typed; undefined leaves it out. Throws a sentence for a value that cannot be. */
export function parse(field: Field, raw: unknown): Json | undefined {
  const items = field.schema.items ?? {};
  switch (field.kind) {
    case "boolean": return raw === undefined ? undefined : Boolean(raw);
    case "choice": return raw === "" || raw === undefined ? undefined : (field.options.find((one) => String(one) === raw) ?? null);
    case "choices": return Array.isArray(raw) ? field.options.filter((one) => raw.includes(String(one))) : [];
    case "number":
    case "integer": {
      if (raw === "" || raw === undefined || raw === null) return undefined;
      const number = Number(raw);
      if (Number.isNaN(number)) throw new Error(`${field.label} is a number`);
      if (field.kind === "integer" && !Number.isInteger(number)) throw new Error(`${field.label} is a whole number`);
      return number;
    }
    case "list": {
      const lines = String(raw ?? "").split("\n").map((one) => one.trim()).filter(Boolean);
      if (lines.length === 0 && !field.required) return undefined;
      return typeOf(items) === "string" || typeOf(items) === "" ? lines : lines.map(Number);
    }
    case "fixed": return raw as Json | undefined;
    case "json":
      try { return String(raw ?? "").trim() ? JSON.parse(String(raw)) : undefined; }
      catch { throw new Error(`${field.label} is JSON, such as {"name": 1} or ["a", "b"]`); }
    default: return raw === "" || raw === null ? undefined : (raw as Json | undefined);
  }
}

/** A value as the form's controls hold it. */
export function raw(field: Field, value: Json | undefined): unknown {
  const given = value ?? field.schema.default;
  switch (field.kind) {
    case "boolean": return given === undefined && !field.required ? undefined : Boolean(given);
    case "choices": return Array.isArray(given) ? given.map(String) : [];
    case "list": return Array.isArray(given) ? given.join("\n") : "";
    case "fixed": return given;
    case "rows": return (Array.isArray(given) ? given : []).map((row) => typedOf(field.fields, (row ?? {}) as Fields));
    default: return given === undefined || given === null ? "" : String(given);
  }
}

/** Read a whole form: the object, and the sentence for each field that is wrong. */
export function readForm(fields: Field[], typed: Fields): { value: Fields; errors: Record<string, string> } {
  const value: Fields = {};
  const errors: Record<string, string> = {};
  for (const field of fields) {
    try {
      if (field.kind === "group") {
        const inner = readForm(field.fields, typed[field.name] ?? {});
        if (field.required || Object.keys(inner.value).length > 0) value[field.name] = inner.value;
        for (const [name, error] of Object.entries(inner.errors)) errors[`${field.name}.${name}`] = error;
        continue;
      }
      if (field.kind === "rows") {
        const rows = (typed[field.name] ?? []).map((row: Fields) => readForm(field.fields, row));
        value[field.name] = rows.map((row: { value: Fields }) => row.value);
        rows.forEach((row: { errors: Record<string, string> }, i: number) => {
          for (const [name, error] of Object.entries(row.errors)) errors[`${field.name}.${i}.${name}`] = error;
        });
        continue;
      }
      const one = parse(field, typed[field.name]);
      if (one !== undefined) value[field.name] = one;
      else if (field.required) errors[field.name] = `${field.label} is needed`;
    } catch (error) {
      errors[field.name] = (error as Error).message;
    }
  }
  return { value, errors };
}

export function typedOf(fields: Field[], values: Fields): Fields {
  return Object.fromEntries(
    fields.map((field) => [
      field.name,
      field.kind === "group" ? typedOf(field.fields, values[field.name] ?? {}) : raw(field, values[field.name]),
    ]),
  );
}
