"""The Agent Streaming Protocol over a web socket, frame by frame."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from callsheet.server.langgraph.protocol import events
from callsheet.server.langgraph.protocol import socket as protocol_socket
from callsheet.server.langgraph.protocol.events import ThreadView
from tests.doubles.waiting import PATIENCE_S
from tests.doubles.wire_served import APPROVED, HELLO, new_id, running_server_on_own_redis
from tests.wire.protocol_reader import (
    ALL_CHANNELS,
    Event,
    ProtocolThread,
    interrupt_ids,
    root_values,
    run_ended,
    run_lifecycles,
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(max_message_bytes=10_000) as server_url:
        yield server_url


@pytest.fixture
async def thread(url: str) -> AsyncIterator[ProtocolThread]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        yield ProtocolThread(http)


class ProtocolSocket:
    """An open socket, and the events received on it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.events: list[Event] = []

    async def send(self, text: Any) -> None:
        """Send anything."""
        await self._socket.send(text if isinstance(text, str | bytes) else json.dumps(text))

    async def command(self, method: str, number: int = 1, **params: Any) -> Event:
        """Send a command and return its reply; events before it are appended to `events`."""
        await self.send({"id": number, "method": method, "params": params})
        return await self.answer()

    async def answer(self) -> Event:
        """Return the next frame that is not an event."""
        async with asyncio.timeout(PATIENCE_S):
            while (frame := await self._next())["type"] == "event":
                self.events.append(frame)
        return frame

    async def read_until(self, condition: Any) -> list[Event]:
        """Return all events once a condition holds of them."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(self.events):
                frame = await self._next()
                assert frame["type"] == "event"
                self.events.append(frame)
        return self.events

    async def _next(self) -> Event:
        frame: Event = json.loads(await self._socket.recv())
        return frame


@asynccontextmanager
async def open_socket(url: str, thread_id: str) -> AsyncIterator[ProtocolSocket]:
    path = f"{url.replace('http', 'ws', 1)}/threads/{thread_id}/stream/events"
    async with connect(path) as socket:
        yield ProtocolSocket(socket)


async def test_a_run_is_started_streamed_and_resumed_over_one_socket(
    url: str, thread: ProtocolThread
) -> None:
    async with open_socket(url, thread.thread_id) as socket:
        reply = await socket.command("subscription.subscribe", channels=ALL_CHANNELS)
        assert (reply["type"], reply["id"]) == ("success", 1)
        assert reply["result"]["subscription_id"]
        started = await socket.command("run.start", 2, assistant_id="agent", input=HELLO)
        assert started["id"] == 2
        [interrupt_id] = interrupt_ids(await socket.read_until(run_ended(started["result"]["run_id"])))
        answer = {"namespace": [], "interrupt_id": interrupt_id, "response": APPROVED}
        resumed = await socket.command("input.respond", 3, **answer)
        run = resumed["result"]["run_id"]
        received = await socket.read_until(run_ended(run))
        assert run_lifecycles(received)[-1] == ("completed", f"synth:{run}:lc||completed")
        tree = await socket.command("agent.getTree", 4)
        assert tree["result"]["tree"]["status"] == "completed"
    assert await thread.read_until(run_ended(run)) == received, "HTTP has the same events"


async def test_each_subscription_gets_all_events_of_its_channels(url: str, thread: ProtocolThread) -> None:
    run = await thread.start()
    all_events = await thread.read_until(run_ended(run))
    once = [event["event_id"] for event in all_events if event["method"] == "input.requested"]
    twice = [event_id for _, event_id in run_lifecycles(all_events)]
    expected = sorted([*once, *twice, *twice])
    async with open_socket(url, thread.thread_id) as socket:
        for channel in ("input", "lifecycle", "lifecycle"):
            await socket.command("subscription.subscribe", channels=[channel])
        received = await socket.read_until(lambda received: len(received) == len(expected))
    assert sorted(event["event_id"] for event in received) == expected


@pytest.mark.parametrize("when", ["running", "ended"])
async def test_the_end_of_a_run_follows_all_earlier_events_on_every_subscription(
    url: str, thread: ProtocolThread, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Clients end all subscriptions of a connection when one reports an interrupt or the end of a run."""
    follow_thread = events.follow_thread

    async def follow_late(view: Any, subscription: Any, on_seq: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.3 if "messages" in subscription.channels else 0.1)
        async with aclosing(follow_thread(view, subscription, on_seq)) as source:
            async for event in source:
                yield event

    monkeypatch.setattr(protocol_socket, "follow_thread", follow_late)
    if when == "ended":
        await thread.read_until(run_ended(await thread.start()))
    async with open_socket(url, thread.thread_id) as socket:
        await socket.command("subscription.subscribe", channels=["lifecycle"])
        if when == "running":
            await socket.command("run.start", 2, assistant_id="agent", input=HELLO)
        await socket.command("subscription.subscribe", 3, channels=["messages", "lifecycle"])
        received = await socket.read_until(
            lambda received: [status for status, _ in run_lifecycles(received)].count("interrupted") == 2
        )
    seqs = [event["seq"] for event in received]
    assert "messages" in {event["method"] for event in received}
    assert seqs == sorted(seqs)


