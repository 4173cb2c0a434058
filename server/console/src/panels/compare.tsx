// Two versions compared by ear: rendered by the server, played at equal loudness with one play head.
import { useEffect, useState } from "preact/hooks";
import { send } from "../api.ts";
import { equalGains, Pair } from "../pair.ts";
import { Icon } from "../ui/icon.tsx";
import { Failure } from "../ui/states.tsx";
import { useCall } from "../ui/use_read.ts";

export interface Rendered { url: string; loudnessLufs: number | null; notices: string[] }
/** What has versions to compare: its value and name, and its versions, oldest first. */
export type Comparable = [value: string, name: string, versions: string[]];

async function readPair(rendered: Rendered[]): Promise<Pair> {
  const context = new AudioContext();
  const sounds = await Promise.all(rendered.map(async ({ url }) => context.decodeAudioData(await (await send("GET", url)).arrayBuffer())));
  return new Pair(context, sounds, equalGains(rendered.map((one) => one.loudnessLufs)));
}

export function Compare({ parts, render }: { parts: Comparable[]; render: (part: string, version: string) => Promise<Rendered> }) {
  const [part, setPart] = useState(parts[0]?.[0] ?? "");
  const versions = parts.find(([value]) => value === part)?.[2] ?? [];
  const [chosen, choose] = useState<string[]>([]);
  const [pair, setPair] = useState<Pair | null>(null);
  const [rendered, note] = useState<Rendered[]>([]);
  const [heard, hear] = useState(0);
  const [, draw] = useState(0);
  const [error, call, busy] = useCall();
  const two = [0, 1].map((i) => chosen[i] ?? versions.at(i - 2) ?? "");
  useEffect(() => () => pair?.close(), [pair]);
  useEffect(() => {
    if (!pair) return undefined;
    const timer = setInterval(() => {
      if (pair.playing && pair.second >= pair.seconds) pair.pause();
      draw((count) => count + 1);
    }, 100);
    return () => clearInterval(timer);
  }, [pair]);
  const change = (next: string[]) => { choose(next); setPair(null); };
  const compare = () => call((async () => {
    const both: Rendered[] = [];
    for (const version of two) both.push(await render(part, version)); // an owner's renderings take turns
    return [both, await readPair(both)] as const;
  })(), ([both, read]) => { note(both); hear(0); setPair(read); read.play(); });
  const toggle = (to: number) => { hear(to); pair?.hear(to); };
  return (
    <div class="compare" aria-busy={busy}>
      <div class="ad-player-row">
        <label class="ad-player-part"><span class="muted">Of</span>
          <select value={part} onChange={(event) => { setPart(event.currentTarget.value); change([]); }}>
            {parts.map(([value, name]) => <option key={value} value={value}>{name}</option>)}
          </select>
        </label>
        {["A", "B"].map((side, i) => (
          <label key={side} class="ad-player-part"><span class="muted">{side}</span>
            <select aria-label={`Version ${side}`} value={two[i]} onChange={(event) => change(two.with(i, event.currentTarget.value))}>
              {versions.map((one) => <option key={one} value={one}>{one}</option>)}
            </select>
          </label>
        ))}
        {!pair && <button type="button" class="button primary" disabled={busy || two[0] === two[1]} onClick={() => void compare()}><Icon name="play" size={16} />{busy ? "Rendering …" : "Compare"}</button>}
      </div>
      {error && <Failure error={error} />}
      {pair && (
        <>
          <div class="ad-player-row">
            <button type="button" class="icon-button" aria-label={pair.playing ? "Pause" : "Play"} onClick={() => { pair.playing ? pair.pause() : pair.play(); draw((count) => count + 1); }}><Icon name={pair.playing ? "pause" : "play"} size={18} /></button>
            <input class="seek" type="range" aria-label="Play head" min={0} max={pair.seconds} step={0.1} value={pair.second} onInput={(event) => pair.seek(Number(event.currentTarget.value))} />
            <span class="num muted">{pair.second.toFixed(1)} / {pair.seconds.toFixed(1)} s</span>
            <div class="segmented" role="group" aria-label="Version that is heard">
              {["A", "B"].map((side, i) => <button key={side} type="button" aria-pressed={heard === i} onClick={() => toggle(i)}>{side} · {two[i]}</button>)}
            </div>
          </div>
          <p class="help num">{rendered.map(({ loudnessLufs }, i) => `${"AB"[i]} ${loudnessLufs?.toFixed(1) ?? "silent"} LUFS`).join(", ")}: both are played as loud as the quieter one.</p>
        </>
      )}
    </div>
  );
}
