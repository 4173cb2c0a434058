"""Several servers and several workers on one Redis are one server to its callers (X5, X8, X9)."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.doubles.killing import WarmParent
from tests.doubles.waiting import eventually
from tests.engine.fault_house import StreamFollower, percentiles
from tests.engine.fault_house import server_processes as house_of

LEASE_S = 1.0
LONG_LEASE_S = float(os.environ.get("FAULT_LEASE_S", "5"))
LONG_RUNS = int(os.environ.get("FAULT_RUNS", "200"))
CONFIG = str(Path(__file__).parents[1] / "doubles" / "wire_graphs.json")
ANSWER = {"resume": {"decisions": [{"type": "approve"}]}}

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(120)]


@dataclass
class House:
    """Two servers that carry nothing out, and two workers."""

    first: Any
    second: Any


@pytest.fixture
async def house(warm_parent: WarmParent, valkey_url: str) -> AsyncIterator[House]:
    servers = [warm_parent.start(valkey_url, LEASE_S, config=CONFIG, carry=False) for _ in range(2)]
    workers = [warm_parent.work(valkey_url, LEASE_S, CONFIG) for _ in range(2)]
    async with (
        httpx.AsyncClient() as http,
        get_client(url=servers[0][1]) as first,
        get_client(url=servers[1][1]) as second,
    ):
        for _, url in servers:
            await eventually(partial(answers, http, url), f"{url} answers", patience_s=30)
        yield House(first, second)
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


async def test_processes_that_are_killed_lose_no_run_and_repeat_no_effect_or_event(
    warm_parent: WarmParent, valkey_url: str
) -> None:
    """X5, X8, X9: a worker and a server die; every reader goes on by event id at the server that is left."""
    async with house_of(warm_parent, valkey_url, LEASE_S, workers=1) as house:
        readers = [StreamFollower(house, pages=3) for _ in range(12)]
        reading = await begun(readers, pace_s=0.1)
        await eventually(partial(stamped, readers, 1), "the first stamp", patience_s=40)
        house.add_worker(1)
        await house.kill_worker(0, again=False)
        await house.kill_server(0, again=False)
        async with asyncio.timeout(60):
            await reading
        await asyncio.gather(*(one.check() for one in readers))
        assert sum(one.breaks > 0 for one in readers) > 0, "somebody read at the server that died"
        assert sum(one.attempts() > 1 for one in readers) > 0, "the worker that died was at work"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("carry", [False, True])
async def test_every_process_is_killed_in_turn_during_many_runs(
    warm_parent: WarmParent, valkey_url: str, *, carry: bool
) -> None:
    """200 runs at once: two workers and two servers are killed one after the other, and started again.

    Each when what the one before was at has been taken up: what three processes died of in a row is given up.
    """
    async with house_of(warm_parent, valkey_url, LONG_LEASE_S, carry=carry) as house:
        readers = [StreamFollower(house, pages=8) for _ in range(LONG_RUNS)]
        reading = await begun(readers, pace_s=0.5)
        for place, kill in enumerate((house.kill_worker, house.kill_server) * 2):
            await asyncio.sleep(2 * LONG_LEASE_S)
            await kill(place // 2, again=True)
        began = time.monotonic()
        async with asyncio.timeout(400):
            await reading
        ended_s = time.monotonic() - began
        for one in readers:
            await one.check()
        again = [one for one in readers if one.attempts() > 1]
        figures = [
            f"all ended {ended_s:.0f} s after the last kill",
            f"{sum(one.breaks for one in readers)} streams resumed, {len(again)} runs taken up again",
            f"taken up {percentiles([s for one in readers for s in one.recoveries_s()])} after the kill",
        ]
        sys.stdout.write("\n".join(["", *figures, ""]))
        assert again


async def begun(readers: list[StreamFollower], pace_s: float) -> "asyncio.Future[Any]":
    """All runs made, and their readers at work."""
    await asyncio.gather(*(one.begin(pace_s) for one in readers))
    return asyncio.gather(*(one.read() for one in readers))


async def stamped(readers: list[StreamFollower], many: int) -> bool:
    return sum(one.name == "custom" and "stamp" in one.data for each in readers for one in each.told) >= many
