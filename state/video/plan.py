"""The plan that a model submits for a project, checked and resolved to steps.

A model names scenes by id. Code gives new scenes their ids, makes one step for each scene, and derives which
step waits for which: a step that reads or writes a scene waits for the earlier step that writes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.errors import Invalid
from callsheet.state.live_plan import MAX_STEPS, PlanRules
from callsheet.state.plan import Step
from callsheet.state.video import project
from callsheet.state.video.project import ORDER, Order

ToolName = Literal[
    "editScene",
    "addScene",
    "deleteScene",
    "restoreScene",
    "restoreVersion",
    "trimScene",
    "reorderScenes",
    "duplicateScene",
    "addAudio",
    "contextGatherer",
]
GATHERED: Final = ("gathered:latest", "gathered:styles", "gathered:colors", "gathered:animations")
"""Context keys that a search writes."""
DISPLAY: Final[Mapping[str, str]] = {
    "editScene": "Editing",
    "addScene": "Adding",
    "deleteScene": "Deleting",
    "restoreScene": "Bringing back",
    "restoreVersion": "Restoring",
    "trimScene": "Changing the length of",
    "duplicateScene": "Duplicating",
    "addAudio": "Adding audio to",
}
_PER_SCENE: Final = frozenset(
    {"editScene", "deleteScene", "restoreScene", "restoreVersion", "trimScene", "addAudio"}
)
_DIGITS: Final = 5
_NEEDS_PROMPT: Final = frozenset({"editScene", "addScene", "addAudio"})


class PlannedStep(BaseModel):
    """A step as a model writes it; one with several scenes becomes a step for each."""

    model_config = ConfigDict(extra="forbid")

    tool: ToolName
    scenes: list[str] = Field(
        default=[],
        max_length=MAX_STEPS,
        description="Ids of the scenes that change. For addScene and duplicateScene: your name for the new "
        "scene, such as new-1, which later steps may use",
    )
    prompt: str = Field(
        default="",
        max_length=4_000,
        description="What to do, complete in itself: the step sees only this, its scene and `like`",
    )
    like: list[str] = Field(
        default=[],
        max_length=20,
        description="Ids of scenes that are examples: they are read and stay as they are",
    )
    source: str = Field(default="", max_length=40, description="duplicateScene: id of the scene to copy")
    behind: str = Field(
        default="",
        max_length=40,
        description='New or moved scenes: id of the scene before them; "start" for the first place',
    )
    order: list[str] = Field(
        default=[], max_length=MAX_STEPS, description="reorderScenes: all ids in order, or move `scenes`"
    )
    seconds: float | None = Field(
        default=None, gt=0, le=600, description="trimScene, addScene: length of the scene in seconds"
    )
    name: str = Field(default="", max_length=200, description="addScene: name of the new scene")
    version: str = Field(
        default="", max_length=20, description="restoreVersion: id of the version, such as v2"
    )
    queries: list[str] = Field(default=[], max_length=10, description="contextGatherer: what to search for")
    sources: list[Literal["web", "examples", "trends"]] = Field(
        default=[], description="contextGatherer: where to search"
    )
    after: list[str] = Field(
        default=[],
        max_length=MAX_STEPS,
        description="Ids of steps that must be done first; steps about the same scene wait by themselves",
    )
    id: str = Field(default="", max_length=40, description="Your name for the step, such as s1")
    title: str = Field(default="", max_length=120, description='For people, such as "Making scene 1 faster"')
    alone: bool = Field(default=False, description="True if nothing else may run at the same time")
    context: list[str] = Field(
        default=[],
        max_length=20,
        description="editScene, addScene: keys of gathered context, if others than those of this plan",
    )


class SubmittedPlan(BaseModel):
    """The smallest plan that does what was asked."""

    model_config = ConfigDict(extra="forbid")

    steps: list[PlannedStep] = Field(
        min_length=1, max_length=MAX_STEPS, description="In the order in which they were asked for"
    )
    reasoning: str = Field(default="", max_length=2_000, description="Why these steps, in a sentence")
    feedback: str = Field(default="", max_length=2_000, description="What you will do, for the person")
    style: str = Field(
        default="", max_length=500, description="Style that the scenes share; every step sees it"
    )


@dataclass(frozen=True)
class Project:
    """The project that a plan is checked against."""

    order: Order
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of scenes by id."""
    attached: tuple[str, ...] = ()
    """Scenes that the person attached to the message; only these may be edited then."""


