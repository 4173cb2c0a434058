"""The sound of a narration: its sentences one after the other; runs in the sandbox."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from callsheet.tools.audio.mixing import at_one_level, finish
from callsheet.tools.audio.signals import RATE, Samples, decode, trim

SENTENCE_GAP_S: Final = 0.35
_SEGMENT_GAP_S: Final = 0.9
_STEPS: Final = 2


def narrate(
    data: bytes, report: Any, *, sizes: Sequence[Sequence[int]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the finished file as Base64, what was measured on it, and the times of all sentences.

    `data` has the speech of each sentence in a row, `sizes` their bytes by segment.
    """
    report(0, _STEPS)
    parts: list[Samples] = []
    times: list[tuple[float, float]] = []
    at, start = options["profile"]["silence_s"], 0
    for number, segment in enumerate(sizes):
        for position, size in enumerate(segment):
            gap_s = _gap(number, position)
            clip = at_one_level(trim(decode(data[start : start + size])))
            start += size
            parts += [np.zeros(round(gap_s * RATE), np.float32), clip]
            begin = at + gap_s
            at = begin + len(clip) / RATE
            times.append((round(begin, 3), round(at, 3)))
    report(1, _STEPS)
    edge = np.zeros(math.ceil(options["profile"]["silence_s"] * RATE), np.float32)
    return finish(np.concatenate([edge, *parts, edge]), options) | {"times": times}


def _gap(segment: int, sentence: int) -> float:
    """Return the seconds of silence before a sentence."""
    if sentence:
        return SENTENCE_GAP_S
    return _SEGMENT_GAP_S if segment else 0.0
