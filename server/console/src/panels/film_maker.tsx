// Makes a film of a video in the browser: what is heard in it is chosen here, and the encoder loaded when it is wanted.
import { useEffect, useMemo, useState } from "preact/hooks";
import { attempt, mayWrite } from "../store.ts";
import { Icon } from "../ui/icon.tsx";
import { captions, type SpokenText } from "./captions.ts";

/** Moods of the server's library of beds. */
const BEDS = ["calm", "tender", "happy", "nostalgic", "energetic"];

function CaptionsLink({ title, words }: { title: string; words: SpokenText[] }) {
  const url = useMemo(() => URL.createObjectURL(new Blob([captions(words)], { type: "application/x-subrip" })), [words]);
  useEffect(() => () => URL.revokeObjectURL(url), [url]);
  return <a class="button" href={url} download={`${title}.srt`}><Icon name="down" size={16} />Captions</a>;
}

export function FilmMaker({ project, title, narrated, empty }: { project: string; title: string; narrated: boolean; empty: boolean }) {
  const [speaks, speak] = useState(true);
  const [music, setMusic] = useState("");
  const [part, setPart] = useState<number | null>(null);
  const [notices, note] = useState<string[]>([]);
  const [words, onWords] = useState<SpokenText[]>([]);
  const make = async () => {
    setPart(0);
    onWords([]);
    const narration = narrated && speaks && mayWrite.value;
    const sound = narration || music ? { narration, music, onWords } : null;
    note((await attempt(import("../../film/film.ts").then(({ saveFilm }) => saveFilm(project, sound, setPart)))) ?? []);
    setPart(null);
  };
  return (
    <section class="part" aria-labelledby="film" aria-busy={part !== null}>
      <h3 id="film">Film</h3>
      <div class="ad-player-row">
        <button type="button" class="button" disabled={part !== null || empty} title="A film of 1280 × 720, made in this browser" onClick={() => void make()}>
          <Icon name="film" size={16} />{part === null ? "Save as WebM" : `${Math.round(100 * part)} %`}
        </button>
        {part === null && words.length > 0 && <CaptionsLink title={title} words={words} />}
        {mayWrite.value && <>
          {narrated && <label class="check"><input type="checkbox" checked={speaks} onChange={(event) => speak(event.currentTarget.checked)} /><span>Narration</span></label>}
          <label class="ad-player-part">
            <span class="muted">Music</span>
            <select value={music} onChange={(event) => setMusic(event.currentTarget.value)}>
              <option value="">none</option>
              {BEDS.map((one) => <option key={one} value={one}>{one}</option>)}
            </select>
          </label>
        </>}
      </div>
      {notices.length > 0 && <ul class="ad-notices" aria-label="What is heard">{notices.map((one) => <li key={one}>{one}</li>)}</ul>}
    </section>
  );
}
