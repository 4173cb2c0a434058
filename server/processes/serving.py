"""The server in the foreground, or for the terminals of one user until the last one has left."""

import asyncio
import fcntl
import logging
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.providers import with_key
from callsheet.providers.routing import RoutingRequest, route
from callsheet.server.app import create_app
from callsheet.server.engine import process
from callsheet.server.engine.workflows import Workflows
from callsheet.server.http import connections
from callsheet.server.http.auth import OPERATOR
from callsheet.server.http.shutdown import Shutdown
from callsheet.server.settings.console import console, without_control_chars
from callsheet.server.settings.local_sockets import local_sockets
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry import logs
from callsheet.state.errors import CallsheetError
from callsheet.storage.embedded import folders
from callsheet.storage.redis import address

_CUT_S: Final = 3
"""Seconds for requests to send their last words after the grace."""
_KEEP_ALIVE_S: Final = 620
"""Seconds that an idle connection is kept: longer than clients do, or a POST could meet a closing connection.

Chromium closes one after 300 seconds, Firefox after 115, load balancers after 60 (AWS) to 600 (Google Cloud).
"""
_IDLE_S: Final = 1.0
"""Seconds without a terminal and without a run after which a server for terminals ends."""
_FIRST_S: Final = 10.0
"""Seconds that such a server waits for its first terminal."""
_log = logging.getLogger("uvicorn.error")
_own_log = logging.getLogger(__name__)


