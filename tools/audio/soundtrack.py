"""The sound of a film: the words of its scenes, and music under them; runs in the sandbox."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from callsheet.state.errors import Oversized
from callsheet.state.video.scene import FPS
from callsheet.tools.audio.beds import choose_bed, read_bed
from callsheet.tools.audio.mixing import add, at_one_level, ducking, fade, finish
from callsheet.tools.audio.narrating import SENTENCE_GAP_S
from callsheet.tools.audio.signals import RATE, Samples, decibels, decode, trim

_TAIL_S: Final = 0.5
"""Silence between the last word of a scene and the next scene, where it is held for its words."""
_MUSIC: Final = {"volumeDb": -12.0, "duckingDb": -9.0, "fadeInSeconds": 0.5, "fadeOutSeconds": 1.5}
_STEPS: Final = 2


def score_film(
    data: bytes,
    report: Any,
    *,
    scenes: Sequence[Mapping[str, Any]],
    music: str,
    max_s: float,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the finished file as Base64, what was measured on it, frames of scenes and times of lines.

    `data` has the speech of each line in a row. A scene has `frames`, the frame `start` of its words, their
    `volume`, and the bytes of each line (`sizes`); it is held until its words are spoken. Raises `Oversized`
    for a film of more than `max_s` seconds.
    """
    report(0, _STEPS)
    frames: list[int] = []
    words: list[tuple[float, Samples, float]] = []
    read = 0
    for scene in scenes:
        start_s, second = scene["start"] / FPS, sum(frames) / FPS
        for number, size in enumerate(scene["sizes"]):
            clip = at_one_level(trim(decode(data[read : read + size])))
            read += size
            start_s += SENTENCE_GAP_S if number else 0.0
            words.append((second + start_s, clip, scene["volume"]))
            start_s += len(clip) / RATE
        held = math.ceil((start_s + _TAIL_S) * FPS) if scene["sizes"] else 0
        frames.append(max(scene["frames"], held))
        if sum(frames) > max_s * FPS:
            rule = f"with its words the film lasts more than {max_s:g} s"
            raise Oversized(rule, remedy="Shorten its scenes and their words")
    mixed = np.zeros((math.ceil(sum(frames) * RATE / FPS), 2), np.float32)
    for at, clip, volume in words:
        add(mixed, clip * np.float32(volume), at, 0.0)
    spans = [(at, at + len(clip) / RATE) for at, clip, _ in words]
    notes = _add_music(mixed, music, spans)
    report(1, _STEPS)
    return finish(mixed, options) | {"frames": frames, "notes": notes, "spans": spans}


def _add_music(mixed: Samples, music: str, speech: Sequence[tuple[float, float]]) -> list[str]:
    if not music:
        return []
    name = choose_bed(music)
    bed = at_one_level(read_bed(name, len(mixed) / RATE))
    bed *= ducking(speech, len(bed), _MUSIC["duckingDb"])[:, None]
    fade(bed, _MUSIC["fadeInSeconds"], _MUSIC["fadeOutSeconds"])
    mixed[: len(bed)] += bed * np.float32(decibels(_MUSIC["volumeDb"]))
    return [f"The music is the bed {name} from the library."]
