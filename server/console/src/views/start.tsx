// Start something: a request in one's own words, or one of two examples of each workflow.
import { useRef, useState } from "preact/hooks";
import { api, path, request } from "../api.ts";
import { shorten } from "../format.ts";
import { newId } from "../ids.ts";
import { navigate } from "../router.ts";
import { attempt, session, workflowTitle } from "../store.ts";
import type { Fields, WorkflowInfo } from "../types.ts";
import { Icon, KindIcon } from "../ui/icon.tsx";
import { SchemaForm } from "../ui/schema_form.tsx";
import { useInputForm } from "./inputs.tsx";

/** Make a lesson of a file's text; the next message has its facts found. */
const upload = (file: File) =>
  request<{ sessionId: string }>("POST", path`/api/agent-create/session/source/files?fileName=${file.name}`, file).then((reply) => ({ thread_id: reply.sessionId }));

/** The input of a first message. */
function messageInput(text: string, file?: File): Fields {
  const entered = file && { additional_kwargs: { entered: { ...(text && { request: text }), file: file.name } } };
  return { messages: [{ role: "user", content: file ? `${text}\n\nFind the facts in the file I uploaded.`.trim() : text, id: newId(), ...entered }] };
}

/** Make a thread, start its first run, and go there. */
async function start(workflow: string, input: Fields, file?: File): Promise<boolean> {
  const thread = await attempt<{ thread_id: string }>(file ? upload(file) : api.createThread(workflow));
  if (!thread) return false;
  const run = await attempt(api.startRun(thread.thread_id, { assistant_id: workflow, input }));
  if (run) navigate(`/c/${thread.thread_id}`);
  return run !== undefined;
}

function Model() {
  const model = session.value?.model;
  // Graphs of a user's own have no examples, and models of their own.
  if (!model || session.value?.workflows.every((one) => one.examples.length === 0)) return null;
  if (!model.offline) {
    const name = <strong title={model.reason || undefined}>{model.name || model.provider}</strong>;
    return <p class="model-line"><span class="dot ok" aria-hidden="true" /><span>Answered by {name}</span></p>;
  }
  return (
    <p class="model-line">
      <span class="dot wait" aria-hidden="true" />
      <span>
        Answered by the <strong>offline model</strong>, a demonstration that knows the examples below and little else.
        Set a key such as OPENAI_API_KEY for a real one.
      </span>
    </p>
  );
}

function Card({ workflow, onExample }: { workflow: WorkflowInfo; onExample: (text: string) => void }) {
  return (
    <li class="start-card">
      <div class="start-title">
        <KindIcon of={workflow.name} size={32} />
        <div>
          <h3>{workflowTitle(workflow.name)}</h3>
          <p class="muted">{workflow.description}</p>
        </div>
      </div>
      <ul class="examples">
        {workflow.examples.slice(0, 2).map((text) => (
          <li key={text}>
            <button type="button" class="example" title={text} onClick={() => onExample(text)}>
              <span>{shorten(text, 110)}</span><Icon name="chevron" size={16} />
            </button>
          </li>
        ))}
      </ul>
    </li>
  );
}

export function Start() {
  const workflows = session.value?.workflows ?? [];
  const [workflow, choose] = useState(workflows[0]?.name ?? "");
  const [text, setText] = useState("");
  const [material, setMaterial] = useState<File>();
  const [busy, setBusy] = useState(false);
  const file = workflow === "fact_narration" ? material : undefined;
  const empty = !text.trim() && !file;
  const box = useRef<HTMLTextAreaElement>(null);
  const fields = useInputForm(workflow);
  const send = async (input: Fields) => {
    setBusy(true);
    if (!(await start(workflow, input, file))) setBusy(false);
  };
  const sendText = () => { if (!empty && !busy) void send(messageInput(text.trim(), file)); };
  const fill = (name: string, example: string) => {
    choose(name);
    setText(example);
    box.current?.focus();
  };
  return (
    <aside class="start" aria-labelledby="start">
      <div class="section-head"><h2 id="start">Start something</h2></div>
      <form class="start-form" onSubmit={(event) => { event.preventDefault(); sendText(); }}>
        {!fields && <label class="sr-only" for="start-text">What should be made?</label>}
        {!fields && <textarea id="start-text" ref={box} data-new rows={3} value={text} placeholder="What should be made?"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) sendText(); }} />}
        {workflow === "fact_narration" && (
          <label class="start-file"><span class="label">Material, a PDF or a text</span><input type="file" accept=".pdf,.txt" onChange={(event) => setMaterial(event.currentTarget.files?.[0])} /></label>
        )}
        <div class="start-bar">
          <label class="sr-only" for="start-workflow">Workflow</label>
          <select id="start-workflow" value={workflow} onChange={(event) => choose(event.currentTarget.value)}>
            {workflows.map((one) => <option key={one.name} value={one.name}>{workflowTitle(one.name)}</option>)}
          </select>
          {!fields && <button type="submit" class="button primary" disabled={busy || empty}>Start</button>}
        </div>
      </form>
      {fields && <SchemaForm key={workflow} schema={fields} submit="Start" busy={busy} onSubmit={send} />}
      <Model />
      <ul class="start-cards">
        {workflows.map((one) => <Card key={one.name} workflow={one} onExample={(example) => fill(one.name, example)} />)}
      </ul>
    </aside>
  );
}
