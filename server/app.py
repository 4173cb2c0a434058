"""The composition root: the one place that creates clients, savers and the application.

The server answers once storage is connected and the workflows are loaded; connections wait until then.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from langgraph.store.base import TTLConfig
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from callsheet import providers, storage
from callsheet.nodes.node import EPOCH_KEY, OWNER_KEY
from callsheet.server.artefacts import (
    archive,
    conversation_routes,
    execution_routes,
    kept_versions,
    owner_data,
)
from callsheet.server.artefacts import routes as artefact_routes
from callsheet.server.artefacts.archive import ThreadArchive, copy_with_artefacts
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.kept_versions import VersionRetention
from callsheet.server.artefacts.views import reply_builder
from callsheet.server.console import pages, question_routes, session_routes, work_routes
from callsheet.server.engine import background, graph_loading, graphs_file
from callsheet.server.engine.execution import BuildReply
from callsheet.server.engine.finalizer import CallWebhook
from callsheet.server.engine.graph_loading import Graphs, attach_storage
from callsheet.server.engine.graphs_file import GraphsFile
from callsheet.server.engine.project_options import Http, Part, ProjectOptions
from callsheet.server.engine.store_embeddings import load_item_index
from callsheet.server.engine.tool_policy import (
    create_tool_environment,
    read_tool_policy,
    warn_of_unknown_tools,
)
from callsheet.server.engine.worker import Worker, WorkerOptions, running_worker
from callsheet.server.engine.workflows import Workflows, load_workflows, options_of
from callsheet.server.features import load_apis
from callsheet.server.http import docs_page, errors, openapi, origins
from callsheet.server.http.audit import AuditMiddleware
from callsheet.server.http.auth import AuthenticationMiddleware, Authenticator
from callsheet.server.http.configurable_headers import ConfigurableHeadersMiddleware
from callsheet.server.http.context import AppContext
from callsheet.server.http.limits import RATE_HEADERS, BodyLimitMiddleware, RateLimitMiddleware
from callsheet.server.http.origins import HostOriginMiddleware
from callsheet.server.http.outage import StorageOutageMiddleware, StorageProbe
from callsheet.server.http.policy import (
    OnOutage,
    RoutePolicy,
    RoutePolicyMiddleware,
    policy_of,
    with_policy,
)
from callsheet.server.http.project_routes import project_routes
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.revocation import CHECK_INTERVAL_S, StreamsByKey
from callsheet.server.http.shutdown import Shutdown, ShutdownMiddleware
from callsheet.server.http.telemetry import TelemetryMiddleware
from callsheet.server.langgraph import assistants, crons, retention, runs, states, store, threads, webhooks
from callsheet.server.langgraph.protocol import commands, events, socket
from callsheet.server.langgraph.protocol.encoding import AgentProtocolEncoder
from callsheet.server.operations import health_routes, operator_routes, tool_routes, usage_routes
from callsheet.server.settings.installation import installed_version
from callsheet.server.settings.settings import Settings, read_settings, unknown_variables
from callsheet.server.telemetry import audit, tracing
from callsheet.server.telemetry.telemetry import Telemetry, collect_metrics
from callsheet.state.owners import LOCAL
from callsheet.storage.campaigns import library as campaign_library
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.migrations import migrate
from callsheet.storage.redis import health
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.health import DataMarker
from callsheet.storage.runs.events import EventLimits
from callsheet.storage.runs.records import Run
from callsheet.storage.runs.waiting import WaitingLimits
from callsheet.storage.store import RedisStore, running_owner
from callsheet.tools.guard.tool_environment import ToolEnvironment

_EXTRA_THREADS: Final = 8
"""Threads for imports, files and name resolution, beside those of nodes."""
_MARKER_INTERVAL_S: Final = 30.0
"""Seconds between two checks that storage still has its data."""
_TRIM_INTERVAL_S: Final = 60.0
_SHARED: Final[tuple[APIRouter, ...]] = (
    health_routes.router,
    archive.router,
    owner_data.router,
    artefact_routes.router,
    conversation_routes.router,
    execution_routes.router,
    execution_routes.progress_router,
    tool_routes.router,
    usage_routes.router,
    operator_routes.router,
    session_routes.router,
    question_routes.router,
    work_routes.router,
)
_LANGGRAPH: Final[tuple[APIRouter, ...]] = (
    # The busiest first: routes are tried in order.
    runs.router,
    threads.router,
    states.router,
    assistants.router,
    assistants.info_router,
    crons.router,
    commands.router,
    events.router,
    socket.router,
    store.router,
)
_PARTS: Final[Mapping[Part, tuple[APIRouter, ...]]] = {
    "assistants": (assistants.router,),
    "threads": (threads.router, states.router, commands.router, events.router, socket.router),
    "runs": (runs.router, crons.router),
    "store": (store.router,),
    "meta": (assistants.info_router,),
}
"""Routes that a langgraph.json may disable."""


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
    options: ProjectOptions

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
            self.options,
        )


async def assemble(
    storage: Storage,
    settings: Settings,
    source: GraphsFile | Graphs | None,
    stack: AsyncExitStack,
    observer: Telemetry,
) -> Runtime:
    """Return the parts, which are closed with `stack`; `observer` measures runs.

    Raises `Invalid` for a wrong setting of a vendor, of tools or of campaigns, and for data of a newer
    version.
    """
    await migrate(storage)
    providers.check_settings(os.environ)
    campaign_library.check_settings()
    # A blocking node takes a thread; asyncio's default is six on two processors.
    threads = ThreadPoolExecutor(settings.runs_at_once + _EXTRA_THREADS, thread_name_prefix="callsheet")
    asyncio.get_running_loop().set_default_executor(threads)
    tool_environment = create_tool_environment(settings, observer)
    options_of_project = options_of(source)
    for sentence in options_of_project.ignored:
        _log.warning("langgraph.json: %s", sentence)
    workflows = await load_workflows(source, stack)
    memory = create_storage(storage, source, EPOCH_KEY, settings.kept_checkpoints)
    warn_of_unknown_tools(settings, workflows.tools)
    options = replace(
        _limits_of_runs(settings),
        replies=reply_builders(storage, workflows),
        protocol=AgentProtocolEncoder(),
        call_webhook=webhook_caller(settings, disabled="webhooks" in options_of_project.http.disabled),
        tool_environment=tool_environment,
    )
    graphs = attach_storage(workflows.graphs, memory.saver, memory.store)
    entering = running_worker(
        storage, graphs, options, saver=memory.saver, executes=settings.carry_runs, observer=observer
    )
    worker = await stack.enter_async_context(entering)
    return Runtime(memory, workflows, graphs, tool_environment, worker, options_of_project)


def _limits_of_runs(settings: Settings) -> WorkerOptions:
    return WorkerOptions(
        settings.lease_s,
        settings.run_timeout_s,
        grace_s=settings.stop_grace_s,
        max_runs=settings.runs_at_once,
        heartbeat_s=settings.heartbeat_s,
        waiting=WaitingLimits(settings.max_waiting_runs, settings.max_waiting_of_owner),
        max_wait_s=settings.max_wait_s,
        executor_patience_s=settings.executor_patience_s,
        event_limits=EventLimits(settings.max_event_bytes, settings.max_event_age_s),
        kept_runs=settings.kept_runs,
    )


def create_storage(
    storage: Storage, source: GraphsFile | Graphs | None, fence: str, kept_checkpoints: int = 0
) -> GraphStorage:
    """Return checkpointer and store; `fence` is the key of the attempt's epoch in `configurable`."""
    lifetime = options_of(source).store_ttl
    ttl = cast("TTLConfig", lifetime.model_dump(exclude_unset=True)) if lifetime else None
    index = load_item_index(source) if isinstance(source, GraphsFile) else None
    graph_store = RedisStore(storage, running_owner(OWNER_KEY, LOCAL), ttl or None, index)
    return GraphStorage(
        RedisSaver(storage.redis, fence=fence, kept_checkpoints=kept_checkpoints), graph_store
    )


