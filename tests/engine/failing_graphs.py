"""Graphs whose runs fail in their own ways."""

import asyncio
import os
import signal
import sys
import time
from typing import Any

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class Number(TypedDict):
    x: int


def raises(state: Number) -> dict[str, Any]:
    raise ValueError(f"the number {state['x']} does not fit; Authorization: Bearer abcdef1234567890")


def kills(state: Number) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


async def waits(state: Number) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


def passes(state: Number) -> dict[str, Any]:
    return {"x": state["x"] + 1}


async def blocks(state: Number) -> dict[str, Any]:
    time.sleep(2)  # noqa: ASYNC251 -- the fault
    return {}


def exits(state: Number) -> dict[str, Any]:
    sys.exit(state["x"])


class Panic(BaseException):
    """An error as Rust's libraries raise it: no `Exception`."""


async def panics_in_a_task(state: Number) -> dict[str, Any]:
    async def panic() -> None:
        raise Panic("out of range")

    await asyncio.gather(panic(), asyncio.to_thread(sys.exit, 3))
    return {}


def _graph(node: Any) -> StateGraph[Any, Any]:
    return StateGraph(Number).add_node("node", node).add_edge(START, "node")


raising, killing, waiting, passing, blocking = (
    _graph(node) for node in (raises, kills, waits, passes, blocks)
)
exiting, panicking = _graph(exits), _graph(panics_in_a_task)
