"""Streams whose key was revoked end, also beside one that does not end, or fails to."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from callsheet.server.http.auth import Caller, set_caller
from callsheet.server.http.revocation import StreamsByKey
from callsheet.server.http.shutdown import Shutdown, ShutdownMiddleware
from callsheet.state.errors import Unauthenticated
from callsheet.storage import Storage

KEY = "unknown00000"


class SlowToEnd:
    """A stream that works on after it was ended, until it is released."""

    def __init__(self) -> None:
        self.is_open, self.is_ending, self.release = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.sent: list[Message] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self.is_open.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_ending.set()
            await self.release.wait()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def start(self, shutdown: Shutdown, streams: StreamsByKey) -> "asyncio.Task[None]":
        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def check() -> None: ...

        scope: dict[str, Any] = {"type": "http"}
        set_caller(scope, Caller("anna", frozenset({"read"}), "key", KEY), check)
        return asyncio.ensure_future(ShutdownMiddleware(self, shutdown, streams)(scope, receive, self.send))


async def test_a_stream_that_is_slow_to_end_is_ended_once_and_hinders_nothing(storage: Storage) -> None:
    shutdown, streams, stream = Shutdown(), StreamsByKey(), SlowToEnd()
    async with asyncio.timeout(20):
        task = stream.start(shutdown, streams)
        await stream.is_open.wait()
        await streams.end_revoked(storage)
        await stream.is_ending.wait()
        await streams.end_revoked(storage)
        shutdown.cut_requests()
        stream.release.set()
        await task
    assert b"does not exist any more" in stream.sent[-1]["body"]
    assert len(streams) == 0


async def test_a_stream_that_fails_to_end_leaves_no_other_open(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    streams, ended = StreamsByKey(), list[str]()

    def fail(_: Unauthenticated) -> None:
        raise RuntimeError("a bug")

    with (
        streams.watch("first0000000", fail),
        streams.watch("first0000000", lambda _: ended.append("same key")),
        streams.watch("second000000", lambda _: ended.append("other key")),
    ):
        await streams.end_revoked(storage)
    assert sorted(ended) == ["other key", "same key"]
    assert "a stream of key first0000000 goes on" in caplog.text
