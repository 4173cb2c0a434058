"""Workers without a server: processes with health checks."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from callsheet import storage
from callsheet.server.app import Runtime, assemble, check_liveness
from callsheet.server.engine import graphs_file, process
from callsheet.server.engine.worker import Worker
from callsheet.server.http import errors, origins
from callsheet.server.http.auth import AuthenticationMiddleware, Authenticator
from callsheet.server.http.connections import bind_sockets, url_host
from callsheet.server.http.context import AppContext
from callsheet.server.http.origins import HostOriginMiddleware
from callsheet.server.http.policy import RoutePolicyMiddleware
from callsheet.server.http.shutdown import Shutdown
from callsheet.server.operations import health_routes
from callsheet.server.processes.serving import describe_storage
from callsheet.server.settings.console import console, without_control_chars
from callsheet.server.settings.installation import installed_version
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry import logs, tracing
from callsheet.server.telemetry.telemetry import Telemetry, collect_metrics
from callsheet.storage.redis.connection import Storage


@asynccontextmanager
async def health_server(ctx: AppContext, observer: Telemetry, port: int) -> AsyncIterator[str]:
    """Serve health checks on a port for the length of the `async with`, which gets the URL.

    Raises `Invalid` if others could call it without authentication, or if the port cannot be used.
    """
    settings = ctx.settings
    origins.require_safe_binding(settings)
    listeners = bind_sockets(settings.host, port)
    config = uvicorn.Config(_app(ctx, observer), lifespan="off", log_config=None, access_log=False)
    server = _WithoutSignals(config)
    serving = asyncio.create_task(server.serve(sockets=listeners))
    try:
        yield f"http://{url_host(settings.host)}:{listeners[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def _app(ctx: AppContext, observer: Telemetry) -> FastAPI:
    app = FastAPI(title="Callsheet worker", version=installed_version(), openapi_url=None)
    errors.install_error_handlers(app)
    app.state.context, app.state.observer, app.state.shutdown = ctx, observer, Shutdown()
    app.add_middleware(AuthenticationMiddleware, authenticator=Authenticator(ctx.settings))
    app.add_middleware(HostOriginMiddleware, settings=ctx.settings)
    app.add_middleware(RoutePolicyMiddleware, routes=app.router.routes)
    app.add_api_route("/ok", check_liveness, methods=["GET"])
    app.add_api_route("/ok", check_liveness, methods=["HEAD"], include_in_schema=False)
    app.router.routes.extend(health_routes.router.routes)
    return app


class _WithoutSignals(uvicorn.Server):
    """Uvicorn without signal handlers: the worker has them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_worker(settings: Settings) -> None:
    """Execute runs until Ctrl-C, SIGTERM or SIGHUP; runs in progress are handed over between two steps."""
    logs.configure(settings.log_level, settings.log_format)
    process.run_event_loop(_work(settings, describe_storage(settings)))


async def _work(settings: Settings, where: str) -> None:
    stopped = asyncio.Event()
    process.raise_open_files_limit()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
        for name in (signal.SIGINT, signal.SIGTERM, *hang_up):
            loop.add_signal_handler(name, stopped.set)
            stack.callback(loop.remove_signal_handler, name)
        opened = await stack.enter_async_context(storage.connect(settings.redis_url, settings.data_dir))
        storage.use(opened)
        stack.callback(storage.use, None)
        graphs = graphs_file.read_graphs_file(settings.config) if settings.config else None
        observer = Telemetry(tracing.create_tracing(installed_version()))
        await stack.enter_async_context(collect_metrics(observer, installed_version()))
        # A worker executes runs even if the shared settings tell servers not to.
        executing = settings.model_copy(update={"carry_runs": True})
        runtime = await assemble(opened, executing, graphs, stack, observer)
        if settings.worker_port is not None:
            await _serve_health(runtime, executing, opened, observer, stack)
        process.tune_garbage_collection()
        where_to = console()
        names = ", ".join(sorted(runtime.graphs))
        where_to.print(f"Executing runs of {names} on {without_control_chars(where)}")
        await _until_stopped(stopped, runtime.worker)
        where_to.print("Stopping: runs in progress are handed over.")


async def _until_stopped(stopped: asyncio.Event, worker: Worker) -> None:
    """Wait for the stop; raise the failure of a task queue that cannot start."""
    stopping = asyncio.create_task(stopped.wait())
    failing = asyncio.create_task(worker.wait_for_failed_start())
    await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    failing.cancel()
    if failing.done() and not stopped.is_set():
        raise failing.result()


async def _serve_health(
    runtime: Runtime, settings: Settings, opened: Storage, observer: Telemetry, stack: AsyncExitStack
) -> None:
    parts = runtime.context(settings, opened)
    url = await stack.enter_async_context(health_server(parts, observer, settings.worker_port or 0))
    console().print(f"Health and metrics on {url}")
