"""A stream whose first events are trimmed has a gap event and the stored events on every route (X10)."""

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
from tests.wire.protocol_reader import ProtocolThread, run_ended

MANY = 10_400
"""More events than are stored for a thread."""


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
    with running_server(valkey_url, _graphs()) as server_url:
        yield server_url


async def run_and_read(client: LangGraphClient, thread: str, ticks: int = 6) -> tuple[str, list[Any]]:
    """Execute a run; return its id and its events."""
    graph_input: Any = {"x": ticks}
    options: Any = {"stream_mode": ["values", "custom"], "stream_resumable": True}
    run = (await client.runs.create(thread, "emitter", input=graph_input, **options))["run_id"]
    await client.runs.join(thread, run)
    return run, await collect(client.runs.join_stream(thread, run, last_event_id="-1"))


async def trim(storage: Storage, thread: str, *, first: str = "") -> None:
    """Remove the events before `first` as trimming does, or all of them as expiry does."""
    name = keys.run_keys(thread).events
    if first:
        await storage.redis.xtrim(name, minid=first, approximate=False)
    else:
        await storage.redis.delete(name)


async def server_events(http: httpx.AsyncClient, path: str, count: int, **options: Any) -> list[Any]:
    """Return name, id and data of the first events of a stream that stays open."""
    async with asyncio.timeout(PATIENCE_S), http.stream("GET", path, **options) as reply:
        assert reply.status_code == 200, await reply.aread()
        source = parse_events(reply.aiter_lines())
        return [await anext(source) for _ in range(count)]


async def parse_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str | None, Any]]:
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        fields |= {name: value} if name else {}
        if not line and "event" in fields:
            yield fields["event"], fields.get("id"), json.loads(fields["data"])
            fields = {}


