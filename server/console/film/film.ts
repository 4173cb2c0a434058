// A video as a WebM file: frames are drawn of the layout that the server's preview is made of, and encoded by WebCodecs.
// A program of its own that the page loads when a film is wanted; it shares no module with the page.
import { AudioBufferSource, BufferTarget, CanvasSource, getFirstEncodableAudioCodec, getFirstEncodableVideoCodec, Output, WebMOutputFormat } from "mediabunny";

interface Step { at: number; opacity: number | null; move: number[] | null; hidden: number | null }
interface Motion { start: number; end: number; easing: string; steps: Step[] }
interface Part {
  x: number; y: number; width: number; height: number; opacity: number; fill: string | null; round: boolean; radius: number;
  text: string; color: string; font: string; size: number; weight: number; align: string; note: string;
  screen: string | null; inset: number; screenRadius: number; motions: Motion[];
}
interface FilmScene { frames: number; color: string; to: string | null; angle: number; parts: Part[] }
export interface Film { name: string; width: number; height: number; framesPerSecond: number; frames: number; scenes: FilmScene[] }

const WIDTH = 1280;
const LINE = 1.15;
const CURVES: Record<string, [number, number, number, number]> = {
  "ease-in": [0.42, 0, 1, 1], "ease-out": [0, 0, 0.58, 1], "ease-in-out": [0.42, 0, 0.58, 1],
};

const bezier = (t: number, one: number, two: number) => 3 * t * (1 - t) ** 2 * one + 3 * t * t * (1 - t) * two + t ** 3;

/** CSS's timing functions: the part of the way after a part of the time. */
export function eased(easing: string, time: number): number {
  const curve = CURVES[easing];
  if (!curve || time <= 0 || time >= 1) return Math.min(1, Math.max(0, time));
  let low = 0;
  let high = 1;
  for (let i = 0; i < 24; i += 1) {
    const middle = (low + high) / 2;
    if (bezier(middle, curve[0], curve[2]) < time) low = middle; else high = middle;
  }
  return bezier(low, curve[1], curve[3]);
}

/** The look of a part at a frame of its scene; of several movements the last one that sets a property counts, as in CSS. */
export function lookAt(part: Part, frame: number): { opacity: number; move: number[]; hidden: number } {
  const look = { opacity: part.opacity, move: [0, 0, 1, 0], hidden: 0 };
  for (const { start, end, easing, steps } of part.motions) {
    const time = Math.min(1, Math.max(0, (frame - start) / Math.max(1, end - start)));
    const next = Math.max(1, steps.findIndex((one) => one.at >= time));
    const from = steps[next - 1]!;
    const to = steps[next]!;
    const way = eased(easing, (time - from.at) / (to.at - from.at));
    const between = (a: number, b: number) => a + (b - a) * way;
    if (from.opacity !== null && to.opacity !== null) look.opacity = part.opacity * between(from.opacity, to.opacity);
    if (from.move && to.move) look.move = from.move.map((one, i) => between(one, to.move![i]!));
    if (from.hidden !== null && to.hidden !== null) look.hidden = between(from.hidden, to.hidden);
  }
  return look;
}

/** Lines as `white-space: pre-wrap` and `overflow-wrap: anywhere` break them. */
export function brokenLines(text: string, width: number, measure: (text: string) => number): string[] {
  return text.split("\n").flatMap((paragraph) => {
    const lines: string[] = [];
    let line = "";
    for (const word of paragraph.split(/(?<=\s)/)) {
      if (line && measure((line + word).trimEnd()) > width) { lines.push(line.trimEnd()); line = ""; }
      if (measure(word.trimEnd()) <= width) { line += word; continue; }
      for (const letter of word) {
        if (line && measure((line + letter).trimEnd()) > width) { lines.push(line); line = ""; }
        line += letter;
      }
    }
    return [...lines, line.trimEnd()];
  });
}

type Context = OffscreenCanvasRenderingContext2D;

