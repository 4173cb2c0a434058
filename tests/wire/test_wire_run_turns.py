"""Concurrent runs on one thread and cancelled runs, through LangGraph's own client (X8)."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError

from tests.doubles.waiting import eventually
from tests.doubles.wire_served import (
    HELLO,
    collect,
    create_thread,
    graph_input,
    running_server_on_own_redis,
    thread_status,
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


async def start_slow_run(client: LangGraphClient, thread: str, ticks: int = 400) -> str:
    """Start a run and wait until it sends its first events; return its id."""
    run = await client.runs.create(thread, "slow", input={"x": ticks}, stream_mode="custom")
    stream = client.runs.join_stream(thread, run["run_id"], last_event_id="-1")
    await collect(stream, 2)
    return str(run["run_id"])


async def wait_for_status(client: LangGraphClient, thread: str, run: str, expected: str) -> None:
    async def has_status() -> bool:
        return (await client.runs.get(thread, run))["status"] == expected

    await eventually(has_status, f"run {run} is {expected}")


async def wait_for_deletion(client: LangGraphClient, thread: str, run: str) -> None:
    async def is_deleted() -> bool:
        return run not in [record["run_id"] for record in await client.runs.list(thread)]

    await eventually(is_deleted, f"run {run} is gone")


async def test_enqueued_runs_are_executed_in_the_order_of_their_creation(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await start_slow_run(client, thread, 10)
    later = [
        (await client.runs.create(thread, "slow", input=graph_input(x=0, log=[str(number)])))["run_id"]
        for number in range(6)
    ]
    assert {(await client.runs.get(thread, run))["status"] for run in later} == {"pending"}
    assert await thread_status(client, thread) == "busy"
    values: Any = await client.runs.join(thread, later[-1])
    order = [entry for entry in values["log"] if entry != "slow"]
    assert order == [str(number) for number in range(6)]
    assert (await client.runs.get(thread, first))["status"] == "success"
    assert await thread_status(client, thread) == "idle"


async def test_a_run_with_reject_on_a_busy_thread_is_refused(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await start_slow_run(client, thread)
    with pytest.raises(ConflictError, match="busy"):
        await client.runs.create(thread, "slow", input={"x": 1}, multitask_strategy="reject")
    assert len(await client.runs.list(thread)) == 1
    await client.runs.cancel(thread, first, wait=True)


async def test_a_run_with_interrupt_interrupts_active_and_pending_runs(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await start_slow_run(client, thread)
    waiting = await client.runs.create(thread, "slow", input={"x": 400})
    await client.runs.wait(thread, "slow", input={"x": 1}, multitask_strategy="interrupt")
    for run in (first, waiting["run_id"]):
        await wait_for_status(client, thread, run, "interrupted")
    assert await thread_status(client, thread) == "idle"


async def test_a_run_with_rollback_deletes_the_active_run_and_its_checkpoints(
    client: LangGraphClient,
) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "slow", input=graph_input(x=0, log=["kept"]))
    first = await start_slow_run(client, thread)
    values: Any = await client.runs.wait(
        thread, "slow", input=graph_input(x=0, log=["new"]), multitask_strategy="rollback"
    )
    assert values["log"] == ["kept", "slow", "new", "slow"]
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, first)
    history = await client.threads.get_history(thread, limit=100)
    assert first not in [(state["metadata"] or {}).get("run_id") for state in history]


async def test_a_cancelled_run_is_interrupted_and_ends_its_streams(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    run = await start_slow_run(client, thread)
    reader = asyncio.create_task(collect(client.runs.join_stream(thread, run, last_event_id="-1")))
    await client.runs.cancel(thread, run, wait=True)
    events = await reader
    assert {event.event for event in events} == {"metadata", "custom"}
    assert (await client.runs.get(thread, run))["status"] == "interrupted"
    assert await thread_status(client, thread) == "interrupted"
    joined: Any = await client.runs.join(thread, run)
    assert joined["__error__"]["error"] == "UserInterrupt"


async def test_cancelling_returns_at_once_unless_wait_is_set(client: LangGraphClient, url: str) -> None:
    thread = await create_thread(client)
    run = await start_slow_run(client, thread)
    async with httpx.AsyncClient(base_url=url) as http:
        path = f"/threads/{thread}/runs/{run}/cancel"
        reply = await http.post(path)
        assert (reply.status_code, reply.content) == (202, b"")
        reply = await http.post(path, params={"wait": 1})
        assert (reply.status_code, reply.json()) == (200, {})
        assert (await http.post(path, params={"wait": 1})).status_code == 200, "twice is safe"
    assert (await client.runs.get(thread, run))["status"] == "interrupted"


async def test_a_run_cancelled_with_rollback_leaves_no_state(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    run = await start_slow_run(client, thread)
    await client.runs.cancel(thread, run, wait=True, action="rollback")
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, run)
    assert await thread_status(client, thread) == "idle"
    assert not (await client.threads.get_state(thread))["values"]
    assert await client.threads.get_history(thread) == []


async def test_a_rollback_of_an_ended_run_changes_nothing(client: LangGraphClient) -> None:
    """A run may end just before it is cancelled; cancelling several runs skips those that have ended."""
    thread = await create_thread(client)
    run = (await client.runs.create(thread, "agent", input=HELLO))["run_id"]
    await client.runs.join(thread, run)
    state_before: Any = await client.threads.get_state(thread)
    await client.runs.cancel(thread, run, wait=True, action="rollback")
    await client.runs.cancel_many(thread_id=thread, run_ids=[run], action="rollback")
    assert await client.threads.get_state(thread) == state_before
    assert (await client.threads.get(thread))["status"] == "interrupted"


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_cancelling_a_pending_run_ends_its_streams(
    client: LangGraphClient, url: str, action: Any
) -> None:
    thread = await create_thread(client)
    first = await start_slow_run(client, thread)
    waiting = (await client.runs.create(thread, "slow", input={"x": 1}))["run_id"]
    path = f"/threads/{thread}/runs/{waiting}"
    async with (
        httpx.AsyncClient(base_url=url, timeout=4) as http,
        http.stream("GET", f"{path}/stream") as stream,
        http.stream("GET", f"{path}/join") as joined,
    ):
        await client.runs.cancel(thread, waiting, wait=True, action=action)
        assert await stream.aread() == b""
        assert "__error__" in json.loads(await joined.aread())
    if action == "rollback":
        await wait_for_deletion(client, thread, waiting)
    else:
        await wait_for_status(client, thread, waiting, "interrupted")
    assert (await client.runs.get(thread, first))["status"] == "running"
    await client.runs.cancel(thread, first, wait=True)


async def test_the_next_run_starts_after_the_active_one_is_cancelled(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await start_slow_run(client, thread)
    second = await client.runs.create(thread, "slow", input={"x": 0})
    await client.runs.cancel(thread, first)
    values: Any = await client.runs.join(thread, second["run_id"])
    assert values["log"] == ["slow"]


async def test_several_runs_are_cancelled_at_once(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await start_slow_run(client, thread)
    pending = [(await client.runs.create(thread, "slow", input={"x": 1}))["run_id"] for _ in range(3)]
    await client.runs.cancel_many(thread_id=thread, run_ids=pending[:1])
    await wait_for_status(client, thread, pending[0], "interrupted")
    assert (await client.runs.get(thread, pending[1]))["status"] == "pending"
    await client.runs.cancel_many(thread_id=thread, status="pending")
    for run in pending[1:]:
        await wait_for_status(client, thread, run, "interrupted")
    assert (await client.runs.get(thread, first))["status"] == "running"
    await client.runs.cancel_many(status="all")
    await wait_for_status(client, thread, first, "interrupted")


async def test_a_delayed_run_can_be_cancelled(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    later = await client.runs.create(thread, "counter", input={"x": 1}, after_seconds=3600)
    await client.runs.cancel(thread, later["run_id"], wait=True)
    assert (await client.runs.get(thread, later["run_id"]))["status"] == "interrupted"
