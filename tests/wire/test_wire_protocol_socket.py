"""The second wire over a web socket, frame by frame."""

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
from callsheet.server.langgraph.protocol.views import ThreadView
from tests.doubles.waiting import PATIENCE_S
from tests.doubles.wire_served import APPROVED, HELLO, new_id, running_server_on_own_redis
from tests.wire.protocol_reader import (
    ALL,
    Event,
    ProtocolThread,
    questions,
    run_has_ended,
    run_lifecycles,
    values,
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(max_body_bytes=10_000) as found:
        yield found


@pytest.fixture
async def wire(url: str) -> AsyncIterator[ProtocolThread]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        yield ProtocolThread(http)


class Socket:
    """An open socket, and the events it has told."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.told: list[Event] = []

    async def send(self, text: Any) -> None:
        """Send anything."""
        await self._socket.send(text if isinstance(text, str | bytes) else json.dumps(text))

    async def command(self, method: str, number: int = 1, **params: Any) -> Event:
        """Send a command and return its answer; events before it are kept."""
        await self.send({"id": number, "method": method, "params": params})
        return await self.answer()

    async def answer(self) -> Event:
        """The next that is no event."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self._next())["type"] == "event":
                self.told.append(found)
        return found

    async def seen(self, until: Any) -> list[Event]:
        """All events, once a condition holds of them."""
        async with asyncio.timeout(PATIENCE_S):
            while not until(self.told):
                found = await self._next()
                assert found["type"] == "event"
                self.told.append(found)
        return self.told

    async def _next(self) -> Event:
        found: Event = json.loads(await self._socket.recv())
        return found


@asynccontextmanager
async def opened(url: str, thread: str) -> AsyncIterator[Socket]:
    place = f"{url.replace('http', 'ws', 1)}/threads/{thread}/stream/events"
    async with connect(place) as socket:
        yield Socket(socket)


async def test_a_whole_conversation_goes_over_one_socket(url: str, wire: ProtocolThread) -> None:
    async with opened(url, wire.thread) as socket:
        told = await socket.command("subscription.subscribe", channels=ALL)
        assert (told["type"], told["id"]) == ("success", 1)
        assert told["result"]["subscription_id"]
        started = await socket.command("run.start", 2, assistant_id="agent", input=HELLO)
        assert started["id"] == 2
        [question] = questions(await socket.seen(run_has_ended(started["result"]["run_id"])))
        answer = {"namespace": [], "interrupt_id": question, "response": APPROVED}
        last = await socket.command("input.respond", 3, **answer)
        run = last["result"]["run_id"]
        seen = await socket.seen(run_has_ended(run))
        assert run_lifecycles(seen)[-1] == ("completed", f"synth:{run}:lc||completed")
        tree = await socket.command("agent.getTree", 4)
        assert tree["result"]["tree"]["status"] == "completed"
    assert await wire.seen(run_has_ended(run)) == seen, "the same as over HTTP"


async def test_each_subscription_gets_all_that_it_wants(url: str, wire: ProtocolThread) -> None:
    run = await wire.start()
    whole = await wire.seen(run_has_ended(run))
    once = [event["event_id"] for event in whole if event["method"] == "input.requested"]
    twice = [event_id for _, event_id in run_lifecycles(whole)]
    expected = sorted([*once, *twice, *twice])
    async with opened(url, wire.thread) as socket:
        for channel in ("input", "lifecycle", "lifecycle"):
            await socket.command("subscription.subscribe", channels=[channel])
        told = await socket.seen(lambda told: len(told) == len(expected))
    assert sorted(event["event_id"] for event in told) == expected


@pytest.mark.parametrize("when", ["it begins", "it is over"])
async def test_an_end_is_told_after_all_before_it_whichever_subscription_is_told(
    url: str, wire: ProtocolThread, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Clients end all subscriptions of a connection when one is told that a run waits, or has ended."""
    seen = events.follow_thread

    async def late(view: Any, wanted: Any, on_seq: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(0.3 if "messages" in wanted.channels else 0.1)
        async with aclosing(seen(view, wanted, on_seq)) as source:
            async for event in source:
                yield event

    monkeypatch.setattr(protocol_socket, "follow_thread", late)
    if when == "it is over":
        await wire.seen(run_has_ended(await wire.start()))
    async with opened(url, wire.thread) as socket:
        await socket.command("subscription.subscribe", channels=["lifecycle"])
        if when == "it begins":
            await socket.command("run.start", 2, assistant_id="agent", input=HELLO)
        await socket.command("subscription.subscribe", 3, channels=["messages", "lifecycle"])
        told = await socket.seen(
            lambda told: [what for what, _ in run_lifecycles(told)].count("interrupted") == 2
        )
    order = [event["seq"] for event in told]
    assert "messages" in {event["method"] for event in told}
    assert order == sorted(order)


async def test_a_subscription_can_be_ended(url: str, wire: ProtocolThread) -> None:
    async with opened(url, wire.thread) as socket:
        told = await socket.command("subscription.subscribe", channels=ALL)
        name = told["result"]["subscription_id"]
        for expected in ("success", "error"):
            told = await socket.command("subscription.unsubscribe", 7, subscription_id=name)
            assert (told["type"], told["id"]) == (expected, 7)
        assert told["error"] == "no_such_subscription"
        run = (await socket.command("run.start", assistant_id="agent", input=HELLO))["result"]["run_id"]
        await wire.seen(run_has_ended(run))
        await socket.command("agent.getTree")
        assert socket.told == []


@pytest.mark.parametrize(
    "wrong", ["{", "[]", "null", '{"id": "x", "method": "run.start"}', b"\xff", '{"id": 1}']
)
async def test_what_is_no_command_is_answered_so(url: str, wrong: Any) -> None:
    async with opened(url, new_id()) as socket:
        await socket.send(wrong)
        told = await socket.answer()
        assert (told["type"], told["id"], told["error"]) == ("error", None, "invalid_argument")
        told = await socket.command("subscription.subscribe", 2, channels="values")
        assert (told["id"], told["error"]) == (2, "invalid_argument")
        told = await socket.command("run.stop", 3)
        assert told["error"] == "unknown_command"


async def test_a_socket_holds_so_many_subscriptions(url: str) -> None:
    async with opened(url, new_id()) as socket:
        for number in range(33):
            told = await socket.command("subscription.subscribe", number, channels=[])
            assert told["type"] == ("success" if number < 32 else "error")


async def test_a_message_over_the_limit_closes_the_socket(url: str) -> None:
    async with opened(url, new_id()) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.command("run.start", assistant_id="agent", input="x" * 10_001)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def test_a_socket_that_cannot_be_told_is_closed(
    url: str, wire: ProtocolThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client connects once more, and does not wait for what never comes."""
    run = await wire.start("counter", {"x": 1})
    async with opened(url, wire.thread) as socket:
        with monkeypatch.context() as broken:
            broken.setattr(ThreadView, "frames", None)
            await socket.command("subscription.subscribe", channels=ALL)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.seen(run_has_ended(run))
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert "a subscription of a web socket failed" in caplog.text
    async with opened(url, wire.thread) as socket:
        await socket.command("subscription.subscribe", channels=ALL)
        await socket.seen(run_has_ended(run))


async def test_a_thread_of_any_name_is_followed_over_a_socket(url: str) -> None:
    name = f"days/{new_id()} 100%2F"
    place = quote(name, safe="")
    async with opened(url, place) as socket:
        await socket.command("subscription.subscribe", channels=ALL)
        run = (await socket.command("run.start", 2, assistant_id="counter", input={"x": 1}))["result"][
            "run_id"
        ]
        await socket.seen(run_has_ended(run))
    async with httpx.AsyncClient(base_url=url) as http:
        assert (await http.get(f"/threads/{place}")).json()["thread_id"] == name
        assert values(await ProtocolThread(http, place).seen(run_has_ended(run)))[-1]["x"] == 4


async def test_commands_over_a_socket_count_as_requests() -> None:
    with running_server_on_own_redis(requests_per_minute=3) as url:
        async with opened(url, new_id()) as socket:
            for number in (1, 2):
                told = await socket.command("run.stop", number)
                assert told["error"] == "unknown_command"
            told = await socket.command("run.stop", 3)
            assert (told["id"], told["error"]) == (3, "unknown_error")
            assert "more than 3 requests in a minute; wait " in told["message"]
