"""Lessons: a text becomes facts, a person chooses some, and they become a narrated script.

START → planner → tool_executor → select_facts (interrupt) → tool_executor → summarizer
                                                             → review_narration (interrupt, if wanted)
                                                             → select_images (interrupt, if wanted) → END

The model has three tools: note the student, find the facts, write the narration. Once facts are proposed the
thread waits for a person, in any process. After the choice the model only writes. A message that is no choice
is answered, and the question stays pending.
"""

import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph

from callsheet.graphs.loop import after_approval, after_planner
from callsheet.nodes.approval import approval_node
from callsheet.nodes.lessons.images import image_selection_node
from callsheet.nodes.lessons.review import review_node
from callsheet.nodes.lessons.selection import QUESTION, fact_selection_node, question_text
from callsheet.nodes.node import Node
from callsheet.nodes.planner import planner_node
from callsheet.nodes.summarizer import summarizer_node
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.lessons import lesson
from callsheet.state.lessons.images import CHOICE_DONE, SEARCH_PENDING
from callsheet.state.lessons.outline import outline
from callsheet.state.lessons.workflow import LessonState
from callsheet.state.plan import StepResult
from callsheet.state.workflow import DraftMade
from callsheet.storage.artefacts.artefacts import StreamHead
from callsheet.tools import REGISTRY
from callsheet.tools.guard.call import Scope

EXTRACT: Final = "extractFactsTool"


class FactNarration(WorkflowSpec):
    """Narrated lessons from a text."""

    name = "fact_narration"
    title = "lessons"
    kind = "lesson"
    streams = lesson.STREAMS
    state = LessonState

    def facts(self, state: LessonState) -> Mapping[str, str]:
        """Return the subject, and that a person chooses among the facts."""
        return {"choice": "person", "subject": state.get("subject", "general")}

    def summary(self, stream: str, data: Mapping[str, Any]) -> str:
        """Return a version in one line."""
        return lesson.summary(stream, data)

    def check_version(self, stream: str, data: Mapping[str, Any]) -> None:
        """Raise for data of a stream that no tool could have written."""
        lesson.check_version(stream, data)

    @property
    def block_streams(self) -> tuple[str, ...]:
        """Return the streams of the outline."""
        return ("student", "source", "facts", "confirmed", "narration")

    def state_block(self, state: LessonState, scope: Scope, heads: Mapping[str, StreamHead]) -> str:
        """Return student, material, facts and narration, and what the teacher is asked."""
        del scope
        newest = {name: head.newest for name, head in heads.items() if head.newest}
        return outline(newest, choosing=bool(state.get("choice")), reviewing=bool(state.get("reviewing")))

    def after_plan(self, state: LessonState, made: Sequence[DraftMade]) -> dict[str, Any]:
        """Return the pending questions: facts until they are narrated, then the narration, then images."""
        versions = {version["stream"]: version["versionId"] for version in made}
        if "facts" in versions:
            return {"choice": versions["facts"], "problem": ""}
        plan = state.get("plan")
        called = {step["tool"] for step in (plan["steps"] if plan else ())}
        approved = "verifyNarrationTool" in called
        if "narration" not in versions:
            return _image_question(state, versions, called, stands=approved)
        reviewing = bool(state.get("review")) and not approved
        questions: dict[str, Any] = {
            "reviewing": reviewing,
            **_image_question(state, versions, called, stands=not reviewing),
        }
        return questions | ({"choice": None, "problem": ""} if state.get("decided") else {})

    def question_messages(self, results: Sequence[StepResult]) -> Sequence[AnyMessage]:
        """Return the question for the choice of facts, once facts were found."""
        outputs = [one["output"] for one in results if one["tool"] == EXTRACT and "facts" in one["output"]]
        return [AIMessage(question_text(output), id=f"{uuid.uuid4()}{QUESTION}") for output in outputs[-1:]]

    def build(self, choose_facts: Node[LessonState] | None = None) -> StateGraph[LessonState, Context]:
        """Return the graph's builder; `choose_facts` replaces the node that asks a person for facts."""
        builder = StateGraph(LessonState, context_schema=Context)
        builder.add_node("planner", planner_node(self), input_schema=LessonState)
        builder.add_node("approval", approval_node(self), input_schema=LessonState)
        builder.add_node("tool_executor", tool_executor_node(self), input_schema=LessonState)
        select_facts = choose_facts or fact_selection_node(self)
        builder.add_node("select_facts", select_facts, input_schema=LessonState)
        builder.add_node("review_narration", review_node(self), input_schema=LessonState)
        builder.add_node("select_images", image_selection_node(self), input_schema=LessonState)
        builder.add_node("summarizer", summarizer_node(self), input_schema=LessonState)
        builder.add_conditional_edges(START, after_start)
        builder.add_conditional_edges("planner", after_planner)
        builder.add_conditional_edges("approval", after_approval)
        builder.add_conditional_edges("tool_executor", after_tools)
        builder.add_conditional_edges("select_facts", after_selection)
        builder.add_conditional_edges("review_narration", after_review)
        builder.add_conditional_edges("select_images", after_images)
        builder.add_conditional_edges("summarizer", after_summary)
        return builder


