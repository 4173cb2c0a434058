"""The Agent Streaming Protocol after events were trimmed, or a thread's id got a new owner."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from callsheet.server.langgraph.protocol.events import MAX_SEQ, id_of, seq_of
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs import events
from callsheet.storage.threads.threads import NewThread, create
from tests.doubles.waiting import eventually
from tests.doubles.wire_served import APPROVED, HELLO, graph_input
from tests.doubles.wire_server import running_server
from tests.wire.protocol_reader import ProtocolThread, interrupt_ids, root_values, run_ended, run_lifecycles


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as server_url:
        yield server_url


@pytest.fixture
async def thread(url: str) -> AsyncIterator[ProtocolThread]:
    async with httpx.AsyncClient(base_url=url, timeout=20) as http:
        yield ProtocolThread(http)


async def trim_events(storage: Storage, thread: ProtocolThread, *, keep: int = 0) -> None:
    """Wait until no run is active, then remove all events but the newest `keep`."""

    async def run_has_ended() -> bool:
        return (await storage.redis.hget(keys.run_keys(thread.thread_id).thread, "active")) is None

    await eventually(run_has_ended, "the run to end")
    stream = keys.run_keys(thread.thread_id).events
    if keep:
        await storage.redis.xtrim(stream, maxlen=keep, approximate=False)
    else:
        await storage.redis.delete(stream)


async def test_a_stream_without_stored_events_has_a_gap_and_the_newest_state(
    thread: ProtocolThread, storage: Storage
) -> None:
    await thread.start("counter", graph_input(x=1, log=[]))
    await thread.read_until(run_ended())
    await trim_events(storage, thread)
    gap, state = await thread.read_until(lambda received: len(received) == 2)
    assert (gap["method"], gap["seq"]) == ("custom", 0)
    assert gap["params"]["data"] == {"name": "gap", "payload": {"first": None}}
    assert (state["method"], state["seq"]) == ("values", 0)
    assert state["params"]["data"] == {"x": 4, "log": ["a", "b", "c"]}


async def test_an_interrupt_is_streamed_although_its_events_are_trimmed(
    thread: ProtocolThread, storage: Storage
) -> None:
    run = await thread.start()
    all_events = await thread.read_until(run_ended())
    await trim_events(storage, thread)
    remaining = await thread.read_until(run_ended())
    assert interrupt_ids(remaining) == interrupt_ids(all_events)
    assert run_lifecycles(remaining) == [("interrupted", f"synth:{run}:lc||interrupted")]
    assert root_values(remaining) == root_values(all_events)[-1:]
    last = await thread.respond(interrupt_ids(remaining)[0], APPROVED)
    assert root_values(await thread.read_until(run_ended(last)))[-1]["decision"] == APPROVED


async def test_a_stream_whose_first_events_are_trimmed_begins_with_a_gap_and_a_state(
    thread: ProtocolThread, storage: Storage
) -> None:
    await thread.start("counter", graph_input(x=1, log=[]))
    all_events = await thread.read_until(run_ended())
    await trim_events(storage, thread, keep=3)
    gap, *remaining = await thread.read_until(run_ended())
    assert gap["params"]["data"] == {"name": "gap", "payload": {"first": remaining[1]["seq"]}}
    assert (remaining[0]["seq"], remaining[0]["params"]["data"]["x"]) == (0, 4)
    assert remaining[1:] == all_events[-len(remaining) + 1 :]
    resumed = await thread.read_until(run_ended(), since=remaining[1]["seq"])
    assert resumed == remaining[2:], "a reader of a stored event gets no gap and no event twice"


async def test_a_run_that_starts_while_the_stream_opens_is_not_reported_as_interrupted(
    thread: ProtocolThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X10: the reader finds no events, and then a state with a next node."""
    run = await thread.start("slow", graph_input(x=20, log=[]))

    async def has_started() -> bool:
        return bool((await thread.state())["next"])

    await eventually(has_started, "the run to be at its first node")
    read_after, reads = events.read_after, 0

    async def read_nothing_first(*arguments: Any, **more: Any) -> list[events.Event]:
        nonlocal reads
        reads += 1
        return [] if reads == 1 else await read_after(*arguments, **more)

    monkeypatch.setattr(events, "read_after", read_nothing_first)
    received = await thread.read_until(run_ended(run))
    assert [status for status, _ in run_lifecycles(received)] == ["running", "completed"]
    assert reads > 1


async def test_a_stream_does_not_show_the_events_of_a_new_owner_of_the_thread_id(
    thread: ProtocolThread, storage: Storage
) -> None:
    await thread.start("counter", graph_input(x=1, log=[]))
    async with thread.stream() as stream:
        received = list(await stream.read_until(run_ended()))
        await trim_events(storage, thread, keep=1)
        await thread.http.delete(f"/threads/{thread.thread_id}")
        await create(storage, NewThread(thread.thread_id, "bob"))
        names = keys.run_keys(thread.thread_id)
        fields: Any = {"run": "r", "event": "metadata", "data": "{}"}
        await storage.redis.xadd(names.events, fields)
        await storage.redis.xadd(names.events, fields | {"event": "values", "data": '{"secret": 1}'})
        await storage.redis.expire(names.events, 60)
        await storage.redis.publish(names.events, "events")
        with pytest.raises(EOFError):
            await stream.read_until(lambda _: False)
        assert stream.events == received


def test_a_sequence_number_can_be_turned_back_into_its_event_id() -> None:
    """Below 2 ** 53 until 2095, so that JavaScript can read it."""
    for event_id in ("1795293926630-0", "1795293926630-4095", "3900000000000-17"):
        assert id_of(seq_of(event_id)) == event_id
        assert seq_of(event_id) <= MAX_SEQ
    assert id_of(seq_of("1795293926630-9999")) == "1795293926630-4095", (
        "an event is rather repeated than lost"
    )
    assert (seq_of("0-0"), id_of(0)) == (0, "0-0")


async def test_a_small_sequence_number_of_another_server_is_before_all_events(thread: ProtocolThread) -> None:
    await thread.start(graph_input=HELLO)
    assert await thread.read_until(run_ended(), since=19) == await thread.read_until(run_ended())
