// Two sounds with one play head: both run, one is heard, and each at the loudness of the quieter one.

/** Factors that bring two sounds, measured in LUFS, to the quieter one's loudness. */
export function equalGains(loudness: (number | null)[]): number[] {
  const known = loudness.filter((one): one is number => one !== null);
  const target = Math.min(...known);
  return loudness.map((one) => (one === null ? 1 : 10 ** ((target - one) / 20)));
}

const SWITCH_S = 0.02;

export class Pair {
  readonly seconds: number;
  private readonly levels: GainNode[];
  private sources: AudioBufferSourceNode[] = [];
  private heard = 0;
  private at = 0;
  /** Time of the context at which the sounds' second 0 was, or would have been, played. */
  private zero: number | null = null;

  constructor(private readonly context: AudioContext, private readonly sounds: AudioBuffer[], private readonly gains: number[]) {
    this.seconds = Math.max(...sounds.map((one) => one.duration));
    this.levels = sounds.map((_, i) => {
      const level = context.createGain();
      level.gain.value = i === 0 ? gains[0]! : 0;
      level.connect(context.destination);
      return level;
    });
  }

  get playing(): boolean {
    return this.zero !== null;
  }

  get second(): number {
    return this.zero === null ? this.at : Math.max(0, Math.min(this.context.currentTime - this.zero, this.seconds));
  }

  play(): void {
    this.pause();
    if (this.at >= this.seconds) this.at = 0;
    void this.context.resume();
    const begin = this.context.currentTime + SWITCH_S;
    this.sources = this.sounds.map((buffer, i) => {
      const source = new AudioBufferSourceNode(this.context, { buffer });
      source.connect(this.levels[i]!);
      source.start(begin, this.at);
      return source;
    });
    this.zero = begin - this.at;
  }

  pause(): void {
    this.at = this.second;
    this.zero = null;
    for (const source of this.sources) source.stop();
    this.sources = [];
  }

  seek(second: number): void {
    const { playing } = this;
    this.pause();
    this.at = second;
    if (playing) this.play();
  }

  /** Hear the other sound from the same place on. */
  hear(which: number): void {
    this.heard = which;
    const now = this.context.currentTime;
    for (const [i, { gain }] of this.levels.entries()) {
      gain.cancelScheduledValues(now);
      gain.setValueAtTime(gain.value, now);
      gain.linearRampToValueAtTime(i === this.heard ? this.gains[i]! : 0, now + SWITCH_S);
    }
  }

  close(): void {
    this.pause();
    void this.context.close();
  }
}