def serve(settings: Settings, version: str) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP; raises `CallsheetError` if the server cannot start."""
    process.raise_open_files_limit()
    place = describe_storage(settings)
    app = create_app(settings)
    guarded = _Guarded(app)
    listeners = connections.bind_sockets(settings.host, settings.port)
    where = console()
    url = f"http://{connections.url_host(settings.host)}:{listeners[0].getsockname()[1]}"
    logs.configure(settings.log_level, settings.log_format)

    async def ready() -> None:
        process.tune_garbage_collection()
        # In a thread, so that requests are answered meanwhile.
        served, warnings = app.state.context.workflows, app.state.warnings
        await asyncio.to_thread(lambda: where.print(greeting(version, url, place, warnings, served)))

    with ExitStack() as stack:
        for listener in listeners:
            stack.callback(listener.close)
        for path in _terminal_sockets(settings):
            if (terminals := stack.enter_context(_local_listener(path))) is not None:
                guarded.operators_at.add(str(path))
                listeners.append(terminals)
        _run(_Server(settings, guarded, ready), listeners)
    where.print(Padding(Text("Stopped. Everything is kept.", "dim"), (0, 2)))


def serve_terminals(settings: Settings, path: Path) -> None:
    """Serve at a unix socket until no terminal is connected and no run is in progress.

    Return at once if another process serves there. Raises `CallsheetError` if the server cannot start.
    """
    with _local_listener(path) as listener:
        if listener is None:
            return
        process.raise_open_files_limit()
        # It listens nowhere else, so an address for others does not matter.
        app = create_app(settings.model_copy(update={"host": "127.0.0.1"}))
        guarded = _Guarded(app, str(path))
        logs.configure(settings.log_level, settings.log_format)

        async def ready() -> None:
            process.tune_garbage_collection()

        server = _Server(settings, guarded, ready)
        server.is_busy = lambda: bool(app.state.context.worker.executions)
        _run(server, [listener])


def _terminal_sockets(settings: Settings) -> list[Path]:
    """Return the socket for terminals; none where its folder cannot be used, which is logged."""
    try:
        return [local_sockets(settings.data_dir, settings.redis_url, settings.config, {}).shared]
    except CallsheetError as error:
        _own_log.warning("the terminal cannot find this server by its data, only with --url: %s", error)
        return []


@contextmanager
def _local_listener(path: Path) -> Iterator[socket.socket | None]:
    """Listen at a unix socket; None if another process does. The socket is removed at the end."""
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        # Left behind by a process that was killed.
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            try:
                yield listener
            finally:
                path.unlink(missing_ok=True)


def _run(server: "_Server", listeners: list[socket.socket]) -> None:
    """Serve until Ctrl-C or SIGTERM, and return."""
    _log.setLevel(logging.WARNING)
    # Uvicorn raises the signal that it stopped for once more; by default SIGTERM would end the process here.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Where the parent process ignores Ctrl-C, as a shell does for a background job, it raises nothing.
    try:
        with suppress(KeyboardInterrupt):
            process.run_event_loop(server.serve(sockets=listeners))
    finally:
        signal.signal(signal.SIGTERM, before)


def server_config(
    app: ASGIApp,
    settings: Settings,
    patience_s: float | None = None,
    headers_s: float = connections.HEADERS_S,
) -> uvicorn.Config:
    """Return uvicorn's configuration.

    Requests in progress get `patience_s` to end at a stop, by default a little more than the grace, after
    which they are cut; headers get `headers_s` to arrive.
    """
    patience_s = settings.stop_grace_s + _CUT_S if patience_s is None else patience_s
    return uvicorn.Config(
        app,
        http=connections.http_protocol(settings.slow_reader_s, headers_s),
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=math.ceil(patience_s),
        timeout_keep_alive=_KEEP_ALIVE_S,
        ws_max_size=max(settings.max_message_bytes, settings.max_body_bytes) + 1,
    )


def describe_storage(settings: Settings) -> str:
    """Return the location of the data for people: the folder, or the URL without its password."""
    if settings.redis_url:
        return address.parse(settings.redis_url).redacted_url
    return str(settings.data_dir or folders.default_data_dir())


class _Guarded:
    """The application, with the error of a failed start; marks requests of the operator's terminals."""

    def __init__(self, app: FastAPI, *operators_at: str) -> None:
        self._app = app
        self.shutdown: Final[Shutdown] = app.state.shutdown
        self.failure: BaseException | None = None
        self.operators_at = {*operators_at}
        """Unix sockets of this process that only its own user reaches."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (scope.get("server") or ("",))[0] in self.operators_at:
            scope[OPERATOR] = True
        try:
            await self._app(scope, receive, send)
        except BaseException as error:
            if scope["type"] == "lifespan":
                self.failure = error
            raise


class _Server(uvicorn.Server):
    """Uvicorn that calls `ready` once, raises the error of a failed start, and stops in steps.

    After SIGTERM or SIGHUP it serves on for the delay while `/ready` answers 503; then requests in progress
    get the grace. Ctrl-C has no delay, and a second signal ends it.
    """

    def __init__(
        self, settings: Settings, guarded: _Guarded, ready: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        super().__init__(server_config(guarded, settings))
        self._settings = settings
        self._stop_at_s = math.inf
        """Time, by `time.monotonic`, at which the delay is over."""
        self._guarded = guarded
        self._ready = ready
        self._greeting: asyncio.Task[None] | None = None
        self.is_busy: Callable[[], bool] | None = None
        """Set for a server that ends by itself: returns True while a run is in progress."""
        self._idle_at_s = 0.0
        """Time of the event loop at which it ends if nobody comes."""
        self._requests = 0
        """Requests until the last look: a terminal may come and leave between two looks."""

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
        self._idle_at_s = asyncio.get_running_loop().time() + _FIRST_S

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            before = signal.getsignal(signal.SIGHUP)
            # `nohup` has it ignored.
            if before is not signal.SIG_IGN:
                signal.signal(signal.SIGHUP, lambda _, frame: self.handle_exit(signal.SIGTERM, frame))
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._guarded.shutdown.begin()
        delay_s = self._settings.stop_delay_s
        if sig == signal.SIGTERM and delay_s and math.isinf(self._stop_at_s):
            self._stop_at_s = time.monotonic() + delay_s
            return
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Also where the server ends by itself.
        self._guarded.shutdown.begin()
        # Uvicorn would log each reply that is cut as an error of the application.
        _log.setLevel(logging.CRITICAL)
        cut = self._guarded.shutdown.cut_requests
        timer = asyncio.get_running_loop().call_later(self._settings.stop_grace_s, cut)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    async def on_tick(self, counter: int) -> bool:
        """Return True if the server shall stop; called ten times a second."""
        if self.is_busy is not None:
            now_s = asyncio.get_running_loop().time()
            requests = self.server_state.total_requests
            if self.server_state.connections or requests > self._requests or self.is_busy():
                self._idle_at_s, self._requests = now_s + _IDLE_S, requests
            self.should_exit = self.should_exit or now_s >= self._idle_at_s
        self.should_exit = self.should_exit or time.monotonic() >= self._stop_at_s
        return await super().on_tick(counter)


def greeting(version: str, url: str, place: str, warnings: Sequence[str], workflows: Workflows) -> Padding:
    """Return the greeting: URL, graphs that are no workflows, provider of the workflows, data, warnings."""
    graphs = ", ".join(name for name in workflows.graphs if name not in workflows.specs)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("Open", Text(url, "cyan"))
    grid.add_row("Docs", Text(f"{url}/docs", "cyan"))
    if graphs:
        grid.add_row("Graphs", Text(graphs))
    if workflows.specs:
        # Other graphs choose their models themselves.
        chosen = route(RoutingRequest(), with_key(os.environ))
        grid.add_row("Model", Text.assemble(chosen.provider, (f"  {chosen.reason}", "dim")))
    grid.add_row("Data", Text(without_control_chars(place)))
    for warning in warnings:
        grid.add_row("Warning", Text(warning, "yellow"))
    grid.add_row("Stop", Text("Ctrl-C"))
    title = Text.assemble(("Callsheet", "bold"), (f" {version}", "dim"))
    return Padding(Group(title, "", grid), (1, 2))
