"""Assembly of a server or worker: storage, graphs and the worker that executes their runs."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server import bootstrap
from callsheet.server.bootstrap import GraphStorage, Workflows
from callsheet.server.context import AppContext
from callsheet.server.http.events import DetachedStreams
from callsheet.server.operations.telemetry import Telemetry
from callsheet.server.runtime.graph_loading import Graphs, attach_storage
from callsheet.server.runtime.graphs_file import GraphsFile
from callsheet.server.runtime.tool_policy import applied_tool_policy
from callsheet.server.runtime.worker import Worker, WorkerOptions, running_worker
from callsheet.server.settings import Settings
from callsheet.storage.redis.connection import Storage

_OTHER_THREADS: Final = 8
"""For all but nodes: imports, files, looking names up."""


@dataclass(frozen=True)
class Runtime:
    """Parts that a server and a worker process share."""

    memory: GraphStorage
    workflows: Workflows
    graphs: Graphs
    """The graphs of `workflows` with storage attached."""
    worker: Worker

    def context(self, settings: Settings, storage: Storage, streams: DetachedStreams) -> AppContext:
        """Return the context of routes."""
        return AppContext(
            settings,
            storage,
            self.memory.saver,
            self.worker,
            streams,
            self.graphs,
            self.memory.store,
            self.workflows,
        )


async def assemble(
    storage: Storage,
    settings: Settings,
    source: GraphsFile | Graphs | None,
    stack: AsyncExitStack,
    observer: Telemetry,
    *,
    settling_s: float = 0,
) -> Runtime:
    """Return the parts, which are closed with `stack`; `observer` watches runs.

    For the first `settling_s` seconds deliveries are left to other processes.
    """
    # A blocking node takes a thread, and asyncio's default is six of them on two processors.
    threads = ThreadPoolExecutor(settings.runs_at_once + _OTHER_THREADS, thread_name_prefix="callsheet")
    asyncio.get_running_loop().set_default_executor(threads)
    stack.enter_context(applied_tool_policy(settings))
    memory = bootstrap.create_storage(storage, source, EPOCH_KEY)
    workflows = await bootstrap.load_workflows(source, stack)
    options = WorkerOptions(
        settings.lease_s,
        settings.run_timeout_s,
        replies=workflows.reply_builders(storage),
        tell=bootstrap.webhook_caller(settings),
        settling_s=settling_s,
        grace_s=settings.stop_grace_s,
        at_once=settings.runs_at_once,
    )
    graphs = attach_storage(workflows.graphs, memory.saver, memory.store)
    entering = running_worker(
        storage, graphs, options, saver=memory.saver, carrying=settings.carry_runs, observer=observer
    )
    return Runtime(memory, workflows, graphs, await stack.enter_async_context(entering))
