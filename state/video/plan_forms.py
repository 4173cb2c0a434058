"""The forms in which plans and steps are submitted, read as one form.

A step may have the names that plans are shown with (`toolName`, `params.sceneId`, `dependencies`,
`canParallelize` …) or the shorter ones of `submit_plan`. A name that is neither stays, and the
schema refuses it: nothing with a meaning is dropped.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from callsheet.state.errors import Invalid

_NAMES: Final[Mapping[str, str]] = {
    "toolname": "tool",
    "displayname": "title",
    "dependencies": "after",
    "dependson": "after",
    "targetsceneid": "scenes",
    "targetsceneids": "scenes",
    "sceneid": "scenes",
    "sceneids": "scenes",
    "newsceneid": "scenes",
    "referencesceneid": "like",
    "referencesceneids": "like",
    "duration": "seconds",
    "durationseconds": "seconds",
    "versionid": "version",
    "contextkeys": "context",
    "canparallelize": "alone",
    "placeafter": "behind",
}
"""Fields of a step by the other names they may have, in lower case without underscores."""
_NAMES_OF_TOOL: Final[Mapping[tuple[str, str], str]] = {
    ("reorderScenes", "sceneids"): "order",
    ("duplicateScene", "sceneid"): "source",
}
_LISTS: Final = frozenset({"scenes", "like", "after", "order"})
_COMPUTED: Final = frozenset({"projectId", "totalSteps", "estimatedTime"})
"""Fields that the server fills in."""
_PLAN_NAMES: Final = {"userFeedback": "feedback", "sharedStyle": "style"}
_PLAN_FIELDS: Final = frozenset(
    {
        "steps",
        "type",
        "reasoning",
        "feedback",
        "userFeedback",
        "context",
        "sharedStyle",
        "style",
        "executionPlan",
    }
)
_TYPES: Final = frozenset({"single", "multi", "parallel", "sequential", "mixed"})
_CONTEXT: Final = frozenset({"needsWebSearch", "searchQueries", "sharedStyle", "referenceSceneId"})


def as_plan(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return submitted arguments as `SubmittedPlan` has them; a single decision becomes a plan of one step.

    Raises `Invalid` for a context that no step uses.
    """
    fields = {**given, **wrapped} if isinstance(wrapped := given.get("executionPlan"), Mapping) else {**given}
    fields.pop("executionPlan", None)
    if "steps" not in fields and ("toolName" in fields or "tool" in fields):
        fields = _as_single(fields)
    fields = {_PLAN_NAMES.get(name, name): value for name, value in fields.items() if name not in _COMPUTED}
    steps = _list_steps(fields.get("steps"))
    if not isinstance(steps, list) or not all(isinstance(one, Mapping) for one in steps):
        return fields
    read = [as_step(one) for one in steps]
    kind = fields.get("type")
    if kind in _TYPES:
        # The dependencies decide; the label is computed from them again.
        del fields["type"]
    if kind == "sequential" and not any(one.get("after") for one in read):
        read = _chain(read)
    return {**_with_context(fields, read), "steps": read}


def as_step(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step as `PlannedStep` has it; what has no place there keeps its name."""
    params = given.get("params", {})
    if not isinstance(params, Mapping):
        return {**given}
    tool = str(given.get("tool", given.get("toolName", "")))
    outer = {name: value for name, value in given.items() if name != "params"}
    step: dict[str, Any] = {}
    for name, value in (*outer.items(), *params.items()):
        if value is None or name in _COMPUTED or (name, value) == ("extractStyle", True):
            continue
        field, read = _field(tool, name, value)
        if step.get(field, read) != read:
            field = f"{name} beside {field}"
        step[field] = read
    return step


def _field(tool: str, name: str, value: Any) -> tuple[str, Any]:
    """Return a field's name and value in a step."""
    spelling = name.replace("_", "").casefold()
    field = _NAMES_OF_TOOL.get((tool, spelling)) or _NAMES.get(spelling, name)
    if field in _LISTS and isinstance(value, str) and not value.lstrip().startswith("["):
        return field, [value] if value else []
    if convert := _CONVERSIONS.get(spelling):
        return (field, convert(value)) if isinstance(value, bool | list) else (name, value)
    return field, value


_CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "canparallelize": lambda value: not value,
    "placeafter": lambda places: places[0] if places else "start",
}


def _as_single(given: Mapping[str, Any]) -> dict[str, Any]:
    step = {name: value for name, value in given.items() if name not in _PLAN_FIELDS}
    return {"steps": [step], **{name: value for name, value in given.items() if name in _PLAN_FIELDS}}


def _list_steps(steps: Any) -> Any:
    """Return steps that were sent as JSON text, or as one object, as a list."""
    if isinstance(steps, str):
        try:
            steps = json.loads(steps)
        except ValueError:
            return steps
    return [steps] if isinstance(steps, Mapping) else steps


def _chain(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps of a sequential plan: each waits for the one before it."""
    chain: list[dict[str, Any]] = []
    for number, step in enumerate(steps, 1):
        named = {**step, "id": step.get("id") or f"s{number}"}
        chain.append({**named, "after": [chain[-1]["id"]]} if chain else named)
    return chain


def _with_context(fields: dict[str, Any], steps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a plan with the style of its context; what steps look up and are like is in the steps."""
    context = fields.pop("context", None) or {}
    if not isinstance(context, Mapping) or context.keys() - _CONTEXT:
        return {**fields, "context": context}
    tools = {one.get("tool") for one in steps}
    if (context.get("needsWebSearch") or context.get("searchQueries")) and "contextGatherer" not in tools:
        raise Invalid(
            "the plan's context wants a search that no step makes",
            remedy="add a step with the tool contextGatherer and its queries, for others to wait for",
        )
    reference = context.get("referenceSceneId")
    used = {
        str(name) for one in steps for field in ("like", "scenes", "source") for name in one.get(field, ())
    }
    if reference and reference not in used:
        raise Invalid(
            f"the plan's context is like {reference!r}, and no step is",
            remedy="name it as `like` in the steps that follow it",
        )
    style = context.get("sharedStyle")
    return {**fields, "style": style} if style else fields
