// An ad: its timeline to scale, its script by voice, music and effects with locks, the mixer, and the brief.
import { useState } from "preact/hooks";
import { api, get, path, post, request } from "../api.ts";
import { count, seconds, words } from "../format.ts";
import { location, setQuery } from "../router.ts";
import { act, mayWrite } from "../store.ts";
import type { Fields, StreamHead, Version } from "../types.ts";
import "../styles/ad.css";
import { Icon } from "../ui/icon.tsx";
import { Failure, Fold, Loading } from "../ui/states.tsx";
import { useRead } from "../ui/use_read.ts";
import { AdTimeline, type Timeline } from "./ad_timeline.tsx";
import { AdPlayer, queryOf } from "./ad_player.tsx";
import type { Mixer } from "./ad_mixer.tsx";
import { MakeOf } from "./make_of.tsx";
import type { Rendered } from "./compare.tsx";
import { later } from "../ui/later.tsx";
import { TakeWithYou } from "./take_with_you.tsx";
import type { PanelEntry, PanelProps } from "./panel.ts";
import { keptWords } from "./version_words.ts";
import { WordsEditor } from "./words_editor.tsx";

interface Voice { id: string; name: string; provider: string; language: string; gender: string | null; accent: string | null; style: string | null }
interface Track { id: string; voiceId: string; text: string; speed: number }
interface AdStream extends Omit<StreamHead, "newest" | "active"> { newest: Version | null; active: Version | null }
interface Ad {
  adId: string; spotSeconds: number | null; language: string | null; market: string | null; brief: Record<string, string | number> | null;
  streams: Record<string, AdStream>; timeline: Timeline; mixer: Mixer; locks: { stream: string }[];
}

const STREAMS = ["voices", "music", "sfx"];
const NAMES: Record<string, string> = { voices: "Voices", music: "Music", sfx: "Sound effects" };
const Compare = later(() => import("./compare.tsx").then((one) => one.Compare));
const AdMixer = later(() => import("./ad_mixer.tsx").then((one) => one.AdMixer));
const Pronunciations = later(() => import("./pronunciations.tsx").then((one) => one.Pronunciations));
/** What is known of voices by id; a null is a voice that nobody knows any more. */
const voices = new Map<string, Promise<Voice | null>>();

function readVoice(id: string): Promise<Voice | null> {
  const known = voices.get(id) ?? get<Voice>(path`/api/voices/${id}`).catch(() => { voices.delete(id); return null; });
  voices.set(id, known);
  return known;
}

function VoiceName({ id }: { id: string }) {
  const [voice] = useRead(() => readVoice(id), [id]);
  if (!voice) return <span class="voice-name" title={id}>{id.split("/").pop()}</span>;
  const about = [voice.gender, voice.accent ?? voice.language, voice.style].filter(Boolean).join(" · ");
  return <span class="voice-name" title={id}>{voice.name} <span class="muted">{about}</span></span>;
}

function StreamHeader({ props, ad, stream, title }: { props: PanelProps; ad: Ad; stream: string; title: string }) {
  const head = ad.streams[stream];
  const locked = ad.locks.some((one) => one.stream === stream);
  const newest = head?.newest;
  return (
    <header class="part-head">
      <h3>{title}</h3>
      {newest && (
        <button type="button" class="tag link" onClick={() => setQuery({ tab: "versions", stream })} title={newest.request}>
          {keptWords(newest.id, head.count)}
        </button>
      )}
      {head?.active && <span class="pill ok"><span class="dot" aria-hidden="true" />{head.active.id === newest?.id ? "Active" : `${head.active.id} is active`}</span>}
      {newest && head?.active?.id !== newest.id && mayWrite.value && <button type="button" class="button small" onClick={() => act(post(path`/api/ads/${ad.adId}/${stream}/${newest.id}/activate`), `${title} ${newest.id} is active`, props.changed)}>Activate</button>}
      <button type="button" class="icon-button end" disabled={!mayWrite.value} aria-pressed={locked} aria-label={locked ? `Unlock ${title.toLowerCase()}` : `Lock ${title.toLowerCase()}`}
        title={locked ? "Locked: nobody changes it" : "Lock against every change"}
        onClick={() => act(request(locked ? "DELETE" : "PUT", path`/api/ads/${ad.adId}/locks/${stream}`), `${title} ${locked ? "can be changed again" : "stays as it is"}`, props.changed)}>
        <Icon name={locked ? "lock" : "unlock"} size={18} />
      </button>
    </header>
  );
}

