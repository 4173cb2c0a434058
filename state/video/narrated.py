"""Scenes of a narration: the sentences of each segment, shown as they are spoken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from callsheet.state.video.scene import (
    FPS,
    MAX_SOUND,
    MIN_FRAMES,
    Animation,
    Audio,
    Background,
    Scene,
    SceneElement,
)

_AT_ONCE: Final = 3
"""Sentences of a scene."""
_LOOKS: Final = (
    ("#0b1020", "#4c1d95", "#f8fafc"),
    ("#064e3b", "#0f766e", "#ecfdf5"),
    ("#7c2d12", "#b45309", "#fff7ed"),
    ("#1e3a8a", "#0369a1", "#eff6ff"),
)
"""Colours of background and text, by segment."""
_SIZES: Final = ((70, 60.0), (140, 46.0), (10_000, 36.0))
"""Size of a text by its length."""
_MAX_TEXT: Final = 2_000
_MAX_NAME: Final = 200


@dataclass(frozen=True)
class SpokenPart:
    """A segment of a narration."""

    title: str
    """Its main concepts, or its place in the narration."""
    guidance: str
    """Words on what to show; kept in the name of the scene."""
    seconds: float
    sentences: tuple[str, ...]


def narrated_scenes(parts: Sequence[SpokenPart], language: str) -> tuple[Scene, ...]:
    """Return the scenes of the parts, each of three sentences at most; together they last as long.

    A film speaks their sentences in this language.
    """
    return tuple(
        scene for number, part in enumerate(parts) for scene in _scenes(part, language, _LOOKS[number % 4])
    )


def _scenes(part: SpokenPart, language: str, look: tuple[str, str, str]) -> Iterator[Scene]:
    sentences = [one for one in part.sentences if one.strip()]
    groups = [sentences[at : at + _AT_ONCE] for at in range(0, len(sentences), _AT_ONCE)]
    letters = max(1, sum(map(len, sentences)))
    frames, taken, shown = round(part.seconds * FPS), 0, 0
    for number, group in enumerate(groups, 1):
        shown += sum(map(len, group))
        length = max(MIN_FRAMES, round(frames * shown / letters) - taken)
        taken += length
        count = f" {number}/{len(groups)}" if len(groups) > 1 else ""
        name = f"{part.title}{count}{': ' if part.guidance else ''}{part.guidance}"
        yield Scene(
            name=name[:_MAX_NAME],
            durationInFrames=length,
            background=Background(color=look[0], to=look[1]),
            palette=look,
            fonts=("Inter",),
            elements=(_title(part.title, look[2]), *_lines(group, length, look[2])),
            audio=Audio(description="\n".join(group)[:MAX_SOUND], spokenLanguage=language),
        )


def _title(text: str, color: str) -> SceneElement:
    return SceneElement(
        id="title", kind="text", text=text[:_MAX_TEXT], color=color, y=6, height=16, size=72, weight=800
    )


def _lines(sentences: Sequence[str], frames: int, color: str) -> Iterator[SceneElement]:
    letters, before = max(1, sum(map(len, sentences))), 0
    for number, sentence in enumerate(sentences):
        start = min(frames - 1, frames * before // letters)
        before += len(sentence)
        yield SceneElement(
            id=f"line-{number + 1}",
            kind="text",
            text=sentence[:_MAX_TEXT],
            color=color,
            y=26 + 24 * number,
            height=22,
            size=next(size for most, size in _SIZES if len(sentence) <= most),
            weight=500,
            animations=(Animation(kind="fade", start=start, duration=12),),
        )
