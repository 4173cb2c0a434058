// How names are spoken: the ad's own words for them, and those of everything of the owner's.
import { useState } from "preact/hooks";
import { get, path, request } from "../api.ts";
import { mayWrite } from "../store.ts";
import { IconButton } from "../ui/icon_button.tsx";
import { Failure, Loading } from "../ui/states.tsx";
import { useCall, useRead } from "../ui/use_read.ts";

type Names = Record<string, string>;
interface AdNames { names: Names; ownerNames: Names }

export function Pronunciations({ ad }: { ad: string }) {
  const [reads, again] = useState(0);
  const [name, setName] = useState("");
  const [words, setWords] = useState("");
  const [everywhere, setEverywhere] = useState(false);
  const [error, call, busy] = useCall();
  const own = path`/api/ads/${ad}/pronunciations`;
  const [known, failure] = useRead(() => get<AdNames>(own), [ad, reads]);
  if (failure) return <Failure error={failure} />;
  if (!known) return <Loading rows={1} />;
  const put = (all: boolean, names: Names, stored = () => {}) => void call(request("PUT", all ? "/api/pronunciations" : own, { names }), () => { again(reads + 1); stored(); });
  const lists: [all: boolean, place: string, names: Names][] = [[false, "in this ad", known.names], [true, "everywhere", known.ownerNames]];
  const add = (event: Event) => {
    event.preventDefault();
    put(everywhere, { ...(everywhere ? known.ownerNames : known.names), [name.trim()]: words.trim() }, () => { setName(""); setWords(""); });
  };
  return (
    <div class="names">
      <ul>
        {lists.flatMap(([all, place, names]) => Object.entries(names).map(([one, spoken]) => {
          const { [one]: _gone, ...others } = names;
          const hidden = all && one in known.names;
          return (
            <li key={`${place} ${one}`}>
              <span><strong>{one}</strong> is spoken “{spoken}” <span class="muted">{place}{hidden && ", other than in this ad"}</span></span>
              {mayWrite.value && <IconButton icon="trash" label={`Speak ${one} as it is written ${place}`} disabled={busy} onClick={() => put(all, others)} />}
            </li>
          );
        }))}
      </ul>
      {error && <Failure error={error} />}
      {mayWrite.value && (
        <form class="ad-player-row" onSubmit={add}>
          <input aria-label="Name as it is written" placeholder="Miel" required value={name} onInput={(event) => setName(event.currentTarget.value)} />
          <input aria-label="How it is spoken" placeholder="mee-ell" required value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          <label class="check"><input type="checkbox" checked={everywhere} onChange={(event) => setEverywhere(event.currentTarget.checked)} /><span>everywhere</span></label>
          <button type="submit" class="button small" disabled={busy}>Add</button>
        </form>
      )}
    </div>
  );
}
