"""A project as what a film is drawn of: every part with its place in pixels and its movements in frames."""

from collections.abc import Sequence

from typing_extensions import TypedDict

from callsheet.state.video.layout import (
    DEVICE_RADIUS,
    HEIGHT,
    MOTIONS,
    SCREEN_INSET,
    SCREEN_RADIUS,
    UNIT,
    WIDTH,
    fill_of,
    note_of,
)
from callsheet.state.video.scene import FPS, Animation, Easing, Scene, SceneElement


class FilmStep(TypedDict):
    """Look at a part of a movement; null leaves a property as it is."""

    at: float
    opacity: float | None
    """Factor of the part's own."""
    move: list[float] | None
    """Pixels to the right and down, factor of size, degrees."""
    hidden: float | None
    """Part of the width that is hidden at the right."""


class FilmMotion(TypedDict):
    """A movement, from its first frame in the scene to the one after its last."""

    start: int
    end: int
    easing: Easing
    steps: list[FilmStep]


class FilmPart(TypedDict):
    """An element of a scene."""

    x: float
    y: float
    width: float
    height: float
    opacity: float
    fill: str | None
    round: bool
    """True for an ellipse."""
    radius: float
    """Of the corners, in pixels."""
    text: str
    color: str
    font: str
    size: float
    weight: int
    align: str
    note: str
    """Text in place of an image that is not loaded; empty for none."""
    screen: str | None
    """Colour of a device's screen, which lies `inset` pixels inside."""
    inset: float
    screenRadius: float
    motions: list[FilmMotion]


class FilmScene(TypedDict):
    """A scene."""

    frames: int
    color: str
    to: str | None
    angle: float
    """Direction of the gradient in degrees, as in CSS."""
    parts: list[FilmPart]


class Film(TypedDict):
    """Everything that a film is drawn of."""

    name: str
    width: int
    height: int
    framesPerSecond: int
    frames: int
    scenes: list[FilmScene]


def film(scenes: Sequence[Scene], name: str) -> Film:
    """Return what a film of the scenes is drawn of."""
    return Film(
        name=name,
        width=WIDTH,
        height=HEIGHT,
        framesPerSecond=FPS,
        frames=sum(scene.durationInFrames for scene in scenes),
        scenes=[_scene(scene) for scene in scenes],
    )


def _scene(scene: Scene) -> FilmScene:
    background = scene.background
    return FilmScene(
        frames=scene.durationInFrames,
        color=background.color,
        to=background.to,
        angle=background.angle,
        parts=[_part(element, scene.durationInFrames) for element in scene.elements],
    )


def _part(element: SceneElement, frames: int) -> FilmPart:
    is_device = element.kind == "device"
    return FilmPart(
        x=element.x * WIDTH / 100,
        y=element.y * HEIGHT / 100,
        width=element.width * WIDTH / 100,
        height=element.height * HEIGHT / 100,
        opacity=element.opacity,
        fill=fill_of(element),
        round=element.kind == "shape" and element.shape == "circle",
        radius=DEVICE_RADIUS * UNIT if is_device else element.radius,
        text=element.text if element.kind == "text" else "",
        color=element.color,
        font=element.font,
        size=element.size,
        weight=element.weight,
        align=element.align,
        note=note_of(element) if element.kind in {"image", "device"} else "",
        screen=(element.background or "#ffffff") if is_device else None,
        inset=SCREEN_INSET * UNIT,
        screenRadius=SCREEN_RADIUS * UNIT,
        motions=[_motion(animation, frames) for animation in element.animations],
    )


def _motion(animation: Animation, frames: int) -> FilmMotion:
    steps = [
        FilmStep(
            at=step.at,
            opacity=step.opacity,
            move=[step.move.x * UNIT, step.move.y * UNIT, step.move.scale, step.move.rotate]
            if step.move
            else None,
            hidden=step.hidden,
        )
        for step in MOTIONS[animation.kind]
    ]
    end = min(animation.start + animation.duration, frames)
    return FilmMotion(start=animation.start, end=end, easing=animation.easing, steps=steps)
