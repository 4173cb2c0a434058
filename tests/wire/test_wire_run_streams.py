"""Streams that break and go on, through LangGraph's own client (X10)."""

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
from callsheet.server.langgraph.run_streams import follow_run
from callsheet.server.langgraph.starting import StartedRun
from callsheet.server.settings.settings import Settings
from callsheet.storage.runs.records import RunAttempt, RunOutcome, RunRequest, request_fields
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_served import HELLO, collect, create_thread, running_server_on_own_redis
from tests.doubles.wire_server import running_server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


async def ticking(client: LangGraphClient, ticks: int, **more: Any) -> tuple[str, str]:
    """A run under way that tells so many ticks."""
    thread = await create_thread(client)
    asked: Any = {"stream_mode": ["values", "custom"], "stream_resumable": True, **more}
    run = await client.runs.create(thread, "slow", input={"x": ticks}, **asked)
    return thread, run["run_id"]


def ticks(told: list[Any]) -> list[int]:
    return [event.data["tick"] for event in told if event.event == "custom"]


async def test_a_stream_goes_on_after_the_last_event_without_gap_or_repetition(
    client: LangGraphClient,
) -> None:
    thread, run = await ticking(client, 12)
    told: list[Any] = []
    for most in (3, 2, 4, 0):
        last = told[-1].id if told else "-1"
        told += await collect(client.runs.join_stream(thread, run, last_event_id=last), most)
    assert ticks(told) == list(range(12))
    assert [event.event for event in told[:2]] == ["metadata", "values"]
    assert told[-1].data["log"] == ["slow"]
    ids = [tuple(map(int, event.id.split("-"))) for event in told]
    assert ids == sorted(set(ids))


async def test_an_ended_run_is_told_again_from_the_beginning_or_the_middle(client: LangGraphClient) -> None:
    thread, run = await ticking(client, 3)
    await client.runs.join(thread, run)
    whole = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    assert [event.event for event in whole] == ["metadata", "values", *["custom"] * 3, "values"]
    rest = await collect(client.runs.join_stream(thread, run, last_event_id=whole[2].id))
    assert rest == whole[3:]


