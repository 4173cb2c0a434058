"""Workflows, routes and storage, which a server or worker loads after its start. Slow to import."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, cast

from fastapi import APIRouter
from langgraph.store.base import TTLConfig
from starlette.routing import BaseRoute

from callsheet.nodes.node import OWNER_KEY
from callsheet.nodes.workflow import WorkflowSpec, workflow_of
from callsheet.server.artefacts import archive_routes, conversation_routes
from callsheet.server.artefacts import routes as artefact_routes
from callsheet.server.artefacts.turn_view import reply_builder
from callsheet.server.context import AppContext
from callsheet.server.features import FeatureApi, load_apis
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
from callsheet.server.operations import health_routes, tool_routes, usage_routes
from callsheet.server.runtime import background, graph_loading, graphs_file
from callsheet.server.runtime.execution import BuildReply
from callsheet.server.runtime.finalizer import CallWebhook
from callsheet.server.runtime.graph_loading import Graphs
from callsheet.server.runtime.graphs_file import GraphsFile
from callsheet.server.settings import Settings
from callsheet.state.errors import Invalid
from callsheet.state.owners import LOCAL
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis.connection import Storage
from callsheet.storage.store import RedisStore, running_owner
from callsheet.tools.registry import Tool

_MARKER_INTERVAL_S: Final = 30.0
"""Seconds between two checks that storage still has its data."""
_SHARED: Final[tuple[APIRouter, ...]] = (
    health_routes.router,
    archive_routes.router,
    artefact_routes.router,
    conversation_routes.router,
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
class Workflows:
    """The graphs that are served, with their specifications and features."""

    graphs: Graphs
    """By the name they are served under."""

    @cached_property
    def specs(self) -> Mapping[str, WorkflowSpec]:
        """The specifications, by graph; a graph that was not built from one has none."""
        specs = {name: spec for name, graph in self.graphs.items() if (spec := workflow_of(graph))}
        _require_distinct_kinds(specs)
        return specs

    @cached_property
    def tools(self) -> Mapping[str, tuple[str, Tool]]:
        """Every tool of the workflows by name, each with the kind of artefact it belongs to."""
        return {
            name: (spec.kind, tool)
            for spec in self.specs.values()
            for name, tool in {**spec.tools, **spec.internal_tools}.items()
        }

    @cached_property
    def features(self) -> Mapping[str, FeatureApi]:
        """Routes, replies and import checks of the features, by graph."""
        return load_apis(self.graphs.keys())

    def reply_builders(self, storage: Storage) -> dict[str, BuildReply]:
        """Return the builders of replies to domain runs, by graph."""
        return {
            name: self.features[name].reply_builder(storage)
            if name in self.features
            else reply_builder(storage)
            for name in self.graphs
        }


def packaged_graphs() -> GraphsFile:
    """Return our own langgraph.json, shipped with the package."""
    # Beside the layers, in a wheel as in a checkout.
    path = Path(__file__).parents[1] / "langgraph.json"
    # Its folder must not go on the module path: the package's own folders would become top-level modules.
    return replace(graphs_file.read_graphs_file(path), folders=())


async def load_workflows(source: GraphsFile | Graphs | None, stack: AsyncExitStack) -> Workflows:
    """Return the workflows of a file, or of graphs by name; by default our own.

    Context managers of graphs are closed with `stack`. Raises `Invalid` for anything but a graph, and for two
    workflows of one kind.
    """
    if source is None or isinstance(source, GraphsFile):
        source = await graph_loading.load_graphs(source or packaged_graphs(), stack)
    workflows = Workflows(source)
    workflows.specs  # noqa: B018 -- raises early
    return workflows


def _require_distinct_kinds(specs: Mapping[str, WorkflowSpec]) -> None:
    users: dict[str, str] = {}
    for name, spec in specs.items():
        if other := users.get(spec.kind):
            raise Invalid(
                f"workflows {other!r} and {name!r} both make artefacts of kind {spec.kind!r}",
                remedy="give one of them another kind",
            )
        users[spec.kind] = name


def create_storage(storage: Storage, source: GraphsFile | Graphs | None, fence: str) -> GraphStorage:
    """Return checkpointer and store; `fence` is the key of the attempt's epoch in `configurable`."""
    ttl = cast("TTLConfig", dict(source.store_ttl)) if isinstance(source, GraphsFile) else None
    graph_store = RedisStore(storage, running_owner(OWNER_KEY, LOCAL), ttl or None)
    return GraphStorage(RedisSaver(storage.redis, fence=fence), graph_store)


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
