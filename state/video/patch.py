"""A change of a scene that a model fills in: flat, every field optional, checked before it is applied."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from callsheet.state.errors import Invalid
from callsheet.state.video.scene import (
    FPS,
    MAX_ELEMENTS,
    MAX_FRAMES,
    MIN_FRAMES,
    Animation,
    Color,
    Easing,
    Font,
    Kind,
    Motion,
    Pace,
    Percent,
    Scene,
    SceneElement,
)

EVERY: Final = "all"
_LOOK: Final = (
    "x",
    "y",
    "width",
    "height",
    "color",
    "background",
    "font",
    "size",
    "weight",
    "align",
    "opacity",
    "radius",
    "text",
    "src",
)


class Recolor(BaseModel):
    """A colour to replace wherever it occurs in the scene."""

    model_config = ConfigDict(extra="forbid")

    old: Color
    new: Color


class ElementChange(BaseModel):
    """Changes of one element; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=40, description='Id of the element, or "all"')
    text: str | None = Field(default=None, max_length=2_000)
    color: Color | None = None
    background: Color | None = None
    font: Font | None = None
    size: float | None = Field(default=None, ge=8, le=600)
    weight: int | None = Field(default=None, ge=100, le=900)
    align: Literal["left", "center", "right"] | None = None
    opacity: float | None = Field(default=None, ge=0, le=1)
    radius: float | None = Field(default=None, ge=0, le=2_000)
    x: Percent | None = None
    y: Percent | None = None
    width: float | None = Field(default=None, gt=0, le=200)
    height: float | None = Field(default=None, gt=0, le=200)
    src: str | None = Field(default=None, max_length=2_000)


class NewSceneElement(ElementChange):
    """An element to add."""

    id: str = Field(default="", max_length=40, description="Id of your choice, such as title")
    kind: Kind = "text"
    shape: Literal["rectangle", "circle", "line"] = "rectangle"
    device: Literal["phone", "tablet", "laptop"] = "phone"


class AnimationChange(BaseModel):
    """An animation that replaces those of an element."""

    model_config = ConfigDict(extra="forbid")

    element: str = Field(max_length=40, description='Id of the element, or "all"')
    kind: Motion | None = Field(default=None, description="Nothing removes the animations")
    start: int = Field(default=0, ge=0, lt=MAX_FRAMES)
    duration: int = Field(default=15, ge=1, le=MAX_FRAMES)
    easing: Easing = "ease-out"


_SLOWEST: Final = 0.05
_FASTEST: Final = 20


def _checked_speed(value: float | None) -> float | None:
    if value is not None and not _SLOWEST <= value <= _FASTEST:
        raise ValueError("speed is a factor between 0.05 and 20; 2 is twice as fast")
    return value


PatchField = Literal[
    "name",
    "seconds",
    "speed",
    "background",
    "background_to",
    "recolor",
    "change",
    "add",
    "remove",
    "animations",
    "style",
]
"""Fields of a patch; `style` stands for palette, fonts and pace."""
_STYLE: Final = frozenset({"palette", "fonts", "pace"})


class ScenePatch(BaseModel):
    """The changes that were asked for, and nothing else; leave out every field that stays as it is."""

    model_config = ConfigDict(extra="forbid")

    changes: list[PatchField] = Field(
        default=[], max_length=11, description="Names of the fields that the request changes; no other counts"
    )
    name: str | None = Field(default=None, max_length=200)
    seconds: float | None = Field(default=None, gt=0, le=600, description="New length; animations stay")
    speed: Annotated[float | None, AfterValidator(_checked_speed)] = Field(
        default=None,
        description="Factor for the whole scene: 1.5 makes length and animations 1.5 times as fast",
    )
    background: Color | None = Field(default=None, description="New colour of the background")
    background_to: Color | None = Field(default=None, description="Second colour, which makes it a gradient")
    recolor: list[Recolor] = Field(default=[], max_length=20)
    change: list[ElementChange] = Field(default=[], max_length=MAX_ELEMENTS)
    add: list[NewSceneElement] = Field(default=[], max_length=20)
    remove: list[str] = Field(default=[], max_length=MAX_ELEMENTS, description="Ids of elements")
    animations: list[AnimationChange] = Field(default=[], max_length=MAX_ELEMENTS)
    palette: list[Color] | None = Field(default=None, max_length=8)
    fonts: list[Font] | None = Field(default=None, max_length=4)
    pace: Pace | None = None
    note: str = Field(default="", max_length=500, description="For the person: what changed, in a sentence")

    @model_validator(mode="before")
    @classmethod
    def _keep_announced(cls, given: Any) -> Any:
        """Drop the fields that `changes` does not name, where it names any.

        Small models fill in every field that a form has.
        """
        changes = given.get("changes") if isinstance(given, Mapping) else None
        if not isinstance(changes, list) or not changes:
            return given
        kept = {*map(str, changes), "changes", "note", *(_STYLE if "style" in changes else ())}
        return {name: value for name, value in given.items() if name in kept or name not in cls.model_fields}


