"""Places, looks and movements of a scene's parts, as numbers: the preview and the film are made of them.

A frame is 1920 × 1080 pixels; places are in pixels of it, and movements in hundredths of its width.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from callsheet.state.video.scene import SceneElement

WIDTH: Final = 1920
HEIGHT: Final = 1080
UNIT: Final = WIDTH / 100
"""Pixels of a hundredth of the width."""
DEVICE_RADIUS: Final = 2.0
SCREEN_INSET: Final = 1.0
SCREEN_RADIUS: Final = 0.8


class Move(NamedTuple):
    """A transformation about the middle of an element."""

    x: float = 0.0
    y: float = 0.0
    scale: float = 1.0
    rotate: float = 0.0
    """Degrees."""


class MotionStep(NamedTuple):
    """Look of an element at a part of an animation; None leaves a property as it is without it."""

    at: float
    """Part of the animation's time, 0 to 1."""
    opacity: float | None = None
    """Factor of the element's own."""
    move: Move | None = None
    hidden: float | None = None
    """Part of the width that is hidden at the right."""


MOTIONS: Final[Mapping[str, Sequence[MotionStep]]] = {
    "fade": (MotionStep(0, 0), MotionStep(1, 1)),
    "slide-left": (MotionStep(0, 0, Move(x=12)), MotionStep(1, 1, Move())),
    "slide-right": (MotionStep(0, 0, Move(x=-12)), MotionStep(1, 1, Move())),
    "slide-up": (MotionStep(0, 0, Move(y=8)), MotionStep(1, 1, Move())),
    "slide-down": (MotionStep(0, 0, Move(y=-8)), MotionStep(1, 1, Move())),
    "zoom-in": (MotionStep(0, 0, Move(scale=0.6)), MotionStep(1, 1, Move())),
    "zoom-out": (MotionStep(0, 0, Move(scale=1.5)), MotionStep(1, 1, Move())),
    "rotate": (MotionStep(0, 0, Move(rotate=-90)), MotionStep(1, 1, Move())),
    "bounce": (
        MotionStep(0, 0, Move(y=-10)),
        MotionStep(0.6, 1, Move(y=1.5)),
        MotionStep(0.8, 1, Move(y=-0.7)),
        MotionStep(1, 1, Move()),
    ),
    "pulse": (
        MotionStep(0, None, Move()),
        MotionStep(0.5, None, Move(scale=1.08)),
        MotionStep(1, None, Move()),
    ),
    "typewriter": (MotionStep(0, hidden=1), MotionStep(1, hidden=0)),
}
"""Looks of an element during each animation."""


def fill_of(element: SceneElement) -> str | None:
    """Return the colour that fills an element; None for none."""
    return element.color if element.kind in {"shape", "device"} else element.background


def note_of(element: SceneElement) -> str:
    """Return the text in place of an image, which lies elsewhere and is not loaded; empty for none."""
    return f"Not loaded: {element.src}" if element.src else ""
