"""Undo and redo of an execution's steps, as a plan of its own.

A step is undone by the version that a scene had before, or by the opposite change of the order. A scene that
changed again later is left alone: a person must say which of its versions is wanted.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from callsheet.state import live_plan
from callsheet.state.errors import Conflict
from callsheet.state.live_plan import Execution, LiveStep
from callsheet.state.plan import Step
from callsheet.state.versions import number_of
from callsheet.state.video.project import ORDER, Order

UNDO: Final = "undo"
REDO: Final = "redo"
_OPPOSITE: Final = {
    "addScene": "deleteScene",
    "duplicateScene": "deleteScene",
    "deleteScene": "restoreScene",
    "restoreScene": "deleteScene",
}


class History(NamedTuple):
    """The project as undoing needs to know it."""

    order: Order
    """The order now."""
    newest: Mapping[str, str]
    """Newest version of each stream."""
    content: Callable[[str, str], Any]
    """Returns the content of a version of a stream."""
    earlier: Callable[[str, str], str | None]
    """Returns the version of a stream that was the newest before a version; None for the first. Raises `Gone`
    if it is not kept any more."""
    earlier_order: Callable[[str], Sequence[str]]
    """Returns the ids of the order before a version of it, of those that are there now."""


def can_undo(newest_first: Sequence[Execution]) -> bool:
    """Return True if an execution changed something and is not undone."""
    return _undone(newest_first) is not None


def can_redo(newest_first: Sequence[Execution]) -> bool:
    """Return True if nothing was changed after an undo."""
    return _redone(newest_first) is not None


def undone_execution(newest_first: Sequence[Execution]) -> Execution:
    """Return the newest execution that changed something and is not undone; raise `Conflict` if none is."""
    if record := _undone(newest_first):
        return record
    raise Conflict("there is nothing to undo", remedy="restore a version of a scene instead")


def redone_execution(newest_first: Sequence[Execution]) -> Execution:
    """Return the newest undo that nothing was changed after; raise `Conflict` if there is none."""
    if record := _redone(newest_first):
        return record
    raise Conflict("there is nothing to redo", remedy="only an undo that nothing came after can be redone")


def _undone(newest_first: Sequence[Execution]) -> Execution | None:
    skip = 0
    for record in newest_first:
        if record["kind"] == UNDO:
            skip += 1
        elif not _has_changes(record):
            continue
        elif skip:
            skip -= 1
        else:
            return record
    return None


def _redone(newest_first: Sequence[Execution]) -> Execution | None:
    skip = 0
    for record in newest_first:
        if record["kind"] == REDO:
            skip += 1
        elif record["kind"] != UNDO:
            break
        elif skip:
            skip -= 1
        else:
            return record
    return None


def undo_steps(record: Execution, step_ids: Sequence[str], about: History) -> list[Step]:
    """Return the steps that undo these steps of an execution, or all of them for none, newest first."""
    wanted = [live_plan.find(record, name) for name in step_ids] if step_ids else record["steps"]
    done = [one for one in wanted if _has_changed(one)]
    if not done:
        raise Conflict(
            f"no completed step of execution {record['id']!r} changed anything",
            remedy="choose steps that are completed",
        )
    written_by: dict[str, list[str]] = {}
    for stream, version in (
        item for one in done for versions in live_plan.created_versions(one) for item in versions.items()
    ):
        written_by.setdefault(stream, []).append(version)
    steps: list[Step] = []
    for one in reversed(done):
        name = f"u{len(steps) + 1}"
        if step := _undo_step(one, written_by, about, name, is_redone=record["kind"] == UNDO):
            steps.append(step)
    if not steps:
        raise Conflict("everything is as it was before already", remedy="choose other steps")
    return _in_turn(steps)


def subject(text: str) -> str:
    """Return what a request or a step is about that undoes or redoes it."""
    match = _PREFIX.match(text)
    return text[match.end() :] if match else text


_VERBS: Final = {False: "Undoing", True: "Redoing"}
_PREFIX: Final = re.compile("(?:(?:Undo|Redo|Undoing|Redoing): )++")


def _undo_step(
    one: LiveStep, written_by: Mapping[str, Sequence[str]], about: History, name: str, *, is_redone: bool
) -> Step | None:
    """Return the step that undoes a step; None if the undoing of another one covers it."""
    step = one["step"]
    params = step["params"]
    scene = params.get("newSceneId") or params.get("sceneId", "")
    display = f"{_VERBS[is_redone]}: {subject(step['display'])}"
    if opposite := _OPPOSITE.get(step["tool"]):
        there = scene in about.order.scenes
        if there != (opposite == "deleteScene"):
            return None
        return _step(name, opposite, display, {"sceneId": scene}, [scene], [ORDER])
    if step["tool"] == "reorderScenes":
        order = [*about.earlier_order(live_plan.created_versions(one)[0][ORDER])]
        return _step(name, "reorderScenes", display, {"sceneIds": order}, [], [ORDER])
    versions = written_by[scene]
    if live_plan.created_versions(one)[0][scene] != versions[0]:
        return None
    last, first = _span(about, scene, versions)
    before, current = about.earlier(scene, first), about.content(scene, about.newest[scene])
    if before is None or current == about.content(scene, before):
        return None
    if current != about.content(scene, last):
        raise Conflict(
            f"{scene} has changed since step {step['id']!r}: it is {about.newest.get(scene)} now",
            remedy=f"restore the version you want: POST …/scenes/{scene}/versions/{{version}}/restore",
        )
    return _step(name, "restoreVersion", display, {"sceneId": scene, "versionId": before}, [], [scene])


def _span(about: History, stream: str, versions: Sequence[str]) -> tuple[str, str]:
    """Return the newest of these versions, and the first of those that follow one another up to it.

    What changed the scene between a step and its repetition stays.
    """
    last = first = max(versions, key=number_of)
    while (version := about.earlier(stream, first)) and version in versions:
        first = version
    return last, first


def _step(
    name: str, tool: str, display: str, params: dict[str, Any], reads: list[str], writes: list[str]
) -> Step:
    return Step(
        id=name, tool=tool, display=display, params=params, dependencies=[], reads=reads, writes=writes
    )


def _in_turn(steps: list[Step]) -> list[Step]:
    """Return the steps with changes of the order one after another."""
    before = ""
    for step in steps:
        if step["writes"] == [ORDER]:
            step["dependencies"] = [before] if before else []
            before = step["id"]
    return steps


def _has_changes(record: Execution) -> bool:
    return any(_has_changed(one) for one in record["steps"])


def _has_changed(one: LiveStep) -> bool:
    """Return True for a step that made a version; an edit may find everything as it is wanted."""
    return bool(live_plan.created_versions(one))