def apply_patch(scene: Scene, patch: ScenePatch) -> Scene:
    """Return the changed scene; raise `Invalid` that names what does not fit."""
    known = {element.id for element in scene.elements}
    named = [
        *(change.id for change in patch.change),
        *patch.remove,
        *(each.element for each in patch.animations if each.element not in {new.id for new in patch.add}),
    ]
    if unknown := sorted({name for name in named if name not in known and name != EVERY}):
        raise Invalid(
            f"the scene has no element {', '.join(map(repr, unknown))}",
            remedy=f"its elements are: {', '.join(sorted(known)) or 'none'}",
        )
    data = _set_times(scene.data(), patch)
    _paint(data, patch)
    data["elements"] = [each for each in data["elements"] if each["id"] not in patch.remove]
    for change in patch.change:
        for element in _targets(data, change.id):
            element.update(change.model_dump(include={*_LOOK}, exclude_none=True))
    data["elements"] += _new_elements(data, patch)
    _animate(data, patch)
    try:
        return Scene.model_validate(data)
    except ValidationError as error:
        problems = "; ".join(item["msg"] for item in error.errors(include_url=False, include_input=False)[:5])
        raise Invalid(f"the changed scene is not valid: {problems}") from error


def _set_times(data: dict[str, Any], patch: ScenePatch) -> dict[str, Any]:
    if patch.speed:
        data["durationInFrames"] = _frames(data["durationInFrames"] / patch.speed)
        for animation in (each for element in data["elements"] for each in element["animations"]):
            animation["start"] = min(round(animation["start"] / patch.speed), data["durationInFrames"] - 1)
            animation["duration"] = max(1, round(animation["duration"] / patch.speed))
    if patch.seconds:
        data["durationInFrames"] = _frames(patch.seconds * FPS)
    fields = {"name": patch.name, "pace": patch.pace, "palette": patch.palette, "fonts": patch.fonts}
    data.update({name: value for name, value in fields.items() if value is not None})
    return data


def _frames(frames: float) -> int:
    return min(MAX_FRAMES, max(MIN_FRAMES, round(frames)))


def _paint(data: dict[str, Any], patch: ScenePatch) -> None:
    for each in patch.recolor:
        _replace_color(data, each.old, each.new)
    if patch.background:
        data["background"] |= {"color": patch.background, "to": patch.background_to}
    elif patch.background_to:
        data["background"]["to"] = patch.background_to


def _replace_color(data: dict[str, Any], old: str, new: str) -> None:
    for holder in (data["background"], *data["elements"]):
        for name in ("color", "to", "background"):
            if holder.get(name) == old:
                holder[name] = new
    data["palette"] = [new if color == old else color for color in data["palette"]]


def _targets(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [element for element in data["elements"] if name in {EVERY, element["id"]}]


def _new_elements(data: dict[str, Any], patch: ScenePatch) -> Iterator[dict[str, Any]]:
    taken = {element["id"] for element in data["elements"]}
    for new in patch.add:
        name = new.id or next(free for n in range(1, 200) if (free := f"{new.kind}-{n}") not in taken)
        taken.add(name)
        fields = new.model_dump(include={*_LOOK, "kind", "shape", "device"}, exclude_none=True)
        yield {**fields, "id": name, "animations": []}


def _animate(data: dict[str, Any], patch: ScenePatch) -> None:
    replaced: set[str] = set()
    for each in patch.animations:
        for element in _targets(data, each.element):
            if element["id"] not in replaced:
                replaced.add(element["id"])
                element["animations"] = []
            if each.kind:
                element["animations"].append(each.model_dump(exclude={"element"}))


def differences(before: Scene, after: Scene) -> list[str]:
    """Return what changed, in plain words."""
    return [*_field_differences(before, after), *_elements_differences(before, after)]


def length_change(before: Scene, after: Scene) -> str:
    """Return the old and the new length; empty if they are equal."""
    if before.durationInFrames == after.durationInFrames:
        return ""
    return f"{before.durationInFrames / FPS:.3g} s → {after.durationInFrames / FPS:.3g} s"


def _field_differences(before: Scene, after: Scene) -> Iterator[str]:
    if before.name != after.name:
        yield f"name is now {after.name!r}"
    if length := length_change(before, after):
        yield length
    if before.background != after.background:
        to = f" to {after.background.to}" if after.background.to else ""
        yield f"background is now {after.background.color}{to}"
    for field in ("palette", "fonts"):
        values: Sequence[str] = getattr(after, field)
        if getattr(before, field) != values:
            yield f"{field}: {', '.join(values) or 'none'}"
    if before.pace != after.pace:
        yield f"pace is now {after.pace}"
    if before.audio != after.audio:
        yield f"audio: {after.audio.description}" if after.audio else "the audio is gone"


def _elements_differences(before: Scene, after: Scene) -> Iterator[str]:
    old = {element.id: element for element in before.elements}
    new = {element.id: element for element in after.elements}
    yield from (f"{_label(element)} is gone" for name, element in old.items() if name not in new)
    yield from (f"{_label(element)} is new" for name, element in new.items() if name not in old)
    for name, element in new.items():
        if name in old and old[name] != element:
            yield from _element_differences(old[name], element)


def _element_differences(before: SceneElement, after: SceneElement) -> Iterator[str]:
    label = _label(before)
    changed = [name for name in SceneElement.model_fields if getattr(before, name) != getattr(after, name)]
    for name in changed:
        if name == "animations":
            yield f"{label} moves: {_movement(after.animations)}"
        else:
            yield f"{label} {name}: {getattr(before, name)} → {getattr(after, name)}"


def _movement(animations: Sequence[Animation]) -> str:
    return ", ".join(
        f"{each.kind} {each.duration / FPS:g} s from {each.start / FPS:g} s" for each in animations
    ) or ("not at all")


def _label(element: SceneElement) -> str:
    text = " ".join(element.text.split())
    return f"{element.kind} {text[:40]!r}" if text else f"{element.kind} {element.id!r}"
