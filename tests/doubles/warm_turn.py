"""A turn of a graph, in a process that `test_guard_kills` forks.

It counts what its event loop does from its first call of a tool on; every callback that the loop runs
is a point between two awaits. At the chosen one it kills itself, as hard as a process can be killed.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context
from typing import Any, TypeVarTuple

from langchain_core.messages import HumanMessage

from callsheet import storage
from callsheet.graphs import ad_creation
from callsheet.nodes.node import EPOCH_KEY, RUN_KEY
from callsheet.storage.checkpoints import RedisSaver
from callsheet.tools.guard.tool_environment import NoCounters, ToolEnvironment, use_tool_environment

Ts = TypeVarTuple("Ts")


class Points(NoCounters):
    """Counts the loop's callbacks from the first call of a tool to the end, and kills at one of them."""

    def __init__(self, at):
        self.at = at
        self.count = 0
        self.calling = False

    def call(self, tool, scope):
        self.calling = True
        return nullcontext(str)

    def pass_point(self):
        if self.calling:
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts every callback before it runs it."""

    points: Points

    def _count_and_call(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        self.points.pass_point()
        callback(*args)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._count_and_call, callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon_threadsafe(self._count_and_call, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._count_and_call, callback, *args, context=context)


def turn(at, **arguments):
    """As `_turn`, in a loop of its own."""
    points = CountingLoop.points = Points(at)
    with (
        use_tool_environment(ToolEnvironment(counters=points)),
        asyncio.Runner(loop_factory=CountingLoop) as runner,
    ):
        runner.run(_turn(at=at, **arguments))
    return points.count


async def _turn(url, thread, run, at, fork=None):
    """Carry the run out, or on from where an earlier process was killed."""
    async with storage.connect(url) as opened:
        storage.use(opened)
        graph: Any = ad_creation.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
        config = {"configurable": {"thread_id": thread, "run_id": run, RUN_KEY: run, EPOCH_KEY: at or 10**6}}
        state = await graph.aget_state({"configurable": {"thread_id": thread}})
        is_same_run = (state.metadata or {}).get(RUN_KEY) == run
        graph_input = (
            None
            if is_same_run
            else {"messages": [HumanMessage("An ad for Harbour Bikes in Porto, 20 s", id="m")]}
        )
        if fork:
            past = [one async for one in graph.aget_state_history(config) if one.next == (fork,)]
            config, graph_input = past[0].config, None
        await graph.ainvoke(graph_input, config, durability="sync", context={"model": "offline"})
        storage.use(None)
