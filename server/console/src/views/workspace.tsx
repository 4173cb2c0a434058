// A thread: the conversation on the left, what is made on the right; one above the other where it is narrow.
import { useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api.ts";
import { count } from "../format.ts";
import { takesWords } from "../interrupts.ts";
import { plansSteps } from "../panels/index.ts";
import { Pane } from "../panels/pane.tsx";
import { location, setQuery } from "../router.ts";
import { act, mayWrite, pageTitle, workflowTitle } from "../store.ts";
import { ThreadModel } from "../thread.ts";
import { Confirm } from "../ui/dialog.tsx";
import { Icon, KindIcon } from "../ui/icon.tsx";
import { IconButton } from "../ui/icon_button.tsx";
import { Status } from "../ui/states.tsx";
import { Conversation } from "./conversation.tsx";
import { Inputs, StopButton, useInputForm } from "./inputs.tsx";

function Composer({ thread }: { thread: ThreadModel }) {
  const [text, setText] = useState("");
  const [first, setFirst] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const busy = thread.busy.value;
  const waits = busy ? undefined : thread.interrupts.value[0];
  const inWords = waits && takesWords(waits.value);
  const send = async () => {
    const words = (box.current?.value ?? text).trim(); // a key may come before the drawing of what was typed
    if (!words || busy) return;
    setText("");
    if (!(await thread.send(words, first ? { approve_plan: true } : {}))) setText(words);
  };
  useEffect(() => {
    const area = box.current;
    if (!area) return;
    area.style.height = "auto";
    if (area.scrollHeight > 0) area.style.height = `${Math.min(area.scrollHeight, 240)}px`; // none while the other pane is shown
  }, [text]);
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); void send(); }}>
      <label class="sr-only" for="composer">Message</label>
      <textarea id="composer" ref={box} data-message rows={1} value={text}
        placeholder={inWords ? "Answer in words, or use the form above" : waits ? "A message replaces the question above" : busy ? "You can write the next request" : thread.workflow.value === "campaign_search" ? "Ask another question" : "What should change?"}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }} />
      <div class="composer-bar">
        {plansSteps(thread.workflow.value) ? (
          <label class="check small">
            <input type="checkbox" checked={first} onChange={(event) => setFirst(event.currentTarget.checked)} />
            <span>Show me the plan first</span>
          </label>
        ) : <span />}
        {busy ? <StopButton thread={thread} />
          : <button type="submit" class="button primary" aria-label="Send" disabled={!text.trim()}><Icon name="send" size={18} /></button>}
      </div>
    </form>
  );
}

function Head({ thread }: { thread: ThreadModel }) {
  const workflow = thread.workflow.value;
  const status = thread.busy.value ? "busy" : thread.interrupts.value.length > 0 ? "interrupted" : thread.failure.value ? "error" : "";
  const [renaming, rename] = useState(false);
  const save = (event: Event) => {
    event.preventDefault();
    rename(false);
    const title = String(new FormData(event.currentTarget as HTMLFormElement).get("title")).trim();
    if (title !== thread.title.value) void act(api.rename(thread.id, title), "The title has changed", () => void thread.load());
  };
  return (
    <header class="work-head">
      <KindIcon of={workflow} size={32} />
      <div class="work-title">
        {renaming
          ? <form onSubmit={save} onKeyDown={(event) => event.key === "Escape" && rename(false)}><input name="title" aria-label="Title" autofocus value={thread.title.value} /></form>
          : <h1>{thread.title.value || workflowTitle(workflow) || "Conversation"}</h1>}
        <p class="meta"><span>{workflowTitle(workflow)}</span></p>
      </div>
      <span aria-live="polite">{status && <Status of={status} />}</span>
      {mayWrite.value && !renaming && <IconButton icon="edit" label="Change the title" onClick={() => rename(true)} />}
      <a class="button small quiet" href={`/inspect/${encodeURIComponent(thread.id)}`}><Icon name="bug" size={16} />Inspect</a>
    </header>
  );
}

export function Workspace({ thread: id }: { thread: string }) {
  const thread = useMemo(() => new ThreadModel(id), [id]);
  useEffect(() => {
    thread.open();
    return () => { thread.dispose(); pageTitle.value = ""; };
  }, [thread]);
  useSignalEffect(() => { pageTitle.value = thread.title.value; });
  const { query } = location.value;
  const asking = thread.asking.value;
  const fields = useInputForm(thread.workflow.value);
  const lost = thread.error.value !== null && thread.error.value.status !== 0 && thread.items.value.length === 0;
  const shown = query.get("pane") === "artefact" || (query.has("stream") && query.get("pane") !== "talk") ? "artefact" : "talk";
  return (
    <div class="workspace" data-shown={shown}>
      <Head thread={thread} />
      <div class="segmented pane-switch" role="group" aria-label="What to show">
        <button type="button" aria-pressed={shown === "talk"} onClick={() => setQuery({ pane: "talk" })}>Conversation</button>
        <button type="button" aria-pressed={shown === "artefact"} onClick={() => setQuery({ pane: "artefact" })}>What is made</button>
      </div>
      <div class="talk">
        <Conversation thread={thread} />
        {thread.branch.value && (
          <p class="branch-note">
            <span>You are looking at an earlier branch. What you send continues from here; versions that were made stay.</span>
            <button type="button" class="button small" onClick={() => thread.showFrom("")}>Show the newest</button>
          </p>
        )}
        {lost ? null : mayWrite.value ? fields ? <Inputs thread={thread} schema={fields} /> : <Composer thread={thread} /> : <p class="read-only">Your key may read this conversation, not write in it.</p>}
      </div>
      {asking && <Confirm title="End the plan?" lost={`This ends the plan: ${count(asking.steps, "step")} left. Resume it or answer it first to have them done.`}
        action="Send" onConfirm={() => asking.decide(true)} onClose={() => asking.decide(false)} />}
      {lost ? <section class="pane" aria-label="What is made" /> : <Pane thread={thread} />}
    </div>
  );
}
