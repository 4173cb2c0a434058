// The conversation that both pages show, its controls, and a record of all that was shown.
import { useEffect, useState } from "react";

export const parameters = Object.fromEntries(new URLSearchParams(location.search));
export const record = (window.record = { answers: [], ticks: [], namespaces: [], statuses: [], errors: [] });

/** Store the thread in the address, so that a reload opens it again. */
export function rememberThread(thread) {
  history.replaceState(null, "", `?${new URLSearchParams({ ...parameters, thread })}`);
  window.thread = thread;
}

/** The input of a run with one message. */
export function humanMessage(text) {
  return { messages: [{ type: "human", content: text }] };
}

export function Button({ name, onPress }) {
  return (
    <button type="button" onClick={onPress}>
      {name}
    </button>
  );
}

/**
 * A conversation. `stream` is the return value of the hook; the other properties differ from hook to hook:
 * `Edit` is a button that sends the words instead of a message, `onChange` updates the state.
 */
export function View({ stream, graphs = [], progress = [], Edit, onSay, onAnswer, onAgain, onChange }) {
  const [words, setWords] = useState("");
  const messages = stream.messages.map(({ id, type, content }) => ({ id, type, text: textOf(content) }));
  const last = messages.at(-1);
  window.client = stream.client;
  useRecord(record.answers, last?.type === "ai" ? last.text : "");
  useRecord(record.statuses, stream.isLoading ? "running" : "idle");
  useRecord(record.errors, stream.error ? String(stream.error.message ?? stream.error) : "");
  return (
    <main>
      <h1>
        {parameters.hook} with {parameters.graph}
      </h1>
      <ol>
        {messages.map((message) => (
          <li key={message.id}>
            <b>{message.type}:</b> <q>{message.text}</q>{" "}
            {message.type === "human" && <Edit message={message} words={words} />}
          </li>
        ))}
      </ol>
      {stream.interrupts.map((interrupt) => (
        <form key={interrupt.id}>
          <code>{JSON.stringify(interrupt.value)}</code>{" "}
          <Button name="Approve" onPress={() => onAnswer(interrupt, { decisions: [{ type: "approve" }] })} />
        </form>
      ))}
      <p>
        <input aria-label="words" value={words} onChange={(event) => setWords(event.target.value)} />
        <Button name="Send" onPress={() => onSay(words)} />
        <Button name="Again" onPress={onAgain} />
        <Button name="Change" onPress={() => onChange(words)} />
        <Button name="Stop" onPress={() => stream.stop()} />
        <output>{stream.isLoading ? "running" : "idle"}</output>
      </p>
      <Lines name="tools" lines={stream.toolCalls.map(describeToolCall)} />
      <Lines name="progress" lines={progress.map((call) => `${call.name} ${call.state} ${call.result?.content}`)} />
      <Lines name="graphs" lines={graphs.map((graph) => `${graph.nodeName} ${graph.status}`)} />
    </main>
  );
}

function Lines({ name, lines }) {
  return (
    <ul className={name}>
      {lines.map((line, index) => (
        <li key={index}>{line}</li>
      ))}
    </ul>
  );
}

function useRecord(entries, value) {
  useEffect(() => void (value && entries.push(value)), [entries, value]);
}

function textOf(content) {
  return typeof content === "string" ? content : content.map((block) => block.text ?? "").join("");
}

/** Name, status and result of a tool call, which the older hook builds from messages. */
function describeToolCall({ name, output, state, status, call, result }) {
  const value = output ?? result?.content;
  return [name ?? call.name, status ?? state, typeof value === "string" ? value : JSON.stringify(value)].join(" ");
}
