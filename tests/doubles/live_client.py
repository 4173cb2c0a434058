"""An HTTP client of the application whose streams come piece by piece, and end where their reader stops."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI

from callsheet.server.http.context import AppContext


@dataclass(frozen=True)
class ReadEvent:
    """One server-sent event."""

    id: str | None
    name: str
    data: Any

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers of the id."""
        return tuple(int(part) for part in str(self.id).replace("-", ".").split("."))


class _Body(httpx.AsyncByteStream):
    """The pieces of a reply; the next one is made once this one has been taken."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._taken = asyncio.Event()
        self.left = asyncio.Event()

    async def put(self, piece: bytes, *, more: bool) -> None:
        """Return once the reader asks for more; a last piece is not waited for."""
        self._taken.clear()
        self._pieces.put_nowait(piece)
        if more:
            await self._taken.wait()
        else:
            self._pieces.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            if piece:
                yield piece
            self._taken.set()

    async def aclose(self) -> None:
        self.left.set()


class LiveTransport(httpx.AsyncBaseTransport):
    """Calls the application; closing a reply leaves its stream."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the reply once its headers are there."""
        body, started = _Body(), asyncio.get_running_loop().create_future()
        content: list[bytes] = [await request.aread()]

        async def receive() -> Mapping[str, Any]:
            if content:
                return {"type": "http.request", "body": content.pop(), "more_body": False}
            await body.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                started.set_result(message)
                return
            await body.put(message.get("body", b""), more=message.get("more_body", False))

        task = asyncio.create_task(self._app(_scope(request), receive, send))  # type: ignore[arg-type]  # ASGI's
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        head = started.result()
        return httpx.Response(head["status"], headers=head["headers"], stream=body)

    async def aclose(self) -> None:
        """Wait for the end of all calls."""
        await asyncio.gather(*self._tasks)


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": ("127.0.0.1", 2024),
        "client": ("127.0.0.1", 1),
    }


class StreamReader:
    """Reads streams of one server; `app` is its application where it is in this process."""

    def __init__(self, http: httpx.AsyncClient, app: FastAPI | None = None) -> None:
        self.http = http
        self._app = app

    @property
    def context(self) -> AppContext:
        """The application's context, once it has answered a request."""
        assert self._app
        context: AppContext = self._app.state.context
        return context

    @property
    def redis(self) -> Any:
        """The application's connection to Redis, once it has answered a request."""
        return self.context.storage.redis

    @asynccontextmanager
    async def open(
        self, method: str, path: str, last: str | None = None, **options: Any
    ) -> AsyncIterator[tuple[httpx.Response, AsyncIterator[ReadEvent | None]]]:
        """A stream and its events, None for each comment; `last` is the id of the last one seen."""
        headers = {"Accept": "text/event-stream", **options.pop("headers", {})}
        headers |= {} if last is None else {"Last-Event-ID": last}
        async with self.http.stream(method, path, headers=headers, **options) as reply:
            yield reply, _events(reply)

    async def read(
        self, method: str, path: str, last: str | None = None, most: int = 0, **options: Any
    ) -> list[ReadEvent]:
        """The events of a stream with status 200, to its end or the first `most`."""
        events_read: list[ReadEvent] = []
        async with self.open(method, path, last, **options) as (reply, events):
            assert reply.status_code == 200, await reply.aread()
            async for event in events:
                events_read += [event] if event else []
                if most and len(events_read) == most:
                    break
        return events_read


async def _events(reply: httpx.Response) -> AsyncIterator[ReadEvent | None]:
    fields: dict[str, str] = {}
    async for line in reply.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        complete, fields = fields, {}
        yield (
            ReadEvent(complete.get("id"), complete["event"], json.loads(complete["data"]))
            if "data" in complete
            else None
        )


@asynccontextmanager
async def stream_reader(app: FastAPI) -> AsyncIterator[StreamReader]:
    """A reader of a started application's streams."""
    transport = LiveTransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:2024", timeout=30) as http:
        yield StreamReader(http, app)
