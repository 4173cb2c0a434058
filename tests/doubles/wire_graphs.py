"""Small graphs that tests and benches serve; no network, no key."""

import asyncio
import operator
import typing
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Final

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict

PACE_S: Final = 0.05
"""Seconds between two ticks of `slow`."""
PART_S: Final = 0.08
"""Seconds for each word that `teller` streams, and for each space."""
QUESTION: Final[Mapping[str, Any]] = {
    "action_requests": [
        {"name": "send_email", "args": {"to": "a@b.c", "body": "hi"}, "description": "Please review"}
    ],
    "review_configs": [{"action_name": "send_email", "allowed_decisions": ["approve", "edit", "reject"]}],
}
"""The question of `agent` to a person, as Agent Chat UI draws it."""

Graph = CompiledStateGraph[Any, Any, Any, Any]


class ChatState(TypedDict):
    """A conversation that waits for a decision."""

    messages: Annotated[list[AnyMessage], add_messages]
    steps: Annotated[list[str], operator.add]
    decision: dict[str, Any]


class StoryState(TypedDict):
    """A conversation, and the number of its words."""

    messages: Annotated[list[AnyMessage], add_messages]
    counted: int


class CountState(typing.TypedDict):
    """A number, and the nodes that changed it; of the class that most graphs of users have."""

    x: int
    log: Annotated[list[str], operator.add]


class StyleState(TypedDict, total=False):
    """The context of `agent`."""

    tone: str


async def plan(state: ChatState) -> dict[str, Any]:
    get_stream_writer()({"progress": "planning", "pct": 10})
    return {"messages": [await _stream_text("I plan to do X")], "steps": ["plan"]}


async def review(state: ChatState) -> dict[str, Any]:
    return {"decision": interrupt(dict(QUESTION)), "steps": ["review"]}


async def finish(state: ChatState) -> dict[str, Any]:
    get_stream_writer()({"progress": "finishing", "pct": 100})
    return {"messages": [await _stream_text("Done deal")], "steps": ["finish"]}


async def tick(state: CountState) -> dict[str, Any]:
    write = get_stream_writer()
    for number in range(state["x"]):
        write({"tick": number})
        await asyncio.sleep(PACE_S)
    return {"log": ["slow"]}


class SlowChatModel(GenericFakeChatModel):
    """Streams its text slowly, word by word and space by space."""

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for part in self._stream(messages, stop, **more):
            yield part
            await asyncio.sleep(PART_S)


async def tell(state: StoryState) -> dict[str, Any]:
    """Repeat the last message, slowly."""
    return {
        "messages": [await SlowChatModel(messages=iter([AIMessage(state["messages"][-1].text)])).ainvoke("")]
    }


async def count(state: StoryState) -> dict[str, Any]:
    """Count the words of the last message at the pace of `tell`."""
    write, words = get_stream_writer(), state["messages"][-1].text.split()
    for number, _ in enumerate(words):
        write({"tick": number})
        await asyncio.sleep(2 * PART_S)
    return {"counted": len(words)}


@tool
async def double(number: int, runtime: ToolRuntime) -> int:
    """Double a number."""
    if not number:
        raise ValueError("zero stays zero")
    runtime.emit_output_delta("nearly")
    return number * 2


async def call(state: MessagesState) -> dict[str, Any]:
    """Call a tool with the number in the last message, else 4."""
    text = state["messages"][-1].text
    number = int(text) if text.isdecimal() else 4
    tool_call: Any = {"name": "double", "args": {"number": number}, "id": "call-1", "type": "tool_call"}
    return {"messages": [AIMessage("", tool_calls=[tool_call])]}


async def fail(state: CountState) -> dict[str, Any]:
    raise ValueError("boom from node")


async def remember(state: CountState, *, runtime: Runtime[None]) -> dict[str, Any]:
    """Count the runs in the store."""
    assert runtime.store is not None
    before = await runtime.store.aget(("counts",), "runs")
    runs = (before.value["runs"] if before else 0) + 1
    await runtime.store.aput(("counts",), "runs", {"runs": runs})
    return {"x": runs, "log": ["remember"]}


def remember_in_a_thread(state: CountState, *, runtime: Runtime[None]) -> dict[str, Any]:
    """As `remember`, by the blocking methods."""
    assert runtime.store is not None
    before = runtime.store.get(("counts",), "runs")
    runs = (before.value["runs"] if before else 0) + 1
    runtime.store.put(("counts",), "runs", {"runs": runs})
    return {"x": runs, "log": ["remember_in_a_thread"]}


def build_agent(name: str) -> Graph:
    builder: StateGraph[ChatState, StyleState, ChatState, ChatState] = StateGraph(
        ChatState, context_schema=StyleState
    )
    builder.add_node("plan", plan)
    builder.add_node("review", review)
    builder.add_node("finish", finish)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "review")
    builder.add_edge("review", "finish")
    builder.add_edge("finish", END)
    return builder.compile(name=name)


def chain(name: str, **nodes: Any) -> Graph:
    """The nodes, one after the other."""
    builder: StateGraph[CountState, None, CountState, CountState] = StateGraph(CountState)
    before = START
    for node, step in nodes.items():
        builder.add_node(node, step)
        builder.add_edge(before, node)
        before = node
    builder.add_edge(before, END)
    return builder.compile(name=name)


def build_teller() -> Graph:
    builder: StateGraph[StoryState, None, StoryState, StoryState] = StateGraph(StoryState)
    for name, node in (("tell", tell), ("count", count)):
        builder.add_node(name, node)
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    return builder.compile(name="teller")


def build_tools() -> Graph:
    builder = StateGraph(MessagesState)
    builder.add_node("call", call)
    builder.add_node("tools", ToolNode([double]))
    builder.add_edge(START, "call")
    builder.add_edge("call", "tools")
    builder.add_edge("tools", END)
    return builder.compile(name="tools")


def build_parent() -> Graph:
    builder: StateGraph[ChatState, StyleState, ChatState, ChatState] = StateGraph(
        ChatState, context_schema=StyleState
    )
    builder.add_node("child", build_agent("child"))
    builder.add_edge(START, "child")
    builder.add_edge("child", END)
    return builder.compile(name="parent")


def _count_step(node: str) -> Any:
    async def add(state: CountState) -> dict[str, Any]:
        return {"x": state.get("x", 0) + 1, "log": [node]}

    return add


async def _stream_text(text: str) -> AIMessage:
    """The text as a message, streamed word by word."""
    return await GenericFakeChatModel(messages=iter([AIMessage(text)])).ainvoke("")


agent = build_agent("agent")
parent = build_parent()
slow = chain("slow", slow=tick)
counter = chain("counter", a=_count_step("a"), b=_count_step("b"), c=_count_step("c"))
bench = chain("bench", a=_count_step("a"), b=_count_step("b"), c=_count_step("c"))
boom = chain("boom", ok=_count_step("ok"), boom=fail)
teller = build_teller()
tools = build_tools()
memory = chain("memory", remember=remember, remember_in_a_thread=remember_in_a_thread)

GRAPHS: Final[Mapping[str, Graph]] = {
    one.name: one for one in (agent, parent, slow, counter, bench, boom, teller, tools, memory)
}
"""By the names they are served under."""
