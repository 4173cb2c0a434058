"""Starter projects: invented videos to begin with."""

from collections.abc import Mapping
from typing import Any, Final

from callsheet.state.video.scene import Animation, Background, Element, Scene


def _text(name: str, text: str, y: float, size: float, color: str, **look: Any) -> Element:
    height = look.pop("height", max(10.0, size / 6))
    return Element(id=name, kind="text", text=text, y=y, size=size, color=color, height=height, **look)


def _shape(name: str, box: tuple[float, float, float, float], color: str, **look: Any) -> Element:
    x, y, width, height = box
    return Element(id=name, kind="shape", x=x, y=y, width=width, height=height, color=color, **look)


def _move(kind: Any, start: int, duration: int = 16) -> tuple[Animation, ...]:
    return (Animation(kind=kind, start=start, duration=duration),)


_NIGHT, _VIOLET, _SNOW, _CYAN = "#0b1020", "#4c1d95", "#f8fafc", "#22d3ee"
_LAUNCH: Final = (
    Scene(
        name="Opening",
        durationInFrames=90,
        background=Background(color=_NIGHT, to=_VIOLET, angle=120),
        elements=(
            _shape("glow", (60, -20, 60, 90), "#6d28d9", shape="circle", opacity=0.35, animations=_move("zoom-in", 0, 40)),
            _text("title", "Meet Nova", 36, 150, _SNOW, font="Space Grotesk", weight=700, animations=_move("slide-up", 8)),
            _text("line", "The lamp that follows the sun", 58, 54, "#c4b5fd", weight=400, animations=_move("fade", 24)),
        ),
        palette=(_NIGHT, _VIOLET, _SNOW, _CYAN),
        fonts=("Space Grotesk", "Inter"),
    ),
    Scene(
        name="The problem",
        durationInFrames=105,
        background=Background(color="#111827"),
        elements=(
            _text("title", "Evenings should not feel like offices", 34, 92, _SNOW, font="Space Grotesk", weight=700, width=76, x=12, height=28, animations=_move("slide-left", 6)),
            _shape("rule", (46, 70, 8, 0.8), _CYAN, animations=_move("fade", 30)),
        ),
        palette=("#111827", _SNOW, _CYAN),
        fonts=("Space Grotesk",),
        pace="slow",
    ),
    Scene(
        name="How it works",
        durationInFrames=75,
        background=Background(color="#ecfeff", to="#a5f3fc", angle=160),
        elements=(
            _text("title", "Daylight, indoors", 18, 110, "#083344", font="Space Grotesk", weight=700, animations=_move("zoom-in", 4, 12)),
            _shape("sun", (42, 44, 16, 28.4), "#f59e0b", shape="circle", animations=_move("bounce", 10, 18)),
            _text("line", "Warm at dusk, clear at noon", 80, 52, "#155e75", weight=500, animations=_move("slide-up", 22, 12)),
        ),
        palette=("#ecfeff", "#083344", "#f59e0b", "#155e75"),
        fonts=("Space Grotesk", "Inter"),
        pace="fast",
    ),
    Scene(
        name="Proof",
        durationInFrames=90,
        background=Background(color=_NIGHT),
        elements=(
            _text("number", "4,200", 26, 220, _CYAN, font="Space Grotesk", weight=800, height=36, animations=_move("zoom-in", 4)),
            _text("line", "homes sleep better with Nova", 66, 58, _SNOW, weight=400, animations=_move("fade", 20)),
        ),
        palette=(_NIGHT, _CYAN, _SNOW),
        fonts=("Space Grotesk", "Inter"),
    ),
    Scene(
        name="Call to action",
        durationInFrames=90,
        background=Background(color=_VIOLET, to=_NIGHT, angle=140),
        elements=(
            _text("title", "Nova, from 89 dollars", 32, 104, _SNOW, font="Space Grotesk", weight=700, animations=_move("slide-up", 6)),
            _text("button", "Order at nova.example", 60, 48, _NIGHT, background=_CYAN, x=34, width=32, height=12, radius=60, weight=700, animations=_move("pulse", 30, 24)),
        ),
        palette=(_VIOLET, _NIGHT, _SNOW, _CYAN),
        fonts=("Space Grotesk", "Inter"),
    ),
)  # fmt: skip
_INK, _LIME, _CLOUD = "#14213d", "#34d399", "#eef2ff"
_APP: Final = (
    Scene(
        name="Hook",
        durationInFrames=75,
        background=Background(color=_CLOUD),
        elements=(
            _text("title", "Dinner, solved by six", 38, 128, _INK, weight=800, font="Plus Jakarta Sans", animations=_move("slide-up", 4, 14)),
            _text("line", "Forkcast plans your week from what is in the fridge", 60, 46, "#475569", weight=400, animations=_move("fade", 18)),
        ),
        palette=(_CLOUD, _INK, _LIME),
        fonts=("Plus Jakarta Sans", "Inter"),
    ),
    Scene(
        name="In your hand",
        durationInFrames=105,
        background=Background(color="#4f46e5", to="#1e1b4b", angle=145),
        elements=(
            Element(id="phone", kind="device", device="phone", x=62, y=8, width=22, height=84, color="#0f172a", background=_CLOUD, animations=_move("slide-up", 2, 20)),
            _text("title", "Scan. Choose. Cook.", 34, 104, "#ffffff", x=6, width=52, align="left", weight=800, font="Plus Jakarta Sans", animations=_move("slide-right", 8)),
            _text("line", "Three taps to a shopping list", 58, 46, "#c7d2fe", x=6, width=52, align="left", weight=400, animations=_move("fade", 26)),
        ),
        palette=("#4f46e5", "#1e1b4b", "#ffffff", _LIME),
        fonts=("Plus Jakarta Sans", "Inter"),
    ),
    Scene(
        name="Less waste",
        durationInFrames=84,
        background=Background(color="#064e3b"),
        elements=(
            _text("number", "-38 %", 26, 230, _LIME, weight=800, font="Plus Jakarta Sans", height=38, animations=_move("zoom-in", 4)),
            _text("line", "food in the bin, after four weeks", 68, 56, "#d1fae5", weight=400, animations=_move("fade", 20)),
        ),
        palette=("#064e3b", _LIME, "#d1fae5"),
        fonts=("Plus Jakarta Sans", "Inter"),
        pace="fast",
    ),
    Scene(
        name="Install",
        durationInFrames=75,
        background=Background(color=_INK),
        elements=(
            _text("title", "Forkcast is free", 34, 120, "#ffffff", weight=800, font="Plus Jakarta Sans", animations=_move("slide-up", 4, 14)),
            _text("button", "Get the app", 58, 48, _INK, background=_LIME, x=38, width=24, height=12, radius=60, weight=700, animations=_move("pulse", 24, 24)),
        ),
        palette=(_INK, _LIME, "#ffffff"),
        fonts=("Plus Jakarta Sans", "Inter"),
    ),
)  # fmt: skip
_CREAM, _WINE, _GOLD = "#fdf6ec", "#5b0e2d", "#c99a3b"
_EVENT: Final = (
    Scene(
        name="Save the date",
        durationInFrames=105,
        background=Background(color=_CREAM),
        elements=(
            _shape("frame", (6, 10, 88, 80), "#f3e3cd", radius=24, animations=_move("fade", 0, 20)),
            _text("date", "Saturday, 14 June", 28, 60, _GOLD, font="Jost", weight=500, animations=_move("fade", 10)),
            _text("title", "Summer at the Mill", 42, 132, _WINE, font="Cormorant", weight=700, animations=_move("slide-up", 16, 20)),
        ),
        palette=(_CREAM, _WINE, _GOLD),
        fonts=("Cormorant", "Jost"),
        pace="slow",
    ),
    Scene(
        name="Programme",
        durationInFrames=120,
        background=Background(color=_WINE),
        elements=(
            _text("title", "An evening in three acts", 16, 88, _CREAM, font="Cormorant", weight=700, animations=_move("fade", 4)),
            _text("one", "18:00 Garden concert", 38, 58, "#f3e3cd", font="Jost", weight=400, animations=_move("slide-left", 18)),
            _text("two", "20:00 Long table dinner", 54, 58, "#f3e3cd", font="Jost", weight=400, animations=_move("slide-left", 28)),
            _text("three", "22:30 Dancing by the river", 70, 58, "#f3e3cd", font="Jost", weight=400, animations=_move("slide-left", 38)),
        ),
        palette=(_WINE, _CREAM, "#f3e3cd", _GOLD),
        fonts=("Cormorant", "Jost"),
        pace="slow",
    ),
    Scene(
        name="Place",
        durationInFrames=90,
        background=Background(color="#2f4a3c", to="#1c2e25", angle=170),
        elements=(
            _text("title", "The Old Mill, Riverside Lane 3", 36, 92, _CREAM, font="Cormorant", weight=700, animations=_move("slide-up", 6)),
            _text("line", "Shuttle from the station every half hour", 60, 48, "#cfe0d4", font="Jost", weight=400, animations=_move("fade", 24)),
        ),
        palette=("#2f4a3c", "#1c2e25", _CREAM),
        fonts=("Cormorant", "Jost"),
        pace="slow",
    ),
    Scene(
        name="Reply",
        durationInFrames=90,
        background=Background(color=_CREAM),
        elements=(
            _text("title", "Will you be there?", 32, 124, _WINE, font="Cormorant", weight=700, animations=_move("slide-up", 4, 18)),
            _text("button", "Reply by 1 May", 58, 48, _CREAM, background=_WINE, x=37, width=26, height=12, radius=8, font="Jost", weight=600, animations=_move("fade", 24)),
        ),
        palette=(_CREAM, _WINE, _GOLD),
        fonts=("Cormorant", "Jost"),
        pace="slow",
    ),
)  # fmt: skip
STARTERS: Final[Mapping[str, tuple[Scene, ...]]] = {
    "product-launch": _LAUNCH,
    "app-promo": _APP,
    "event-invitation": _EVENT,
}
"""Starter projects by name."""
