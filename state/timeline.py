"""Spoken time: when every track, effect and the music of an ad starts and ends.

Pure functions of what is in the drafts. Seconds from the first sound of the ad. A track starts at
`end(what it plays after) − overlap`, never before 0: a positive overlap starts earlier, a negative one
leaves a gap (A-R6). `playAfter` names "start" or an earlier track (A-R7). An effect's `placement` is the
truth about where it plays (A-R5).
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from state.errors import Invalid
from state.languages import LANGUAGES, Language, find

PAUSE_S = 0.25
"""Seconds of breath after each sentence or line break within a track."""
_SENTENCE_END = re.compile(r"[.!?…。！？；;:：\n]+(?=\s|$|[^\s\d])")
_ENGLISH: Language = LANGUAGES[0]
_WIDE = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


class Span(TypedDict):
    """A stretch of the ad."""

    start: float
    """Seconds from the first sound."""
    end: float
    """Seconds from the first sound."""


class VoiceSpan(Span):
    """When one voice track sounds."""

    id: str
    voiceId: str


class SfxSpan(Span):
    """When one effect sounds."""

    description: str


class Timeline(TypedDict):
    """The whole ad in time."""

    spotSeconds: float
    """Length the brief asked for."""
    durationSeconds: float
    """Length it has: the last voice or effect's end."""
    fits: bool
    """Whether `durationSeconds` is within the spot, to a twentieth of a second."""
    voices: list[VoiceSpan]
    sfx: list[SfxSpan]
    music: NotRequired[Span]
