"""Streams of runs and threads, and resuming them, through LangGraph's own client (X10)."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from itertools import product
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from callsheet.server.app import create_app
from callsheet.server.http.context import AppContext
from callsheet.server.settings.settings import Settings
from callsheet.storage.runs.events import NewEvent
from callsheet.storage.runs.records import RunAttempt, RunOutcome, RunRequest, request_fields
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_served import HELLO, collect, create_thread, running_server_on_own_redis
from tests.doubles.wire_server import running_server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


async def start_slow_run(client: LangGraphClient, count: int, **more: Any) -> tuple[str, str]:
    """Start a run that sends `count` ticks; return its thread and its id."""
    thread = await create_thread(client)
    options: Any = {"stream_mode": ["values", "custom"], "stream_resumable": True, **more}
    run = await client.runs.create(thread, "slow", input={"x": count}, **options)
    return thread, run["run_id"]


def tick_numbers(events: list[Any]) -> list[int]:
    return [event.data["tick"] for event in events if event.event == "custom"]


async def test_resuming_after_the_last_event_misses_and_repeats_no_event(
    client: LangGraphClient,
) -> None:
    thread, run = await start_slow_run(client, 12)
    events: list[Any] = []
    for most in (3, 2, 4, 0):
        last = events[-1].id if events else "-1"
        events += await collect(client.runs.join_stream(thread, run, last_event_id=last), most)
    assert tick_numbers(events) == list(range(12))
    assert [event.event for event in events[:2]] == ["metadata", "values"]
    assert events[-1].data["log"] == ["slow"]
    ids = [tuple(map(int, event.id.split("-"))) for event in events]
    assert ids == sorted(set(ids))


async def test_the_stream_of_an_ended_run_is_replayed_from_any_event(client: LangGraphClient) -> None:
    thread, run = await start_slow_run(client, 3)
    await client.runs.join(thread, run)
    all_events = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert [event.event for event in all_events] == ["metadata", "values", *["custom"] * 3, "values"]
    rest = await collect(client.runs.join_stream(thread, run, last_event_id=all_events[2].id))
    assert rest == all_events[3:]


async def test_the_stream_of_an_ended_run_without_last_event_id_is_empty(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread, run = await start_slow_run(client, 1)
    await client.runs.join(thread, run)
    reply = await http.get(f"/threads/{thread}/runs/{run}/stream")
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-type"].startswith("text/event-stream")


async def test_joining_a_run_without_last_event_id_streams_new_events_only(client: LangGraphClient) -> None:
    thread, run = await start_slow_run(client, 10)
    first_events = await collect(client.runs.join_stream(thread, run, last_event_id="-1"), 5)
    rest = await collect(client.runs.join_stream(thread, run))
    assert rest[-1].event == "values"
    assert tick_numbers(rest) == list(range(tick_numbers(rest)[0], 10))
    assert tick_numbers(rest)[0] > tick_numbers(first_events)[0]


async def test_a_stream_mode_filter_keeps_events_of_subgraphs(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    modes: Any = ["values", "updates", "custom"]
    run = await client.runs.create(
        thread, "parent", input=HELLO, stream_mode=modes, stream_subgraphs=True, stream_resumable=True
    )
    await client.runs.join(thread, run["run_id"])
    events = await collect(
        client.runs.join_stream(thread, run["run_id"], stream_mode="custom", last_event_id="-1")
    )
    kinds = [event.event.partition(":")[0] for event in events]
    assert kinds == ["metadata", "custom|child"]


async def test_an_invalid_last_event_id_or_stream_mode_is_refused(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread, run = await start_slow_run(client, 1)
    paths = (f"/threads/{thread}/runs/{run}/stream", f"/threads/{thread}/stream")
    for path, last_event_id in product(paths, ("yesterday", f"{2**64}-1")):
        reply = await http.get(path, headers={"Last-Event-ID": last_event_id})
        assert reply.status_code == 422, path
        assert f"'{last_event_id}'" in reply.json()["detail"]
    reply = await http.get(f"/threads/{thread}/runs/{run}/stream?stream_mode=smoke")
    assert reply.status_code == 422
    await client.runs.join(thread, run)


async def test_stream_modes_are_accepted_as_a_json_array(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    """LangGraph's JavaScript SDK sends arrays in a query as JSON."""
    thread, run = await start_slow_run(client, 1)
    await client.runs.join(thread, run)
    path, query = f"/threads/{thread}/runs/{run}/stream", {"stream_mode": '["values","custom"]'}
    as_json = await http.get(path, params=query, headers={"Last-Event-ID": "-1"})
    repeated = await http.get(
        path, params={"stream_mode": ["values", "custom"]}, headers={"Last-Event-ID": "-1"}
    )
    assert (as_json.status_code, as_json.text) == (200, repeated.text)
    async with http.stream(
        "GET", f"/threads/{thread}/stream", params={"stream_modes": '["lifecycle"]'}
    ) as reply:
        assert reply.status_code == 200