function Script({ props, ad }: { props: PanelProps; ad: Ad }) {
  const [edited, edit] = useState<Track | null>(null);
  const newest = ad.streams.voices?.newest;
  const newestTracks = (newest?.data?.voiceTracks ?? []) as Track[];
  // One that a newer version does not have stays while its words are edited.
  const tracks = edited && !newestTracks.some((one) => one.id === edited.id) ? [...newestTracks, edited] : newestTracks;
  const times = new Map(ad.timeline.voices.map((one) => [one.id, one]));
  const locked = ad.locks.some((one) => one.stream === "voices");
  return (
    <ol class="script">
      {tracks.map((track, i) => {
        const time = times.get(track.id);
        const late = (time?.end ?? 0) > ad.timeline.spotSeconds;
        return (
          <li key={track.id} class={late ? "track late" : "track"}>
            <div class="track-head">
              <VoiceName id={track.voiceId} />
              {time && <span class="num muted">{time.start.toFixed(1)}–{time.end.toFixed(1)} s{late && " · past the end"}</span>}
            </div>
            {edited?.id === track.id && newest
              ? <WordsEditor label="Words of this voice" text={track.text} version={newest.id} onChanged={props.changed} onClose={() => edit(null)} onSave={(text) =>
                request("PATCH", path`/api/ads/${ad.adId}/voices/tracks/${track.id}`, { text, version: newest.id })} />
              : (
                <div class="track-line">
                  <p>{track.text}</p>
                  {!locked && !props.busy && mayWrite.value && (
                    <button type="button" class="icon-button" aria-label={`Edit the words of voice ${i + 1}`} onClick={() => edit(track)}><Icon name="edit" size={16} /></button>
                  )}
                </div>
              )}
          </li>
        );
      })}
    </ol>
  );
}

function fitOf(timeline: Timeline): [tone: string, text: string] {
  const filled = Math.round((100 * timeline.durationSeconds) / timeline.spotSeconds);
  if (!timeline.fits) return ["bad", `${seconds(timeline.overSeconds)} too long, with the silence at both ends`];
  return [filled < 60 ? "wait" : "ok", `${seconds(timeline.durationSeconds)} of ${seconds(timeline.spotSeconds)}, ${filled} % filled`];
}

/** Versions of voices, music or effects by ear; the ad's other parts are the newest. */
function CompareAd({ ad }: { ad: Ad }) {
  const several = STREAMS.filter((one) => (ad.streams[one]?.count ?? 0) > 1);
  const [parts] = useRead(() => Promise.all(several.map(async (one): Promise<[string, string, string[]]> =>
    [one, NAMES[one] ?? one, (await api.versions("ad", ad.adId, one)).versions.map((version) => version.id)])), [several.map((one) => ad.streams[one]?.count).join()]);
  if (!parts) return <Loading rows={1} />;
  return <Compare parts={parts} render={(part, version) => post<Rendered>(path`/api/ads/${ad.adId}/render`, { [part]: version })} />;
}

/** The hand-off of a rendered ad; VAST names the address at which its sound will be served. */
function HandOff({ ad, profile, versions: chosen, of }: { ad: string; profile: string; versions: [string, string][]; of: string }) {
  const [address, setAddress] = useState("");
  const versions = queryOf(chosen);
  const render = () => post(path`/api/ads/${ad}/render`, { profile, ...Object.fromEntries(chosen) });
  const vast = /^https?:\/\/./.test(address) ? path`&mediaUrl=${address}` : "";
  return (
    <TakeWithYou files={[
      [`Hand-off${of}`, path`/api/ads/${ad}/handoff?profile=${profile}` + versions + vast, `ZIP: script, cue sheet, checks and sound${vast && ", VAST"}`, render],
      [`Sound${of}`, path`/api/ads/${ad}/audio?profile=${profile}` + versions, "MP3", render],
    ]}>
      <label class="field"><span class="label">Address of the sound, for VAST<span class="optional"> optional</span></span>
        <input type="url" value={address} placeholder="https://" onInput={(event) => setAddress(event.currentTarget.value)} />
      </label>
    </TakeWithYou>
  );
}

