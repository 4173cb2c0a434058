// What both pages show of a conversation, what a person can do in it, and a record of all that was shown.
import { useEffect, useState } from "react";

export const chosen = Object.fromEntries(new URLSearchParams(location.search));
export const seen = (window.seen = { answers: [], ticks: [], places: [], lives: [], errors: [] });

/** Keep the thread in the address, so that a reload comes back to it. */
export function remembered(thread) {
  history.replaceState(null, "", `?${new URLSearchParams({ ...chosen, thread })}`);
  window.thread = thread;
}

/** Whoever says something. */
export function said(text) {
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
 * A conversation. `stream` is what the hook gave; what is done differently with each hook is given beside it:
 * `Edit` is a button that says the words instead of a message, `onChange` writes into the state.
 */
export function View({ stream, graphs = [], progress = [], Edit, onSay, onAnswer, onAgain, onChange }) {
  const [words, setWords] = useState("");
  const messages = stream.messages.map(({ id, type, content }) => ({ id, type, text: textOf(content) }));
  const last = messages.at(-1);
  window.client = stream.client;
  useRecord(seen.answers, last?.type === "ai" ? last.text : "");
  useRecord(seen.lives, stream.isLoading ? "running" : "idle");
  useRecord(seen.errors, stream.error ? String(stream.error.message ?? stream.error) : "");
  return (
    <main>
      <h1>
        {chosen.hook} with {chosen.graph}
      </h1>
      <ol>
        {messages.map((one) => (
          <li key={one.id}>
            <b>{one.type}:</b> <q>{one.text}</q> {one.type === "human" && <Edit message={one} words={words} />}
          </li>
        ))}
      </ol>
      {stream.interrupts.map((one) => (
        <form key={one.id}>
          <code>{JSON.stringify(one.value)}</code>{" "}
          <Button name="Approve" onPress={() => onAnswer(one, { decisions: [{ type: "approve" }] })} />
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
      <Listed name="tools" lines={stream.toolCalls.map(toldOf)} />
      <Listed name="progress" lines={progress.map((one) => `${one.name} ${one.state} ${one.result?.content}`)} />
      <Listed name="graphs" lines={graphs.map((one) => `${one.nodeName} ${one.status}`)} />
    </main>
  );
}

function Listed({ name, lines }) {
  return (
    <ul className={name}>
      {lines.map((line, place) => (
        <li key={place}>{line}</li>
      ))}
    </ul>
  );
}

function useRecord(kept, value) {
  useEffect(() => void (value && kept.push(value)), [kept, value]);
}

function textOf(content) {
  return typeof content === "string" ? content : content.map((block) => block.text ?? "").join("");
}

/** A call of a tool; the older hook puts it together from messages. */
function toldOf({ name, output, state, status, call, result }) {
  const told = output ?? result?.content;
  return [name ?? call.name, status ?? state, typeof told === "string" ? told : JSON.stringify(told)].join(" ");
}
