"""Graphs for tests that kill: one whose every step has an effect, and one that kills who carries it out."""

import asyncio
import operator
import os
import signal
import time
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
"""What a step tells before its effect."""
LINGER: Final = 5

Graph = CompiledStateGraph[Any, Any, Any, Any]


class Stamp(BaseModel):
    """Which page."""

    number: int


@tool(schema=Stamp, display="Stamping a page", writes=(STREAM,), options=ToolOptions(calls=0, failures=0))
async def stamp(args: Stamp, call: Call) -> dict[str, Any]:
    """Stamp a page; twice is one stamp too many."""
    return await call.write(STREAM, {"number": args.number}, result={"number": args.number})


TOOLS: Final = index(desk=[stamp])


class Pages(TypedDict):
    """A pile of pages to be stamped one after the other."""

    pages: int
    pace_s: float
    """Before every tick, and `LINGER` times as long between a stamp and the end of its step."""
    stamped: Annotated[list[str], operator.add]
    """The version each stamp made."""


async def page(state: Pages, *, runtime: Runtime[None]) -> dict[str, Any]:
    tell, number = get_stream_writer(), len(state["stamped"])
    for tick in range(TICKS):
        await asyncio.sleep(state["pace_s"])
        tell({"page": number, "tick": tick})
    outcome = await guard.call(TOOLS, _step(number), _scope(runtime))
    assert outcome.ok, outcome.output
    tell({"page": number, "stamp": outcome.output["versionId"]})
    # Whoever is killed here has had the effect, and no checkpoint says so.
    await asyncio.sleep(LINGER * state["pace_s"])
    return {"stamped": [outcome.output["versionId"]]}


class Entries(TypedDict):
    """Lines to be written to a file, one in each step; nobody has receipts for them."""

    file: str
    name: str
    steps: int
    pace_s: float
    done: Annotated[list[int], operator.add]


def append(file: str, line: str) -> None:
    with Path(file).open("a") as opened:
        opened.write(line)


async def entry(state: Entries) -> dict[str, Any]:
    number = len(state["done"])
    await asyncio.sleep(state["pace_s"])
    append(state["file"], f"{state['name']} {number} {os.getpid()} {time.time()}\n")
    return {"done": [number]}


def _step(number: int) -> Any:
    return {"id": "stamp", "tool": "stamp", "params": {"number": number}, "reads": [], "writes": [STREAM]}


def _scope(runtime: Runtime[None]) -> Scope:
    chosen, info = get_config()["configurable"], runtime.execution_info
    assert info is not None
    thread = chosen["thread_id"]
    return Scope(LOCAL, thread, "ad", thread, run=chosen[RUN_KEY], task=info.task_id, epoch=chosen[EPOCH_KEY])


async def kill(state: Pages) -> dict[str, Any]:
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
    append(state["file"], f"computed {os.getpid()}\n")
    return {}


def computing() -> Any:
    builder: StateGraph[Computation, None, Computation, Computation] = StateGraph(Computation)
    builder.add_node("compute", compute)
    builder.add_edge(START, "compute")
    builder.add_edge("compute", END)
    return builder.compile(name="computer")


def stamping() -> Graph:
    builder: StateGraph[Pages, None, Pages, Pages] = StateGraph(Pages)
    builder.add_node("page", page)
    builder.add_edge(START, "page")
    builder.add_conditional_edges(
        "page", lambda state: "page" if len(state["stamped"]) < state["pages"] else END
    )
    return builder.compile(name="clerk")


class Relay(MessagesState):
    """Who has run so far."""

    path: Annotated[list[str], operator.add]


def runner(name: str) -> Any:
    """A node that tells of itself, and says so."""

    async def run(state: Relay) -> dict[str, Any]:
        get_stream_writer()({"runs": name})
        await asyncio.sleep(0)
        return {"path": [name], "messages": [AIMessage(name, id=f"by-{name}")]}

    return run


async def silent(state: Relay) -> None:
    """Change nothing."""


def relaying() -> Graph:
    """One node, three beside each other, two in a graph of their own, and one that has nothing to say."""
    inner: StateGraph[Relay, None, Relay, Relay] = StateGraph(Relay)
    for name in ("inner1", "inner2"):
        inner.add_node(name, runner(name))
    inner.add_edge(START, "inner1")
    inner.add_edge("inner1", "inner2")
    builder: StateGraph[Relay, None, Relay, Relay] = StateGraph(Relay)
    for name in ("first", "left", "middle", "right", "last"):
        builder.add_node(name, runner(name))
    builder.add_node("inner", inner.compile())
    builder.add_node("silent", silent)
    builder.add_edge(START, "first")
    for name in ("left", "middle", "right"):
        builder.add_edge("first", name)
    builder.add_edge(["left", "middle", "right"], "inner")
    builder.add_edge("inner", "silent")
    builder.add_edge("silent", "last")
    return builder.compile(name="relay")


def poisonous() -> Graph:
    builder: StateGraph[Pages, None, Pages, Pages] = StateGraph(Pages)
    builder.add_node("kill", kill)
    builder.add_edge(START, "kill")
    builder.add_edge("kill", END)
    return builder.compile(name="poison")


def writing() -> Graph:
    builder: StateGraph[Entries, None, Entries, Entries] = StateGraph(Entries)
    builder.add_node("entry", entry)
    builder.add_edge(START, "entry")
    builder.add_conditional_edges(
        "entry", lambda state: "entry" if len(state["done"]) < state["steps"] else END
    )
    return builder.compile(name="writer")


clerk = stamping()
relay = relaying()
writer = writing()
poison = poisonous()
computer = computing()