function AdView(props: PanelProps) {
  const [profile, setProfile] = useState("spotify");
  const [second, setSecond] = useState<number | null>(null);
  const [ofActive, chooseActive] = useState(false);
  const [ad, error, setAd] = useRead(() => get<Ad>(path`/api/ads/${props.id}`), [props.id, props.revision]);
  if (!ad) return error ? <Failure error={error} /> : <Loading label="Reading the ad" />;
  const [tone, fit] = fitOf(ad.timeline);
  const music = ad.streams.music?.newest?.data as Fields | undefined;
  const effects = (ad.streams.sfx?.newest?.data?.soundFxPrompts ?? []) as Fields[];
  const brief = Object.entries(ad.brief ?? {}).filter(([, value]) => value !== "" && value !== null);
  const waiting = STREAMS.filter((one) => ad.streams[one]?.newest && ad.streams[one].active?.id !== ad.streams[one].newest?.id);
  // Streams of which another version than the newest is active: the newest is heard and handed off, unless the active is chosen.
  const other = STREAMS.flatMap((one): [string, Version, Version][] => {
    const { active, newest } = ad.streams[one] ?? {};
    return active && newest && active.id !== newest.id ? [[one, newest, active]] : [];
  });
  const wordsOf = (active: boolean) => other.map(([one, newest, kept]) => `${NAMES[one]?.toLowerCase()} ${active ? kept.id : newest.id}`).join(", ");
  const versions = ofActive ? other.map(([one, , active]): [string, string] => [one, active.id]) : [];
  const activateAll = async () => {
    for (const one of waiting) await post(path`/api/ads/${ad.adId}/${one}/${ad.streams[one]?.newest?.id ?? ""}/activate`);
  };
  return (
    <div class="ad">
      {error && <Failure error={error} />}
      <div class="ad-summary">
        <span class={`pill ${tone}`}><span class="dot" aria-hidden="true" />{fit}</span>
        <span class="tag">{ad.timeline.timing === "measured" ? "times measured" : "times estimated"}</span>
        {ad.language && <span class="tag">{words(ad.language)}</span>}
        {ad.market && <span class="tag">{ad.market}</span>}
        {ad.streams.voices?.newest && <MakeOf label="Make a page of this" url="/api/pages" body={{ adId: ad.adId, version: versions.find(([one]) => one === "voices")?.[1] ?? null }} />}
        {waiting.length > 1 && mayWrite.value && <button type="button" class="button small end" onClick={() => act(activateAll(), "All newest versions are active", props.changed)}>Activate all {waiting.length}</button>}
      </div>
      <AdPlayer key={`${props.id} ${STREAMS.map((one) => ad.streams[one]?.newest?.id).join(" ")} ${versions.join()}`} ad={ad.adId} timeline={ad.timeline} versions={versions}
        onRendered={(timeline, place) => { setProfile(place); if (!ofActive) setAd({ ...ad, timeline }); }} onTime={setSecond}>
        {other.length > 0 && <label class="ad-player-part"><span class="muted">of</span>
          <select value={String(ofActive)} onChange={(event) => chooseActive(event.currentTarget.value === "true")}>
            <option value="false">the newest: {wordsOf(false)}</option><option value="true">the active: {wordsOf(true)}</option>
          </select>
        </label>}
      </AdPlayer>
      <AdTimeline timeline={ad.timeline} second={second} />
      <section class="part"><StreamHeader props={props} ad={ad} stream="voices" title="Voices" /><Script props={props} ad={ad} /></section>
      <section class="part">
        <StreamHeader props={props} ad={ad} stream="music" title="Music" />
        {music ? <p>{music.musicPrompt}</p> : <p class="muted">No music.</p>}
      </section>
      <section class="part">
        <StreamHeader props={props} ad={ad} stream="sfx" title="Sound effects" />
        {effects.length === 0 ? <p class="muted">No sound effects.</p> : (
          <ul class="effects">
            {effects.map((one, i) => <li key={i}><span>{one.description}</span><span class="num muted">{ad.timeline.sfx[i] ? `at ${ad.timeline.sfx[i].start.toFixed(1)} s` : ""} {one.duration ? `· ${seconds(one.duration)} long` : ""}</span></li>)}
          </ul>
        )}
      </section>
      <details class="part fold" open={location.value.query.has("mixer")}><summary>Mixer</summary><AdMixer ad={ad.adId} mixer={ad.mixer} onChanged={props.changed} /></details>
      {STREAMS.some((one) => (ad.streams[one]?.count ?? 0) > 1) && mayWrite.value && <Fold title="Compare by ear"><CompareAd ad={ad} /></Fold>}
      <Fold title="Pronunciations"><Pronunciations ad={ad.adId} /></Fold>
      {ad.streams.voices?.newest && <HandOff ad={ad.adId} profile={profile} versions={versions} of={other.length > 0 ? ` of ${wordsOf(ofActive)}` : ""} />}
      {brief.length > 0 && <details class="part fold"><summary>Brief, {count(brief.length, "entry", "entries")}</summary>
        <dl class="value">{brief.map(([name, value]) => <div key={name}><dt>{words(name)}</dt><dd class="value-text">{String(value)}</dd></div>)}</dl>
      </details>}
    </div>
  );
}

export const adPanel: PanelEntry | null = { title: "Ad", view: AdView };
