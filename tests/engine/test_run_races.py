"""Many runs at once on one thread, runs cancelled at any moment, and readers that do not read (X8)."""

import asyncio
import random
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.doubles.waiting import eventually
from tests.doubles.wire_served import (
    collect,
    create_thread,
    graph_input,
    running_server_on_own_redis,
    thread_status,
)

MANY = 20
ENDED = {"success", "interrupted"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


async def create_at_once(client: LangGraphClient, thread: str, strategy: Any) -> list[str]:
    """Create many runs at once; return the ids of those that were not refused, in no order."""

    async def create(number: int) -> str:
        run = await client.runs.create(
            thread,
            "slow",
            input=graph_input(x=1, log=[str(number)]),
            multitask_strategy=strategy,
            metadata={"n": number},
        )
        return str(run["run_id"])

    results = await asyncio.gather(*(create(number) for number in range(MANY)), return_exceptions=True)
    assert all(isinstance(run, str | ConflictError) for run in results), results
    return [run for run in results if isinstance(run, str)]


async def wait_for_all(client: LangGraphClient, thread: str) -> list[Any]:
    """Wait until all runs of the thread have ended; return them, oldest first."""

    async def all_have_ended() -> bool:
        return all(run["status"] in ENDED for run in await client.runs.list(thread, limit=100))

    await eventually(all_have_ended, "the end of all runs", patience_s=30)
    return list(reversed(await client.runs.list(thread, limit=100)))


async def log_without_slow(client: LangGraphClient, thread: str) -> list[str]:
    state: Any = await client.threads.get_state(thread)
    return [word for word in state["values"]["log"] if word != "slow"]


@pytest.mark.slow
async def test_enqueued_runs_are_executed_in_the_order_of_their_creation(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    assert len(await create_at_once(client, thread, "enqueue")) == MANY
    runs = await wait_for_all(client, thread)
    assert await log_without_slow(client, thread) == [str(run["metadata"]["n"]) for run in runs]
    assert {run["status"] for run in runs} == {"success"}


async def test_of_many_runs_with_reject_only_runs_on_a_free_thread_are_created(
    client: LangGraphClient,
) -> None:
    thread = await create_thread(client)
    created = await create_at_once(client, thread, "reject")
    runs = await wait_for_all(client, thread)
    assert 1 <= len(created) == len(runs) < MANY
    assert await log_without_slow(client, thread) == [str(run["metadata"]["n"]) for run in runs]


async def test_of_many_runs_with_interrupt_the_last_succeeds(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await create_at_once(client, thread, "interrupt")
    *earlier, last = await wait_for_all(client, thread)
    assert len(earlier) == MANY - 1
    assert last["status"] == "success"
    assert {run["status"] for run in earlier} <= ENDED
    assert (await log_without_slow(client, thread))[-1] == str(last["metadata"]["n"])
    assert await thread_status(client, thread) == "idle"


async def test_of_many_runs_with_rollback_only_ended_ones_leave_checkpoints(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "slow", input=graph_input(x=0, log=["kept"]))
    await create_at_once(client, thread, "rollback")
    first, *ended, last = await wait_for_all(client, thread)
    # A run that had ended before the next was created is not rolled back.
    run_ids = {run["run_id"] for run in (first, *ended, last)}
    assert await log_without_slow(client, thread) == [
        "kept",
        *(str(run["metadata"]["n"]) for run in (*ended, last)),
    ]
    history = await client.threads.get_history(thread, limit=1000)
    assert {(state["metadata"] or {})["run_id"] for state in history} <= run_ids


async def cancel_at_random(client: LangGraphClient, random_source: random.Random) -> float:
    """Cancel a run at a random moment and return the seconds that this took."""
    thread = await create_thread(client)
    run = (await client.runs.create(thread, "slow", input={"x": 3}, stream_mode="custom"))["run_id"]
    await asyncio.sleep(random_source.uniform(0, 0.25))
    action: Any = random_source.choice(["interrupt", "rollback"])
    start_s = time.monotonic()
    try:
        await client.runs.cancel(thread, run, wait=True, action=action)
    except (ConflictError, NotFoundError):
        assert (await client.runs.get(thread, run))["status"] == "success", "the run had ended before"
    took_s = time.monotonic() - start_s
    await check_ended(client, thread, run)
    return took_s


async def check_ended(client: LangGraphClient, thread: str, run: str) -> None:
    """Fail unless the run has ended or is deleted, sends no more events, and leaves the thread free."""
    try:
        assert (await client.runs.get(thread, run))["status"] in ENDED
        events = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    except NotFoundError:
        events = []
    values: Any = await client.runs.wait(thread, "slow", input=graph_input(x=0, log=["next"]))
    assert values["log"][-2:] == ["next", "slow"]
    if events:
        assert await collect(client.runs.join_stream(thread, run, last_event_id="-1")) == events


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_run_can_be_cancelled_at_any_moment(
    client: LangGraphClient, request: pytest.FixtureRequest
) -> None:
    """The sample is seeded; 200 with --long."""
    long, random_source = request.config.getoption("--long"), random.Random(15)
    durations_s: list[float] = []
    for _ in range(20 if long else 2):
        durations_s += await asyncio.gather(*(cancel_at_random(client, random_source) for _ in range(10)))
    assert sorted(durations_s)[int(0.99 * len(durations_s)) - 1] < (1.0 if long else 3.0)


def open_silent_reader(url: str, path: str) -> socket.socket:
    """Request a stream and never read from the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nLast-Event-ID: -1\r\n\r\n".encode())
    return connection


async def test_readers_that_read_nothing_do_not_slow_others_down(client: LangGraphClient, url: str) -> None:
    """Events are not buffered for them: the server sends more only after they have read."""
    thread = await create_thread(client)
    run = await client.runs.create(
        thread, "slow", input=graph_input(x=10, log=["x" * 200_000]), stream_mode=["values", "custom"]
    )
    path = f"/threads/{thread}/runs/{run['run_id']}/stream"
    silent_readers = [await asyncio.to_thread(open_silent_reader, url, path) for _ in range(20)]
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        events = await collect(client.runs.join_stream(thread, run["run_id"], last_event_id="-1"))
        assert [part.data["tick"] for part in events if part.event == "custom"] == list(range(10))
        start_s = time.monotonic()
        assert (await http.get("/ok")).status_code == 200
        assert time.monotonic() - start_s < 5.0
    for connection in silent_readers:
        connection.close()


async def test_two_graphs_on_a_new_thread_at_once_both_run_and_concurrent_metadata_is_kept(
    client: LangGraphClient,
) -> None:
    for number in range(10):
        thread = await create_thread(client)
        slow, counter, _ = await asyncio.gather(
            client.runs.create(thread, "slow", input=graph_input(x=1, log=[])),
            client.runs.create(thread, "counter", input={"x": 1}),
            client.threads.update(thread, metadata={"number": number}),
        )
        record: Any = await client.threads.get(thread)
        assert record["metadata"] in [
            {"graph_id": graph, "assistant_id": run["assistant_id"], "number": number}
            for graph, run in (("slow", slow), ("counter", counter))
        ]
        for run in (slow, counter):
            await client.runs.join(thread, run["run_id"])
