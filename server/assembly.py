"""The graphs that are served, with everything they remember, and the worker that carries their runs out."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final

from nodes.node import EPOCH
from server import jobs, surface
from server.graphs_file import GraphsFile
from server.house import governed
from server.observing import Observer
from server.settings import Settings
from server.surface import Graphs, Memory
from server.worker import Worker, working
from storage.checkpoints import RedisSaver
from storage.connection import Storage

_OTHER_THREADS: Final = 8
"""For all but nodes: imports, files, looking names up."""


@dataclass(frozen=True)
class Assembled:
    """What a server and a worker process have in common."""

    memory: Memory
    graphs: Graphs
    worker: Worker


async def assembled(
    opened: Storage,
    settings: Settings,
    wanted: GraphsFile | Graphs | None,
    stack: AsyncExitStack,
    observer: Observer,
    *,
    settling_s: float = 0,
) -> Assembled:
    """Return the parts, which end with `stack`; `observer` looks on while runs are carried out.

    `settling_s` is how long deliveries are left to others at first.
    """
    # A node that is no coroutine takes a thread, and asyncio's own choice is six of them on two processors.
    threads = ThreadPoolExecutor(settings.runs_at_once + _OTHER_THREADS, thread_name_prefix="callsheet")
    asyncio.get_running_loop().set_default_executor(threads)
    stack.enter_context(governed(settings))
    memory = Memory(RedisSaver(opened.redis, fence=EPOCH), surface.store(opened, wanted))
    graphs = await surface.served(wanted, memory, stack)
    terms = replace(
        jobs.terms(opened, settings.lease_s, settings.run_timeout_s),
        tell=surface.telling(settings),
        settling_s=settling_s,
        grace_s=settings.stop_grace_s,
        at_once=settings.runs_at_once,
    )
    carrying = settings.carry_runs
    entering = working(opened, graphs, terms, saver=memory.saver, carrying=carrying, observer=observer)
    return Assembled(memory, graphs, await stack.enter_async_context(entering))