function drawText(ctx: Context, part: Part, text: string, box: [number, number, number, number], size: number) {
  const [x, y, width, height] = box;
  ctx.font = `${part.weight} ${size}px "${part.font}", system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  ctx.textAlign = part.align as CanvasTextAlign;
  const at = x + (part.align === "left" ? 0 : part.align === "right" ? width : width / 2);
  const lines = brokenLines(text, width, (one) => ctx.measureText(one).width);
  lines.forEach((one, i) => ctx.fillText(one, at, y + height / 2 + (i - (lines.length - 1) / 2) * size * LINE));
}

function drawPart(ctx: Context, part: Part, frame: number) {
  const { opacity, move: [dx, dy, scale, degrees], hidden } = lookAt(part, frame);
  const { x, y, width, height, inset } = part;
  ctx.save();
  ctx.globalAlpha = Math.min(1, Math.max(0, opacity));
  ctx.translate(x + width / 2 + dx!, y + height / 2 + dy!);
  ctx.rotate((degrees! * Math.PI) / 180);
  ctx.scale(scale!, scale!);
  ctx.translate(-x - width / 2, -y - height / 2);
  const shape = (inner: number, radius: number) => {
    ctx.beginPath();
    if (part.round) ctx.ellipse(x + width / 2, y + height / 2, width / 2, height / 2, 0, 0, 2 * Math.PI);
    else ctx.roundRect(x + inner, y + inner, Math.max(0, width - 2 * inner), Math.max(0, height - 2 * inner), radius);
  };
  if (hidden > 0) { ctx.beginPath(); ctx.rect(x, y, width * (1 - hidden), height); ctx.clip(); }
  const filled = (color: string, inner: number, radius: number) => { shape(inner, radius); ctx.fillStyle = color; ctx.fill(); };
  if (part.fill) filled(part.fill, 0, part.radius);
  if (part.screen) filled(part.screen, inset, part.screenRadius);
  if (part.note) {
    const inner = part.screen ? inset : 0;
    filled("#1f2937", inner, part.screen ? part.screenRadius : part.radius);
    ctx.fillStyle = "#9ca3af";
    drawText(ctx, { ...part, align: "center", weight: 400 }, part.note, [x + inner + 20, y, width - 2 * inner - 40, height], 27);
  }
  ctx.fillStyle = part.color;
  if (part.text) drawText(ctx, part, part.text, [x, y, width, height], part.size);
  ctx.restore();
}

/** Draw a frame of the film, counted from 0. */
export function drawFrame(ctx: Context, film: Film, frame: number) {
  let at = frame;
  const scene = film.scenes.find((one) => at < one.frames || ((at -= one.frames), false));
  if (!scene) return;
  const { width, height } = film;
  const angle = (scene.angle * Math.PI) / 180;
  const half = (Math.abs(width * Math.sin(angle)) + Math.abs(height * Math.cos(angle))) / 2;
  const [x, y] = [Math.sin(angle) * half, -Math.cos(angle) * half];
  const paint = ctx.createLinearGradient(width / 2 - x, height / 2 - y, width / 2 + x, height / 2 + y);
  paint.addColorStop(0, scene.color);
  paint.addColorStop(1, scene.to ?? scene.color);
  ctx.fillStyle = paint;
  ctx.fillRect(0, 0, width, height);
  for (const part of scene.parts) drawPart(ctx, part, at);
}

/** What is heard: the words of narrated scenes, a described bed of music, or both. */
export interface Sound { narration: boolean; music: string; onWords?: (words: Rendering["words"]) => void }
interface Rendering { url: string; frames: number[]; notices: string[]; words: { start: number; end: number; text: string }[] }

async function read<T>(url: string, body?: unknown): Promise<T> {
  const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await load(url, body === undefined ? {} : init)).json() as Promise<T>;
}

/** The reply to a request; throws the server's reason for another status than success. */
async function load(url: string, init?: RequestInit): Promise<Response> {
  const reply = await fetch(url, { credentials: "same-origin", ...init });
  if (reply.ok) return reply;
  const { error, remedy } = (await reply.json().catch(() => ({}))) as { error?: string; remedy?: string };
  throw new Error([error ?? `The server replied ${reply.status}`, remedy].filter(Boolean).join(". "));
}

const RATE = 48_000;
const SOUND = { codec: "opus", bitrate: 128e3 } as const;

/** The samples of a rendered sound, and `scenes` last until their words are spoken; null, and why, where there is none. */
export async function readSound(address: string, sound: Sound, scenes: FilmScene[], notices: string[]): Promise<AudioBuffer | null> {
  const able = typeof AudioEncoder !== "undefined" && await getFirstEncodableAudioCodec([SOUND.codec], { numberOfChannels: 2, sampleRate: RATE });
  if (!able) { notices.push("The film has no sound: this browser cannot encode Opus. Use a newer one."); return null; }
  try {
    const rendered = await read<Rendering>(`${address}/render`, sound);
    const file = await (await load(rendered.url)).arrayBuffer();
    const samples = await new OfflineAudioContext(2, 1, RATE).decodeAudioData(file);
    notices.push(...rendered.notices); sound.onWords?.(rendered.words);
    scenes.forEach((scene, i) => { scene.frames = rendered.frames[i] ?? scene.frames; });
    return samples;
  } catch (error) { notices.push(`The film has no sound: ${(error as Error).message}`); }
  return null;
}

/** Make the film of a project and save it as a file of the browser's downloads; returns sentences on its sound. */
export async function saveFilm(project: string, sound: Sound | null, report: (part: number) => void): Promise<string[]> {
  const address = `/api/projects/${encodeURIComponent(project)}/film`;
  const film = await read<Film>(address);
  const notices: string[] = [];
  const heard = sound && await readSound(address, sound, film.scenes, notices);
  film.frames = film.scenes.reduce((sum, one) => sum + one.frames, 0);
  const url = URL.createObjectURL(await makeFilm(film, heard, report));
  Object.assign(document.createElement("a"), { href: url, download: `${film.name || project}.webm` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return notices;
}

/** Return the film as a WebM file of 1280 × 720; `report` gets the part that is done. */
export async function makeFilm(film: Film, sound: AudioBuffer | null, report: (part: number) => void): Promise<Blob> {
  const height = Math.round((WIDTH * film.height) / film.width);
  const codec = typeof VideoEncoder === "undefined" ? null : await getFirstEncodableVideoCodec(["vp9", "vp8"], { width: WIDTH, height });
  const canvas = new OffscreenCanvas(WIDTH, height);
  const ctx = canvas.getContext("2d", { alpha: false });
  if (!codec || !ctx) throw new Error("This browser cannot encode a film: it has no WebCodecs with VP9 or VP8. Use a newer one.");
  ctx.scale(WIDTH / film.width, WIDTH / film.width);
  const output = new Output({ format: new WebMOutputFormat(), target: new BufferTarget() });
  const source = new CanvasSource(canvas, { codec, bitrate: 4e6 });
  output.addVideoTrack(source, { frameRate: film.framesPerSecond });
  const speaker = sound && new AudioBufferSource(SOUND);
  if (speaker) output.addAudioTrack(speaker);
  await output.start();
  const sounded = sound && speaker?.add(sound).then(() => speaker.close());
  sounded?.catch(() => undefined); // its error is that of the film, below
  for (let frame = 0; frame < film.frames; frame += 1) {
    drawFrame(ctx, film, frame);
    await source.add(frame / film.framesPerSecond, 1 / film.framesPerSecond);
    if (frame % 10 === 0) { report(frame / film.frames); await new Promise((resolve) => setTimeout(resolve)); }
  }
  await sounded;
  await output.finalize();
  return new Blob([output.target.buffer!], { type: "video/webm" });
}
