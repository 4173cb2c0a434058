"""Streams whose first events are not kept any more say so on every route, and give the others (X10)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs import events
from tests.doubles.page_chat_client import new_page_id, open_chat
from tests.doubles.waiting import PATIENCE_S
from tests.doubles.wire_graphs import GRAPHS, CountState
from tests.doubles.wire_served import collect, create_thread
from tests.doubles.wire_server import running_server
from tests.wire.protocol_reader import ProtocolThread, run_has_ended

MANY = 10_400
"""Over the number of events that are kept of a thread."""


async def _emit(state: CountState) -> dict[str, Any]:
    write = get_stream_writer()
    for number in range(state["x"]):
        write({"tick": number})
        if not number % 200:
            await asyncio.sleep(0)
    return {"log": ["emit"]}


def _graphs() -> dict[str, Any]:
    builder = StateGraph(CountState)
    builder.add_node("emit", _emit)
    builder.add_edge(START, "emit")
    return {**GRAPHS, "emitter": builder.compile(name="emitter")}


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, _graphs()) as found:
        yield found


async def ran(client: LangGraphClient, thread: str, ticks: int = 6) -> tuple[str, list[Any]]:
    """A run that has ended, and its events."""
    given: Any = {"x": ticks}
    options: Any = {"stream_mode": ["values", "custom"], "stream_resumable": True}
    run = (await client.runs.create(thread, "emitter", input=given, **options))["run_id"]
    await client.runs.join(thread, run)
    return run, await collect(client.runs.join_stream(thread, run, last_event_id="-1"))


async def trim(storage: Storage, thread: str, *, first: str = "") -> None:
    """Remove the events before `first` as Redis trims them; all of them, as when they expire, by default."""
    name = keys.run_keys(thread).events
    if first:
        await storage.redis.xtrim(name, minid=first, approximate=False)
    else:
        await storage.redis.delete(name)


async def server_events(http: httpx.AsyncClient, path: str, count: int, **options: Any) -> list[Any]:
    """The name, id and data of the first events of a stream that stays open."""
    async with asyncio.timeout(PATIENCE_S), http.stream("GET", path, **options) as reply:
        assert reply.status_code == 200, await reply.aread()
        source = _parsed(reply.aiter_lines())
        return [await anext(source) for _ in range(count)]


async def _parsed(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str | None, Any]]:
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        fields |= {name: value} if name else {}
        if not line and "event" in fields:
            yield fields["event"], fields.get("id"), json.loads(fields["data"])
            fields = {}


async def test_resuming_a_run_behind_what_is_kept_is_410_with_the_first_event_that_is(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    run, whole = await ran(client, thread)
    await trim(storage, thread, first=whole[4].id)
    path = f"/threads/{thread}/runs/{run}/stream"
    reply = await http.get(path, headers={"Last-Event-ID": whole[1].id})
    assert reply.status_code == 410
    detail = reply.json()["detail"]
    assert detail.startswith(f"event '{whole[1].id}' is not kept any more")
    assert f"the first one stored is '{whole[4].id}'; read the thread's state" in detail
    with pytest.raises(APIStatusError) as error:
        await collect(client.runs.join_stream(thread, run, last_event_id=whole[1].id))
    assert error.value.status_code == 410
    rest = await collect(client.runs.join_stream(thread, run, last_event_id=whole[4].id))
    assert rest == whole[5:], "what is kept is resumed as ever"


async def test_a_run_read_from_its_beginning_names_the_gap_and_gives_what_is_kept(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    run, whole = await ran(client, thread)
    other, others = await ran(client, thread)
    await trim(storage, thread, first=whole[4].id)
    gap, *rest = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert (gap.event, gap.data, gap.id) == ("gap", {"first": whole[4].id}, None)
    assert rest == whole[4:]
    assert await collect(client.runs.join_stream(thread, other, last_event_id="-1")) == others
    assert await collect(client.runs.join_stream(thread, other, last_event_id=others[0].id)) == others[1:]
    await trim(storage, thread)
    (gap,) = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert (gap.event, gap.data) == ("gap", {"first": None})


async def test_a_run_that_has_lost_nothing_has_no_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    """Neither with an old id, nor as the second of a thread, nor when it was cancelled while it waited."""
    thread = await create_thread(client)
    options: Any = {"stream_resumable": True, "multitask_strategy": "enqueue"}
    given: Any = {"x": 40}
    first = (await client.runs.create(thread, "slow", input=given, **options))["run_id"]
    second = (await client.runs.create(thread, "slow", input=given, **options))["run_id"]
    await client.runs.cancel(thread, second, wait=True)
    await client.runs.cancel(thread, first, wait=True)
    for run in (first, second):
        for last in ("-1", "0-0", "1-1"):
            told = await collect(client.runs.join_stream(thread, run, last_event_id=last))
            assert "gap" not in [event.event for event in told]
    for last in ("-", "-1", "1-1"):
        (event, *_) = await server_events(
            http, f"/threads/{thread}/stream", 1, headers={"Last-Event-ID": last}
        )
        assert event[0] == "metadata"


async def test_resuming_a_thread_behind_what_is_kept_is_410_and_its_beginning_names_the_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    _, whole = await ran(client, thread)
    _, others = await ran(client, thread)
    await trim(storage, thread, first=others[0].id)
    path = f"/threads/{thread}/stream"
    reply = await http.get(path, headers={"Last-Event-ID": whole[-1].id})
    assert reply.status_code == 410, "the first event that is kept begins a run, but not the first one"
    gap, begun = await server_events(http, path, 2, headers={"Last-Event-ID": "-"})
    assert gap == ("gap", None, {"first": others[0].id})
    assert begun[:2] == ("metadata", others[0].id)
    (rest,) = await server_events(http, path, 1, headers={"Last-Event-ID": others[0].id})
    assert rest[1] == others[1].id
    await trim(storage, thread)
    reply = await http.get(path, headers={"Last-Event-ID": whole[-1].id})
    assert (reply.status_code, "none is stored" in reply.text) == (410, True)
    (gap,) = await server_events(http, path, 1, headers={"Last-Event-ID": "-"})
    assert gap == ("gap", None, {"first": None})


async def test_the_second_protocol_has_a_gap_event_and_the_newest_state_instead_of_lost_events(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    wire = ProtocolThread(http)
    for _ in range(2):
        run = await wire.start("counter", {"x": 1})
        await client.runs.join(wire.thread, run)
    whole = await wire.seen(run_has_ended(run))
    entries: Any = await storage.redis.xrange(keys.run_keys(wire.thread).events)
    begun = [name.decode() for name, fields in entries if fields[b"event"] == b"metadata"]
    await trim(storage, wire.thread, first=begun[1])
    gap, state, *rest = await wire.seen(lambda told: len(told) == 5, since=whole[0]["seq"])
    assert gap["params"]["data"]["name"] == "gap"
    assert gap["params"]["data"]["payload"] == {"first": rest[0]["seq"]}
    assert (state["method"], state["seq"]) == ("values", 0)
    only_gap = await wire.seen(bool, channels=["custom:gap"])
    assert only_gap == [gap], "whoever wants nothing but this gets it"
    after = await wire.seen(bool, since=rest[0]["seq"])
    assert after[0] == rest[1], "what is kept is resumed as ever"


async def test_a_conversation_read_from_its_beginning_names_the_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    _, whole = await ran(client, thread)
    path = f"/api/conversations/{thread}/events"
    steps = await server_events(http, path, 7, params={"since": "0"})
    assert (steps[0][0], steps[-1][0]) == ("step", "result")
    await trim(storage, thread, first=whole[4].id)
    gap, *rest = await server_events(http, path, 6, params={"since": "0"})
    assert gap == ("gap", None, {"type": "gap", "conversationId": thread, "first": whole[4].id})
    assert rest == steps[2:]
    reply = await http.get(path, headers={"Last-Event-ID": f"{whole[1].id}.0"})
    assert (reply.status_code, "not stored" in reply.text) == (404, True)


async def test_a_turn_that_runs_and_whose_beginning_is_lost_names_the_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    given: Any = {"x": 400}
    run = (await client.runs.create(thread, "slow", input=given, stream_mode="custom"))["run_id"]
    path = f"/threads/{thread}/stream"
    begun = await server_events(http, path, 3, headers={"Last-Event-ID": "-1"})
    await trim(storage, thread, first=begun[2][1])
    (gap,) = await server_events(http, f"/api/conversations/{thread}/events", 1)
    assert (gap[0], gap[2]["first"]) == ("gap", begun[2][1])
    await client.runs.cancel(thread, run, wait=True)


@pytest.mark.slow
async def test_the_web_socket_of_a_page_names_the_gap(valkey_url: str, storage: Storage) -> None:
    page = new_page_id()
    with running_server(valkey_url, None) as url:
        async with open_chat(url) as chat:
            told = await chat.say(page, "Make the headline teal")
        first = told[-1]["eventId"].partition(".")[0]
        await trim(storage, page, first=first)
        async with open_chat(url) as chat:
            await chat.send({"type": "join", "conversationId": page, "lastEventId": "0"})
            told = await chat.until(lambda frame: frame["type"] not in {"joined", "heartbeat"})
    assert told[-1] == {"type": "gap", "conversationId": page, "first": first}


async def test_a_reader_that_events_were_trimmed_before_gets_a_gap_between_them(storage: Storage) -> None:
    for number in range(20):
        await events.append(storage, "t", "tick", b"%d" % number)
    cursor = events.EventCursor(storage, "t", events.START_ID)
    assert [event.data for event in await cursor.read_next()] == [b"%d" % number for number in range(16)]
    for number in range(20, 300):
        await events.append(storage, "t", "tick", b"%d" % number)
    newest = await events.newest_id(storage, "t")
    await trim(storage, "t", first=newest)
    for number in range(300, 500):
        await events.append(storage, "t", "tick", b"%d" % number)
    gap, first, *_ = await cursor.read_next()
    assert (gap.name, json.loads(gap.data)) == ("gap", {"first": newest})
    assert (first.id, first.data) == (newest, b"299")
    assert "gap" not in [event.name for event in await cursor.read_next()]


@pytest.mark.slow
async def test_a_run_of_more_events_than_are_kept_is_resumed_without_a_silent_gap(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = await create_thread(client)
    run, kept = await ran(client, thread, MANY)
    gap, first, *rest = kept
    assert (gap.event, gap.data) == ("gap", {"first": first.id})
    numbers = [event.data["tick"] for event in (first, *rest) if event.event == "custom"]
    assert numbers == list(range(numbers[0], MANY))
    assert numbers[0] > 0
    before = f"{int(first.id.partition('-')[0]) - 1}-0"
    reply = await http.get(f"/threads/{thread}/runs/{run}/stream", headers={"Last-Event-ID": before})
    assert reply.status_code == 410
