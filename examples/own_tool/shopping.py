"""A workflow with tools of its own, outside of Callsheet's tree: shopping lists.

Every call of a tool passes the guard: arguments, permissions, limits, locks, receipt, record (docs/tools.md).
"""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

from callsheet.graphs.loop import after_approval, after_tools, planner_exit
from callsheet.nodes.approval import approval_node
from callsheet.nodes.planner import plan_of_calls
from callsheet.nodes.summarizer import summarizer_node
from callsheet.nodes.tool_executor import tool_executor_node
from callsheet.nodes.workflow import ArtefactSpec, WorkflowSpec
from callsheet.state.context import Context
from callsheet.state.workflow import Workflow
from callsheet.tools import REGISTRY
from callsheet.tools.call import Call
from callsheet.tools.registry import tool


class Item(BaseModel, extra="forbid"):
    """Arguments of `add_item`."""

    name: str = Field(description="What to buy", min_length=1, max_length=40)
    count: int = Field(1, description="How many", ge=1, le=99)


class NoArguments(BaseModel, extra="forbid"):
    """No arguments."""


@tool(schema=Item, display="Adding an item", writes=("list",))
async def add_item(args: Item, call: Call) -> dict[str, Any]:
    """Add an item to the end of the list."""
    head = await call.artefact.stream_head("list")
    items = [*(head.newest.data["items"] if head.newest else []), args.model_dump()]
    # Version and receipt are stored together, so a call that is repeated after a crash writes nothing.
    return await call.write("list", {"items": items}, result={"items": len(items)}, expected_head=head)


@tool(schema=NoArguments, display="Emptying the list", writes=("list",), safety="potentially_destructive")
async def clear_list(args: NoArguments, call: Call) -> dict[str, Any]:
    """Remove all items. A person is asked first."""
    del args
    return await call.write("list", {"items": []}, result={"items": 0})


for each in (add_item, clear_list):
    REGISTRY.add(each, "shopping")


class Shopping(WorkflowSpec[Workflow]):
    """Shopping lists. With a model, extend `LoopWorkflow`: its `build` has a planner that asks the model."""

    name = "shopping"
    title = "shopping lists"
    artefact = ArtefactSpec("shopping", ("list",))

    def build(self) -> StateGraph[Any, Context]:
        """Return the usual loop, with a planner of our own that needs no model."""
        builder: StateGraph[Any, Context] = StateGraph(Workflow, context_schema=Context)
        builder.add_node("planner", planner)
        builder.add_node("approval", approval_node(self))
        builder.add_node("tool_executor", tool_executor_node(self))
        builder.add_node("summarizer", summarizer_node(self))
        builder.add_edge(START, "planner")
        builder.add_conditional_edges("planner", planner_exit(self))
        builder.add_conditional_edges("approval", after_approval)
        builder.add_conditional_edges("tool_executor", after_tools)
        builder.add_edge("summarizer", END)
        return builder


async def planner(state: Workflow) -> dict[str, Any]:
    """Plan "clear", or the items in "bread, 200 milk", as calls of tools; nothing once they are answered."""
    message = state["messages"][-1]
    if not isinstance(message, HumanMessage):
        return {"plan": None}
    calls = (
        [("clear_list", {})] if message.text == "clear" else [item(one) for one in message.text.split(",")]
    )
    named = [{"name": name, "args": args, "id": f"call-{n}"} for n, (name, args) in enumerate(calls)]
    # A node may run twice, so ids follow from its input.
    answer = AIMessage("", tool_calls=named, id=f"plan-{message.id}")
    return {"messages": [answer], "plan": plan_of_calls(WORKFLOW, answer), "results": [], "created": []}


def item(words: str) -> tuple[str, dict[str, Any]]:
    """Return the call that adds "200 milk", or "milk"."""
    count, _, name = words.strip().rpartition(" ")
    return "add_item", {"name": name} | ({"count": int(count)} if count.isdecimal() else {})


WORKFLOW = Shopping(REGISTRY.of("shopping"))
graph = WORKFLOW.graph
