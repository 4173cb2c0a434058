"""Videos of many scenes, edited by one prompt through a plan that people see and change while it runs.

START → planner → approval → tool_executor → planner … → summarizer → END

The model submits one plan; code gives it ids and dependencies. The executor follows the
execution's record, so that edits, skips and retries by a person count at once.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from langchain_core.messages import AnyMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

from callsheet import storage
from callsheet.graphs.loop import after_approval
from callsheet.nodes.lean import LeanTool, choice, text
from callsheet.nodes.planner import planner_node
from callsheet.nodes.summarizer import summarizer_node
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.video.approval import scene_approval_node
from callsheet.nodes.video.planning import SUBMIT, SceneClosing, ScenePlanning
from callsheet.nodes.workflow import ArtefactSpec, LeanProfile, TurnRules, WorkflowSpec
from callsheet.state.approvals import step_request
from callsheet.state.cards import Card
from callsheet.state.context import Context
from callsheet.state.differences import Difference
from callsheet.state.errors import Invalid
from callsheet.state.plan import Plan, Step, StepResult, step_titles
from callsheet.state.versions import Version
from callsheet.state.video import project
from callsheet.state.video.plan import RULES
from callsheet.state.video.project import ORDER, SCENES, Order, VideoState
from callsheet.state.video.scene import Scene
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools import REGISTRY
from callsheet.tools.call import Scope
from callsheet.tools.guard.outcome import tool_message
from callsheet.tools.registry import Tool


class VideoArtefact(ArtefactSpec[VideoState]):
    """A project: its scenes and their order."""

    def id_of(self, state: VideoState, thread_id: str) -> str:
        """Return the project's id; the thread's where the state has none."""
        return state.get("project_id") or thread_id

    async def streams_of(self, artefact: Artefact) -> tuple[str, ...]:
        """Return no stream: the model sees the project with every message, so that turns need no table."""
        del artefact
        return ()

    async def all_streams_of(self, artefact: Artefact) -> tuple[str, ...]:
        """Return the order and every scene, deleted ones too."""
        head = await artefact.stream_head(ORDER)
        order = project.order_of(head.newest.data if head.newest else None)
        return (ORDER, *order.all_ids())

    async def card_streams(self, artefact: Artefact) -> tuple[str, ...]:
        """Return the order and the scenes in it."""
        head = await artefact.stream_head(ORDER)
        return (ORDER, *project.order_of(head.newest.data if head.newest else None).scenes)

    def card(self, state: VideoState, newest: Mapping[str, Mapping[str, Any]]) -> Card:
        """Return the project's name, and the texts of its scenes."""
        del state
        return project.card(newest)

    def summary(self, stream: str, data: Mapping[str, Any]) -> str:
        """Return a version in one line."""
        if stream == ORDER:
            return ", ".join(Order.model_validate(data).scenes) or "no scenes"
        return Scene.model_validate(data["scene"]).name

    def differences(
        self, stream: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> list[Difference]:
        """Return the differences between two orders, or two scenes."""
        if stream == ORDER:
            return super().differences(stream, before, after)
        return super().differences(stream, before["scene"], after["scene"])

    def check_version(self, stream: str, data: Mapping[str, Any]) -> None:
        """Raise for an order or a scene that no tool could have written."""
        if stream == ORDER:
            Order.model_validate(data)
        elif project.is_scene_id(stream):
            Scene.model_validate(data.get("scene"))
        else:
            raise Invalid(f"a video has no stream {stream!r}", remedy="export the thread again")


class VideoTurnRules(TurnRules[VideoState]):
    """One call submits the whole plan."""

    def describe_step(self, state: VideoState, step: Step, newest: Mapping[str, Version | None]) -> str:
        """Return what a step is to do; its title names the scene."""
        del state, newest
        return step_request(step["params"])

    def change_name(self, stream: str, output: Mapping[str, Any], newest: Version | None) -> str:
        """Return the name of a scene and its id; of the order, what a step did that only changed it."""
        if stream != ORDER:
            return f"{newest.data['scene']['name']} ({stream})" if newest else stream
        if "preview" in output or "message" not in output:
            return project.ORDER_WORDS
        return f"{str(output['message']).removesuffix(project.RESTORABLE)} ({project.ORDER_WORDS})"

    def answer_messages(self, plan: Plan, results: Sequence[StepResult]) -> list[AnyMessage]:
        """Return the one message that answers the call of a rejected plan."""
        output = {"status": "rejected", "steps": [{"step": one["id"], **one["output"]} for one in results]}
        shown = step_titles(plan["id"], plan["steps"])
        return [tool_message(plan["call"], SUBMIT, output, shown)] if "call" in plan else []


class LeanVideo(LeanProfile):
    """A plan of one step: an edit of a scene, or a new one."""

    async def tools(self, state: VideoState, scope: Scope) -> list[LeanTool]:
        """Return the tools, with the ids of the scenes."""
        del state
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        head = await artefact.stream_head(ORDER)
        scenes = project.order_of(head.newest.data if head.newest else None).scenes
        prompt = text("What to do, complete in itself")
        new = LeanTool(
            "add_scene", "Make one new scene.", {"prompt": prompt}, SUBMIT, partial(_step, "addScene")
        )
        if not scenes:
            return [new]
        fields = {"scene": choice([*scenes, _EVERY_SCENE]), "prompt": prompt}
        about = "Change one scene, or all: words, colours, speed, length, movement."
        return [LeanTool("edit_scene", about, fields, SUBMIT, partial(_edit, scenes)), new]


_EVERY_SCENE: Final = "all scenes"


def _step(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"steps": [{"tool": tool, "prompt": given.get("prompt", "")}]}


def _edit(scenes: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    scene = given.get("scene")
    chosen = [*scenes] if scene == _EVERY_SCENE else [scene]
    return {"steps": [{"tool": "editScene", "prompt": given.get("prompt", ""), "scenes": chosen}]}


class SceneEdit(WorkflowSpec[VideoState]):
    """Edits of the scenes of a video."""

    name = "scene_edit"
    title = "videos"
    about = "One request edits many scenes by a plan that can be changed while it runs and undone by step."
    examples = ("make a video about a bakery", "make a video about our bike shop")
    state = VideoState
    artefact = VideoArtefact("video", (ORDER, SCENES))
    turn = VideoTurnRules(plan_rules=RULES)
    lean = LeanVideo()

    def allowed_tools(self, state: Any) -> Mapping[str, Tool]:
        """Return the tools of steps; `submit_plan` is none of them."""
        del state
        return self.internal_tools

    def build(self) -> StateGraph[VideoState, Context]:
        """Return the graph's builder."""
        builder = StateGraph(VideoState, context_schema=Context)
        builder.add_node("planner", planner_node(self, ScenePlanning()), input_schema=VideoState)
        builder.add_node("approval", scene_approval_node(self), input_schema=VideoState)
        builder.add_node("tool_executor", tool_executor_node(self, SceneClosing()), input_schema=VideoState)
        builder.add_node("summarizer", summarizer_node(self), input_schema=VideoState)
        builder.add_conditional_edges(START, after_start)
        builder.add_conditional_edges("planner", after_planner)
        builder.add_conditional_edges("approval", after_approval)
        builder.add_conditional_edges("tool_executor", after_execution)
        builder.add_edge("summarizer", END)
        return builder


def after_start(state: VideoState) -> Literal["approval", "planner"]:
    """Return the first node: the gate for a plan that a person decided, else the planner."""
    decided = state.get("decided") and state.get("plan")
    return "approval" if decided and state["messages"][-1].id == state.get("decision") else "planner"


def after_planner(state: VideoState) -> Literal["approval", "planner", "summarizer"]:
    """Return the next node: the planner again for a plan that was sent back."""
    if state.get("plan"):
        return "approval"
    return "planner" if isinstance(state["messages"][-1], ToolMessage) else "summarizer"


def after_execution(state: VideoState) -> Literal["approval", "planner", "summarizer"]:
    """Return the next node: the end of a turn without a model for a plan that a person decided."""
    if state.get("plan"):
        return "approval"
    return "summarizer" if state.get("decided") else "planner"


WORKFLOW: Final = SceneEdit(REGISTRY.of("video"), REGISTRY.of("video", internal=True))
graph = WORKFLOW.graph
