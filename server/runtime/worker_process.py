"""Workers without a server: as a process of their own with health checks, or for one command."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from langgraph.pregel import Pregel

from callsheet import storage
from callsheet.server.app import check_liveness, installed_version
from callsheet.server.cli import terminal
from callsheet.server.context import AppContext
from callsheet.server.http import errors, origins
from callsheet.server.http.auth import AuthenticationMiddleware, Authenticator
from callsheet.server.http.origins import HostOriginMiddleware
from callsheet.server.http.serving import bind_sockets, describe_storage, url_host
from callsheet.server.operations import health_routes, logs, tracing
from callsheet.server.operations.telemetry import Telemetry
from callsheet.server.runtime import graphs_file, process
from callsheet.server.runtime.tool_policy import applied_tool_policy
from callsheet.server.runtime.worker import Worker, WorkerOptions, running_worker
from callsheet.server.settings import Settings
from callsheet.storage.redis.connection import Storage


@asynccontextmanager
async def local_worker(
    settings: Settings, graphs: Mapping[str, Pregel[Any, Any]]
) -> AsyncIterator[tuple[Worker, Storage]]:
    """Have a worker that carries out runs of these graphs, on the server's storage and its terms."""
    with applied_tool_policy(settings):
        async with (
            storage.connect(settings.redis_url, settings.data_dir) as opened,
            _carrying(opened, settings, graphs) as worker,
        ):
            yield worker, opened


@asynccontextmanager
async def _carrying(
    opened: Storage, settings: Settings, graphs: Mapping[str, Pregel[Any, Any]]
) -> AsyncIterator[Worker]:
    storage.use(opened)
    try:
        # Who presses Ctrl-C wants the prompt back; the run goes on in another process, or the next time.
        from callsheet.server.bootstrap import Workflows  # noqa: PLC0415 -- slow

        replies = Workflows(graphs).reply_builders(opened)
        options = WorkerOptions(
            settings.lease_s,
            settings.run_timeout_s,
            replies=replies,
            grace_s=0.2,
            at_once=settings.runs_at_once,
        )
        async with running_worker(opened, graphs, options) as worker:
            yield worker
    finally:
        storage.use(None)


@asynccontextmanager
async def health_server(parts: AppContext, observer: Telemetry, port: int) -> AsyncIterator[str]:
    """Answer on a port for the length of the `async with`, which gets the URL.

    Raises `Invalid` where others could reach it without saying who they are, or the port cannot be used.
    """
    settings = parts.settings
    origins.require_safe_binding(settings)
    listeners = bind_sockets(settings.host, port)
    config = uvicorn.Config(_app(parts, observer), lifespan="off", log_config=None, access_log=False)
    server = _Quiet(config)
    serving = asyncio.create_task(server.serve(sockets=listeners))
    try:
        yield f"http://{url_host(settings.host)}:{listeners[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def _app(parts: AppContext, observer: Telemetry) -> FastAPI:
    app = FastAPI(title="Callsheet worker", version=installed_version(), docs_url=None, redoc_url=None)
    errors.install_error_handlers(app)
    app.state.parts, app.state.observer = parts, observer
    app.add_middleware(AuthenticationMiddleware, keeper=Authenticator(parts.settings))
    app.add_middleware(HostOriginMiddleware, settings=parts.settings)
    app.add_api_route("/ok", check_liveness, methods=["GET"])
    app.add_api_route("/ok", check_liveness, methods=["HEAD"], include_in_schema=False)
    app.include_router(health_routes.router)
    return app


class _Quiet(uvicorn.Server):
    """Uvicorn that leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


if TYPE_CHECKING:
    from callsheet.server.runtime.assembly import Runtime


def run_worker(settings: Settings) -> None:
    """Carry runs out until Ctrl-C or SIGTERM; what is under way then is handed over between two steps."""
    logs.configure(settings.log_level, settings.log_format)
    process.run_event_loop(_work(settings, describe_storage(settings)))


async def _work(settings: Settings, where: str) -> None:
    # The workflows take longer to import than all the rest of the start.
    from callsheet.server.operations.metrics import collecting_metrics  # noqa: PLC0415
    from callsheet.server.runtime.assembly import assemble  # noqa: PLC0415

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopped.set)
    async with storage.connect(settings.redis_url, settings.data_dir) as opened, AsyncExitStack() as stack:
        storage.use(opened)
        stack.callback(storage.use, None)
        wanted = graphs_file.read_graphs_file(settings.config) if settings.config else None
        observer = Telemetry(tracing.create_tracing(installed_version()))
        await stack.enter_async_context(collecting_metrics(observer, installed_version()))
        # It carries runs out whatever the servers do, which may read the same settings.
        carrying = settings.model_copy(update={"carry_runs": True})
        found = await assemble(opened, carrying, wanted, stack, observer)
        if settings.worker_port is not None:
            await _watched(found, carrying, opened, observer, stack)
        process.tune_garbage_collection()
        console = terminal.console()
        console.print(
            f"Executing runs of {', '.join(sorted(found.graphs))} on {terminal.without_control_chars(where)}"
        )
        await stopped.wait()
        console.print("Stopping: what is under way is handed over.")


async def _watched(
    found: "Runtime", settings: Settings, opened: Storage, observer: Telemetry, stack: AsyncExitStack
) -> None:
    from callsheet.server.http.events import DetachedStreams  # noqa: PLC0415 -- as above
    from callsheet.server.runtime.worker_process import health_server  # noqa: PLC0415

    parts = found.context(settings, opened, DetachedStreams())
    url = await stack.enter_async_context(health_server(parts, observer, settings.worker_port or 0))
    terminal.console().print(f"Health and figures on {url}")