def reply_builders(storage: Storage, workflows: Workflows) -> dict[str, BuildReply]:
    """Return the builders of replies to domain runs, by graph."""
    features = load_apis(workflows.graphs.keys())
    return {
        name: features[name].reply_builder(storage) if name in features else reply_builder(storage)
        for name in workflows.graphs
    }


def routes(features: Mapping[str, FeatureApi], disabled: Collection[Part] = frozenset()) -> list[BaseRoute]:
    """Return all routes; those of a feature only where its workflow is served, none of `disabled` parts.

    Raises `Broken` for a route without a policy.

    They go into the application's own list: `include_router` would build each route a second time, at the
    first request, and match it twice.
    """
    domain = [router for feature in features.values() for router in feature.routers]
    hidden_path = "/metrics" if "meta" in disabled else None
    hidden = [router for part in disabled for router in _PARTS.get(part, ())]
    shared = [router for router in (*_LANGGRAPH, *_SHARED) if router not in hidden]
    served = [route for router in (*shared, *domain) for route in router.routes]
    served = [route for route in served if getattr(route, "path", "") != hidden_path]
    for route in served:
        policy_of(route)
    return served


def webhook_caller(settings: Settings, *, disabled: bool = False) -> CallWebhook:
    """Return the function that calls webhooks; it calls none if they are `disabled`."""
    if disabled:
        return _call_no_webhook
    secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
    return webhooks.WebhookCaller(secret, allow_private=settings.webhook_private).call