async def test_resuming_a_run_after_a_trimmed_event_is_410_and_names_the_first_stored_one(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    run, all_events = await run_and_read(client, thread)
    await trim(storage, thread, first=all_events[4].id)
    path = f"/threads/{thread}/runs/{run}/stream"
    reply = await http.get(path, headers={"Last-Event-ID": all_events[1].id})
    assert reply.status_code == 410
    detail = reply.json()["detail"]
    assert detail.startswith(f"event '{all_events[1].id}' is not kept any more")
    assert f"the first one stored is '{all_events[4].id}'. Read the thread's state" in detail
    with pytest.raises(APIStatusError) as error:
        await collect(client.runs.join_stream(thread, run, last_event_id=all_events[1].id))
    assert error.value.status_code == 410
    rest = await collect(client.runs.join_stream(thread, run, last_event_id=all_events[4].id))
    assert rest == all_events[5:], "a stored event can be resumed from"


async def test_a_trimmed_run_read_from_its_beginning_has_a_gap_and_the_stored_events(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    run, all_events = await run_and_read(client, thread)
    other, other_events = await run_and_read(client, thread)
    await trim(storage, thread, first=all_events[4].id)
    gap, *rest = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert (gap.event, gap.data, gap.id) == ("gap", {"first": all_events[4].id}, None)
    assert rest == all_events[4:]
    assert await collect(client.runs.join_stream(thread, other, last_event_id="-1")) == other_events
    assert (
        await collect(client.runs.join_stream(thread, other, last_event_id=other_events[0].id))
        == other_events[1:]
    )
    await trim(storage, thread)
    (gap,) = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert (gap.event, gap.data) == ("gap", {"first": None})


async def test_a_run_without_trimmed_events_has_no_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    """Also with an old id, as the second run of a thread, and if it was cancelled while it was pending."""
    thread = await create_thread(client)
    options: Any = {"stream_resumable": True, "multitask_strategy": "enqueue"}
    graph_input: Any = {"x": 40}
    first = (await client.runs.create(thread, "slow", input=graph_input, **options))["run_id"]
    second = (await client.runs.create(thread, "slow", input=graph_input, **options))["run_id"]
    await client.runs.cancel(thread, second, wait=True)
    await client.runs.cancel(thread, first, wait=True)
    for run in (first, second):
        for last in ("-1", "0-0", "1-1"):
            events = await collect(client.runs.join_stream(thread, run, last_event_id=last))
            assert "gap" not in [part.event for part in events]
    for last in ("-", "-1", "1-1"):
        (first_event, *_) = await server_events(
            http, f"/threads/{thread}/stream", 1, headers={"Last-Event-ID": last}
        )
        assert first_event[0] == "metadata"


async def test_resuming_a_thread_after_a_trimmed_event_is_410_and_its_beginning_is_a_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    _, all_events = await run_and_read(client, thread)
    _, other_events = await run_and_read(client, thread)
    await trim(storage, thread, first=other_events[0].id)
    path = f"/threads/{thread}/stream"
    reply = await http.get(path, headers={"Last-Event-ID": all_events[-1].id})
    assert reply.status_code == 410, "the first stored event starts a run, but not the first run"
    gap, run_start = await server_events(http, path, 2, headers={"Last-Event-ID": "-"})
    assert gap == ("gap", None, {"first": other_events[0].id})
    assert run_start[:2] == ("metadata", other_events[0].id)
    (rest,) = await server_events(http, path, 1, headers={"Last-Event-ID": other_events[0].id})
    assert rest[1] == other_events[1].id
    await trim(storage, thread)
    reply = await http.get(path, headers={"Last-Event-ID": all_events[-1].id})
    assert (reply.status_code, "none is stored" in reply.text) == (410, True)
    (gap,) = await server_events(http, path, 1, headers={"Last-Event-ID": "-"})
    assert gap == ("gap", None, {"first": None})


async def test_the_agent_streaming_protocol_replaces_trimmed_events_by_a_gap_and_a_state(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    protocol_thread = ProtocolThread(http)
    for _ in range(2):
        run = await protocol_thread.start("counter", {"x": 1})
        await client.runs.join(protocol_thread.thread_id, run)
    all_events = await protocol_thread.read_until(run_ended(run))
    entries: Any = await storage.redis.xrange(keys.run_keys(protocol_thread.thread_id).events)
    run_starts = [name.decode() for name, fields in entries if fields[b"event"] == b"metadata"]
    await trim(storage, protocol_thread.thread_id, first=run_starts[1])
    gap, state, *rest = await protocol_thread.read_until(
        lambda frames: len(frames) == 5, since=all_events[0]["seq"]
    )
    assert gap["params"]["data"]["name"] == "gap"
    assert gap["params"]["data"]["payload"] == {"first": rest[0]["seq"]}
    assert (state["method"], state["seq"]) == ("values", 0)
    only_gap = await protocol_thread.read_until(bool, channels=["custom:gap"])
    assert only_gap == [gap], "the gap has a channel of its own"
    resumed = await protocol_thread.read_until(bool, since=rest[0]["seq"])
    assert resumed[0] == rest[1], "a stored event can be resumed from"


async def test_a_trimmed_conversation_read_from_its_beginning_has_a_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    _, all_events = await run_and_read(client, thread)
    path = f"/api/conversations/{thread}/events"
    steps = await server_events(http, path, 7, params={"since": "0"})
    assert (steps[0][0], steps[-1][0]) == ("step", "result")
    await trim(storage, thread, first=all_events[4].id)
    gap, *rest = await server_events(http, path, 6, params={"since": "0"})
    assert gap == ("gap", None, {"type": "gap", "conversationId": thread, "first": all_events[4].id})
    assert rest == steps[2:]
    reply = await http.get(path, headers={"Last-Event-ID": f"{all_events[1].id}.0"})
    assert (reply.status_code, "not stored" in reply.text) == (404, True)


async def test_a_running_turn_with_trimmed_events_has_a_gap(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    graph_input: Any = {"x": 400}
    run = (await client.runs.create(thread, "slow", input=graph_input, stream_mode="custom"))["run_id"]
    path = f"/threads/{thread}/stream"
    first_events = await server_events(http, path, 3, headers={"Last-Event-ID": "-1"})
    await trim(storage, thread, first=first_events[2][1])
    (gap,) = await server_events(http, f"/api/conversations/{thread}/events", 1)
    assert (gap[0], gap[2]["first"]) == ("gap", first_events[2][1])
    await client.runs.cancel(thread, run, wait=True)


@pytest.mark.slow
async def test_the_web_socket_of_a_trimmed_page_conversation_has_a_gap(
    valkey_url: str, storage: Storage
) -> None:
    page = new_page_id()
    with running_server(valkey_url, None) as url:
        async with open_chat(url) as chat:
            frames = await chat.say(page, "Make the headline teal")
        first = frames[-1]["eventId"].partition(".")[0]
        await trim(storage, page, first=first)
        async with open_chat(url) as chat:
            await chat.send({"type": "join", "conversationId": page, "lastEventId": "0"})
            frames = await chat.until(lambda frame: frame["type"] not in {"joined", "heartbeat"})
    assert frames[-1] == {"type": "gap", "conversationId": page, "first": first}


async def test_a_cursor_that_is_overtaken_by_trimming_gets_a_gap(storage: Storage) -> None:
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
async def test_a_run_with_more_events_than_are_stored_is_read_with_a_gap(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = await create_thread(client)
    run, received = await run_and_read(client, thread, MANY)
    gap, first, *rest = received
    assert (gap.event, gap.data) == ("gap", {"first": first.id})
    numbers = [event.data["tick"] for event in (first, *rest) if event.event == "custom"]
    assert numbers == list(range(numbers[0], MANY))
    assert numbers[0] > 0
    before = f"{int(first.id.partition('-')[0]) - 1}-0"
    reply = await http.get(f"/threads/{thread}/runs/{run}/stream", headers={"Last-Event-ID": before})
    assert reply.status_code == 410