def checked_steps(plan: SubmittedPlan, about: Project, earlier: Sequence[Step] = ()) -> list[Step]:
    """Return the plan's steps in order, with ids, targets and dependencies; raise `Invalid` with every fault.

    `earlier` are steps of the same execution that have not ended.
    """
    return _Resolver(about, earlier).resolve(plan)


def order_after(order: Order, steps: Sequence[Step]) -> Order:
    """Return the order with the new scenes of steps that may not have run, so that no id is given twice."""
    new = [
        step["params"].get("newSceneId") or step["params"]["sceneId"]
        for step in steps
        if step["tool"] in {"addScene", "duplicateScene"}
    ]
    for scene in new:
        order = project.with_scene(order, scene)
    return order


class _Resolver:
    """Turns planned steps into steps."""

    def __init__(self, about: Project, earlier: Sequence[Step]) -> None:
        self._about = about
        self._earlier = earlier
        self._order = about.order
        """The order as it will be after the steps so far."""
        self._next = about.order.next
        self._new: dict[str, str] = {}
        """Ids of new scenes by the model's names for them."""
        self._gone: set[str] = set()
        self._steps: list[Step] = []
        self._expanded: dict[str, list[str]] = {}
        """Ids of the steps that a planned step became."""
        self._problems: list[str] = []
        self._style = ""

    def resolve(self, plan: SubmittedPlan) -> list[Step]:
        self._style = plan.style
        names = [step.id or f"s{number}" for number, step in enumerate(plan.steps, 1)]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._problems.append(f"two steps have the id {name!r}")
        for name, planned in zip(names, plan.steps, strict=True):
            self._add(name, planned)
        explicit = [(name, planned.after) for name, planned in zip(names, plan.steps, strict=True)]
        self._add_explicit(explicit)
        if len(self._steps) > MAX_STEPS:
            self._problems.append(f"it has {len(self._steps)} steps, and {MAX_STEPS} are allowed")
        self._check_cycles()
        if self._problems:
            raise Invalid(
                "the plan cannot be carried out: " + "; ".join(dict.fromkeys(self._problems)),
                remedy="submit the whole plan again, corrected",
            )
        return self._steps

    def _add(self, name: str, planned: PlannedStep) -> None:
        targets = list(self._targets(planned))
        ids = [name] if len(targets) == 1 else [f"{name}.{number}" for number in range(1, len(targets) + 1)]
        self._expanded.setdefault(name, []).extend(ids)
        for step_id, (params, reads, writes) in zip(ids, targets, strict=True):
            subject = params.get("sceneId", "")
            label = self._label(planned, subject)
            own_title = "" if len(targets) > 1 and subject else planned.title
            step = Step(
                id=step_id,
                tool=planned.tool,
                display=own_title or label,
                params=params,
                dependencies=[],
                reads=reads,
                writes=writes,
            )
            if own_title:
                step["label"] = label
            if planned.alone:
                step["alone"] = True
            self._derive(step)
            self._steps.append(step)

    def _targets(self, planned: PlannedStep) -> Iterator[tuple[dict[str, Any], list[str], list[str]]]:
        """Yield parameters, reads and writes of each step that a planned step becomes."""
        if planned.tool in _NEEDS_PROMPT and not planned.prompt.strip():
            self._problems.append(f"{planned.tool} needs a prompt that says what to do")
        if planned.context and planned.tool not in {"editScene", "addScene"}:
            self._problems.append(f"{planned.tool} reads no gathered `context`; editScene and addScene do")
        likes = [scene for name in planned.like if (scene := self._scene(name))]
        if planned.tool in _PER_SCENE:
            yield from self._existing_scenes(planned, likes)
        elif planned.tool in {"addScene", "duplicateScene"}:
            for name in planned.scenes or [""]:
                yield self._new_scene(planned, name, likes)
        elif planned.tool == "reorderScenes":
            yield self._reordering(planned)
        else:
            yield from self._gathering(planned)

    def _existing_scenes(
        self, planned: PlannedStep, likes: list[str]
    ) -> Iterator[tuple[dict[str, Any], list[str], list[str]]]:
        if not planned.scenes:
            self._problems.append(f"{planned.tool} names no scene")
        for name in dict.fromkeys(planned.scenes):
            scene = self._scene(name, deleted=planned.tool == "restoreScene")
            if scene:
                yield self._about_scene(planned, scene, [one for one in likes if one != scene])

    def _about_scene(
        self, planned: PlannedStep, scene: str, likes: list[str]
    ) -> tuple[dict[str, Any], list[str], list[str]]:
        params: dict[str, Any] = {"sceneId": scene}
        if not self._may_change(scene):
            self._problems.append(self._attachment_problem(f"{scene} may not change"))
        if planned.tool in {"deleteScene", "restoreScene"}:
            self._change_order(planned.tool, scene)
            return params, [scene], [ORDER]
        if planned.tool == "trimScene":
            if planned.seconds is None:
                self._problems.append("trimScene needs `seconds`")
            params["durationSeconds"] = planned.seconds
        elif planned.tool == "restoreVersion":
            if not planned.version:
                self._problems.append("restoreVersion needs `version`")
            params["versionId"] = planned.version
        else:
            params["prompt"] = self._prompt(planned)
        if planned.tool == "editScene":
            params |= self._context(planned, likes)
        return params, likes if planned.tool == "editScene" else [], [scene]

    def _may_change(self, scene: str) -> bool:
        """Return True for a scene that the message is about, and for a new one."""
        return not self._about.attached or scene in {*self._about.attached, *self._new.values()}

    def _attachment_problem(self, rule: str) -> str:
        return f"{rule}: the person attached {', '.join(self._about.attached)} to the message"

    def _prompt(self, planned: PlannedStep) -> str:
        """Return the words that a step sees, with the style that all share."""
        return f"{planned.prompt}\n\nStyle of all scenes: {self._style}" if self._style else planned.prompt

    def _new_scene(
        self, planned: PlannedStep, name: str, likes: list[str]
    ) -> tuple[dict[str, Any], list[str], list[str]]:
        scene = f"scene-{self._next}"
        self._next += 1
        source = self._scene(planned.source or (likes[0] if likes else "")) if self._copies(planned) else ""
        behind = self._scene(planned.behind) if planned.behind not in {"", "start"} else ""
        if name:
            if name in self._order.scenes or name in self._new:
                self._problems.append(f"the new scene needs a name of its own, and {name!r} is taken")
            self._new[name] = scene
        if planned.behind == "start":
            after: list[str] | None = []
        else:
            after = [behind or source] if behind or source else None
        self._order = project.with_scene(self._order, scene, after)
        place = self._order.scenes[: self._order.scenes.index(scene)]
        params: dict[str, Any] = {"sceneId": scene, "placeAfter": [*reversed(place)]}
        if self._copies(planned):
            copy = {"sceneId": source, "newSceneId": scene, "placeAfter": params["placeAfter"]}
            copy |= {"prompt": self._prompt(planned)} if planned.prompt else {}
            return copy, [source], [scene, ORDER]
        params |= {"prompt": self._prompt(planned), **self._context(planned, likes)}
        params |= {"name": planned.name} if planned.name else {}
        params |= {"durationSeconds": planned.seconds} if planned.seconds else {}
        return params, likes, [scene, ORDER]

    @staticmethod
    def _copies(planned: PlannedStep) -> bool:
        return planned.tool == "duplicateScene"

    def _reordering(self, planned: PlannedStep) -> tuple[dict[str, Any], list[str], list[str]]:
        scenes = self._moved_order(planned) if planned.scenes and not planned.order else []
        scenes = scenes or [scene for name in planned.order if (scene := self._scene(name))]
        before = [scene for scene in self._order.scenes if not self._may_change(scene)]
        if [scene for scene in scenes if not self._may_change(scene)] != before:
            self._problems.append(self._attachment_problem("the order of other scenes may not change"))
        try:
            self._order = project.with_order(self._order, scenes)
        except Invalid as error:
            self._problems.append(f"{error.message} ({error.remedy})")
        return {"sceneIds": scenes}, [], [ORDER]

    def _moved_order(self, planned: PlannedStep) -> list[str]:
        """Return the order with some scenes behind another one, or at the start or the end."""
        moving = [scene for name in planned.scenes if (scene := self._scene(name))]
        rest = [scene for scene in self._order.scenes if scene not in moving]
        behind = self._scene(planned.behind) if planned.behind not in {"", "start"} else ""
        last = 0 if planned.behind == "start" else len(rest)
        index = rest.index(behind) + 1 if behind in rest else last
        return [*rest[:index], *moving, *rest[index:]]

    def _gathering(self, planned: PlannedStep) -> Iterator[tuple[dict[str, Any], list[str], list[str]]]:
        for name in [*planned.scenes, *planned.like]:
            if scene := self._scene(name):
                yield {"targetSceneId": scene, "extractStyle": True}, [scene], []
        if planned.queries:
            sources = planned.sources or ["web", "examples", "trends"]
            yield {"queries": planned.queries, "sources": sources}, [], []
        elif not planned.scenes and not planned.like:
            self._problems.append("contextGatherer needs `queries`, or `scenes` whose style is wanted")

    def _change_order(self, tool: str, scene: str) -> None:
        if tool == "deleteScene":
            self._gone.add(scene)
            self._order = project.without_scene(self._order, scene)
        else:
            self._gone.discard(scene)
            self._order = project.with_restored(self._order, scene)

    def _context(self, planned: PlannedStep, likes: Sequence[str]) -> dict[str, Any]:
        """Return the references of a step, and the context that it names or earlier steps gather for it."""
        gathering = [step for step in self._steps if step["tool"] == "contextGatherer"]
        styles = {step["params"].get("targetSceneId") for step in gathering}
        keys = [f"style:{scene}" for scene in likes if scene in styles]
        if any("queries" in step["params"] for step in gathering):
            keys += GATHERED
        keys = [*dict.fromkeys([*keys, *planned.context])]
        return ({"referenceSceneIds": [*likes]} if likes else {}) | ({"contextKeys": keys} if keys else {})

    def _scene(self, name: str, *, deleted: bool = False) -> str:
        """Return the id that a name means; empty after a problem."""
        scene = self._resolve_name(name.strip())
        if deleted and any(one.id == scene for one in self._order.deleted):
            return scene
        if scene in self._order.scenes and not deleted:
            return scene
        there = ", ".join(self._order.scenes) or "none"
        reason = "it is deleted by an earlier step" if scene in self._gone else f"the scenes are: {there}"
        self._problems.append(f"there is no {'deleted ' if deleted else ''}scene {name!r}; {reason}")
        return ""

    def _resolve_name(self, name: str) -> str:
        """Return the scene of an id, a new scene's name, a place such as "scene 2", or a scene's own name."""
        if name in self._new or project.is_scene_id(name):
            return self._new.get(name, name)
        folded = name.casefold()
        if project.is_scene_id(folded):
            return folded
        known = self._about.order.scenes
        number = folded.removeprefix("scene").strip(" #")
        places = {known[int(number) - 1]} if _is_place(number, len(known)) else set()
        named = {scene for scene, title in self._about.names.items() if title.strip().casefold() == folded}
        if len(meanings := places or named) > 1 or (places and named - places):
            several = ", ".join(sorted(meanings | named))
            self._problems.append(f"{name!r} may mean {several}; give its id")
        return next(iter(sorted(meanings)), name)

    def _label(self, planned: PlannedStep, scene: str) -> str:
        if planned.tool == "reorderScenes":
            return "Changing the order of the scenes"
        if planned.tool == "contextGatherer":
            return "Looking for examples and styles"
        position = self._about.order.position(scene)
        name = planned.name or self._about.names.get(scene, "")
        label = f"scene {position}" if position else "a scene"
        return f"{DISPLAY[planned.tool]} {label}{f' “{name}”' if name else ''}"

    def _derive(self, step: Step) -> None:
        """Add what the step waits for because of scenes, the order and gathered context."""
        reads, writes = set(step["reads"]), set(step["writes"])
        keys = set(step["params"].get("contextKeys", ()))
        for earlier in (*self._earlier, *self._steps):
            wrote = set(earlier["writes"]) - ({ORDER} if not _reorders(step, earlier) else set())
            gathered = earlier["tool"] == "contextGatherer" and keys & _context_keys(earlier)
            if wrote & (reads | writes) or gathered:
                step["dependencies"].append(earlier["id"])
            elif (set(earlier["reads"]) & writes) - {ORDER}:
                step.setdefault("after", []).append(earlier["id"])

    def _add_explicit(self, explicit: Sequence[tuple[str, Sequence[str]]]) -> None:
        by_id = {step["id"]: step for step in self._steps}
        for name, waits in explicit:
            for wanted in waits:
                if wanted not in self._expanded:
                    self._problems.append(f"step {name!r} waits for {wanted!r}, which is not in the plan")
                for step_id in self._expanded[name]:
                    known = by_id[step_id]["dependencies"]
                    known += [one for one in self._expanded.get(wanted, ()) if one not in known]

    def _check_cycles(self) -> None:
        if stuck := _cyclic_steps(self._steps):
            self._problems.append(f"the steps {', '.join(stuck)} wait for each other")


