"""The server in the foreground: binds the port, greets when ready, stops quietly."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import uvicorn
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.server.app import create_app
from callsheet.server.cli import terminal, text_input
from callsheet.server.http import connections
from callsheet.server.operations import logs
from callsheet.server.runtime import process
from callsheet.server.settings import Settings
from callsheet.state.errors import CallsheetError, Conflict, Invalid
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
    listeners = bind_sockets(settings.host, settings.port)
    where = terminal.console()
    url = f"http://{url_host(settings.host)}:{listeners[0].getsockname()[1]}"
    _log.setLevel(logging.WARNING)
    logs.configure(settings.log_level, settings.log_format)
    config = server_config(guarded, settings)

    async def ready() -> None:
        app.state.loading.add_done_callback(lambda _: process.tune_garbage_collection())
        # In a thread, so that requests are answered meanwhile.
        await asyncio.to_thread(lambda: where.print(greeting(version, url, place, app.state.warnings)))

    server = _Server(config, guarded, ready)
    try:
        process.run_event_loop(server.serve(sockets=listeners))
    except KeyboardInterrupt:
        where.print(Padding(Text("Stopped. Everything is kept.", "dim"), (0, 2)))
    finally:
        for listener in listeners:
            listener.close()


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
    )


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to every address of `host`; raises `Invalid` or `Conflict` with the port."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Invalid(f"host {host!r} is not an address of this machine", remedy="use 127.0.0.1") from error
    listeners: list[socket.socket] = []
    try:
        for family, where in dict.fromkeys((entry[0], entry[4]) for entry in addresses):
            chosen = listeners[0].getsockname()[1] if listeners else port
            listeners.append(_bind(family, (str(where[0]), chosen)))
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise bind_error(host, port, error) from error
    return listeners


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


def _bind(family: int, where: tuple[str, int]) -> socket.socket:
    # With the protocol named: asyncio sets TCP_NODELAY only on sockets it recognises as TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(where)
        # Listen now, so that a port in use is found before the slow part of the start.
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def bind_error(host: str, port: int, error: OSError) -> CallsheetError:
    """Return the error for the user if the system refuses a port or an address."""
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port {port} on {host} is in use by another program",
            remedy=f"stop that program, or choose a free port: {text_input.program()} serve --port 0",
        )
    if error.errno == errno.EACCES:
        return Invalid(f"port {port} may not be used by this user", remedy="choose a port from 1024 on")
    return Invalid(
        f"host {host!r} cannot be listened on: {os.strerror(error.errno or 0).lower()}",
        remedy="use 127.0.0.1",
    )


def url_host(host: str) -> str:
    """Return a host in the form of a URL."""
    return f"[{host}]" if ":" in host else host


def greeting(version: str, url: str, place: str, warnings: Sequence[str] = ()) -> Padding:
    """Return the greeting: URL, provider with its reason, location of the data, warnings."""
    # Importing the model libraries takes longer than the rest of the start.
    from callsheet.providers import with_key  # noqa: PLC0415
    from callsheet.providers.routing import RoutingRequest, route  # noqa: PLC0415

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
