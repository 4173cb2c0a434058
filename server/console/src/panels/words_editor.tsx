// The words of a part of an artefact, edited where they stand.
import { useState } from "preact/hooks";
import { count } from "../format.ts";
import { notify } from "../store.ts";
import { Failure } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";
import { spokenWords } from "./lesson_facts.ts";

/** An error is about the words of `version`, and goes with it. */
export function WordsEditor({ label, text, version, onSave, onChanged, onClose }: {
  label: string; text: string; version?: string | null; onSave: (text: string) => Promise<unknown>; onChanged: () => void; onClose: () => void;
}) {
  const [typed, type] = useState(text);
  const [error, call] = useCall([version]);
  const save = (event: Event) => {
    event.preventDefault();
    if (typed === text) return onClose();
    void call(onSave(typed), () => { onClose(); notify("Saved as a new version"); onChanged(); });
  };
  return (
    <form class="track-editor" onSubmit={save} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <textarea aria-label={label} value={typed} rows={4} autofocus onInput={(event) => type(event.currentTarget.value)} />
      <p class="help num">{count(spokenWords(typed), "word")}</p>
      {error && <Failure error={error} />}
      <div class="actions end">
        <button type="button" class="button small quiet" onClick={onClose}>Cancel</button>
        <button type="submit" class="button small primary">Save as a new version</button>
      </div>
    </form>
  );
}
