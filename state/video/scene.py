"""A scene: its elements, their look and movement, within bounds that a player and a page can show safely.

Colours are `#rrggbb`, places are per cent of the frame, sizes are pixels of a frame of 1920 × 1080, and times
are frames at 30 a second. Whatever reaches CSS or HTML is one of these validated values.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from callsheet.state.languages import stated_name

FPS: Final = 30
"""Frames of a second."""
MIN_FRAMES: Final = 15
MAX_FRAMES: Final = 18_000
MAX_ELEMENTS: Final = 50
MAX_ANIMATIONS: Final = 6
MAX_SOUND: Final = 6_000
"""Characters of a scene's sound, which may be words."""
_HEX: Final = re.compile(r"#[0-9a-f]{6}")
_SHORT_HEX: Final = re.compile(r"#[0-9a-f]{3}")
NAMED_COLORS: Final = {
    "black": "#000000",
    "white": "#ffffff",
    "red": "#ff0000",
    "green": "#008000",
    "lime": "#00ff00",
    "blue": "#0000ff",
    "navy": "#000080",
    "yellow": "#ffff00",
    "gold": "#ffd700",
    "orange": "#ffa500",
    "purple": "#800080",
    "violet": "#ee82ee",
    "pink": "#ffc0cb",
    "magenta": "#ff00ff",
    "cyan": "#00ffff",
    "teal": "#008080",
    "turquoise": "#40e0d0",
    "brown": "#a52a2a",
    "gray": "#808080",
    "grey": "#808080",
    "silver": "#c0c0c0",
    "beige": "#f5f5dc",
}
"""Names of colours that models and people write, as CSS defines them."""


def _color(value: Any) -> Any:
    """Return a colour as `#rrggbb`, from a name, a short form or capitals."""
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if _SHORT_HEX.fullmatch(text):
        return "#" + "".join(digit * 2 for digit in text[1:])
    return NAMED_COLORS.get(text, text)


def _checked_color(value: str) -> str:
    if not _HEX.fullmatch(value):
        raise ValueError(f"{value!r} is no colour: write #rrggbb, or a name such as navy")
    return value


Color = Annotated[str, BeforeValidator(_color), AfterValidator(_checked_color)]
"""`#rrggbb` in lower case."""
Font = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9 -]{0,59}$")]
"""Name of a font family."""
ElementId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
"""Id of an element, unique in its scene."""
Percent = Annotated[float, Field(ge=-100, le=200)]
"""Per cent of the frame's width or height."""
Motion = Literal[
    "fade",
    "slide-left",
    "slide-right",
    "slide-up",
    "slide-down",
    "zoom-in",
    "zoom-out",
    "rotate",
    "bounce",
    "pulse",
    "typewriter",
]
Easing = Literal["linear", "ease-in", "ease-out", "ease-in-out"]
Pace = Literal["slow", "normal", "fast"]
Kind = Literal["text", "image", "shape", "device"]


def _checked_source(value: str) -> str:
    if value and not value.startswith(("https://", "/api/")):
        raise ValueError("an image needs an https address or an uploaded file")
    if any(char.isspace() or char in "\"'<>`()\\" for char in value):
        raise ValueError("the address of an image has no spaces, quotes or brackets: encode them")
    return value


class Animation(BaseModel):
    """A movement of an element."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    kind: Motion
    start: int = Field(default=0, ge=0, lt=MAX_FRAMES, description="Frame at which it starts")
    duration: int = Field(default=15, ge=1, le=MAX_FRAMES, description="Frames that it takes")
    easing: Easing = "ease-out"


class Look(BaseModel):
    """Place and look of an element."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    x: Percent = Field(default=10, description="Left edge in per cent of the frame")
    y: Percent = Field(default=40, description="Upper edge in per cent of the frame")
    width: float = Field(default=80, gt=0, le=200)
    height: float = Field(default=20, gt=0, le=200)
    color: Color = Field(default="#ffffff", description="Colour of text, or of a shape")
    background: Color | None = None
    font: Font = "Inter"
    size: float = Field(default=72, ge=8, le=600, description="Size of text in pixels at 1920 × 1080")
    weight: int = Field(default=600, ge=100, le=900)
    align: Literal["left", "center", "right"] = "center"
    opacity: float = Field(default=1, ge=0, le=1)
    radius: float = Field(default=0, ge=0, le=2_000, description="Rounding of corners in pixels")


class SceneElement(Look):
    """A part of a scene."""

    id: ElementId
    kind: Kind
    text: str = Field(default="", max_length=2_000)
    src: Annotated[str, AfterValidator(_checked_source)] = Field(default="", max_length=2_000)
    """Image, or the screen of a device."""
    shape: Literal["rectangle", "circle", "line"] = "rectangle"
    device: Literal["phone", "tablet", "laptop"] = "phone"
    animations: tuple[Animation, ...] = Field(default=(), max_length=MAX_ANIMATIONS)


class Background(BaseModel):
    """Background of a scene; with `to` a gradient."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    color: Color = "#0f172a"
    to: Color | None = None
    angle: float = Field(default=135, ge=0, le=360, description="Direction of the gradient in degrees")


def _checked_language(value: str | None) -> str | None:
    """Return the stored name of a language; None for an empty one."""
    if value is None or not value.strip():
        return None
    if name := stated_name(value):
        return name
    raise ValueError(f"{value!r} is no language: write its English name, such as english")


class Audio(BaseModel):
    """A described sound, which is made elsewhere, or words that a narrator speaks."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    description: str = Field(min_length=1, max_length=MAX_SOUND)
    volume: float = Field(default=0.8, ge=0, le=1)
    start: int = Field(default=0, ge=0, lt=MAX_FRAMES)
    spokenLanguage: Annotated[str | None, AfterValidator(_checked_language)] = Field(
        default=None,
        max_length=40,
        description="Language in which a film speaks the description; null for a described sound",
    )


class Scene(BaseModel):
    """A scene of a video."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    name: str = Field(default="", max_length=200)
    durationInFrames: int = Field(
        default=90, ge=MIN_FRAMES, le=MAX_FRAMES, description="Frames at 30 a second"
    )
    background: Background = Background()
    elements: tuple[SceneElement, ...] = Field(default=(), max_length=MAX_ELEMENTS)
    palette: tuple[Color, ...] = Field(
        default=(), max_length=8, description="Main colours, the first strongest"
    )
    fonts: tuple[Font, ...] = Field(default=(), max_length=4)
    pace: Pace = "normal"
    audio: Audio | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Scene":
        ids = [element.id for element in self.elements]
        if twice := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"two elements have the id {twice[0]!r}")
        for element in self.elements:
            for animation in element.animations:
                if animation.start >= self.durationInFrames:
                    raise ValueError(
                        f"an animation of {element.id!r} starts at frame {animation.start}, "
                        f"and the scene has {self.durationInFrames}"
                    )
        return self

    def data(self) -> dict[str, Any]:
        """Return the scene as JSON."""
        return self.model_dump(mode="json")


@cache
def starters() -> Mapping[str, tuple[Scene, ...]]:
    """Return the starter projects by name."""
    text = files("callsheet.state.video").joinpath("starters.json").read_text(encoding="utf-8")
    projects: dict[str, list[object]] = json.loads(text)
    return {name: tuple(Scene.model_validate(scene) for scene in scenes) for name, scenes in projects.items()}
