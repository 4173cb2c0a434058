"""Several servers and workers on one Redis behave like one server to clients (X5, X8, X9)."""

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
from tests.engine.fault_processes import StreamFollower, percentiles, server_processes

LEASE_S = 1.0
LONG_LEASE_S = float(os.environ.get("FAULT_LEASE_S", "5"))
LONG_RUNS = int(os.environ.get("FAULT_RUNS", "200"))
CONFIG = str(Path(__file__).parents[1] / "doubles" / "wire_graphs.json")
APPROVAL = {"resume": {"decisions": [{"type": "approve"}]}}

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(120)]


@dataclass
class ServerPair:
    """Clients of two servers that execute no runs; two workers execute them."""

    first: Any
    second: Any


@pytest.fixture
async def server_pair(warm_parent: WarmParent, valkey_url: str) -> AsyncIterator[ServerPair]:
    servers = [warm_parent.start(valkey_url, LEASE_S, config=CONFIG, carry=False) for _ in range(2)]
    workers = [warm_parent.work(valkey_url, LEASE_S, CONFIG) for _ in range(2)]
    async with (
        httpx.AsyncClient() as http,
        get_client(url=servers[0][1]) as first,
        get_client(url=servers[1][1]) as second,
    ):
        for _, url in servers:
            await eventually(partial(is_answering, http, url), f"{url} answers", patience_s=30)
        yield ServerPair(first, second)
    for process in (*(pid for pid, _ in servers), *workers):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


async def is_answering(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/info")).status_code == 200
    except httpx.TransportError:
        return False


async def wait_for_end(client: Any, thread: str, run: str) -> dict[str, Any]:
    async def has_ended() -> bool:
        return (await client.runs.get(thread, run))["status"] not in {"pending", "running"}

    await eventually(has_ended, f"the end of run {run}", patience_s=30)
    return dict(await client.runs.get(thread, run))


async def test_a_run_created_at_one_server_is_streamed_and_cancelled_at_another(
    server_pair: ServerPair,
) -> None:
    """The worker that executes the run gets the cancellation."""
    thread = (await server_pair.first.threads.create())["thread_id"]
    run = await server_pair.first.runs.create(thread, "slow", input={"x": 400}, stream_mode=["custom"])
    ticks = []
    async for part in server_pair.second.runs.join_stream(thread, run["run_id"]):
        if part.event == "custom":
            ticks.append(part.data["tick"])
        if len(ticks) == 3:
            await server_pair.second.runs.cancel(thread, run["run_id"], wait=False)
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    assert (await wait_for_end(server_pair.first, thread, run["run_id"]))["status"] == "interrupted"


async def test_an_interrupt_created_at_one_server_is_resumed_once_at_another(server_pair: ServerPair) -> None:
    """X5, X9: two resumes at the same time count once."""
    thread = (await server_pair.first.threads.create())["thread_id"]
    messages = {"messages": [{"role": "user", "content": "hello"}]}
    question = await server_pair.first.runs.wait(thread, "agent", input=messages)
    assert question["__interrupt__"]
    replies = await asyncio.gather(
        server_pair.second.runs.wait(thread, "agent", command=APPROVAL),
        server_pair.first.runs.wait(thread, "agent", command=APPROVAL),
        return_exceptions=True,
    )
    assert any(isinstance(reply, dict) and "__error__" not in reply for reply in replies)
    state = await server_pair.second.threads.get_state(thread)
    assert state["values"]["steps"].count("review") == 1
    assert state["next"] == []


async def test_killing_a_worker_and_a_server_loses_no_run_and_repeats_no_effect_or_event(
    warm_parent: WarmParent, valkey_url: str
) -> None:
    """X5, X8, X9: every reader continues at the remaining server, after the last event id that it got."""
    async with server_processes(warm_parent, valkey_url, LEASE_S, workers=1) as processes:
        readers = [StreamFollower(processes, pages=3) for _ in range(12)]
        reading = await start_reading(readers, pace_s=0.1)
        await eventually(partial(has_stamps, readers, 1), "the first stamp", patience_s=40)
        processes.add_worker(1)
        await processes.kill_worker(0, restart=False)
        await processes.kill_server(0, restart=False)
        async with asyncio.timeout(60):
            await reading
        await asyncio.gather(*(reader.check() for reader in readers))
        assert any(reader.disconnects for reader in readers), "some readers were at the killed server"
        assert any(reader.attempts() > 1 for reader in readers), "the killed worker was executing runs"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("executes_runs", [False, True])
async def test_killing_every_process_in_turn_loses_no_run(
    warm_parent: WarmParent, valkey_url: str, *, executes_runs: bool
) -> None:
    """200 runs at once; two workers and two servers are killed one after the other, and started again.

    The time between two kills is enough to take over the runs of the killed process: a run fails for good
    after three processes in a row died while they executed it.
    """
    async with server_processes(
        warm_parent, valkey_url, LONG_LEASE_S, executes_runs=executes_runs
    ) as processes:
        readers = [StreamFollower(processes, pages=8) for _ in range(LONG_RUNS)]
        reading = await start_reading(readers, pace_s=0.5)
        for index, kill in enumerate((processes.kill_worker, processes.kill_server) * 2):
            await asyncio.sleep(2 * LONG_LEASE_S)
            await kill(index // 2, restart=True)
        last_kill_s = time.monotonic()
        async with asyncio.timeout(400):
            await reading
        remaining_s = time.monotonic() - last_kill_s
        for reader in readers:
            await reader.check()
        restarted = [reader for reader in readers if reader.attempts() > 1]
        disconnects = sum(reader.disconnects for reader in readers)
        recoveries_s = [seconds for reader in readers for seconds in reader.recoveries_s()]
        figures = [
            f"all ended {remaining_s:.0f} s after the last kill",
            f"{disconnects} streams resumed, {len(restarted)} runs taken over",
            f"taken over {percentiles(recoveries_s)} after the kill",
        ]
        sys.stdout.write("\n".join(["", *figures, ""]))
        assert restarted


async def start_reading(readers: list[StreamFollower], pace_s: float) -> "asyncio.Future[Any]":
    """Start the runs and return the task of their readers."""
    await asyncio.gather(*(reader.start_run(pace_s) for reader in readers))
    return asyncio.gather(*(reader.read() for reader in readers))


async def has_stamps(readers: list[StreamFollower], count: int) -> bool:
    return (
        sum(event.name == "custom" and "stamp" in event.data for reader in readers for event in reader.events)
        >= count
    )
