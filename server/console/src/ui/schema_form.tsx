// A form from a JSON Schema: the browser's own controls, checked before it is sent.
import type { ComponentChildren } from "preact";
import { useId, useMemo, useRef, useState } from "preact/hooks";
import { type Field, fieldsOf, readForm, typedOf } from "../schema.ts";
import type { Fields, Schema } from "../types.ts";
import { Icon } from "./icon.tsx";
import { Value } from "./value.tsx";

interface ControlProps {
  field: Field;
  value: any;
  error: string | undefined;
  errors: Record<string, string>;
  path: string;
  onChange: (value: unknown) => void;
}

function Labelled({ field, error, id, children }: { field: Field; error: string | undefined; id: string; children: ComponentChildren }) {
  return (
    <div class="field">
      <label for={id}>{field.label}{!field.required && <span class="optional"> optional</span>}</label>
      {children}
      {field.help && <p class="help" id={`${id}-help`}>{field.help}</p>}
      {error && <p class="field-error" id={`${id}-error`}>{error}</p>}
    </div>
  );
}

function Rows({ field, value, errors, path, onChange }: ControlProps) {
  const rows: Fields[] = value ?? [];
  return (
    <fieldset class="group">
      <legend>{field.label}</legend>
      {rows.map((row, i) => (
        <div class="row-fields" key={i}>
          <Controls fields={field.fields} typed={row} errors={errors} path={`${path}.${i}.`}
            onChange={(next) => onChange(rows.with(i, next))} />
          <button type="button" class="icon-button" aria-label={`Remove ${field.label.toLowerCase()} ${i + 1}`}
            onClick={() => onChange(rows.filter((_, at) => at !== i))}><Icon name="close" size={16} /></button>
        </div>
      ))}
      <button type="button" class="button small" onClick={() => onChange([...rows, typedOf(field.fields, {})])}>
        <Icon name="plus" size={16} />Add
      </button>
    </fieldset>
  );
}

function Control(props: ControlProps) {
  const { field, value, error, errors, path, onChange } = props;
  const id = useId();
  const shared = {
    id,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": [field.help && `${id}-help`, error && `${id}-error`].filter(Boolean).join(" ") || undefined,
  };
  const text = (event: Event) => onChange((event.currentTarget as HTMLInputElement).value);
  switch (field.kind) {
    case "group":
      return (
        <fieldset class="group">
          <legend>{field.label}</legend>
          <Controls fields={field.fields} typed={value ?? {}} errors={errors} path={`${path}.`} onChange={onChange} />
        </fieldset>
      );
    case "rows": return <Rows {...props} />;
    case "fixed": return value === undefined ? null : <div class="field"><span class="label">{field.label}</span><Value value={value} /></div>;
    case "boolean":
      return (
        <label class="check">
          <input type="checkbox" checked={Boolean(value)} onChange={(event) => onChange(event.currentTarget.checked)} />
          <span>{field.label}{field.help && <span class="help">{field.help}</span>}</span>
        </label>
      );
    case "choices":
      return (
        <fieldset class="group">
          <legend>{field.label}</legend>
          {field.options.map((option) => (
            <label class="check" key={String(option)}>
              <input type="checkbox" checked={(value ?? []).includes(String(option))}
                onChange={(event) => onChange([
                  ...(value ?? []).filter((one: string) => one !== String(option)),
                  ...(event.currentTarget.checked ? [String(option)] : []),
                ])} />
              <span>{String(option)}</span>
            </label>
          ))}
        </fieldset>
      );
    case "choice":
      return (
        <Labelled field={field} error={error} id={id}>
          <select {...shared} value={value} onChange={text}>
            {!field.required && <option value="">–</option>}
            {field.options.map((option) => <option key={String(option)} value={String(option)}>{field.schema.names?.[String(option)] ?? String(option)}</option>)}
          </select>
        </Labelled>
      );
    case "long":
    case "json":
    case "list":
      return (
        <Labelled field={{ ...field, help: field.help || { list: "One on each line", json: "As JSON", long: "" }[field.kind] }} error={error} id={id}>
          <textarea {...shared} rows={field.kind === "list" ? 3 : 4} value={value} onInput={text} />
        </Labelled>
      );
    default:
      return (
        <Labelled field={field} error={error} id={id}>
          {field.kind === "text"
            ? <input {...shared} value={value} onInput={text} maxLength={field.schema.maxLength} />
            : <input {...shared} type="number" value={value} onInput={text} step={field.kind === "integer" ? 1 : "any"}
                min={field.schema.minimum} max={field.schema.maximum} />}
        </Labelled>
      );
  }
}

function Controls({ fields, typed, errors, path, onChange }: {
  fields: Field[]; typed: Fields; errors: Record<string, string>; path: string; onChange: (typed: Fields) => void;
}) {
  return (
    <>
      {fields.map((field) => (
        <Control key={field.name} field={field} value={typed[field.name]} errors={errors} path={path + field.name}
          error={errors[path + field.name]} onChange={(value) => onChange({ ...typed, [field.name]: value })} />
      ))}
    </>
  );
}

interface SchemaFormProps {
  schema: Schema;
  value?: Fields;
  /** What was typed before, if the form is drawn again. */
  typed?: Fields;
  submit: string;
  cancel?: string;
  busy?: boolean;
  onTyped?: (typed: Fields) => void;
  onSubmit: (value: any) => void;
  onCancel?: () => void;
}

/** Any schema: an object is a form of its properties if they are known, anything else one control. */
export function SchemaForm({ schema, value = {}, typed: before, submit, cancel = "Cancel", busy = false, onTyped, onSubmit, onCancel }: SchemaFormProps) {
  const whole = useMemo<Schema>(
    () => (schema.properties ? schema : { type: "object", required: ["answer"], properties: { answer: { title: "Answer", ...schema } } }),
    [schema],
  );
  const wrapped = whole !== schema;
  const fields = useMemo(() => fieldsOf(whole, value).filter((field) => field.kind !== "fixed" || value[field.name] !== undefined), [whole]);
  const [typed, setTyped] = useState<Fields>(() => before ?? typedOf(fields, value));
  const type = (next: Fields) => { setTyped(next); onTyped?.(next); };
  const [errors, setErrors] = useState<Record<string, string>>({});
  const form = useRef<HTMLFormElement>(null);
  // Fields that may stay empty, and do, are folded away where they are many.
  const empty = useMemo(() => fields.filter((field) => !field.required && value[field.name] === undefined), [fields]);
  const folded = fields.length - empty.length > 0 && empty.length > 1 ? new Set(empty) : new Set<Field>();
  const send = (event: Event) => {
    event.preventDefault();
    const read = readForm(fields, typed);
    setErrors(read.errors);
    if (Object.keys(read.errors).length === 0) return onSubmit(wrapped ? read.value.answer : read.value);
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus());
  };
  return (
    <form class="schema-form" ref={form} onSubmit={send} noValidate>
      <Controls fields={fields.filter((field) => !folded.has(field))} typed={typed} errors={errors} path="" onChange={type} />
      {folded.size > 0 && (
        <details class="fold" open={empty.some((field) => errors[field.name])}>
          <summary>{folded.size} more, optional</summary>
          <div class="schema-form"><Controls fields={empty} typed={typed} errors={errors} path="" onChange={type} /></div>
        </details>
      )}
      <div class="actions">
        <button type="submit" class="button primary" disabled={busy}>{submit}</button>
        {onCancel && <button type="button" class="button" onClick={onCancel}>{cancel}</button>}
      </div>
    </form>
  );
}
