"""Tasks of videos: the changed scenes, the plan, and the look of the scenes afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from callsheet.graphs import scene_edit
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.live_plan import Execution
from callsheet.state.owners import LOCAL
from callsheet.state.video import project
from callsheet.state.video.plan import RULES
from callsheet.state.video.project import ORDER, Order
from callsheet.state.video.scene import FPS, Scene, starters
from callsheet.storage.artefacts.artefacts import NewVersion
from callsheet.storage.artefacts.plans import Executions
from evals import turns
from evals.colors import is_darker, is_same
from evals.scene_style import style_match
from evals.session import EvalSession
from evals.tasks import Task, entry_named
from evals.turns import FEWER, MORE, EvalTurn, lacks, unless
from evals.wording import fold

FIELDS: Final = ("project", "attached")
LIKE: Final = 0.85
"""Least style match of a scene that is like another."""


@dataclass(frozen=True)
class EvaluatedProject:
    """A project's scenes in order, and its executions."""

    scenes: Mapping[str, Mapping[str, Any]]
    """Contents by id."""
    start: Mapping[str, Mapping[str, Any]]
    """Contents by id before the first message."""
    executions: Sequence[Execution]
    """The newest first."""


class SceneSession(EvalSession[EvaluatedProject]):
    """A video project, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec[Any]] = scene_edit.WORKFLOW
    subject: ClassVar[str] = "video scene project seconds colour color text background order"

    async def prepare(self) -> Mapping[str, Any]:
        """Store the case's starter project."""
        scenes = entry_named(self.task.setup["project"], starters())
        ids = [f"scene-{number}" for number in range(1, len(scenes) + 1)]
        order = Order(scenes=tuple(ids), next=len(ids) + 1, name=self.task.setup["project"])
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        new = [NewVersion(ORDER, order.model_dump(mode="json"), LOCAL, "given")]
        contents = zip(ids, scenes, strict=True)
        new += [NewVersion(name, {"scene": scene.data()}, LOCAL, "given") for name, scene in contents]
        await self.artefact.create_versions(new)
        return {"project_id": self.artefact.id, "scene_ids": self.task.setup.get("attached", [])}

    async def read_artefact(self) -> EvaluatedProject:
        """Return the project as it is now."""
        head = await self.artefact.stream_head(ORDER)
        order = project.order_of(head.newest.data if head.newest else None)
        start: dict[str, Mapping[str, Any]] = {}
        scenes: dict[str, Mapping[str, Any]] = {}
        for name in order.all_ids():
            versions = (await self.artefact.stream(name)).versions
            start |= {name: versions[0].data["scene"]} if versions and versions[0].batch == "given" else {}
            scenes |= {name: versions[-1].data["scene"]} if versions else {}
        contents = {name: scenes[name] for name in order.scenes if name in scenes}
        executions = Executions(self.opened, "video", self.artefact.id, LOCAL, RULES)
        return EvaluatedProject(contents, start, await executions.newest(20))

    async def edit(self, change: Any) -> Mapping[str, Any]:
        """Change fields of scenes as the person's own versions."""
        current = (await self.read_artefact()).scenes
        new = {name: change_scene(current[name], fields) for name, fields in change.items()}
        await self.artefact.create_versions(
            [NewVersion(name, {"scene": one}, LOCAL, "by hand") for name, one in new.items()]
        )
        return {}

    @classmethod
    def words_of(cls, task: Task, side: EvaluatedProject) -> str:
        """Return the names and texts of the scenes."""
        del task
        return "\n".join(f"{one['name']} {_text_of(one)}" for one in side.scenes.values())


