"""Assembly of a server or worker: storage, graphs, routes, and the worker that executes their runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from fastapi import APIRouter
from langgraph.store.base import TTLConfig
from starlette.routing import BaseRoute

from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY
from callsheet.server.artefacts import archive_routes, conversation_routes, execution_routes
from callsheet.server.artefacts import routes as artefact_routes
from callsheet.server.artefacts.archive import ThreadArchive, copy_with_artefacts
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.turn_view import reply_builder
from callsheet.server.engine import background
from callsheet.server.engine.execution import BuildReply
from callsheet.server.engine.finalizer import CallWebhook
from callsheet.server.engine.graph_loading import Graphs, attach_storage
from callsheet.server.engine.graphs_file import GraphsFile
from callsheet.server.engine.tool_policy import create_tool_environment, warn_of_unknown_tools
from callsheet.server.engine.worker import Worker, WorkerOptions, running_worker
from callsheet.server.engine.workflows import Workflows, load_workflows
from callsheet.server.features import load_apis
from callsheet.server.http.context import AppContext
from callsheet.server.http.policy import policy_of
from callsheet.server.langgraph import (
    assistants,
    crons,
    info,
    retention,
    runs,
    states,
    store,
    threads,
    webhooks,
)
from callsheet.server.langgraph.protocol import commands, events, socket
from callsheet.server.langgraph.protocol.encoding import AgentProtocolEncoder
from callsheet.server.operations import health_routes, tool_routes, usage_routes
from callsheet.server.settings.installation import installed_version
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.state.owners import LOCAL
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.health import DataMarker
from callsheet.storage.store import RedisStore, running_owner
from callsheet.tools.guard.tool_environment import ToolEnvironment

_EXTRA_THREADS: Final = 8
"""Threads for imports, files and name resolution, beside those of nodes."""
_MARKER_INTERVAL_S: Final = 30.0
"""Seconds between two checks that storage still has its data."""
_SHARED: Final[tuple[APIRouter, ...]] = (
    health_routes.router,
    archive_routes.router,
    artefact_routes.router,
    conversation_routes.router,
    execution_routes.router,
    execution_routes.progress_router,
    tool_routes.router,
    usage_routes.router,
)
_LANGGRAPH: Final[tuple[APIRouter, ...]] = (
    # The busiest first: routes are tried in order.
    runs.router,
    threads.router,
    states.router,
    assistants.router,
    info.router,
    crons.router,
    commands.router,
    events.router,
    socket.router,
    store.router,
)


@dataclass(frozen=True)
class GraphStorage:
    """Storage of every graph."""

    saver: RedisSaver
    store: RedisStore


@dataclass(frozen=True)
class Runtime:
    """Parts that a server and a worker process share."""

    memory: GraphStorage
    workflows: Workflows
    graphs: Graphs
    """The graphs of `workflows` with storage attached."""
    tool_environment: ToolEnvironment
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
            self.tool_environment,
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
    tool_environment = create_tool_environment(settings, observer)
    memory = create_storage(storage, source, EPOCH_KEY)
    workflows = await load_workflows(source, stack)
    warn_of_unknown_tools(settings, workflows.tools)
    options = WorkerOptions(
        settings.lease_s,
        settings.run_timeout_s,
        replies=reply_builders(storage, workflows),
        protocol=AgentProtocolEncoder(),
        call_webhook=webhook_caller(settings),
        grace_s=settings.stop_grace_s,
        max_runs=settings.runs_at_once,
        heartbeat_s=settings.heartbeat_s,
        tool_environment=tool_environment,
    )
    graphs = attach_storage(workflows.graphs, memory.saver, memory.store)
    entering = running_worker(
        storage, graphs, options, saver=memory.saver, executes=settings.carry_runs, observer=observer
    )
    return Runtime(memory, workflows, graphs, tool_environment, await stack.enter_async_context(entering))


def create_storage(storage: Storage, source: GraphsFile | Graphs | None, fence: str) -> GraphStorage:
    """Return checkpointer and store; `fence` is the key of the attempt's epoch in `configurable`."""
    ttl = cast("TTLConfig", dict(source.store_ttl)) if isinstance(source, GraphsFile) else None
    graph_store = RedisStore(storage, running_owner(OWNER_KEY, LOCAL), ttl or None)
    return GraphStorage(RedisSaver(storage.redis, fence=fence), graph_store)


def reply_builders(storage: Storage, workflows: Workflows) -> dict[str, BuildReply]:
    """Return the builders of replies to domain runs, by graph."""
    features = load_apis(workflows.graphs.keys())
    return {
        name: features[name].reply_builder(storage) if name in features else reply_builder(storage)
        for name in workflows.graphs
    }


def routes(features: Mapping[str, FeatureApi]) -> list[BaseRoute]:
    """Return all routes; those of a feature only where its workflow is served.

    Raises `Broken` for a route without a policy.

    They go into the application's own list: `include_router` would build each route a second time, at the
    first request, and match it twice.
    """
    domain = [router for feature in features.values() for router in feature.routers]
    served = [route for router in (*_LANGGRAPH, *_SHARED, *domain) for route in router.routes]
    for route in served:
        policy_of(route)
    return served


def webhook_caller(settings: Settings) -> CallWebhook:
    """Return the function that calls webhooks."""
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
    return webhooks.WebhookCaller(secret, allow_private=settings.webhook_private).call


def start_maintenance(ctx: AppContext) -> tuple[Callable[[], Awaitable[object]], ...]:
    """Start retention, crons and the check for lost data, and return the functions that stop them."""
    check = background.start_periodic(ctx.marker.check, _MARKER_INTERVAL_S, "lost data is not noticed")
    return retention.start_sweeping(ctx), crons.start_firing(ctx), check
