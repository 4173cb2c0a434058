// The words of a part of an artefact, edited where they stand.
import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../format.ts";
import { asApiError, notify } from "../store.ts";
import type { Fields } from "../types.ts";
import { Failure } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";
import { spokenWords } from "./lesson_facts.ts";

/** What somebody types over the text of a version: it stays when a newer one comes, which a save that meets one reads. */
export function useTyped(text: string, version: string | null, onChanged: () => void) {
  const [typed, type] = useState(text);
  const [error, call] = useCall();
  const [known, failed] = [useRef(text), useRef(version)];
  useEffect(() => {
    const before = known.current;
    known.current = text;
    type((words) => (words === before ? text : words));
  }, [text]);
  const save = <T,>(saved: Promise<T>, take: (reply: T) => void) =>
    void call(saved.catch((failure) => { failed.current = version; if (asApiError(failure).status === 409) onChanged(); throw failure; }), take);
  const newest = (error?.details as Fields | null | undefined)?.newest;
  const isRead = newest && Number(newest.slice(1)) <= Number(version?.slice(1));
  const problem = !error ? null : !newest ? failed.current === version && <Failure error={error} /> : (
    <div class="caution" role="alert">
      <p>{isRead ? `${version} is the newest version now, and is shown beside your words. Save again to put your words in it.` : `Reading ${newest}, which is newer.`}</p>
      {isRead && <p>“{text}”</p>}
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
      <textarea aria-label={label} value={typed} rows={4} autofocus onInput={(event) => type(event.currentTarget.value)} />
      <p class="help num">{count(spokenWords(typed), "word")}</p>
      {problem}
      <div class="actions end">
        <button type="button" class="button small quiet" onClick={onClose}>Cancel</button>
        <button type="submit" class="button small primary">Save as a new version</button>
      </div>
    </form>
  );
}
