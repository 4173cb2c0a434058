// The words of a part of an artefact, edited where they stand.
import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../format.ts";
import { asApiError, notify } from "../store.ts";
import type { Fields } from "../types.ts";
import { Failure } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";
import { spokenWords } from "./lesson_facts.ts";

/** What somebody types over the text of a version: it stays when a newer one comes, whose text is shown then. */
export function useTyped(text: string, version: string | null, onChanged: () => void) {
  const [typed, type] = useState(text);
  const [error, call] = useCall();
  // The text that was typed over; another one is not seen yet.
  const [base, setBase] = useState(text);
  const failed = useRef(version);
  useEffect(() => {
    if (typed !== base && typed !== text) return;
    type(text);
    setBase(text);
  }, [text]);
  const save = <T,>(saved: Promise<T>, take: (reply: T) => void) =>
    void call(saved.catch((failure) => { failed.current = version; if (asApiError(failure).status === 409) onChanged(); throw failure; }), take);
  const newest = (error?.details as Fields | null | undefined)?.newest;
  const isAwaited = newest && !(Number(newest.slice(1)) <= Number(version?.slice(1)));
  const isShown = newest || (text !== base && typed !== text);
  const problem = error && !newest && failed.current === version ? <Failure error={error} /> : isShown && (
    <div class="caution" role="alert">
      <p>{isAwaited ? `Reading ${newest}, which is newer.` : `${version} is the newest version now, and is shown beside your words. Save to put your words in it.`}</p>
      {!isAwaited && <p>“{text}”</p>}
    </div>
  );
  return { typed, type, save, problem };
}

export function WordsEditor({ label, text, version, onSave, onChanged, onClose }: {
  label: string; text: string; version: string | null; onSave: (text: string) => Promise<unknown>; onChanged: () => void; onClose: () => void;
}) {
  const { typed, type, save, problem } = useTyped(text, version, onChanged);
  const submit = (event: Event) => {
    event.preventDefault();
    if (typed === text) return onClose();
    save(onSave(typed), () => { onClose(); notify("Saved as a new version"); onChanged(); });
  };
  return (
    <form class="track-editor" onSubmit={submit} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <textarea aria-label={label} value={typed} rows={4} required autofocus onInput={(event) => type(event.currentTarget.value)} />
      <p class="help num">{count(spokenWords(typed), "word")}</p>
      {problem}
      <div class="actions end">
        <button type="button" class="button small quiet" onClick={onClose}>Cancel</button>
        <button type="submit" class="button small primary">Save as a new version</button>
      </div>
    </form>
  );
}
