"""Music beds: recordings of a library that come near to a description. Only the sandbox imports it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import immich_memories_music
import numpy as np
import soundfile

from callsheet.tools.audio.signals import RATE, Samples, resample

_MOODS: Final[Mapping[str, str]] = {
    "energetic": "energ upbeat driv fast livel urgent rock sport power danc punch intens",
    "happy": "happy happi friendly cheer bright fun joy play positive optimis light pop",
    "calm": "calm ambient relax quiet slow peace soft minimal spa gentle lo-fi",
    "nostalgic": "nostalg melanch sad retro vintage memor wist jazz cinematic",
    "tender": "tender warm romantic love emotion touch heart intimate family folk",
}
"""Beginnings of words in a description, by mood."""
_TEMPOS: Final = {"calm": 70, "nostalgic": 80, "tender": 95, "happy": 115, "energetic": 140}
"""Beats a minute of the library's recordings, about."""
_ELECTRONIC: Final = (
    "electr",
    "synth",
    "techno",
    "house",
    "edm",
    "beat",
    "digital",
    "modern",
    "lo-fi",
    "tech",
)
_BPM: Final = re.compile(r"(\d{2,3})\s*bpm", re.IGNORECASE)
_CROSSFADE_S: Final = 1.0
_TEMPO_WEIGHT: Final = 0.02
_DENIED: Final = re.compile(r"\b(?:less|not|no|without)\s+[\w-]+", re.IGNORECASE)
_CHANGE: Final = re.compile(r"\bmore\s+([\w-]++)|(?<![\w-])([\w-]+?)er\b", re.IGNORECASE)
"""A word for what the music is to be instead of what it was: "more upbeat", "calmer"."""


def choose_bed(prompt: str) -> str:
    """Return the recording that comes nearest to a description, as `mood/file`; always the same."""
    words = _DENIED.sub("", prompt.casefold())
    changes = [one[1] or one[2] for one in _CHANGE.finditer(words)]
    tempo = _BPM.search(words)
    scores = {
        mood: sum(bool(re.search(rf"\b{mark}", words)) for mark in marks.split())
        # A change outweighs the description that it changes, and a later one an earlier one.
        + sum(4 * at for at, one in enumerate(changes, 1) if one.startswith(tuple(marks.split())))
        - (abs(int(tempo[1]) - _TEMPOS[mood]) * _TEMPO_WEIGHT if tempo else 0.0)
        for mood, marks in _MOODS.items()
    }
    # Of equals the one in the middle of moods.
    mood = max(("happy", *_MOODS), key=lambda name: scores[name])
    style = "electronic" if any(re.search(rf"\b{mark}", words) for mark in _ELECTRONIC) else "acoustic"
    folder = Path(immich_memories_music.tracks_dir()) / mood
    return f"{mood}/{min(file.name for file in folder.glob(f'{mood}_{style}_*'))}"


def read_bed(name: str, seconds: float) -> Samples:
    """Return so many seconds of a recording in stereo, repeated with a crossfade where it is shorter."""
    path = Path(immich_memories_music.tracks_dir()) / name
    with soundfile.SoundFile(path) as file:
        wanted = min(file.frames, int((seconds + 1) * file.samplerate))
        samples = file.read(wanted, dtype="float32", always_2d=True)
        bed = resample(samples[:, :2], file.samplerate)
    count, fade = int(seconds * RATE), int(_CROSSFADE_S * RATE)
    ramp = np.linspace(0.0, 1.0, fade, dtype=np.float32)[:, None]
    result = bed
    while len(result) < count:
        joint = result[-fade:] * (1 - ramp) + bed[:fade] * ramp
        result = np.concatenate((result[:-fade], joint, bed[fade:]))
    return result[:count]
