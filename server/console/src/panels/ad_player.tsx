// The player of an ad: renders what is heard, plays all of it or one track, and says where something else is heard
// than what the ad describes.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path, post } from "../api.ts";
import { Failure } from "../ui/states.tsx";
import { useCall, useRead } from "../ui/use_read.ts";
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

interface Check { rule: string; measured: string; limit: string; verdict: "pass" | "warn" | "fail"; remedy: string }
interface Preflight { title: string; source: string; verdict: string; checks: Check[] }

const PROFILES: [value: string, name: string][] = [["spotify", "Spotify"], ["ebu-r128", "EBU R 128"], ["atsc-a85", "ATSC A/85"], ["podcast", "Podcast"], ["plain", "Plain"]];

/** The rendered file beside the rules of the place where it is delivered. */
function PreflightView({ ad, profile }: { ad: string; profile: string }) {
  const [report, error] = useRead(() => get<Preflight>(path`/api/ads/${ad}/preflight?profile=${profile}`), [ad, profile]);
  if (error) return <Failure error={error} />;
  if (!report) return null;
  const failures = report.checks.filter((one) => one.verdict === "fail").length;
  const tone = failures > 0 ? "bad" : report.verdict === "warn" ? "wait" : "ok";
  return (
    <details class="fold">
      <summary><span class={`pill ${tone}`}><span class="dot" aria-hidden="true" />{failures > 0 ? `${failures} of ${report.checks.length} rules of ${report.title} not met` : `Rules of ${report.title} met`}</span></summary>
      <table class="preflight">
        <caption class="sr-only">{report.title}: {report.source}</caption>
        <thead><tr><th>Rule</th><th>Measured</th><th>Limit</th><th>Verdict</th></tr></thead>
        <tbody>
          {report.checks.map((one) => (
            <tr key={one.rule} class={one.verdict}><td>{one.rule}</td><td>{one.measured}</td><td>{one.limit}</td><td>{one.verdict}{one.remedy && <span class="help"> {one.remedy}</span>}</td></tr>
          ))}
        </tbody>
      </table>
      <p class="help">{report.source}</p>
    </details>
  );
}

export function AdPlayer({ ad, timeline, onRendered, onTime }: {
  ad: string; timeline: Timeline; onRendered: (measured: Timeline) => void; onTime: (second: number | null) => void;
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
    const rendered = post<Rendering>(path`/api/ads/${ad}/render`, { profile: place, ...(track ? { track } : {}) });
    void call(rendered.catch((failure) => { setRendering(null); throw failure; }), (reply) => { setRendering(reply); onRendered(reply.timeline); });
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
        {rendering?.loudnessLufs != null && <span class="num muted end">{rendering.loudnessLufs.toFixed(1)} LUFS · {rendering.truePeakDbtp?.toFixed(1)} dBTP</span>}
      </div>
      {error && <Failure error={error} />}
      {rendering && (
        <>
          <audio ref={audio} controls autoplay preload="auto" src={rendering.url} onTimeUpdate={show} onSeeked={show}
            onError={() => setRendering(null)} />
          {rendering.notices.length > 0 && <ul class="ad-notices" role="note">{rendering.notices.map((one) => <li key={one}>{one}</li>)}</ul>}
          {!part && <PreflightView key={`${rendering.url}${profile}`} ad={ad} profile={profile} />}
          <a class="link" href={rendering.url} download={`${ad}.mp3`}>Save the file</a>
        </>
      )}
    </section>
  );
}
