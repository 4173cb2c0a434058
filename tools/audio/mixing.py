"""The mix of an ad: voices in front, music that makes room, effects; runs in the sandbox."""

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

import numpy as np
import soundfile

from callsheet.state.ads.timeline import Timeline, build_timeline
from callsheet.tools.audio.beds import choose_bed, read_bed
from callsheet.tools.audio.effects import sketch
from callsheet.tools.audio.signals import (
    FORMATS,
    RATE,
    Samples,
    decibels,
    decode,
    encode,
    loudness_lufs,
    master,
    trim,
    true_peak_dbtp,
)

_LEVEL_LUFS: Final = -20.0
"""Loudness of every voice and of the music before the mixer's gains."""
_ATTACK_S: Final = 0.08
_RELEASE_S: Final = 0.4
_ENCODING_DB: Final = {"mp3": 0.7, "ogg": 1.0, "wav": 0.1}
"""Room for what an encoder adds to the peaks."""
_ENCODING_LU: Final = {"mp3": 0.25, "ogg": 0.0, "wav": 0.0}
"""Loudness that an encoder takes away."""
_MAX_ENCODINGS: Final = 3
_SILENCE: Final = 10 ** (-60 / 20)
"""Amount of a sample that counts as sound."""
_STEPS: Final = 2
"""Mixing, and encoding."""
_SHORTEST_S: Final = 0.5
"""Shortest sound that an ad without speech is cut to."""
_CUT_FADE_S: Final = 0.2
"""Fade of an effect that is cut."""


@dataclass(frozen=True)
class _Ad:
    """Data of a mix."""

    streams: Mapping[str, Mapping[str, Any]]
    mixer: Mapping[str, Any]
    timeline: Timeline
    clips: Mapping[str, Samples]
    only: str
    """Id of a track, or a stream, that is heard alone; empty for all."""
    edges_s: float
    """Silence at both ends of the file, together."""
    music_before: Mapping[str, str] | None
    """Version and description of the music before this one."""

    @property
    def length_s(self) -> float:
        """Length without the silence: the spot's; music and effects end in it, and speech is never cut."""
        speech_s = max((span["end"] for span in self.timeline["voices"]), default=_SHORTEST_S)
        return max(speech_s, self.timeline["spotSeconds"] - self.edges_s)

    @property
    def length(self) -> int:
        """Samples of `length_s`."""
        return math.ceil(self.length_s * RATE)

    def plays(self, stream: str, track: str = "") -> bool:
        """Return True if this part is to be heard."""
        return self.only in {"", stream} or (bool(track) and self.only == track)


