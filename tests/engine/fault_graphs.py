"""Graphs for tests that kill processes.

`clerk` has an effect in every step, `relay` has events of many kinds, `writer` writes lines to a file,
`computer` keeps the processor busy, and `poison` kills the process that executes it.
"""

import asyncio
import operator
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

from langchain_core.messages import AIMessage
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel
from typing_extensions import TypedDict

from callsheet.nodes.node import EPOCH_KEY, RUN_KEY
from callsheet.state.owners import LOCAL
from callsheet.tools.call import Call, Scope
from callsheet.tools.guard import guard
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import index, tool

STREAM: Final = "music"
TICKS: Final = 3
"""Events of a step before its effect."""
LINGER: Final = 5

Graph = CompiledStateGraph[Any, Any, Any, Any]


class StampInput(BaseModel):
    """The number of a page."""

    number: int


@tool(
    schema=StampInput, display="Stamping a page", writes=(STREAM,), options=ToolOptions(calls=0, failures=0)
)
async def stamp(args: StampInput, call: Call) -> dict[str, Any]:
    """Stamp a page; each page must be stamped only once."""
    return await call.write(STREAM, {"number": args.number}, result={"number": args.number})


TOOLS: Final = index(desk=[stamp])


class PagesState(TypedDict):
    """Pages that are stamped one after the other."""

    pages: int
    pace_s: float
    """Pause before every tick; between a stamp and the end of its step it is `LINGER` times as long."""
    stamped: Annotated[list[str], operator.add]
    """The version that each stamp created."""


async def page(state: PagesState, *, runtime: Runtime[None]) -> dict[str, Any]:
    write_event, number = get_stream_writer(), len(state["stamped"])
    for tick in range(TICKS):
        await asyncio.sleep(state["pace_s"])
        write_event({"page": number, "tick": tick})
    outcome = await guard.call(TOOLS, _step(number), _scope(runtime))
    assert outcome.ok, outcome.output
    write_event({"page": number, "stamp": outcome.output["versionId"]})
    # A process that is killed during this pause had the effect, but stored no checkpoint of it.
    await asyncio.sleep(LINGER * state["pace_s"])
    return {"stamped": [outcome.output["versionId"]]}


class EntriesState(TypedDict):
    """Lines that are written to a file, one in each step, without receipts."""

    file: str
    name: str
    steps: int
    pace_s: float
    done: Annotated[list[int], operator.add]


def append_line(file: str, line: str) -> None:
    with Path(file).open("a") as target:
        target.write(line)


async def entry(state: EntriesState) -> dict[str, Any]:
    number = len(state["done"])
    await asyncio.sleep(state["pace_s"])
    append_line(state["file"], f"{state['name']} {number} {os.getpid()} {time.time()}\n")
    return {"done": [number]}


def _step(number: int) -> Any:
    return {"id": "stamp", "tool": "stamp", "params": {"number": number}, "reads": [], "writes": [STREAM]}


def _scope(runtime: Runtime[None]) -> Scope:
    chosen, info = get_config()["configurable"], runtime.execution_info
    assert info is not None
    thread = chosen["thread_id"]
    return Scope(LOCAL, thread, "ad", thread, run=chosen[RUN_KEY], task=info.task_id, epoch=chosen[EPOCH_KEY])


async def kill(state: PagesState) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


class Computation(TypedDict):
    """Work for a processor, which ends with a line in a file."""

    file: str
    busy_s: float


def compute(state: Computation) -> dict[str, Any]:
    ends_s = time.thread_time() + state["busy_s"]
    while time.thread_time() < ends_s:
        pass
    append_line(state["file"], f"computed {os.getpid()}\n")
    return {}


class RelayState(MessagesState):
    """The nodes that have run so far."""

    path: Annotated[list[str], operator.add]


def relay_node(name: str) -> Any:
    """Return a node that sends a custom event and a message with its own name."""

    async def run(state: RelayState) -> dict[str, Any]:
        get_stream_writer()({"runs": name})
        await asyncio.sleep(0)
        return {"path": [name], "messages": [AIMessage(name, id=f"by-{name}")]}

    return run


async def silent(state: RelayState) -> None:
    """Change nothing."""


def build_relay() -> Graph:
    """Build one node, three parallel ones, a subgraph of two, a node that changes nothing, and a last one."""
    inner: StateGraph[RelayState, None, RelayState, RelayState] = StateGraph(RelayState)
    for name in ("inner1", "inner2"):
        inner.add_node(name, relay_node(name))
    inner.add_edge(START, "inner1")
    inner.add_edge("inner1", "inner2")
    builder: StateGraph[RelayState, None, RelayState, RelayState] = StateGraph(RelayState)
    for name in ("first", "left", "middle", "right", "last"):
        builder.add_node(name, relay_node(name))
    builder.add_node("inner", inner.compile())
    builder.add_node("silent", silent)
    builder.add_edge(START, "first")
    for name in ("left", "middle", "right"):
        builder.add_edge("first", name)
    builder.add_edge(["left", "middle", "right"], "inner")
    builder.add_edge("inner", "silent")
    builder.add_edge("silent", "last")
    return builder.compile(name="relay")


def build_single_node(
    name: str, state_schema: type[Any], node: Any, *, repeat_while: Callable[[Any], bool] | None = None
) -> Graph:
    """Return a graph of one node, which runs again as long as `repeat_while` is true of the state."""
    builder: StateGraph[Any, None, Any, Any] = StateGraph(state_schema)
    builder.add_node(node.__name__, node)
    builder.add_edge(START, node.__name__)
    if repeat_while:
        builder.add_conditional_edges(
            node.__name__, lambda state: node.__name__ if repeat_while(state) else END
        )
    else:
        builder.add_edge(node.__name__, END)
    return builder.compile(name=name)


clerk = build_single_node(
    "clerk", PagesState, page, repeat_while=lambda state: len(state["stamped"]) < state["pages"]
)
relay = build_relay()
writer = build_single_node(
    "writer", EntriesState, entry, repeat_while=lambda state: len(state["done"]) < state["steps"]
)
poison = build_single_node("poison", PagesState, kill)
computer = build_single_node("computer", Computation, compute)
