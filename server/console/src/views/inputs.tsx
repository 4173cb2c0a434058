// The input of a graph that takes no messages: a form of its schema, in place of the words.
import { api } from "../api.ts";
import { session } from "../store.ts";
import type { ThreadModel } from "../thread.ts";
import type { Schema } from "../types.ts";
import { Icon } from "../ui/icon.tsx";
import { SchemaForm } from "../ui/schema_form.tsx";
import { useRead } from "../ui/use_read.ts";

/** The schema of a graph's input for a form; null for a graph that takes messages, as all do that have examples. */
export function useInputForm(graph: string): Schema | null {
  const own = session.value?.workflows.some((one) => one.name === graph && one.examples.length === 0) ?? false;
  const [schemas] = useRead(() => api.schemas(graph), [graph], own);
  const input = schemas?.graph_id === graph ? schemas.input_schema : null;
  return input && !input.properties?.messages ? input : null;
}

export function StopButton({ thread }: { thread: ThreadModel }) {
  return (
    <button type="button" class="button" disabled={thread.stopping.value || !thread.run.value} onClick={() => void thread.stop()}>
      <Icon name="stop" size={16} />{thread.stopping.value ? "Stopping" : "Stop"}
    </button>
  );
}

/** The form of another run, with the values of the one before. */
export function Inputs({ thread, schema }: { thread: ThreadModel; schema: Schema }) {
  if (thread.busy.value) return <div class="composer inputs"><StopButton thread={thread} /></div>;
  if (thread.interrupts.value.length > 0) return null;
  const { value } = thread.input;
  return <div class="composer inputs"><SchemaForm key={JSON.stringify(value)} schema={schema} value={value} submit="Start" onSubmit={(input) => void thread.begin(input)} /></div>;
}
