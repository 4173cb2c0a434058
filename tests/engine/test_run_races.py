"""Runs that meet on one thread by the dozen, runs cancelled at any moment, readers that do not read (X8)."""

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
OVER = {"success", "interrupted"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as found:
        yield found


async def made_at_once(client: LangGraphClient, thread: str, strategy: Any) -> list[str]:
    """The runs that many callers made at the same moment, in no order; one that was refused is missing."""

    async def one(number: int) -> str:
        run = await client.runs.create(
            thread,
            "slow",
            input=graph_input(x=1, log=[str(number)]),
            multitask_strategy=strategy,
            metadata={"n": number},
        )
        return str(run["run_id"])

    found = await asyncio.gather(*(one(number) for number in range(MANY)), return_exceptions=True)
    assert all(isinstance(run, str | ConflictError) for run in found), found
    return [run for run in found if isinstance(run, str)]


async def settled(client: LangGraphClient, thread: str) -> list[Any]:
    """The thread's runs once all have ended, oldest first."""

    async def over() -> bool:
        return all(run["status"] in OVER for run in await client.runs.list(thread, limit=100))

    await eventually(over, "the end of all runs", patience_s=30)
    return list(reversed(await client.runs.list(thread, limit=100)))


async def words(client: LangGraphClient, thread: str) -> list[str]:
    state: Any = await client.threads.get_state(thread)
    return [word for word in state["values"]["log"] if word != "slow"]


@pytest.mark.slow
async def test_many_that_wait_take_their_turns_in_the_order_they_came(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    assert len(await made_at_once(client, thread, "enqueue")) == MANY
    runs = await settled(client, thread)
    assert await words(client, thread) == [str(run["metadata"]["n"]) for run in runs]
    assert {run["status"] for run in runs} == {"success"}


async def test_of_many_that_will_not_wait_one_gets_the_thread(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    made = await made_at_once(client, thread, "reject")
    runs = await settled(client, thread)
    assert 1 <= len(made) == len(runs) < MANY
    assert await words(client, thread) == [str(run["metadata"]["n"]) for run in runs]


async def test_of_many_that_interrupt_each_other_the_last_one_ends(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await made_at_once(client, thread, "interrupt")
    *before, last = await settled(client, thread)
    assert len(before) == MANY - 1
    assert last["status"] == "success"
    assert {run["status"] for run in before} <= OVER
    assert (await words(client, thread))[-1] == str(last["metadata"]["n"])
    assert await thread_status(client, thread) == "idle"


async def test_of_many_that_take_each_other_back_no_trace_is_left(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    await client.runs.wait(thread, "slow", input=graph_input(x=0, log=["kept"]))
    await made_at_once(client, thread, "rollback")
    kept, *rest, last = await settled(client, thread)
    # One that had ended before the next came was not under way any more, and stays.
    stayed = {run["run_id"] for run in (kept, *rest, last)}
    assert await words(client, thread) == ["kept", *(str(run["metadata"]["n"]) for run in (*rest, last))]
    history = await client.threads.get_history(thread, limit=1000)
    assert {(state["metadata"] or {})["run_id"] for state in history} <= stayed


async def cancelled_at_random(client: LangGraphClient, dice: random.Random) -> float:
    """How many seconds it took to cancel a run that was anywhere in its course."""
    thread = await create_thread(client)
    run = (await client.runs.create(thread, "slow", input={"x": 3}, stream_mode="custom"))["run_id"]
    await asyncio.sleep(dice.uniform(0, 0.25))
    action: Any = dice.choice(["interrupt", "rollback"])
    began = time.monotonic()
    try:
        await client.runs.cancel(thread, run, wait=True, action=action)
    except (ConflictError, NotFoundError):
        assert (await client.runs.get(thread, run))["status"] == "success", "it had ended before"
    took_s = time.monotonic() - began
    await ended_for_good(client, thread, run)
    return took_s


async def ended_for_good(client: LangGraphClient, thread: str, run: str) -> None:
    """It has ended, or is gone; nothing is told after that, and the thread is free."""
    try:
        assert (await client.runs.get(thread, run))["status"] in OVER
        told = await collect(client.runs.join_stream(thread, run, last_event_id="-1"))
    except NotFoundError:
        told = []
    found: Any = await client.runs.wait(thread, "slow", input=graph_input(x=0, log=["next"]))
    assert found["log"][-2:] == ["next", "slow"]
    if told:
        assert await collect(client.runs.join_stream(thread, run, last_event_id="-1")) == told


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_run_can_be_cancelled_at_any_moment(
    client: LangGraphClient, request: pytest.FixtureRequest
) -> None:
    """The sample is seeded; 200 with --long."""
    long, dice = request.config.getoption("--long"), random.Random(15)
    took: list[float] = []
    for _ in range(20 if long else 2):
        took += await asyncio.gather(*(cancelled_at_random(client, dice) for _ in range(10)))
    assert sorted(took)[int(0.99 * len(took)) - 1] < (1.0 if long else 3.0)


def deaf(url: str, path: str) -> socket.socket:
    """A reader that asks and never reads."""
    host, _, port = url.removeprefix("http://").partition(":")
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.connect((host, int(port)))
    link.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nLast-Event-ID: -1\r\n\r\n".encode())
    return link


async def test_readers_that_do_not_read_keep_nobody_waiting(client: LangGraphClient, url: str) -> None:
    """Nothing piles up for them: they are sent more only once they have read."""
    thread = await create_thread(client)
    run = await client.runs.create(
        thread, "slow", input=graph_input(x=10, log=["x" * 200_000]), stream_mode=["values", "custom"]
    )
    path = f"/threads/{thread}/runs/{run['run_id']}/stream"
    readers = [await asyncio.to_thread(deaf, url, path) for _ in range(20)]
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        told = await collect(client.runs.join_stream(thread, run["run_id"], last_event_id="-1"))
        assert [part.data["tick"] for part in told if part.event == "custom"] == list(range(10))
        began = time.monotonic()
        assert (await http.get("/ok")).status_code == 200
        assert time.monotonic() - began < 1.0
    for link in readers:
        link.close()


async def test_of_two_graphs_that_want_a_new_thread_one_gets_it_and_no_note_on_it_is_lost(
    client: LangGraphClient,
) -> None:
    for number in range(10):
        thread = await create_thread(client)
        *made, _ = await asyncio.gather(
            client.runs.create(thread, "slow", input=graph_input(x=1, log=[])),
            client.runs.create(thread, "counter", input={"x": 1}),
            client.threads.update(thread, metadata={"number": number}),
            return_exceptions=True,
        )
        [run] = [one for one in made if not isinstance(one, BaseException)]
        [refused] = [one for one in made if isinstance(one, BaseException)]
        assert isinstance(refused, ConflictError)
        found: Any = await client.threads.get(thread)
        assert found["metadata"] == {
            "graph_id": run["metadata"]["graph_id"],
            "assistant_id": run["assistant_id"],
            "number": number,
        }
        await client.runs.join(thread, run["run_id"])