async def test_a_subscription_can_be_ended_once(url: str, thread: ProtocolThread) -> None:
    async with open_socket(url, thread.thread_id) as socket:
        reply = await socket.command("subscription.subscribe", channels=ALL_CHANNELS)
        subscription_id = reply["result"]["subscription_id"]
        for expected in ("success", "error"):
            reply = await socket.command("subscription.unsubscribe", 7, subscription_id=subscription_id)
            assert (reply["type"], reply["id"]) == (expected, 7)
        assert reply["error"] == "no_such_subscription"
        run = (await socket.command("run.start", assistant_id="agent", input=HELLO))["result"]["run_id"]
        await thread.read_until(run_ended(run))
        await socket.command("agent.getTree")
        assert socket.events == []


@pytest.mark.parametrize(
    "message", ["{", "[]", "null", '{"id": "x", "method": "run.start"}', b"\xff", '{"id": 1}']
)
async def test_malformed_and_unknown_commands_get_an_error_reply(url: str, message: Any) -> None:
    async with open_socket(url, new_id()) as socket:
        await socket.send(message)
        reply = await socket.answer()
        assert (reply["type"], reply["id"], reply["error"]) == ("error", None, "invalid_argument")
        reply = await socket.command("subscription.subscribe", 2, channels="values")
        assert (reply["id"], reply["error"]) == (2, "invalid_argument")
        reply = await socket.command("run.stop", 3)
        assert reply["error"] == "unknown_command"


async def test_a_socket_has_at_most_32_subscriptions(url: str) -> None:
    async with open_socket(url, new_id()) as socket:
        for number in range(33):
            reply = await socket.command("subscription.subscribe", number, channels=[])
            assert reply["type"] == ("success" if number < 32 else "error")


async def test_a_message_over_the_limit_closes_the_socket(url: str) -> None:
    async with open_socket(url, new_id()) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.command("run.start", assistant_id="agent", input="x" * 10_001)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def test_a_socket_whose_subscription_fails_is_closed(
    url: str, thread: ProtocolThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client can connect again, and does not wait for events that never come."""
    run = await thread.start("counter", {"x": 1})
    async with open_socket(url, thread.thread_id) as socket:
        with monkeypatch.context() as patch:
            patch.setattr(ThreadView, "frames", None)
            await socket.command("subscription.subscribe", channels=ALL_CHANNELS)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.read_until(run_ended(run))
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert "a subscription of a web socket failed" in caplog.text
    async with open_socket(url, thread.thread_id) as socket:
        await socket.command("subscription.subscribe", channels=ALL_CHANNELS)
        await socket.read_until(run_ended(run))


async def test_a_thread_id_with_special_characters_works_in_the_path_of_a_socket(url: str) -> None:
    thread_id = f"days/{new_id()} 100%2F"
    quoted = quote(thread_id, safe="")
    async with open_socket(url, quoted) as socket:
        await socket.command("subscription.subscribe", channels=ALL_CHANNELS)
        run = (await socket.command("run.start", 2, assistant_id="counter", input={"x": 1}))["result"][
            "run_id"
        ]
        await socket.read_until(run_ended(run))
    async with httpx.AsyncClient(base_url=url) as http:
        assert (await http.get(f"/threads/{quoted}")).json()["thread_id"] == thread_id
        assert root_values(await ProtocolThread(http, quoted).read_until(run_ended(run)))[-1]["x"] == 4


async def test_commands_over_a_socket_count_for_the_rate_limit() -> None:
    with running_server_on_own_redis(requests_per_minute=3) as url:
        async with open_socket(url, new_id()) as socket:
            for number in (1, 2):
                reply = await socket.command("run.stop", number)
                assert reply["error"] == "unknown_command"
            reply = await socket.command("run.stop", 3)
            assert (reply["id"], reply["error"]) == (3, "unknown_error")
            assert "more than 3 requests in a minute. Wait " in reply["message"]
