"""The loop that workflows share: plan, ask for approval, execute, look again, end with a message.

START → planner → tool_executor → planner … → summarizer → END, by way of approval for steps that need it
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime, get_runtime

from callsheet.nodes.approval import approval_node, needs_approval
from callsheet.nodes.node import run_context
from callsheet.nodes.planner import Planning, planner_node
from callsheet.nodes.summarizer import summarizer_node
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.workflow import S, WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.workflow import Workflow, is_repetition


class LoopWorkflow(WorkflowSpec[S]):
    """A workflow whose graph is the shared loop."""

    planning: ClassVar[Planning | None] = None
    """The planner's part that differs; None for the usual one."""

    def build(self) -> StateGraph[Any, Context]:
        """Return the graph's builder."""
        builder: StateGraph[Any, Context] = StateGraph(self.state, context_schema=Context)
        # Without the schema LangGraph would hand a shared node only the keys that its own annotation names.
        builder.add_node("planner", planner_node(self, self.planning), input_schema=self.state)
        builder.add_node("approval", approval_node(self), input_schema=self.state)
        builder.add_node("tool_executor", tool_executor_node(self), input_schema=self.state)
        builder.add_node("summarizer", summarizer_node(self), input_schema=self.state)
        builder.add_edge(START, "planner")
        builder.add_conditional_edges("planner", planner_exit(self))
        builder.add_conditional_edges("approval", after_approval)
        builder.add_conditional_edges("tool_executor", after_tools)
        builder.add_edge("summarizer", END)
        return builder


def planner_exit(workflow: WorkflowSpec[Any]) -> Callable[..., str]:
    """Return the function that names the node after the planner.

    Every node costs a checkpoint, so a plan that nobody must approve passes approval by.
    """

    def after_planner(state: Workflow) -> Literal["approval", "tool_executor", "summarizer"]:
        if not state.get("plan"):
            return "summarizer"
        if state.get("decided"):
            return "tool_executor"
        # There is no runtime while a client writes the state; approval decides when the run goes on.
        runtime: Runtime[Context] | None = get_runtime(Context)
        asks = runtime is None or needs_approval(workflow, state, run_context(runtime))
        return "approval" if asks else "tool_executor"

    return after_planner


def after_approval(state: Workflow) -> Literal["tool_executor", "planner"]:
    """Return the next node: the executor for an approved plan, the planner for a rejected one."""
    return "tool_executor" if state.get("plan") else "planner"


def after_tools(state: Workflow) -> Literal["approval", "planner", "summarizer"]:
    """Return the next node: approval where steps are still pending, the end for a step done again."""
    if state.get("plan"):
        return "approval"
    return "summarizer" if is_repetition(state) else "planner"
