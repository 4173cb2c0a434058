"""The loop that workflows share: plan, ask where leave is needed, carry out, look again, end with a word.

START → planner → approval → tool_executor → planner … → summarizer → END
"""

from typing import Any, Final, Literal, TypeVar

from langgraph.graph import END, START, StateGraph
from langgraph.pregel import Pregel

from nodes.approval import approval
from nodes.node import Subject
from nodes.planner import planner
from nodes.summarizer import summarizer
from nodes.tool_executor import tool_executor
from state.context import Context
from state.workflow import Workflow

S = TypeVar("S", bound=Workflow)
RECURSION_LIMIT: Final = 1_000
"""LangGraph's own bound on steps; the real bound is the planner's (A72, C8)."""


def loop(state: type[S], subject: Subject) -> StateGraph[S, Context]:
    """Return the builder of a workflow that remembers `state` and is about `subject`."""
    builder = StateGraph(state, context_schema=Context)
    # Without the schema LangGraph would hand a shared node only the keys that its own annotation names.
    builder.add_node("planner", planner(subject), input_schema=state)
    builder.add_node("approval", approval(subject), input_schema=state)
    builder.add_node("tool_executor", tool_executor(subject), input_schema=state)
    builder.add_node("summarizer", summarizer(subject), input_schema=state)
    builder.add_edge(START, "planner")
    builder.add_conditional_edges("planner", after_planner)
    builder.add_conditional_edges("approval", after_approval)
    builder.add_conditional_edges("tool_executor", after_tools)
    builder.add_edge("summarizer", END)
    return builder


def compiled(builder: StateGraph[S, Context], name: str) -> Pregel[Any, Any]:
    """Return the graph without storage, which the server attaches."""
    graph: Pregel[Any, Any] = builder.compile(name=name).with_config(recursion_limit=RECURSION_LIMIT)
    return graph


def after_planner(state: Workflow) -> Literal["approval", "summarizer"]:
    """Return where a plan goes: to be carried out, or, where there is none, to the last word."""
    return "approval" if state.get("plan") else "summarizer"


def after_approval(state: Workflow) -> Literal["tool_executor", "planner"]:
    """Return where an approved plan goes, and where a rejected one does."""
    return "tool_executor" if state.get("plan") else "planner"


def after_tools(state: Workflow) -> Literal["approval", "planner"]:
    """Return to the planner, or, where steps are still pending, to the question whether to go on."""
    return "approval" if state.get("plan") else "planner"
