"""Tasks of videos: the scenes that change, the plan, and how scenes look afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from callsheet.graphs import scene_edit
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.live_plan import Execution
from callsheet.state.owners import LOCAL
from callsheet.state.video import project
from callsheet.state.video.plan_rules import RULES
from callsheet.state.video.project import ORDER, Order
from callsheet.state.video.scene import FPS, Scene
from callsheet.state.video.starter import starters
from callsheet.state.video.style import style_match
from callsheet.storage.artefacts.artefacts import NewVersion
from callsheet.storage.plans import Executions
from evals import turns
from evals.colors import is_darker
from evals.session import TaskSession
from evals.turns import PlayedTurn, lacks, unless

FIELDS: Final = ("project", "attached")
LIKE: Final = 0.85
"""Least style match of a scene that is like another."""


@dataclass(frozen=True)
class ProjectArtefact:
    """A project's scenes in order, and its executions."""

    scenes: Mapping[str, Mapping[str, Any]]
    """Contents by id."""
    start: Mapping[str, Mapping[str, Any]]
    """The same before all messages."""
    executions: Sequence[Execution]
    """The newest first."""


class SceneSession(TaskSession[ProjectArtefact]):
    """A video project, and the conversation about it."""

    workflow: ClassVar[WorkflowSpec] = scene_edit.WORKFLOW

    async def prepare(self) -> Mapping[str, Any]:
        """Store the case's starter project."""
        scenes = turns.known(self.task.given["project"], starters())
        ids = [f"scene-{number}" for number in range(1, len(scenes) + 1)]
        order = Order(scenes=tuple(ids), next=len(ids) + 1, name=self.task.given["project"])
        await self.artefact.open(owner=LOCAL, thread=self.thread, facts={})
        new = [NewVersion(ORDER, order.model_dump(mode="json"), LOCAL, "given")]
        contents = zip(ids, scenes, strict=True)
        new += [NewVersion(name, {"scene": scene.data()}, LOCAL, "given") for name, scene in contents]
        await self.artefact.create_versions(new)
        return {"project_id": self.artefact.id, "scene_ids": self.task.given.get("attached", [])}

    async def look(self) -> ProjectArtefact:
        """Return the project as it is now."""
        head = await self.artefact.stream_head(ORDER)
        order = project.order_of(head.newest.data if head.newest else None)
        start: dict[str, Mapping[str, Any]] = {}
        scenes: dict[str, Mapping[str, Any]] = {}
        for name in order.all_ids():
            versions = (await self.artefact.stream(name)).versions
            start |= {name: versions[0].data["scene"]} if versions and versions[0].batch == "given" else {}
            scenes |= {name: versions[-1].data["scene"]} if versions else {}
        shown = {name: scenes[name] for name in order.scenes if name in scenes}
        executions = Executions(self.opened, "video", self.artefact.id, LOCAL, RULES)
        return ProjectArtefact(shown, start, await executions.newest(20))


SceneTurn = PlayedTurn[ProjectArtefact]


def _steps(turn: SceneTurn) -> list[Mapping[str, Any]]:
    """Return the steps of the plans that the turn submitted."""
    earlier = {one["id"] for one in turn.before.executions}
    new = [one for one in turn.after.executions if one["id"] not in earlier]
    return [{**one["step"]} for execution in new for one in execution["steps"]]


def _common(turn: SceneTurn) -> list[str]:
    return [name for name in turn.before.scenes if name in turn.after.scenes]