async def _call_no_webhook(run: Run) -> None:
    del run


def start_maintenance(ctx: AppContext) -> tuple[Callable[[], Awaitable[object]], ...]:
    """Start retention, crons and the check for lost data, and return the functions that stop them."""
    check = background.start_periodic(ctx.marker.check, _MARKER_INTERVAL_S, "lost data is not noticed")
    trim = partial(audit.trim, ctx.storage, ctx.settings.audit_entries)
    trimming = background.start_periodic(trim, _TRIM_INTERVAL_S, "the audit grows")
    served = partial(ctx.worker.turns.unserved_runs, ctx.graphs)
    serving = background.start_periodic(served, _MARKER_INTERVAL_S, "runs of other graphs are not noticed")
    stops = (retention.start_sweeping(ctx), crons.start_firing(ctx), check, serving, trimming)
    versions = VersionRetention(ctx)
    if not versions.is_on:
        return stops
    _log.info("old versions are removed: CALLSHEET_KEPT_VERSIONS=%s", ctx.settings.kept_versions)
    stop = background.start_periodic(versions.remove_old, kept_versions.INTERVAL_S, "old versions stay")
    return (*stops, stop)


_LOOPBACK_PAGES: Final = (
    r"https?://([\w-]+\.)*localhost(:\d+)?|https?://127(\.\d+){3}(:\d+)?|https?://\[::1\](:\d+)?"
)
_READY: Final = "/ok"
_EXPOSED: Final = (
    "Retry-After",
    "Location",
    "Content-Location",
    "WWW-Authenticate",
    "X-Pagination-Total",
    "X-Pagination-Next",
    "X-Total-Count",
    "X-Left-Out",
    "X-Kept-Artefacts",
    "X-Session-Id",
)
"""Response headers that browsers expose to pages."""
_log = logging.getLogger(__name__)


def create_app(settings: Settings | None = None, graphs: Mapping[str, Any] | None = None) -> FastAPI:
    """Return the application, which serves `graphs`, or those the settings name, or our own.

    Raises `Invalid` for a reachable address without authentication, for limits, prices or budgets that cannot
    be read, and for an invalid file of graphs.
    """
    settings = settings or read_settings()
    origins.require_safe_binding(settings)
    read_tool_policy(settings)
    app = Application(
        title="Callsheet",
        version=installed_version(),
        summary="Audio ads, landing pages and lessons: planned, approved, executed exactly once, remembered",
        lifespan=_lifespan(settings),
        # A redirected deletion of `…/campaigns/` would be one of the whole list.
        redirect_slashes=False,
        # Routes of our own below, with policies.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.requires_auth = bool(settings.auth)
    app.state.feature_tags = {}
    app.state.graphs = graphs or (graphs_file.read_graphs_file(settings.config) if settings.config else None)
    http = options_of(app.state.graphs).http
    errors.install_error_handlers(app)
    app.state.observer = Telemetry(tracing.create_tracing(app.version))
    app.state.shutdown = Shutdown()
    app.state.open_streams = StreamsByKey()
    _wrap(app, settings, http)
    app.add_api_route(_READY, check_liveness, methods=["GET"], tags=["health"])
    # For load balancers and monitoring; left out of the document, because it equals GET without a body.
    app.add_api_route(_READY, check_liveness, methods=["HEAD"], include_in_schema=False)
    if "meta" in http.disabled:
        return app
    app.router.routes.extend(pages.pages_router().routes)
    app.router.routes.extend(docs_page.router.routes)
    app.add_api_route("/openapi.json", show_openapi, methods=["GET", "HEAD"], include_in_schema=False)
    return app


def _wrap(app: "Application", settings: Settings, http: Http) -> None:
    """Add the middleware; the last one added is the outermost."""
    app.add_middleware(AuditMiddleware)
    if http.configurable_headers:
        app.add_middleware(
            ConfigurableHeadersMiddleware,
            patterns=http.configurable_headers,
            authenticates=bool(settings.auth),
        )
    app.add_middleware(BodyLimitMiddleware, settings=settings)
    app.add_middleware(RateLimitMiddleware, settings=settings)
    app.add_middleware(AuthenticationMiddleware, authenticator=Authenticator(settings))
    app.add_middleware(
        StorageOutageMiddleware,
        probe=lambda: app.state.probe,
        patience_s=settings.storage_patience_s,
    )
    app.add_middleware(ShutdownMiddleware, shutdown=app.state.shutdown, streams=app.state.open_streams)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=[origins.STUDIO, *origins.allowed_origins(settings, http.cors)],
        allow_origin_regex="|".join(filter(None, (_LOOPBACK_PAGES, http.cors.allow_origin_regex))),
        allow_methods=http.cors.allow_methods,
        allow_headers=http.cors.allow_headers,
        allow_credentials=http.cors.allow_credentials,
        allow_private_network=True,
        expose_headers=[*_EXPOSED, *RATE_HEADERS, *http.cors.expose_headers],
        max_age=http.cors.max_age,
    )
    app.add_middleware(HostOriginMiddleware, settings=settings, cors=http.cors)
    app.add_middleware(RoutePolicyMiddleware, routes=app.router.routes)
    app.add_middleware(TelemetryMiddleware, observer=app.state.observer)