async def test_lines_and_headers_of_a_stream_are_as_langgraphs_server_sends_them(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = await create_thread(client)
    body = {"assistant_id": "counter", "input": {"x": 1}, "stream_resumable": True}
    reply = await http.post(f"/threads/{thread}/runs/stream", json=body)
    blocks = reply.text.split("\r\n\r\n")
    assert blocks.pop() == ""
    assert len(blocks) == 5
    for block in blocks:
        assert [line.partition(": ")[0] for line in block.split("\r\n")] == ["event", "data", "id"]
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"


@pytest.mark.slow
async def test_a_silent_stream_or_join_sends_heartbeats(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    """Every 5 s: a comment in a stream, white space before JSON."""
    thread = await create_thread(client)
    run = await client.runs.create(thread, "counter", input={"x": 1}, after_seconds=8)
    path = f"/threads/{thread}/runs/{run['run_id']}"
    streamed, joined = await asyncio.gather(http.get(f"{path}/stream"), http.get(f"{path}/join"))
    assert streamed.text.startswith(": heartbeat\r\n\r\nevent: metadata\r\n")
    assert joined.text.startswith("\n{")
    assert joined.json() == {"x": 4, "log": ["a", "b", "c"]}


async def test_the_stream_of_a_thread_has_all_its_runs_and_stays_open(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    reading = asyncio.create_task(collect(await client.threads.join_stream(thread, last_event_id="-1"), 12))
    runs = []
    for _ in range(2):
        run = await client.runs.create(thread, "counter", input={"x": 1})
        await client.runs.join(thread, run["run_id"])
        runs.append(run["run_id"])
    events = await reading
    assert [event.event for event in events] == ["metadata", *["values"] * 4, "metadata"] * 2
    ends = [event.data for event in events if event.data.get("status")]
    assert ends == [{"status": "run_done", "run_id": run} for run in runs]
    for last_event_id in ("-1", "-"):
        lifecycle = await collect(
            await client.threads.join_stream(thread, last_event_id=last_event_id, stream_mode="lifecycle"), 4
        )
        assert [event.data.get("status") for event in lifecycle] == [None, "run_done"] * 2


async def test_an_updated_state_is_streamed_in_the_mode_state_update(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    """The events, and the names of the mode's parameter, are those of LangGraph's own server."""
    thread = (await client.threads.create(graph_id="counter"))["thread_id"]
    first_update: Any = await client.threads.update_state(thread, {"x": 6}, as_node="a")
    await client.runs.wait(thread, "counter", input={"x": 1})
    second_update: Any = await client.threads.update_state(thread, {"x": 9}, as_node="c")
    modes: Any = ["state_update"]
    events = await collect(await client.threads.join_stream(thread, last_event_id="-1", stream_mode=modes), 2)
    assert [event.event for event in events] == ["state_update"] * 2
    assert [event.data["state"]["checkpoint_id"] for event in events] == [
        first_update["checkpoint_id"],
        second_update["checkpoint_id"],
    ]
    assert events[1].data == {"state": dict(await client.threads.get_state(thread)), "thread_id": thread}
    modes = ["state_update", "lifecycle"]
    both = await collect(await client.threads.join_stream(thread, last_event_id="-1", stream_mode=modes), 4)
    assert [event.event for event in both] == ["state_update", "metadata", "metadata", "state_update"]
    default_events = await collect(await client.threads.join_stream(thread, last_event_id="-1"), 6)
    assert [event.event for event in default_events] == ["metadata", *["values"] * 4, "metadata"]
    path = f"/threads/{thread}/stream?stream_modes=state_update"
    async with http.stream("GET", path, headers={"Last-Event-ID": events[0].id}) as reply:
        lines = reply.aiter_lines()
        assert [await anext(lines), (await anext(lines))[:15]] == ["event: state_update", 'data: {"state":']


@pytest.mark.slow
async def test_twenty_readers_get_the_same_events(client: LangGraphClient) -> None:
    thread, run = await start_slow_run(client, 10)
    readers = [collect(client.runs.join_stream(thread, run, last_event_id="-1")) for _ in range(20)]
    streams = await asyncio.gather(*readers)
    assert [tick_numbers(events) for events in streams] == [list(range(10))] * 20
    assert all(events == streams[0] for events in streams)


async def test_a_run_can_be_streamed_and_cancelled_at_another_server(valkey_url: str) -> None:
    with running_server(valkey_url) as first_url, running_server(valkey_url) as second_url:
        async with get_client(url=first_url) as first, get_client(url=second_url) as second:
            thread, run = await start_slow_run(first, 8)
            events = await collect(second.runs.join_stream(thread, run, last_event_id="-1"), 4)
            events += await collect(first.runs.join_stream(thread, run, last_event_id=events[-1].id))
            assert tick_numbers(events) == list(range(8))
            assert await second.runs.join(thread, run) == {"x": 8, "log": ["slow"]}
            later = await first.runs.create(thread, "slow", input={"x": 400})
            await second.runs.cancel(thread, later["run_id"], wait=True)
            assert (await first.runs.get(thread, later["run_id"]))["status"] == "interrupted"


async def test_tool_events_have_the_fields_that_the_react_hook_reads(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    modes: Any = ["tools", "custom"]
    events = await collect(client.runs.stream(thread, "tools", input=HELLO, stream_mode=modes))
    started, progress, finished = [event.data for event in events if event.event == "tools"]
    call = {"toolCallId": "call-1", "name": "double"}
    assert started == {"event": "on_tool_start", **call, "input": {"number": 4}}
    assert progress == {"event": "on_tool_event", **call, "data": "nearly"}
    output = finished.pop("output")
    assert finished == {"event": "on_tool_end", **call}
    assert (output["type"], output["content"]) == ("tool", "8")


async def test_a_failing_tool_has_an_error_event(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    wrong: Any = {"messages": [{"role": "user", "content": "0"}]}
    modes: Any = ["tools"]
    events = await collect(client.runs.stream(thread, "tools", input=wrong, stream_mode=modes))
    last = [event.data for event in events if event.event == "tools"][-1]
    call = {"toolCallId": "call-1", "name": "double"}
    assert last == {"event": "on_tool_error", **call, "error": "zero stays zero"}


async def test_events_sent_between_a_heartbeat_and_the_end_of_the_run_are_not_lost(valkey_url: str) -> None:
    """X10: the run ends after a heartbeat and before the stream reads its status."""
    app = create_app(Settings(redis_url=valkey_url, carry_runs=False, heartbeat_s=0.05), GRAPHS)
    async with app.router.lifespan_context(app):
        context: AppContext = app.state.context
        runs = context.worker.runs
        await context.worker.submit(RunRequest("t", "r", "counter", "local", request_fields(input={"x": 1})))
        attempt = await runs.claim("t", "r")
        assert isinstance(attempt, RunAttempt)
        async with aclosing(context.worker.events.follow_run("t", "r", attempt.started_id)) as stream:
            assert await anext(stream) is None
            await runs.emit(attempt, 1, [NewEvent("values", b"{}")])
            await runs.finish(attempt, RunOutcome("success", "idle"))
            assert [event.name async for event in stream if event] == ["values", "end"]
        await runs.unschedule_check("t", "r")
