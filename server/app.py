"""The composition root: the one place that creates clients, savers and the application.

The server answers once storage is connected and the workflows are loaded; connections wait until then.
"""

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, RedirectResponse

from callsheet import storage
from callsheet.server import assembly
from callsheet.server.engine import graphs_file
from callsheet.server.features import load_apis
from callsheet.server.http import errors, openapi, origins
from callsheet.server.http.auth import AuthenticationMiddleware, Authenticator
from callsheet.server.http.limits import RATE_HEADERS, BodyLimitMiddleware, RateLimitMiddleware
from callsheet.server.http.origins import HostOriginMiddleware
from callsheet.server.http.outage import StorageOutageMiddleware, StorageProbe
from callsheet.server.http.policy import (
    API_READ,
    OnOutage,
    RoutePolicy,
    RoutePolicyMiddleware,
    policy_of,
    with_policy,
)
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.telemetry import TelemetryMiddleware
from callsheet.server.settings.installation import installed_version
from callsheet.server.settings.settings import Settings, read_settings, unknown_variables
from callsheet.server.telemetry import tracing
from callsheet.server.telemetry.metrics import collect_metrics
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.storage import Storage
from callsheet.storage.redis import health

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
    "X-Session-Id",
)
"""Response headers that browsers expose to pages."""
_log = logging.getLogger(__name__)


def create_app(settings: Settings | None = None, graphs: Mapping[str, Any] | None = None) -> FastAPI:
    """Return the application, which serves `graphs`, or those the settings name, or our own.

    Raises `Invalid` for a reachable address without authentication, and for an invalid file of graphs.
    """
    settings = settings or read_settings()
    origins.require_safe_binding(settings)
    app = Application(
        title="Callsheet",
        version=installed_version(),
        summary="Audio ads, landing pages and lessons: planned, approved, executed exactly once, remembered",
        lifespan=_lifespan(settings),
        # Routes of our own below, with policies.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.requires_auth = bool(settings.auth)
    app.state.feature_tags = {}
    app.state.graphs = graphs or (graphs_file.read_graphs_file(settings.config) if settings.config else None)
    errors.install_error_handlers(app)
    app.state.observer = Telemetry(tracing.create_tracing(app.version))
    _wrap(app, settings)
    app.add_api_route(_READY, check_liveness, methods=["GET"], tags=["health"])
    # For load balancers and monitoring; left out of the document, because it equals GET without a body.
    app.add_api_route(_READY, check_liveness, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/", show_index, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/docs", show_documentation, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/openapi.json", show_openapi, methods=["GET", "HEAD"], include_in_schema=False)
    return app


def _wrap(app: "Application", settings: Settings) -> None:
    """Add the middleware; the last one added is the outermost."""
    app.add_middleware(BodyLimitMiddleware, settings=settings)
    app.add_middleware(RateLimitMiddleware, settings=settings)
    app.add_middleware(AuthenticationMiddleware, authenticator=Authenticator(settings))
    app.add_middleware(
        StorageOutageMiddleware,
        probe=lambda: app.state.probe,
        patience_s=settings.storage_patience_s,
    )
    app.add_middleware(
        CORSMiddleware,
        allow_origins=[origins.STUDIO, *settings.allow_origins],
        allow_origin_regex=_LOOPBACK_PAGES,
        allow_methods=["*"],
        allow_headers=["*"],
        allow_private_network=True,
        expose_headers=[*_EXPOSED, *RATE_HEADERS],
    )
    app.add_middleware(HostOriginMiddleware, settings=settings)
    app.add_middleware(RoutePolicyMiddleware, routes=app.router.routes)
    app.add_middleware(TelemetryMiddleware, observer=app.state.observer)


class Application(FastAPI):
    """FastAPI that documents only the replies that routes and middleware declare."""

    requires_auth = False
    """True if callers must authenticate."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, without the 422 that FastAPI adds to every route with a parameter."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi.with_authentication(
                _without_validation_errors(super().openapi()),
                {route.path_format: policy_of(route) for route in self.routes if isinstance(route, APIRoute)},
                required=self.requires_auth,
                feature_tags=self.state.feature_tags,
            )
        return self.openapi_schema


@with_policy(RoutePolicy("public", on_outage=OnOutage.REPORT))
async def check_liveness() -> dict[str, bool]:
    """Check that the server is running; storage was reached when it started."""
    return {"ok": True}


@with_policy(API_READ)
async def show_index() -> RedirectResponse:
    """Redirect the server's address to its documentation."""
    return RedirectResponse("docs")


@with_policy(API_READ)
async def show_documentation(request: Request) -> HTMLResponse:
    """Show the documentation."""
    return HTMLResponse(openapi.render_docs(request.app.openapi()))


@with_policy(API_READ)
async def show_openapi(request: Request) -> JsonReply:
    """Show the OpenAPI document."""
    return JsonReply(request.app.openapi())


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
    """Log and return the settings of storage that may lose data, and variables that are no settings."""
    at_risk = [str(each) for each in health.health_warnings(await health.read_health(opened))]
    for warning in at_risk:
        _log.warning("%s: %s", opened.origin, warning)
    unknown = unknown_variables(os.environ)
    for warning in unknown:
        _log.warning("%s", warning)
    return [*at_risk, *unknown]


def _without_validation_errors(spec: dict[str, Any]) -> dict[str, Any]:
    for operation in (one for methods in spec["paths"].values() for one in methods.values()):
        if "HTTPValidationError" in str(operation["responses"].get("422")):
            del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        spec.get("components", {}).get("schemas", {}).pop(name, None)
    return spec


async def _load(app: FastAPI, settings: Settings, opened: Storage, stack: AsyncExitStack) -> None:
    """Load the workflows and their routes, and create the routes' context."""
    observer = app.state.observer
    await stack.enter_async_context(collect_metrics(observer, installed_version()))
    runtime = await assembly.assemble(opened, settings, app.state.graphs, stack, observer)
    app.state.context = runtime.context(settings, opened)
    features = load_apis(runtime.workflows.graphs.keys())
    app.state.feature_tags = {tag: text for one in features.values() for tag, text in one.tags.items()}
    for end in assembly.start_maintenance(app.state.context):
        stack.push_async_callback(end)
    app.router.routes.extend(assembly.routes(features))
