"""Assembly of a server or worker: storage, graphs and the worker that executes their runs."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server import bootstrap
from callsheet.server.artefacts.archive import ThreadArchive, copy_with_artefacts
from callsheet.server.bootstrap import GraphStorage
from callsheet.server.engine.graph_loading import Graphs, attach_storage
from callsheet.server.engine.graphs_file import GraphsFile
from callsheet.server.engine.tool_policy import create_application, warn_of_unknown_tools
from callsheet.server.engine.worker import Worker, WorkerOptions, running_worker
from callsheet.server.engine.workflows import Workflows, load_workflows
from callsheet.server.features import load_apis
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.protocol.encoding import AgentProtocolEncoder
from callsheet.server.settings.installation import installed_version
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.health import DataMarker
from callsheet.tools.guard.application import ToolEnvironment

_EXTRA_THREADS: Final = 8
"""Threads for imports, files and name resolution, beside those of nodes."""


@dataclass(frozen=True)
class Runtime:
    """Parts that a server and a worker process share."""

    memory: GraphStorage
    workflows: Workflows
    graphs: Graphs
    """The graphs of `workflows` with storage attached."""
    application: ToolEnvironment
    worker: Worker

    def context(self, settings: Settings, storage: Storage) -> AppContext:
        """Return the context of routes."""
        features = load_apis(self.workflows.graphs.keys())
        archive = ThreadArchive(storage, self.memory.saver, self.workflows, installed_version(), features)
        return AppContext(
            settings,
            storage,
            self.memory.saver,
            self.worker,
            self.graphs,
            self.memory.store,
            self.workflows,
            features,
            partial(copy_with_artefacts, archive),
            DataMarker(storage),
            self.application,
        )


async def assemble(
    storage: Storage,
    settings: Settings,
    source: GraphsFile | Graphs | None,
    stack: AsyncExitStack,
    observer: Telemetry,
) -> Runtime:
    """Return the parts, which are closed with `stack`; `observer` measures runs."""
    # A blocking node takes a thread; asyncio's default is six on two processors.
    threads = ThreadPoolExecutor(settings.runs_at_once + _EXTRA_THREADS, thread_name_prefix="callsheet")
    asyncio.get_running_loop().set_default_executor(threads)
    application = create_application(settings, observer)
    memory = bootstrap.create_storage(storage, source, EPOCH_KEY)
    workflows = await load_workflows(source, stack)
    warn_of_unknown_tools(settings, workflows.tools)
    options = WorkerOptions(
        settings.lease_s,
        settings.run_timeout_s,
        replies=bootstrap.reply_builders(storage, workflows),
        protocol=AgentProtocolEncoder(),
        call_webhook=bootstrap.webhook_caller(settings),
        grace_s=settings.stop_grace_s,
        max_runs=settings.runs_at_once,
        heartbeat_s=settings.heartbeat_s,
        application=application,
    )
    graphs = attach_storage(workflows.graphs, memory.saver, memory.store)
    entering = running_worker(
        storage, graphs, options, saver=memory.saver, executes=settings.carry_runs, observer=observer
    )
    return Runtime(memory, workflows, graphs, application, await stack.enter_async_context(entering))
