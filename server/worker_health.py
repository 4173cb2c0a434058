"""What a worker without a server answers to those who watch it: /ok, /health and /metrics."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from server import origins, problems
from server.api import health
from server.app import installed, ok
from server.auth import Door, Keeper
from server.observing import Observer
from server.origins import Gate
from server.parts import Parts
from server.serving import listening, named


@asynccontextmanager
async def answering(parts: Parts, observer: Observer, port: int) -> AsyncIterator[str]:
    """Answer on a port for the length of the `async with`, which gets the URL.

    Raises `Invalid` where others could reach it without saying who they are, or the port cannot be used.
    """
    settings = parts.settings
    origins.require_safe(settings)
    listeners = listening(settings.host, port)
    config = uvicorn.Config(_app(parts, observer), lifespan="off", log_config=None, access_log=False)
    server = _Quiet(config)
    serving = asyncio.create_task(server.serve(sockets=listeners))
    try:
        yield f"http://{named(settings.host)}:{listeners[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def _app(parts: Parts, observer: Observer) -> FastAPI:
    app = FastAPI(title="Callsheet worker", version=installed(), docs_url=None, redoc_url=None)
    problems.install(app)
    app.state.parts, app.state.observer = parts, observer
    app.add_middleware(Door, keeper=Keeper(parts.settings))
    app.add_middleware(Gate, settings=parts.settings)
    app.add_api_route("/ok", ok, methods=["GET"])
    app.add_api_route("/ok", ok, methods=["HEAD"], include_in_schema=False)
    app.include_router(health.router)
    return app


class _Quiet(uvicorn.Server):
    """Uvicorn that leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
