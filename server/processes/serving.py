"""The server in the foreground: binds the port, greets when ready, stops quietly."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import uvicorn
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.providers import with_key
from callsheet.providers.routing import RoutingRequest, route
from callsheet.server.app import create_app
from callsheet.server.engine import process
from callsheet.server.http import connections
from callsheet.server.processes import terminal
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry import logs
from callsheet.storage.embedded import folders
from callsheet.storage.redis import address

_SHUTDOWN_S: Final = 5
"""Seconds for requests in progress to end once the server stops."""
_KEEP_ALIVE_S: Final = 620
"""Seconds that an idle connection is kept: longer than clients do, or a POST could meet a closing connection.

Chromium closes one after 300 seconds, Firefox after 115, load balancers after 60 (AWS) to 600 (Google Cloud).
"""
_log = logging.getLogger("uvicorn.error")


def serve(settings: Settings, version: str) -> None:
    """Serve until Ctrl-C or SIGTERM; raises `CallsheetError` if the server cannot start."""
    place = describe_storage(settings)
    app = create_app(settings)
    guarded = _Guarded(app)
    listeners = connections.bind_sockets(settings.host, settings.port)
    where = terminal.console()
    url = f"http://{connections.url_host(settings.host)}:{listeners[0].getsockname()[1]}"
    _log.setLevel(logging.WARNING)
    logs.configure(settings.log_level, settings.log_format)
    config = server_config(guarded, settings)

    async def ready() -> None:
        process.tune_garbage_collection()
        # In a thread, so that requests are answered meanwhile.
        await asyncio.to_thread(lambda: where.print(greeting(version, url, place, app.state.warnings)))

    server = _Server(config, guarded, ready)
    try:
        # Where the parent process ignores Ctrl-C, as a shell does for a background job, it raises nothing.
        with suppress(KeyboardInterrupt):
            process.run_event_loop(server.serve(sockets=listeners))
    finally:
        for listener in listeners:
            listener.close()
    where.print(Padding(Text("Stopped. Everything is kept.", "dim"), (0, 2)))


def server_config(
    app: ASGIApp,
    settings: Settings,
    patience_s: int = _SHUTDOWN_S,
    headers_s: float = connections.HEADERS_S,
) -> uvicorn.Config:
    """Return uvicorn's configuration.

    Requests in progress get `patience_s` to end at a stop, and headers `headers_s` to arrive.
    """
    return uvicorn.Config(
        app,
        http=connections.http_protocol(settings.slow_reader_s, headers_s),
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=patience_s,
        timeout_keep_alive=_KEEP_ALIVE_S,
        ws_max_size=max(settings.max_message_bytes, settings.max_body_bytes) + 1,
    )


def describe_storage(settings: Settings) -> str:
    """Return the location of the data for people: the folder, or the URL without its password."""
    if settings.redis_url:
        return address.parse(settings.redis_url).redacted_url
    return str(settings.data_dir or folders.default_data_dir())


class _Guarded:
    """The application, with the error of a failed start."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: BaseException | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except BaseException as error:
            if scope["type"] == "lifespan":
                self.failure = error
            raise


class _Server(uvicorn.Server):
    """Uvicorn that calls `ready` once, and raises the error of a failed start."""

    def __init__(
        self, config: uvicorn.Config, guarded: _Guarded, ready: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        super().__init__(config)
        self._guarded = guarded
        self._ready = ready
        self._greeting: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Uvicorn would log a trace of a failed start; the error below says it in a sentence.
        _log.setLevel(logging.CRITICAL)
        try:
            await super().startup(sockets)
        except SystemExit:
            if self._guarded.failure:
                raise self._guarded.failure from None
            raise
        finally:
            _log.setLevel(logging.WARNING)
        # Referenced, so that the task is not collected too early.
        self._greeting = asyncio.create_task(self._ready())


def greeting(version: str, url: str, place: str, warnings: Sequence[str] = ()) -> Padding:
    """Return the greeting: URL, provider with its reason, location of the data, warnings."""
    chosen = route(RoutingRequest(), with_key(os.environ))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("Open", Text(url, "cyan"))
    grid.add_row("Docs", Text(f"{url}/docs", "cyan"))
    grid.add_row("Model", Text.assemble(chosen.provider, (f"  {chosen.reason}", "dim")))
    grid.add_row("Data", Text(terminal.without_control_chars(place)))
    for warning in warnings:
        grid.add_row("Warning", Text(warning, "yellow"))
    grid.add_row("Stop", Text("Ctrl-C"))
    title = Text.assemble(("Callsheet", "bold"), (f" {version}", "dim"))
    return Padding(Group(title, "", grid), (1, 2))
