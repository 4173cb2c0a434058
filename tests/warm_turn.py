"""A turn of a graph that `test_guard_kills` has forked.

It counts what its event loop does from its first call of a tool on; every callback that the loop runs
is a point between two awaits. At the chosen one it kills itself, as hard as a process can be killed.
"""

import asyncio
import os
import signal
from asyncio.events import Handle
from contextlib import nullcontext
from typing import Any

from langchain_core.messages import HumanMessage

from callsheet import storage
from callsheet.graphs import ad_creation
from callsheet.nodes.node import EPOCH_KEY, RUN_KEY
from callsheet.storage.checkpoints import RedisSaver
from callsheet.tools.guard.application import Application, NoCounters, use_application


class Points(NoCounters):
    """Counts the loop's callbacks from the first call of a tool to the end, and kills at one of them."""

    def __init__(self, at):
        self.at = at
        self.seen = 0
        self.calling = False

    def call(self, tool, scope):
        self.calling = True
        return nullcontext(str)

    def passed(self):
        if self.calling:
            self.seen += 1
            if self.seen == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def watch(points):
    """Have every callback of this process's loops counted before it is run."""
    run = Handle._run

    def counted(handle):
        points.passed()
        return run(handle)

    Handle._run = counted  # type: ignore[method-assign]  # asyncio has no hook for it


def turn(**asked):
    """As `_turn`, in a loop of its own."""
    return asyncio.run(_turn(**asked))


async def _turn(url, thread, run, at, fork=None):
    """Carry the run out, or on from where an earlier process was killed; return how many points it passed."""
    points = Points(at)
    use_application(Application(counters=points)).__enter__()
    watch(points)
    async with storage.connect(url) as opened:
        storage.use(opened)
        graph: Any = ad_creation.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
        config = {"configurable": {"thread_id": thread, "run_id": run, RUN_KEY: run, EPOCH_KEY: at or 10**6}}
        state = await graph.aget_state({"configurable": {"thread_id": thread}})
        mine = (state.metadata or {}).get(RUN_KEY) == run
        given = (
            None if mine else {"messages": [HumanMessage("An ad for Harbour Bikes in Porto, 20 s", id="m")]}
        )
        if fork:
            past = [one async for one in graph.aget_state_history(config) if one.next == (fork,)]
            config, given = past[0].config, None
        await graph.ainvoke(given, config, durability="sync", context={"model": "offline"})
        storage.use(None)
    return points.seen