def changes(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare the scenes with another content; all others are the same to the byte."""
    before, after = turn.before.scenes, turn.after.scenes
    changed = {name for name in _common(turn) if before[name] != after[name]}
    problems = [unless(changed == {*wanted}, f"changed {sorted(changed) or 'none'}")]
    unnamed = {"deleted", "deleted_max", "order"}.isdisjoint(turn.expect)
    problems.append(unless(not unnamed or not _gone(turn), f"deleted {sorted(_gone(turn))}"))
    if {"added", "order"}.isdisjoint(turn.expect):
        problems.append(unless(not _new(turn), f"added {_new(turn)}"))
    if "order" not in turn.expect:
        kept = [name for name in turn.after.scenes if name in before]
        problems.append(unless(kept == _common(turn), f"the order is {kept}"))
    return "; ".join(filter(None, problems))


def _gone(turn: SceneTurn) -> set[str]:
    return {name for name in turn.before.scenes if name not in turn.after.scenes}


def _new(turn: SceneTurn) -> list[str]:
    return [name for name in turn.after.scenes if name not in turn.before.scenes]


def changes_among(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare the scenes with another content; there are no others."""
    changed = {name for name in _common(turn) if turn.before.scenes[name] != turn.after.scenes[name]}
    return unless(changed <= {*wanted}, f"changed {sorted(changed)}")


def deleted(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare the deleted scenes."""
    return unless(_gone(turn) == {*wanted}, f"deleted {sorted(_gone(turn)) or 'none'}")


def deleted_max(wanted: int, turn: SceneTurn) -> str:
    """Count the deleted scenes."""
    return unless(len(_gone(turn)) <= wanted, f"deleted {sorted(_gone(turn))}")


def added(wanted: int, turn: SceneTurn) -> str:
    """Count the new scenes."""
    return unless(len(_new(turn)) == wanted, f"added {_new(turn)}")


def added_before(wanted: str, turn: SceneTurn) -> str:
    """Compare the place of the new scenes."""
    ids = [*turn.after.scenes]
    at = ids.index(wanted)
    return unless(ids[at - len(_new(turn)) : at] == _new(turn), f"the order is {ids}")


def order(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare the order of all scenes."""
    return unless([*turn.after.scenes] == [*wanted], f"the order is {[*turn.after.scenes]}")


def steps_max(wanted: int, turn: SceneTurn) -> str:
    """Count the steps of the plan."""
    return unless(len(_steps(turn)) <= wanted, f"{len(_steps(turn))} steps")


def reads(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Look that examples are not written."""
    written = {name for step in _steps(turn) for name in step["writes"]} & {*wanted}
    return unless(not written, f"wrote {sorted(written)}")


def sequential(wanted: bool, turn: SceneTurn) -> str:
    """Look whether a step waits for another."""
    return unless(any(step["dependencies"] for step in _steps(turn)) == wanted, "no step waits for another")


def faster(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare lengths: these are shorter."""
    return _compare_lengths(wanted, turn, lambda old, new: new < old)


def slower(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare lengths: these are longer."""
    return _compare_lengths(wanted, turn, lambda old, new: new > old)


def _compare_lengths(wanted: Sequence[str], turn: SceneTurn, holds: Any) -> str:
    old, new = (
        {name: one["durationInFrames"] for name, one in side.scenes.items()}
        for side in (turn.before, turn.after)
    )
    wrong = [name for name in wanted if name not in new or not holds(old[name], new[name])]
    return unless(not wrong, f"{', '.join(wrong)} is not")


def seconds(wanted: Mapping[str, float], turn: SceneTurn) -> str:
    """Compare lengths in seconds."""
    actual = {name: turn.after.scenes[name]["durationInFrames"] / FPS for name in wanted}
    return unless(all(round(actual[name] * FPS) == round(wanted[name] * FPS) for name in wanted), f"{actual}")


def background(wanted: Mapping[str, str], turn: SceneTurn) -> str:
    """Compare the colours of backgrounds."""
    actual = {name: _color(turn, name) for name in wanted}
    return unless(actual == {**wanted}, f"the backgrounds are {actual}")


def background_equal(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare the backgrounds of scenes with each other."""
    actual = {name: _color(turn, name) for name in wanted}
    return unless(len({*actual.values()}) == 1, f"the backgrounds are {actual}")


def darker(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare the light of backgrounds with that before."""
    before = turn.before.scenes
    wrong = [
        name for name in wanted if not is_darker(_color(turn, name), before[name]["background"]["color"])
    ]
    return unless(not wrong, f"{', '.join(wrong)} is not")


def _color(turn: SceneTurn, name: str) -> str:
    return str(turn.after.scenes[name]["background"]["color"])


def like(wanted: Mapping[str, str], turn: SceneTurn) -> str:
    """Compare the style of scenes with that of an example."""
    matches = {
        name: style_match(*(Scene.model_validate(turn.after.scenes[one]) for one in (name, example)))
        for name, example in wanted.items()
    }
    return unless(all(match >= LIKE for match in matches.values()), f"the style matches are {matches}")


def text(wanted: Mapping[str, str], turn: SceneTurn) -> str:
    """Find a text in scenes."""
    wrong = [name for name, one in wanted.items() if lacks(_words(turn, name), one)]
    return unless(not wrong, f"{wrong} says {[_words(turn, name) for name in wrong]}")


def text_gone(wanted: Mapping[str, str], turn: SceneTurn) -> str:
    """Find a text in scenes no more."""
    wrong = [name for name, one in wanted.items() if not lacks(_words(turn, name), one)]
    return unless(not wrong, f"{wrong} still says it")


def _words(turn: SceneTurn, name: str) -> str:
    return " ".join(element["text"] for element in turn.after.scenes[name]["elements"])


def audio(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Look that scenes have audio."""
    wrong = [name for name in wanted if not turn.after.scenes[name]["audio"]]
    return unless(not wrong, f"{', '.join(wrong)} has none")


def as_at_start(wanted: Sequence[str], turn: SceneTurn) -> str:
    """Compare scenes with those before all messages."""
    wrong = [name for name in wanted if turn.after.scenes.get(name) != turn.after.start[name]]
    return unless(not wrong, f"{', '.join(wrong)} differs")


def product(turn: SceneTurn) -> str:
    """Return the words of new and changed scenes."""
    names = [name for name, one in turn.after.scenes.items() if one != turn.before.scenes.get(name)]
    return "\n".join(f"{turn.after.scenes[name]['name']}: {_words(turn, name)}" for name in names)


CHECKS: Final = turns.table(
    *(changes, changes_among, deleted, deleted_max, added, added_before, order, steps_max, reads),
    *(sequential, faster, slower, seconds, background, background_equal, darker, like, text),
    *(text_gone, audio, as_at_start),
)
