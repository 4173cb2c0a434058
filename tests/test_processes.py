"""Several servers and several workers on one Redis are one server to its callers (X5, X8, X9)."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.killing import Warm
from tests.waiting import eventually

LEASE_S = 1.0
CONFIG = str(Path(__file__).parent / "wire_graphs.json")
ANSWER = {"resume": {"decisions": [{"type": "approve"}]}}

pytestmark = [pytest.mark.fault, pytest.mark.timeout(120)]


@dataclass
class House:
    """Two servers that carry nothing out, and two workers."""

    first: Any
    second: Any
    workers: list[int]
    warm: Warm
    url: str

    def kill_a_worker(self) -> None:
        """SIGKILL the older worker and start another."""
        os.kill(self.workers.pop(0), signal.SIGKILL)
        self.workers.append(self.warm.work(self.url, LEASE_S, CONFIG))


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with Warm() as parent:
        yield parent


@pytest.fixture
async def house(warm: Warm, valkey_url: str) -> AsyncIterator[House]:
    servers = [warm.start(valkey_url, LEASE_S, config=CONFIG, carry=False) for _ in range(2)]
    workers = [warm.work(valkey_url, LEASE_S, CONFIG) for _ in range(2)]
    async with (
        httpx.AsyncClient() as http,
        get_client(url=servers[0][1]) as first,
        get_client(url=servers[1][1]) as second,
    ):
        for _, url in servers:
            await eventually(partial(answers, http, url), f"{url} answers", patience_s=30)
        yield House(first, second, workers, warm, valkey_url)
    for process in (*(pid for pid, _ in servers), *workers):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


async def answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/info")).status_code == 200
    except httpx.TransportError:
        return False


async def ended(client: Any, thread: str, run: str) -> dict[str, Any]:
    async def over() -> bool:
        return (await client.runs.get(thread, run))["status"] not in {"pending", "running"}

    await eventually(over, f"the end of run {run}", patience_s=30)
    return dict(await client.runs.get(thread, run))


async def test_a_run_is_made_at_one_server_streamed_at_another_and_cancelled_there(house: House) -> None:
    """Create on A, stream on B, cancel on B: whoever carries the run out hears it."""
    thread = (await house.first.threads.create())["thread_id"]
    run = await house.first.runs.create(thread, "slow", input={"x": 400}, stream_mode=["custom"])
    ticks = []
    async for part in house.second.runs.join_stream(thread, run["run_id"]):
        if part.event == "custom":
            ticks.append(part.data["tick"])
        if len(ticks) == 3:
            await house.second.runs.cancel(thread, run["run_id"], wait=False)
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    assert (await ended(house.first, thread, run["run_id"]))["status"] == "interrupted"


async def test_a_question_asked_through_one_server_is_answered_through_another(house: House) -> None:
    """X5, X9: the answer sent twice at once is one answer."""
    thread = (await house.first.threads.create())["thread_id"]
    said = {"messages": [{"role": "user", "content": "hello"}]}
    asked = await house.first.runs.wait(thread, "agent", input=said)
    assert asked["__interrupt__"]
    both = await asyncio.gather(
        house.second.runs.wait(thread, "agent", command=ANSWER),
        house.first.runs.wait(thread, "agent", command=ANSWER),
        return_exceptions=True,
    )
    assert any(isinstance(one, dict) and "__error__" not in one for one in both)
    state = await house.second.threads.get_state(thread)
    assert state["values"]["steps"].count("review") == 1
    assert state["next"] == []


async def test_workers_that_are_killed_lose_no_run_and_repeat_no_event(house: House) -> None:
    """SIGKILL of one worker after another; every stream read by id is whole."""
    made: list[tuple[str, str]] = []
    for number in range(12):
        client = (house.first, house.second)[number % 2]
        thread = (await client.threads.create())["thread_id"]
        run = await client.runs.create(
            thread, "slow", input={"x": 20}, stream_mode=["custom", "values"], stream_resumable=True
        )
        made.append((thread, run["run_id"]))
    for _ in range(2):
        await asyncio.sleep(0.4)
        house.kill_a_worker()
    for place, name in made:
        assert (await ended(house.second, place, name))["status"] == "success"
        ids = [part.id async for part in house.first.runs.join_stream(place, name, last_event_id="-1")]
        assert len(ids) == len(set(ids))
        state = await house.first.threads.get_state(place)
        assert state["values"]["log"] == ["slow"], "the step's result is there, once"