async def test_an_ended_run_without_a_last_event_tells_nothing(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread, run = await ticking(client, 1)
    await client.runs.join(thread, run)
    reply = await http.get(f"/threads/{thread}/runs/{run}/stream")
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-type"].startswith("text/event-stream")


async def test_a_run_under_way_is_told_from_now_on(client: LangGraphClient) -> None:
    thread, run = await ticking(client, 10)
    seen = await collect(client.runs.join_stream(thread, run, last_event_id="-1"), 5)
    rest = await collect(client.runs.join_stream(thread, run))
    assert rest[-1].event == "values"
    assert ticks(rest) == list(range(ticks(rest)[0], 10))
    assert ticks(rest)[0] > ticks(seen)[0]


async def test_a_filter_keeps_what_subgraphs_told_in_its_modes(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    asked: Any = ["values", "updates", "custom"]
    run = await client.runs.create(
        thread, "parent", input=HELLO, stream_mode=asked, stream_subgraphs=True, stream_resumable=True
    )
    await client.runs.join(thread, run["run_id"])
    told = await collect(
        client.runs.join_stream(thread, run["run_id"], stream_mode="custom", last_event_id="-1")
    )
    kinds = [event.event.partition(":")[0] for event in told]
    assert kinds == ["metadata", "custom|child"]


async def test_an_id_that_can_be_none_is_refused(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread, run = await ticking(client, 1)
    places = (f"/threads/{thread}/runs/{run}/stream", f"/threads/{thread}/stream")
    for place, wrong in product(places, ("yesterday", f"{2**64}-1")):
        reply = await http.get(place, headers={"Last-Event-ID": wrong})
        assert reply.status_code == 422, place
        assert f"'{wrong}'" in reply.json()["detail"]
    reply = await http.get(f"/threads/{thread}/runs/{run}/stream?stream_mode=smoke")
    assert reply.status_code == 422
    await client.runs.join(thread, run)


async def test_stream_modes_may_be_one_json_array(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    """LangGraph's JavaScript SDK sends arrays in a query as JSON."""
    thread, run = await ticking(client, 1)
    await client.runs.join(thread, run)
    place, query = f"/threads/{thread}/runs/{run}/stream", {"stream_mode": '["values","custom"]'}
    as_json = await http.get(place, params=query, headers={"Last-Event-ID": "-1"})
    repeated = await http.get(
        place, params={"stream_mode": ["values", "custom"]}, headers={"Last-Event-ID": "-1"}
    )
    assert (as_json.status_code, as_json.text) == (200, repeated.text)
    async with http.stream(
        "GET", f"/threads/{thread}/stream", params={"stream_modes": '["lifecycle"]'}
    ) as reply:
        assert reply.status_code == 200


async def test_the_lines_are_as_langgraphs_server_sends_them(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread = await create_thread(client)
    asked = {"assistant_id": "counter", "input": {"x": 1}, "stream_resumable": True}
    reply = await http.post(f"/threads/{thread}/runs/stream", json=asked)
    blocks = reply.text.split("\r\n\r\n")
    assert blocks.pop() == ""
    assert len(blocks) == 5
    for block in blocks:
        assert [line.partition(": ")[0] for line in block.split("\r\n")] == ["event", "data", "id"]
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"


@pytest.mark.slow
async def test_silence_is_filled_so_that_nobody_gives_the_connection_up(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    """Every 5 s: a comment in a stream, white space before JSON."""
    thread = await create_thread(client)
    run = await client.runs.create(thread, "counter", input={"x": 1}, after_seconds=8)
    place = f"/threads/{thread}/runs/{run['run_id']}"
    streamed, joined = await asyncio.gather(http.get(f"{place}/stream"), http.get(f"{place}/join"))
    assert streamed.text.startswith(": heartbeat\r\n\r\nevent: metadata\r\n")
    assert joined.text.startswith("\n{")
    assert joined.json() == {"x": 4, "log": ["a", "b", "c"]}


async def test_a_threads_stream_tells_all_its_runs_and_stays_open(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    seen = asyncio.create_task(collect(await client.threads.join_stream(thread, last_event_id="-1"), 12))
    runs = []
    for _ in range(2):
        run = await client.runs.create(thread, "counter", input={"x": 1})
        await client.runs.join(thread, run["run_id"])
        runs.append(run["run_id"])
    told = await seen
    assert [event.event for event in told] == ["metadata", *["values"] * 4, "metadata"] * 2
    done = [event.data for event in told if event.data.get("status")]
    assert done == [{"status": "run_done", "run_id": run} for run in runs]
    for beginning in ("-1", "-"):
        lifecycle = await collect(
            await client.threads.join_stream(thread, last_event_id=beginning, stream_mode="lifecycle"), 4
        )
        assert [event.data.get("status") for event in lifecycle] == [None, "run_done"] * 2


async def test_a_state_that_is_changed_by_hand_is_told_to_who_asks_for_it(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    """The events, and the names of the mode's parameter, are those of LangGraph's own server."""
    thread = (await client.threads.create(graph_id="counter"))["thread_id"]
    first: Any = await client.threads.update_state(thread, {"x": 6}, as_node="a")
    await client.runs.wait(thread, "counter", input={"x": 1})
    changed: Any = await client.threads.update_state(thread, {"x": 9}, as_node="c")
    modes: Any = ["state_update"]
    told = await collect(await client.threads.join_stream(thread, last_event_id="-1", stream_mode=modes), 2)
    assert [event.event for event in told] == ["state_update"] * 2
    assert [event.data["state"]["checkpoint_id"] for event in told] == [
        first["checkpoint_id"],
        changed["checkpoint_id"],
    ]
    assert told[1].data == {"state": dict(await client.threads.get_state(thread)), "thread_id": thread}
    modes = ["state_update", "lifecycle"]
    both = await collect(await client.threads.join_stream(thread, last_event_id="-1", stream_mode=modes), 4)
    assert [event.event for event in both] == ["state_update", "metadata", "metadata", "state_update"]
    usual = await collect(await client.threads.join_stream(thread, last_event_id="-1"), 6)
    assert [event.event for event in usual] == ["metadata", *["values"] * 4, "metadata"]
    place = f"/threads/{thread}/stream?stream_modes=state_update"
    async with http.stream("GET", place, headers={"Last-Event-ID": told[0].id}) as reply:
        lines = reply.aiter_lines()
        assert [await anext(lines), (await anext(lines))[:15]] == ["event: state_update", 'data: {"state":']


@pytest.mark.slow
async def test_any_number_of_readers_get_everything(client: LangGraphClient) -> None:
    thread, run = await ticking(client, 10)
    readers = [collect(client.runs.join_stream(thread, run, last_event_id="-1")) for _ in range(20)]
    found = await asyncio.gather(*readers)
    assert [ticks(told) for told in found] == [list(range(10))] * 20
    assert all(told == found[0] for told in found)


async def test_any_server_tells_the_run_of_any_other(valkey_url: str) -> None:
    with running_server(valkey_url) as one, running_server(valkey_url) as other:
        async with get_client(url=one) as here, get_client(url=other) as there:
            thread, run = await ticking(here, 8)
            told = await collect(there.runs.join_stream(thread, run, last_event_id="-1"), 4)
            told += await collect(here.runs.join_stream(thread, run, last_event_id=told[-1].id))
            assert ticks(told) == list(range(8))
            assert await there.runs.join(thread, run) == {"x": 8, "log": ["slow"]}
            later = await here.runs.create(thread, "slow", input={"x": 400})
            await there.runs.cancel(thread, later["run_id"], wait=True)
            assert (await here.runs.get(thread, later["run_id"]))["status"] == "interrupted"


async def test_calls_of_tools_are_told_in_the_words_of_the_react_hook(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    modes: Any = ["tools", "custom"]
    told = await collect(client.runs.stream(thread, "tools", input=HELLO, stream_mode=modes))
    began, lately, ended = [event.data for event in told if event.event == "tools"]
    call = {"toolCallId": "call-1", "name": "double"}
    assert began == {"event": "on_tool_start", **call, "input": {"number": 4}}
    assert lately == {"event": "on_tool_event", **call, "data": "nearly"}
    output = ended.pop("output")
    assert ended == {"event": "on_tool_end", **call}
    assert (output["type"], output["content"]) == ("tool", "8")


async def test_a_tool_that_fails_is_told_of_too(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    wrong: Any = {"messages": [{"role": "user", "content": "0"}]}
    modes: Any = ["tools"]
    told = await collect(client.runs.stream(thread, "tools", input=wrong, stream_mode=modes))
    last = [event.data for event in told if event.event == "tools"][-1]
    call = {"toolCallId": "call-1", "name": "double"}
    assert last == {"event": "on_tool_error", **call, "error": "zero stays zero"}


async def test_what_a_run_tells_just_as_it_was_taken_for_silent_is_not_lost(valkey_url: str) -> None:
    """X10: it ends after a heartbeat, and before one looks whether it has ended."""
    app = create_app(Settings(redis_url=valkey_url, carry_runs=False, heartbeat_s=0.05), GRAPHS)
    async with app.router.lifespan_context(app):
        here: AppContext = app.state.context
        runs = here.worker.runs
        await here.worker.submit(RunRequest("t", "r", "counter", "local", request_fields(input={"x": 1})))
        attempt = await runs.claim("t", "r")
        assert isinstance(attempt, RunAttempt)
        started = StartedRun("t", "r", attempt.started_id, resumable=False)
        async with aclosing(follow_run(here, started)) as told:
            assert await anext(told) is None
            await runs.emit(attempt, 1, [("values", b"{}", "")])
            await runs.finish(attempt, RunOutcome("success", "idle"))
            assert [event.name async for event in told if event] == ["values", "end"]
        await runs.unschedule_check("t", "r")