class Application(FastAPI):
    """FastAPI that documents only the replies that routes and middleware declare."""

    requires_auth = False
    """True if callers must authenticate."""
    _document: dict[str, Any] | None = None

    def __init__(self, **options: Any) -> None:
        """`options` are FastAPI's."""
        super().__init__(**options)
        self._lock = threading.Lock()

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        with self._lock:
            if self._document is None:
                self.openapi_version = openapi.VERSION
                self._document = openapi.complete(
                    super().openapi(),
                    [route for route in self.routes if isinstance(route, APIRoute)],
                    required=self.requires_auth,
                    feature_tags=self.state.feature_tags,
                )
            return self._document


@with_policy(RoutePolicy("public", on_outage=OnOutage.REPORT))
async def check_liveness() -> dict[str, bool]:
    """Check that the server is running; storage was reached when it started."""
    return {"ok": True}


@with_policy(RoutePolicy("public"))
async def show_openapi(request: Request) -> JsonReply:
    """Show the OpenAPI document."""
    # It takes half a second, once.
    return JsonReply(await asyncio.to_thread(request.app.openapi))


def _lifespan(settings: Settings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            storage.connect(settings.redis_url, settings.data_dir) as opened,
            AsyncExitStack() as stack,
        ):
            storage.use(opened)
            app.state.warnings = await _log_warnings(opened)
            app.state.probe = StorageProbe(opened, settings.storage_patience_s * 2 / 3)
            stack.callback(storage.use, None)
            await _load(app, settings, opened, stack)
            yield

    return lifespan


async def _log_warnings(opened: Storage) -> list[str]:
    """Log and return problems and risky settings of storage, and variables that are no settings."""
    state = await health.read_health(opened)
    problems = [*health.health_problems(state), *health.health_warnings(state)]
    at_risk = [str(each) for each in problems]
    for warning in at_risk:
        _log.warning("%s: %s", opened.origin, warning)
    unknown = unknown_variables(os.environ)
    for warning in unknown:
        _log.warning("%s", warning)
    return [*at_risk, *unknown]


async def _load(app: FastAPI, settings: Settings, opened: Storage, stack: AsyncExitStack) -> None:
    """Load the workflows and their routes, and create the routes' context."""
    observer = app.state.observer
    await stack.enter_async_context(collect_metrics(observer, installed_version()))
    runtime = await assemble(opened, settings, app.state.graphs, stack, observer)
    app.state.context = runtime.context(settings, opened)
    features = load_apis(runtime.workflows.graphs.keys())
    app.state.feature_tags = {tag: text for one in features.values() for tag, text in one.tags.items()}
    end_revoked = partial(app.state.open_streams.end_revoked, opened)
    ending = background.start_periodic(end_revoked, CHECK_INTERVAL_S, "streams of revoked keys go on")
    for end in (ending, *start_maintenance(app.state.context)):
        stack.push_async_callback(end)
    await audit.record_budgets(opened, settings.budgets)
    app.router.routes.extend(routes(features, runtime.options.http.disabled))
    if isinstance(app.state.graphs, GraphsFile) and app.state.graphs.app:
        own = graph_loading.load_variable(app.state.graphs.app)
        before, after = project_routes(own)
        await stack.enter_async_context(own.router.lifespan_context(own))
        app.router.routes[:] = [*before, *app.router.routes, *after]
