"""Runs that meet on one thread, and runs that are cancelled, through LangGraph's own client (X8)."""

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
    with running_server_on_own_redis() as found:
        yield found


async def begun(client: LangGraphClient, thread: str, ticks: int = 400) -> str:
    """A run that is under way."""
    run = await client.runs.create(thread, "slow", input={"x": ticks}, stream_mode="custom")
    found = client.runs.join_stream(thread, run["run_id"], last_event_id="-1")
    await collect(found, 2)
    return str(run["run_id"])


async def is_status(client: LangGraphClient, thread: str, run: str, expected: str) -> None:
    async def holds() -> bool:
        return (await client.runs.get(thread, run))["status"] == expected

    await eventually(holds, f"run {run} is {expected}")


async def is_gone(client: LangGraphClient, thread: str, run: str) -> None:
    async def holds() -> bool:
        return run not in [one["run_id"] for one in await client.runs.list(thread)]

    await eventually(holds, f"run {run} is gone")


async def test_runs_wait_for_each_other_in_the_order_they_came(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await begun(client, thread, 10)
    later = [
        (await client.runs.create(thread, "slow", input=graph_input(x=0, log=[str(number)])))["run_id"]
        for number in range(6)
    ]
    assert {(await client.runs.get(thread, run))["status"] for run in later} == {"pending"}
    assert await thread_status(client, thread) == "busy"
    found: Any = await client.runs.join(thread, later[-1])
    order = [word for word in found["log"] if word != "slow"]
    assert order == [str(number) for number in range(6)]
    assert (await client.runs.get(thread, first))["status"] == "success"
    assert await thread_status(client, thread) == "idle"


async def test_a_run_that_will_not_wait_is_refused(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await begun(client, thread)
    with pytest.raises(ConflictError, match="busy"):
        await client.runs.create(thread, "slow", input={"x": 1}, multitask_strategy="reject")
    assert len(await client.runs.list(thread)) == 1
    await client.runs.cancel(thread, first, wait=True)


async def test_a_run_may_end_the_one_before_it(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await begun(client, thread)
    waiting = await client.runs.create(thread, "slow", input={"x": 400})
    await client.runs.wait(thread, "slow", input={"x": 1}, multitask_strategy="interrupt")
    for run in (first, waiting["run_id"]):
        await is_status(client, thread, run, "interrupted")
    assert await thread_status(client, thread) == "idle"


async def test_a_run_may_take_back_the_one_before_it(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "slow", input=graph_input(x=0, log=["kept"]))
    first = await begun(client, thread)
    found: Any = await client.runs.wait(
        thread, "slow", input=graph_input(x=0, log=["new"]), multitask_strategy="rollback"
    )
    assert found["log"] == ["kept", "slow", "new", "slow"]
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, first)
    history = await client.threads.get_history(thread, limit=100)
    assert first not in [(state["metadata"] or {}).get("run_id") for state in history]


async def test_a_cancelled_run_is_interrupted_and_its_streams_end(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    run = await begun(client, thread)
    reader = asyncio.create_task(collect(client.runs.join_stream(thread, run, last_event_id="-1")))
    await client.runs.cancel(thread, run, wait=True)
    told = await reader
    assert {event.event for event in told} == {"metadata", "custom"}
    assert (await client.runs.get(thread, run))["status"] == "interrupted"
    assert await thread_status(client, thread) == "interrupted"
    waited: Any = await client.runs.join(thread, run)
    assert waited["__error__"]["error"] == "UserInterrupt"


async def test_cancelling_returns_at_once_unless_told_to_wait(client: LangGraphClient, url: str) -> None:
    thread = await create_thread(client)
    run = await begun(client, thread)
    async with httpx.AsyncClient(base_url=url) as http:
        place = f"/threads/{thread}/runs/{run}/cancel"
        reply = await http.post(place)
        assert (reply.status_code, reply.content) == (202, b"")
        reply = await http.post(place, params={"wait": 1})
        assert (reply.status_code, reply.json()) == (200, {})
        assert (await http.post(place, params={"wait": 1})).status_code == 200, "twice is safe"
    assert (await client.runs.get(thread, run))["status"] == "interrupted"


async def test_a_run_that_is_taken_back_leaves_no_trace(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    run = await begun(client, thread)
    await client.runs.cancel(thread, run, wait=True, action="rollback")
    with pytest.raises(NotFoundError):
        await client.runs.get(thread, run)
    assert await thread_status(client, thread) == "idle"
    assert not (await client.threads.get_state(thread))["values"]
    assert await client.threads.get_history(thread) == []


async def test_what_a_run_did_that_has_ended_is_not_taken_back(client: LangGraphClient) -> None:
    """It may end just before it is cancelled; and of several, those that have ended are left out."""
    thread = await create_thread(client)
    run = (await client.runs.create(thread, "agent", input=HELLO))["run_id"]
    await client.runs.join(thread, run)
    before: Any = await client.threads.get_state(thread)
    await client.runs.cancel(thread, run, wait=True, action="rollback")
    await client.runs.cancel_many(thread_id=thread, run_ids=[run], action="rollback")
    assert await client.threads.get_state(thread) == before
    assert (await client.threads.get(thread))["status"] == "interrupted"


@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_a_run_cancelled_before_it_began_closes_its_streams(
    client: LangGraphClient, url: str, action: Any
) -> None:
    thread = await create_thread(client)
    first = await begun(client, thread)
    waiting = (await client.runs.create(thread, "slow", input={"x": 1}))["run_id"]
    place = f"/threads/{thread}/runs/{waiting}"
    async with (
        httpx.AsyncClient(base_url=url, timeout=4) as http,
        http.stream("GET", f"{place}/stream") as stream,
        http.stream("GET", f"{place}/join") as joined,
    ):
        await client.runs.cancel(thread, waiting, wait=True, action=action)
        assert await stream.aread() == b""
        assert "__error__" in json.loads(await joined.aread())
    if action == "rollback":
        await is_gone(client, thread, waiting)
    else:
        await is_status(client, thread, waiting, "interrupted")
    assert (await client.runs.get(thread, first))["status"] == "running"
    await client.runs.cancel(thread, first, wait=True)


async def test_the_next_run_begins_when_the_one_before_it_is_cancelled(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await begun(client, thread)
    second = await client.runs.create(thread, "slow", input={"x": 0})
    await client.runs.cancel(thread, first)
    found: Any = await client.runs.join(thread, second["run_id"])
    assert found["log"] == ["slow"]


async def test_several_runs_are_cancelled_at_once(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    first = await begun(client, thread)
    others = [(await client.runs.create(thread, "slow", input={"x": 1}))["run_id"] for _ in range(3)]
    await client.runs.cancel_many(thread_id=thread, run_ids=others[:1])
    await is_status(client, thread, others[0], "interrupted")
    assert (await client.runs.get(thread, others[1]))["status"] == "pending"
    await client.runs.cancel_many(thread_id=thread, status="pending")
    for run in others[1:]:
        await is_status(client, thread, run, "interrupted")
    assert (await client.runs.get(thread, first))["status"] == "running"
    await client.runs.cancel_many(status="all")
    await is_status(client, thread, first, "interrupted")


async def test_a_run_whose_time_has_not_come_can_be_cancelled(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    later = await client.runs.create(thread, "counter", input={"x": 1}, after_seconds=3600)
    await client.runs.cancel(thread, later["run_id"], wait=True)
    assert (await client.runs.get(thread, later["run_id"]))["status"] == "interrupted"