def _image_question(
    state: LessonState, versions: Mapping[str, str], called: AbstractSet[str], *, stands: bool
) -> dict[str, Any]:
    """Return the state of the image question; a finished narration without images starts the search."""
    now = "" if "confirmed" in versions else state.get("picturing", "")
    if "images" in versions:
        return {"picturing": versions["images"]}
    if "findImagesTool" in called:
        return {"picturing": CHOICE_DONE if now == SEARCH_PENDING else now}
    if stands and state.get("images") and not now:
        return {"picturing": SEARCH_PENDING}
    return {"picturing": now}


def after_start(
    state: LessonState,
) -> Literal["tool_executor", "review_narration", "select_images", "select_facts", "planner"]:
    """Return the first node: the executor for a person's plan, else the pending question.

    With confirmed facts, a message may revise the choice.
    """
    plan = state.get("plan")
    if plan and state.get("decided") and state["messages"][-1].id == plan["id"]:
        return "tool_executor"
    return _pending_question(state) or ("select_facts" if "choice" in state else "planner")


def after_tools(
    state: LessonState,
) -> Literal["approval", "tool_executor", "select_facts", "select_images", "planner", "summarizer"]:
    """Return the next node: the question for new facts; a person's plan ends the turn.

    Images are searched before that end, in the same turn.
    """
    decided = bool(state.get("decided"))
    if state.get("plan"):
        return "tool_executor" if decided else "approval"
    if any(
        made["stream"] == "facts" and made["versionId"] == state.get("choice") for made in state["created"]
    ):
        return "select_facts"
    if decided and state.get("picturing") == SEARCH_PENDING:
        return "select_images"
    return "summarizer" if decided else "planner"


def after_selection(
    state: LessonState,
) -> Literal["tool_executor", "planner", "select_facts", "summarizer"]:
    """Return the next node: the executor for a choice, the planner for a message, else the question again."""
    if state.get("plan"):
        return "tool_executor"
    if isinstance(state["messages"][-1], HumanMessage):
        return "planner"
    return "select_facts" if state.get("choice") else "summarizer"


def after_review(
    state: LessonState,
) -> Literal["tool_executor", "select_facts", "review_narration", "summarizer"]:
    """Return the next node: the executor for an approval, fact selection for a wish, else the question."""
    if state.get("plan"):
        return "tool_executor"
    if isinstance(state["messages"][-1], HumanMessage):
        return "select_facts"
    return "review_narration" if state.get("reviewing") else "summarizer"


def after_images(
    state: LessonState,
) -> Literal["tool_executor", "select_facts", "select_images", "summarizer"]:
    """Return the next node: the executor for a choice, fact selection for a message, else the question."""
    if state.get("plan"):
        return "tool_executor"
    if isinstance(state["messages"][-1], HumanMessage):
        return "select_facts"
    return "select_images" if _pending_question(state) == "select_images" else "summarizer"


def after_summary(
    state: LessonState,
) -> Literal["select_facts", "review_narration", "select_images", "__end__"]:
    """Return the question that is still pending, or the end."""
    return _pending_question(state) or "__end__"


def _pending_question(
    state: LessonState,
) -> Literal["select_facts", "review_narration", "select_images"] | None:
    """Return the first pending question; a search for images counts as one."""
    if state.get("choice"):
        return "select_facts"
    if state.get("reviewing"):
        return "review_narration"
    return "select_images" if state.get("picturing", CHOICE_DONE) not in {"", CHOICE_DONE} else None


WORKFLOW: Final = FactNarration(REGISTRY.of("lesson"), REGISTRY.of("lesson", internal=True))
graph = WORKFLOW.graph
