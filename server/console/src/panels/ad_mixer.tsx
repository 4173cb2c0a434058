// The mixer of an ad: gains in decibels and fades in seconds; a change is kept at once.
import { useState } from "preact/hooks";
import { path, request } from "../api.ts";
import { attempt, mayWrite } from "../store.ts";

export interface Mixer {
  voices: Record<string, number>;
  music: { volumeDb: number; duckingDb: number; fadeInSeconds: number; fadeOutSeconds: number };
  sfx: { volumeDb: number };
}

function Slider({ label, value, min, max, unit, onChange }: { label: string; value: number; min: number; max: number; unit: string; onChange: (value: number) => void }) {
  const [shown, show] = useState(value);
  return (
    <label class="slider">
      <span>{label}</span>
      <input type="range" min={min} max={max} step={0.5} value={shown} onInput={(event) => show(Number(event.currentTarget.value))} onChange={(event) => onChange(Number(event.currentTarget.value))} />
      <output class="num">{shown.toFixed(1)} {unit}</output>
    </label>
  );
}

export function AdMixer({ ad, mixer, onChanged }: { ad: string; mixer: Mixer; onChanged: () => void }) {
  const change = (body: object) => attempt(request("PATCH", path`/api/ads/${ad}/mixer`, body)).then(onChanged);
  return (
    <fieldset class="mixer" disabled={!mayWrite.value}>
      <legend class="sr-only">Gains and fades</legend>
      {Object.entries(mixer.voices).map(([track, gain], i) => (
        <Slider key={track} label={`Voice ${i + 1}`} value={gain} min={-30} max={12} unit="dB" onChange={(value) => change({ voices: { [track]: value } })} />
      ))}
      <Slider label="Music" value={mixer.music.volumeDb} min={-60} max={12} unit="dB" onChange={(volumeDb) => change({ music: { volumeDb } })} />
      <Slider label="Music under voices" value={mixer.music.duckingDb} min={-60} max={0} unit="dB" onChange={(duckingDb) => change({ music: { duckingDb } })} />
      <Slider label="Music fades in" value={mixer.music.fadeInSeconds} min={0} max={10} unit="s" onChange={(fadeInSeconds) => change({ music: { fadeInSeconds } })} />
      <Slider label="Music fades out" value={mixer.music.fadeOutSeconds} min={0} max={10} unit="s" onChange={(fadeOutSeconds) => change({ music: { fadeOutSeconds } })} />
      <Slider label="Sound effects" value={mixer.sfx.volumeDb} min={-60} max={12} unit="dB" onChange={(volumeDb) => change({ sfx: { volumeDb } })} />
    </fieldset>
  );
}