def change_scene(scene: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a scene with `seconds`, `color`, `text_color`, or other fields changed.

    `texts` and `sizes` are by element id.
    """
    rest = {**fields}
    texts, sizes, text_color = (rest.pop(name, None) for name in ("texts", "sizes", "text_color"))
    if "seconds" in rest:
        rest["durationInFrames"] = round(rest.pop("seconds") * FPS)
    if "color" in rest:
        rest["background"] = {**scene["background"], "color": rest.pop("color")}
    elements = [
        {
            **one,
            "text": (texts or {}).get(one["id"], one["text"]),
            "size": (sizes or {}).get(one["id"], one["size"]),
            "color": text_color or one["color"],
        }
        for one in scene["elements"]
    ]
    return {**scene, "elements": elements, **rest}


SceneTurn = EvalTurn[EvaluatedProject]


def _steps(turn: SceneTurn) -> list[Mapping[str, Any]]:
    """Return the steps of the plans that the turn submitted."""
    earlier = {one["id"] for one in turn.before.executions}
    new = [one for one in turn.after.executions if one["id"] not in earlier]
    return [{**one["step"]} for execution in new for one in execution["steps"]]


def _common(turn: SceneTurn) -> list[str]:
    return [name for name in turn.before.scenes if name in turn.after.scenes]


def changes(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check which scenes changed; all others must be identical."""
    before, after = turn.before.scenes, turn.after.scenes
    changed = {name for name in _common(turn) if before[name] != after[name]}
    problems = [unless(changed == {*expected}, f"changed {sorted(changed) or 'none'}")]
    unnamed = {"deleted_scenes", "deleted_max", "order"}.isdisjoint(turn.expect)
    problems.append(unless(not unnamed or not _deleted_ids(turn), f"deleted {sorted(_deleted_ids(turn))}"))
    if {"added_scenes", "order"}.isdisjoint(turn.expect):
        problems.append(unless(not _new_ids(turn), f"added {_new_ids(turn)}"))
    if "order" not in turn.expect:
        remaining = [name for name in turn.after.scenes if name in before]
        problems.append(unless(remaining == _common(turn), f"the order is {remaining}"))
    return "; ".join(filter(None, problems))


def _deleted_ids(turn: SceneTurn) -> set[str]:
    return {name for name in turn.before.scenes if name not in turn.after.scenes}


def _new_ids(turn: SceneTurn) -> list[str]:
    return [name for name in turn.after.scenes if name not in turn.before.scenes]


def changes_among(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that only these scenes changed."""
    changed = {name for name in _common(turn) if turn.before.scenes[name] != turn.after.scenes[name]}
    return unless(changed <= {*expected}, f"changed {sorted(changed)}")


def deleted_scenes(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check the deleted scenes."""
    return unless(_deleted_ids(turn) == {*expected}, f"deleted {sorted(_deleted_ids(turn)) or 'none'}")


def deleted_max(expected: int, turn: SceneTurn) -> str:
    """Check the largest number of deleted scenes."""
    return unless(len(_deleted_ids(turn)) <= expected, f"deleted {sorted(_deleted_ids(turn))}")


def added_scenes(expected: int, turn: SceneTurn) -> str:
    """Check the number of new scenes; each of them has words."""
    silent = [name for name in _new_ids(turn) if not _words(turn, name).strip()]
    return unless(
        len(_new_ids(turn)) == expected and not silent, f"added {_new_ids(turn)}, without words {silent}"
    )


def added_before(expected: str, turn: SceneTurn) -> str:
    """Check that the new scenes are before another one."""
    ids = [*turn.after.scenes]
    at = ids.index(expected)
    return unless(ids[at - len(_new_ids(turn)) : at] == _new_ids(turn), f"the order is {ids}")


def order(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check the order of all scenes."""
    return unless([*turn.after.scenes] == [*expected], f"the order is {[*turn.after.scenes]}")


def steps_max(expected: int, turn: SceneTurn) -> str:
    """Check the largest number of steps."""
    return unless(len(_steps(turn)) <= expected, f"{len(_steps(turn))} steps")


def reads(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that no step writes these scenes."""
    written = {name for step in _steps(turn) for name in step["writes"]} & {*expected}
    return unless(not written, f"wrote {sorted(written)}")


def sequential(expected: bool, turn: SceneTurn) -> str:
    """Check whether a step waits for another."""
    return unless(any(step["dependencies"] for step in _steps(turn)) == expected, "no step waits for another")


def faster(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that these scenes are shorter than before."""
    return _compare_lengths(expected, turn, lambda old, new: new <= old * FEWER)


def slower(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that these scenes are longer than before."""
    return _compare_lengths(expected, turn, lambda old, new: new >= old * MORE)


def _compare_lengths(expected: Sequence[str], turn: SceneTurn, holds: Any) -> str:
    old, new = (
        {name: one["durationInFrames"] for name, one in side.scenes.items()}
        for side in (turn.before, turn.after)
    )
    wrong = [name for name in expected if name not in new or not holds(old[name], new[name])]
    return unless(not wrong, f"{', '.join(wrong)} is not")


def seconds(expected: Mapping[str, float], turn: SceneTurn) -> str:
    """Check lengths in seconds."""
    actual = {name: turn.after.scenes[name]["durationInFrames"] / FPS for name in expected}
    return unless(
        all(round(actual[name] * FPS) == round(expected[name] * FPS) for name in expected), f"{actual}"
    )


def background(expected: Mapping[str, str], turn: SceneTurn) -> str:
    """Check the colours of backgrounds."""
    actual = {name: _color(turn, name) for name in expected}
    return unless(actual == {**expected}, f"the backgrounds are {actual}")


def background_equal(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that scenes have the same background."""
    actual = {name: _color(turn, name) for name in expected}
    return unless(len({*actual.values()}) == 1, f"the backgrounds are {actual}")


def darker(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that backgrounds are darker than before."""
    before = turn.before.scenes
    wrong = [
        name for name in expected if not is_darker(_color(turn, name), before[name]["background"]["color"])
    ]
    return unless(not wrong, f"{', '.join(wrong)} is not")


def _color(turn: SceneTurn, name: str) -> str:
    return str(turn.after.scenes[name]["background"]["color"])


def like(expected: Mapping[str, str], turn: SceneTurn) -> str:
    """Check that scenes have the style of an example."""
    matches = {
        name: style_match(*(Scene.model_validate(turn.after.scenes[one]) for one in (name, example)))
        for name, example in expected.items()
    }
    return unless(all(match >= LIKE for match in matches.values()), f"the style matches are {matches}")


def text(expected: Mapping[str, str], turn: SceneTurn) -> str:
    """Check that scenes have a text."""
    wrong = [name for name, one in expected.items() if lacks(_words(turn, name), one)]
    return unless(not wrong, f"{wrong} says {[_words(turn, name) for name in wrong]}")


def text_replaced(expected: Mapping[str, Mapping[str, str]], turn: SceneTurn) -> str:
    """Check that a scene's texts are the earlier ones with these words replaced, and nothing else."""
    for name, replacements in expected.items():
        wanted = fold(_text_of(turn.before.scenes[name]))
        for old, new in replacements.items():
            wanted = wanted.replace(fold(old), fold(new))
        if fold(_words(turn, name)) != wanted:
            return f"{name} says {_words(turn, name)!r}"
    return ""


def texts_kept(expected: bool, turn: SceneTurn) -> str:
    """Check whether every remaining scene says what it said before."""
    before = turn.before.scenes
    changed = [name for name in _common(turn) if fold(_words(turn, name)) != fold(_text_of(before[name]))]
    return unless((not changed) == expected, f"other words in {', '.join(changed) or 'no scene'}")


def colors_from(expected: Mapping[str, str], turn: SceneTurn) -> str:
    """Check that scenes have no colours but those of an example, and have its background."""
    for name, example in expected.items():
        scene, source = turn.after.scenes[name], turn.after.scenes[example]
        foreign = _colors(scene) - _colors(source)
        if foreign or scene["background"]["color"] != source["background"]["color"]:
            return f"{name} has {sorted(foreign)} on {scene['background']['color']}"
    return ""


def _colors(scene: Mapping[str, Any]) -> set[str]:
    looks = [scene["background"], *scene["elements"]]
    values = [look.get(key) for look in looks for key in ("color", "to", "background")]
    return {one for one in values if isinstance(one, str)} | {*scene["palette"]}


def text_color(expected: Mapping[str, str], turn: SceneTurn) -> str:
    """Check the colour of all texts of scenes."""
    for name, color in expected.items():
        texts = [one for one in turn.after.scenes[name]["elements"] if one["text"]]
        if wrong := [one["color"] for one in texts if not is_same(one["color"], color)]:
            return f"texts of {name} are {wrong}"
    return ""


def bigger(expected: Mapping[str, str], turn: SceneTurn) -> str:
    """Check that an element of a scene is larger than before, or its text is."""
    for name, element in expected.items():
        old, new = (_element(side.scenes[name], element) for side in (turn.before, turn.after))
        if not old or not new:
            return f"{name} has no {element}"
        if _area(new) < _area(old) * MORE and new["size"] < old["size"] * MORE:
            return f"{element} of {name} is not larger"
    return ""


def _element(scene: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((one for one in scene["elements"] if one["id"] == name), None)


def _area(element: Mapping[str, Any]) -> float:
    return float(element["width"] * element["height"])


def copies(expected: str, turn: SceneTurn) -> str:
    """Check that a new scene is like an earlier one, but for its name."""
    source = {**turn.before.scenes[expected], "name": ""}
    same = [name for name in _new_ids(turn) if {**turn.after.scenes[name], "name": ""} == source]
    return unless(same, f"none of {_new_ids(turn)} is a copy of {expected}")


def text_gone(expected: Mapping[str, str], turn: SceneTurn) -> str:
    """Check that scenes no longer have a text."""
    wrong = [name for name, one in expected.items() if not lacks(_words(turn, name), one)]
    return unless(not wrong, f"{wrong} still says it")


def _words(turn: SceneTurn, name: str) -> str:
    return _text_of(turn.after.scenes[name])


def _text_of(scene: Mapping[str, Any]) -> str:
    return " ".join(element["text"] for element in scene["elements"])


def audio(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that scenes have audio."""
    wrong = [name for name in expected if not turn.after.scenes[name]["audio"]]
    return unless(not wrong, f"{', '.join(wrong)} has none")


def as_at_start(expected: Sequence[str], turn: SceneTurn) -> str:
    """Check that scenes are as before the first message."""
    wrong = [name for name in expected if turn.after.scenes.get(name) != turn.after.start[name]]
    return unless(not wrong, f"{', '.join(wrong)} differs")


def product(turn: SceneTurn) -> str:
    """Return the words of new and changed scenes."""
    names = [name for name, one in turn.after.scenes.items() if one != turn.before.scenes.get(name)]
    return "\n".join(f"{turn.after.scenes[name]['name']}: {_words(turn, name)}" for name in names)


CHECKS: Final = turns.table(
    *(
        changes,
        changes_among,
        deleted_scenes,
        deleted_max,
        added_scenes,
        added_before,
        order,
        steps_max,
        reads,
    ),
    *(sequential, faster, slower, seconds, background, background_equal, darker, like, text),
    *(text_replaced, texts_kept, text_gone, text_color, colors_from, bigger, copies, audio, as_at_start),
)