def mix_ad(
    data: bytes,
    report: Any,
    *,
    clips: Mapping[str, int],
    streams: Mapping[str, Mapping[str, Any]],
    mixer: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the finished file as Base64, with its timeline and what was measured on it.

    `data` has the speech of each track in a row, `clips` its bytes by track.
    """
    report(0, _STEPS)
    voices = _read_clips(data, clips)
    speech_s = {name: round(len(clip) / RATE, 3) for name, clip in voices.items()}
    timeline = build_timeline(
        streams.get("voices", {}).get("voiceTracks", ()),
        streams.get("sfx", {}).get("soundFxPrompts", ()),
        language=options["language"],
        spot_s=options["spotSeconds"],
        music=streams.get("music"),
        speech_s=speech_s,
    )
    silence_s = options["profile"]["silence_s"]
    ad = _Ad(streams, mixer, timeline, voices, options["only"], 2 * silence_s, options["musicBefore"])
    mixed = np.zeros((ad.length, 2), np.float32)
    notes = [*_add_voices(mixed, ad), *_add_music(mixed, ad), *_add_effects(mixed, ad)]
    report(1, _STEPS)
    edge = round(silence_s * RATE)
    finished = finish(np.pad(mixed, ((edge, edge), (0, 0))), options)
    return {**finished, "timeline": timeline, "speechSeconds": speech_s, "notes": notes}


def _read_clips(data: bytes, sizes: Mapping[str, int]) -> dict[str, Samples]:
    """Return the trimmed speech of each track, at one loudness."""
    clips, start = {}, 0
    for name, size in sizes.items():
        clips[name] = at_one_level(trim(decode(data[start : start + size])))
        start += size
    return clips


def at_one_level(samples: Samples) -> Samples:
    """Return a clip at the loudness that all clips have before the gains."""
    difference = _LEVEL_LUFS - loudness_lufs(samples)
    return samples if math.isinf(difference) else samples * np.float32(decibels(difference))


def add(mixed: Samples, part: Samples, start_s: float, gain_db: float) -> None:
    """Add a part, mono or stereo, at its time."""
    start = round(start_s * RATE)
    fitting = part[: max(0, len(mixed) - start)] * np.float32(decibels(gain_db))
    mixed[start : start + len(fitting)] += fitting[:, None] if fitting.ndim == 1 else fitting


def _add_voices(mixed: Samples, ad: _Ad) -> list[str]:
    for span in ad.timeline["voices"]:
        if ad.plays("voices", span["id"]):
            add(mixed, ad.clips[span["id"]], span["start"], ad.mixer["voices"].get(span["id"], 0.0))
    return []


def _add_music(mixed: Samples, ad: _Ad) -> list[str]:
    if "music" not in ad.timeline or not ad.plays("music"):
        return []
    prompt, before = str(ad.streams["music"]["musicPrompt"]), ad.music_before
    name = choose_bed(prompt)
    levels = ad.mixer["music"]
    seconds = min(ad.timeline["music"]["end"], ad.length_s)
    bed = at_one_level(read_bed(name, seconds))
    speech = [(span["start"], span["end"]) for span in ad.timeline["voices"]]
    bed *= ducking(speech, len(bed), levels["duckingDb"])[:, None]
    fade(bed, levels["fadeInSeconds"], levels["fadeOutSeconds"])
    add(mixed, bed, 0.0, levels["volumeDb"])
    note = f"The music is the bed {name} from the library, not the described music."
    if before and before["prompt"] != prompt and choose_bed(before["prompt"]) == name:
        note += f" Music {before['version']} has the same bed: the library has no nearer one."
    return [note]


def ducking(speech: Iterable[tuple[float, float]], count: int, ducking_db: float) -> Samples:
    """Return the gain of the music: lower while a voice speaks, with a short way down and a longer one up."""
    gain = np.ones(count, np.float32)
    time = np.arange(count, dtype=np.float32) / RATE
    low = decibels(ducking_db)
    for start, end in speech:
        points = [start - _ATTACK_S, start, end, end + _RELEASE_S]
        np.minimum(gain, np.interp(time, points, [1.0, low, low, 1.0]), out=gain)
    return gain


def fade(samples: Samples, in_s: float, out_s: float) -> None:
    """Fade a stereo sound in and out, in place."""
    opening, closing = (min(len(samples), round(seconds * RATE)) for seconds in (in_s, out_s))
    samples[:opening] *= np.linspace(0, 1, opening, dtype=np.float32)[:, None]
    samples[len(samples) - closing :] *= np.linspace(1, 0, closing, dtype=np.float32)[:, None]


def _add_effects(mixed: Samples, ad: _Ad) -> list[str]:
    if not ad.plays("sfx"):
        return []
    notes = []
    for span in ad.timeline["sfx"]:
        name, samples = sketch(span["description"], span["end"] - span["start"])
        notes.append(f"The effect {span['description']!r} is a computed sketch ({name}), not a recording.")
        left = max(0, len(mixed) - round(span["start"] * RATE))
        # One sample is what rounding takes.
        if left + 1 < len(samples):
            samples = _cut(samples, left)
            place = f"cut at {ad.length_s:.1f} s" if left else "left out"
            notes.append(f"The effect {span['description']!r} is {place}, to keep the ad in its spot.")
        add(mixed, samples, span["start"], ad.mixer["sfx"]["volumeDb"])
    return notes


def _cut(samples: Samples, count: int) -> Samples:
    """Return the first samples of a mono sound, faded out."""
    kept = samples[:count].copy()
    fade = min(count, round(_CUT_FADE_S * RATE))
    kept[count - fade :] *= np.linspace(1, 0, fade, dtype=np.float32)
    return kept


def finish(samples: Samples, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file at the profile's loudness, and what is measured after decoding it.

    An encoder may raise the peaks; where one exceeds the profile, the file is made again with more room.
    """
    profile, form = options["profile"], options["format"]
    room = _ENCODING_DB[form]
    for _ in range(_MAX_ENCODINGS):
        target = profile["loudness_lufs"] + _ENCODING_LU[form]
        mastered = master(samples, target, profile["peak_dbtp"] - room)
        sound = encode(mastered, form, options["tags"])
        decoded = _read_back(sound)
        peak = true_peak_dbtp(decoded)
        if peak <= profile["peak_dbtp"]:
            break
        room += peak - profile["peak_dbtp"] + 0.1
    return {
        "sound": b64encode(sound).decode(),
        "type": FORMATS[form][0],
        "seconds": round(len(samples) / RATE, 3),
        "loudnessLufs": _finite(loudness_lufs(decoded)),
        "truePeakDbtp": _finite(peak),
        "sampleRate": RATE,
        "silenceSeconds": _silence_s(decoded),
    }


def _silence_s(samples: Samples) -> tuple[float, float]:
    """Return the seconds before the first and after the last sound."""
    audible = np.flatnonzero(np.abs(samples).max(axis=1) > _SILENCE)
    if not len(audible):
        return len(samples) / RATE, len(samples) / RATE
    return round(audible[0] / RATE, 3), round((len(samples) - 1 - audible[-1]) / RATE, 3)


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else round(value, 2)


def _read_back(sound: bytes) -> Samples:
    samples: Samples = soundfile.read(BytesIO(sound), dtype="float32", always_2d=True)[0]
    return samples
