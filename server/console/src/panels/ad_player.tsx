// The player of an ad: renders what is heard, plays all of it or one track, and says where something else is heard
// than what the ad describes.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path, post } from "../api.ts";
import { Checks } from "../ui/checks.tsx";
import { Failure } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";
import { Icon } from "../ui/icon.tsx";
import type { Timeline } from "./ad_timeline.tsx";

interface Rendering { url: string; seconds: number; leadSeconds: number; loudnessLufs: number | null; truePeakDbtp: number | null; notices: string[]; timeline: Timeline }

/** The parts that can be heard alone, with their names; the first is the whole ad. */
export function audibleParts(timeline: Timeline): [value: string, name: string][] {
  const parts: [string, string][] = [["", "Everything"]];
  timeline.voices.forEach((one, i) => parts.push([one.id ?? `track-${i}`, `Voice ${i + 1}`]));
  if (timeline.music) parts.push(["music", "Music"]);
  if (timeline.sfx.length) parts.push(["sfx", "Sound effects"]);
  return parts;
}

/** The second of the timeline that is heard at a second of the file, which begins with silence. */
export function playhead(current: number, lead: number, timeline: Timeline): number {
  const end = Math.max(timeline.durationSeconds, timeline.music?.end ?? 0);
  return Math.min(Math.max(0, current - lead), end);
}

/** Versions as the end of a query. */
export const queryOf = (versions: [stream: string, version: string][]) => versions.map(([stream, version]) => path`&${stream}=${version}`).join("");

const PROFILES: [value: string, name: string][] = [["spotify", "Spotify"], ["ebu-r128", "EBU R 128"], ["atsc-a85", "ATSC A/85"], ["podcast", "Podcast"], ["plain", "Plain"]];

/** `versions` are rendered in place of the newest ones. */
export function AdPlayer({ ad, timeline, versions, onRendered, onTime, children }: {
  ad: string; timeline: Timeline; versions: [stream: string, version: string][]; onRendered: (measured: Timeline, profile: string) => void; onTime: (second: number | null) => void; children: ComponentChildren;
}) {
  const [part, setPart] = useState("");
  const [profile, setProfile] = useState("spotify");
  const [rendering, setRendering] = useState<Rendering | null>(null);
  const [error, call, busy] = useCall();
  const audio = useRef<HTMLAudioElement>(null);
  const listen = (track: string, place: string) => {
    setPart(track);
    setProfile(place);
    onTime(null);
    const rendered = post<Rendering>(path`/api/ads/${ad}/render`, { profile: place, ...Object.fromEntries(versions), ...(track ? { track } : {}) });
    void call(rendered.catch((failure) => { setRendering(null); throw failure; }), (reply) => { setRendering(reply); onRendered(reply.timeline, place); });
  };
  useEffect(() => {
    if (!rendering) return undefined;
    let frame = 0;
    const follow = () => {
      const player = audio.current;
      if (player && !player.paused) onTime(playhead(player.currentTime, rendering.leadSeconds, rendering.timeline));
      frame = requestAnimationFrame(follow);
    };
    frame = requestAnimationFrame(follow);
    return () => cancelAnimationFrame(frame);
  }, [rendering]);
  const show = () => rendering && audio.current && onTime(playhead(audio.current.currentTime, rendering.leadSeconds, rendering.timeline));
  return (
    <section class="part ad-player" aria-label="Listen" aria-busy={busy}>
      <div class="ad-player-row">
        <button type="button" class="button primary" disabled={busy} onClick={() => listen(part, profile)}>
          <Icon name="play" size={16} />{busy ? "Rendering …" : rendering ? "Render again" : "Listen"}
        </button>
        <label class="ad-player-part">
          <span class="muted">Hear</span>
          <select value={part} disabled={busy} onChange={(event) => listen(event.currentTarget.value, profile)}>
            {audibleParts(timeline).map(([value, name]) => <option key={value} value={value}>{name}</option>)}
          </select>
        </label>
        <label class="ad-player-part">
          <span class="muted">for</span>
          <select value={profile} disabled={busy} onChange={(event) => listen(part, event.currentTarget.value)}>
            {PROFILES.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
          </select>
        </label>
        {children}
        {rendering?.loudnessLufs != null && <span class="num muted end">{rendering.loudnessLufs.toFixed(1)} LUFS · {rendering.truePeakDbtp?.toFixed(1)} dBTP</span>}
      </div>
      {error && <Failure error={error} />}
      {rendering && (
        <>
          <audio ref={audio} controls autoplay preload="auto" src={rendering.url} onTimeUpdate={show} onSeeked={show}
            onError={() => setRendering(null)} />
          {rendering.notices.length > 0 && <ul class="ad-notices" aria-label="What is heard">{rendering.notices.map((one) => <li key={one}>{one}</li>)}</ul>}
          {!part && <Checks of={PROFILES.find(([value]) => value === profile)?.[1] ?? profile} when={[rendering.url, profile]} read={() => get(path`/api/ads/${ad}/preflight?profile=${profile}` + queryOf(versions))} />}
        </>
      )}
    </section>
  );
}