def _is_place(number: str, count: int) -> bool:
    return number.isdecimal() and len(number) <= _DIGITS and 0 < int(number) <= count


def _reorders(step: Step, earlier: Step) -> bool:
    return "reorderScenes" in {step["tool"], earlier["tool"]}


def _context_keys(step: Step) -> set[str]:
    target = step["params"].get("targetSceneId")
    return {f"style:{target}"} if target else set(GATHERED)


def _cyclic_steps(steps: Sequence[Step]) -> list[str]:
    """Return the ids of steps that can never start, because they wait for each other."""
    left = {step["id"]: {*step["dependencies"], *step.get("after", ())} for step in steps}
    while free := [name for name, waits in left.items() if not waits & left.keys()]:
        for name in free:
            del left[name]
    return list(left)


def estimated_seconds(steps: Sequence[Step], seconds: Mapping[str, float], parallel: int) -> float:
    """Return how long the plan takes if each step takes the seconds of its tool, `parallel` at once."""
    ends: dict[str, float] = {}
    slots = [0.0] * max(1, parallel)
    for step in steps:
        waits = [ends.get(name, 0.0) for name in (*step["dependencies"], *step.get("after", ()))]
        slot = min(range(len(slots)), key=slots.__getitem__)
        begin = max([slots[slot], *waits, *([max(slots)] if step.get("alone") else ())])
        slots[slot] = ends[step["id"]] = begin + seconds.get(step["tool"], DEFAULT_STEP_S)
        if step.get("alone"):
            slots = [slots[slot]] * len(slots)
    return max(ends.values(), default=0.0)


DEFAULT_STEP_S: Final = 5.0
"""Seconds of a step whose tool has never run (four steps, 20 s at most)."""


RULES: Final = PlanRules(
    creators=frozenset({"addScene", "duplicateScene"}),
    once=frozenset({"addScene", "duplicateScene", "deleteScene", "restoreScene"}),
    editable=frozenset({"prompt", "name", "durationSeconds", "volume", "queries", "sources"}),
    preview=("versionId", "versions", "error"),
    version_event="scene-update",
    stream_key="sceneId",
    unannounced=frozenset({ORDER}),
    limited=False,
    kept=True,
)
