"""X3, X9: servers on one Redis whose clocks are apart, or set back, lose nothing and repeat nothing."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from tests.doubles.killing import Kill, KillableServer, KillingProxy, WarmParent, is_answering
from tests.doubles.needs import need
from tests.doubles.waiting import eventually, until
from tests.storage.clock_work import TURNS, WORK, ServerClients, Work

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG = str(Path(__file__).with_name("clock_graphs.json"))
LEASE_S = 5.0
_TIMEOUT_S = 60.0


@dataclass
class FakeClock:
    """The parent of servers whose clock differs from that of Redis by the seconds in a file."""

    warm_parent: WarmParent
    file: Path

    def set(self, shift_s: int) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{shift_s:+d}\n")
        new.replace(self.file)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeClock]:
    faketime = need("faketime")
    command = [str(faketime), "-m", "-f", "+0", "printenv", "LD_PRELOAD"]
    library = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    file = tmp_path_factory.mktemp("clock") / "shift"
    file.write_text("+0\n")
    environ = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_NO_CACHE": "1",
        # Timers use the monotonic clock; the variable has two names.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    with WarmParent(**environ) as parent:
        yield FakeClock(parent, file)


@asynccontextmanager
async def clients(url: str) -> AsyncIterator[ServerClients]:
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as http, get_client(url=url) as wire:
        yield ServerClients(http, wire)


@asynccontextmanager
async def start_server(warm_parent: WarmParent, redis: str) -> AsyncIterator[ServerClients]:
    pid, url = warm_parent.start(redis, LEASE_S, config=CONFIG)
    try:
        until(lambda: is_answering(url), "the server answers", patience_s=90)
        async with clients(url) as server:
            yield server
    finally:
        os.kill(pid, signal.SIGKILL)


def by_shift(*sampled: int) -> pytest.MarkDecorator:
    """Parameters for the seconds by which a clock is wrong; all but a sample with `--long` alone."""
    rows = [
        shift if shift in sampled else pytest.param(shift, marks=pytest.mark.long)
        for shift in (-3600, -60, -1, 1, 60, 3600)
    ]
    return pytest.mark.parametrize("shift_s", rows)


def by_workflow(*sampled: str) -> pytest.MarkDecorator:
    """Parameters for the works; all but a sample with `--long` alone."""
    rows = [name if name in sampled else pytest.param(name, marks=pytest.mark.long) for name in WORK]
    return pytest.mark.parametrize("workflow", rows)


@by_shift(-60)
@by_workflow("a graph of one's own", "video")
async def test_turns_alternate_between_servers_whose_clocks_are_apart(
    redis: str, warm_parent: WarmParent, clock: FakeClock, shift_s: int, workflow: str
) -> None:
    clock.set(shift_s)
    async with start_server(warm_parent, redis) as right, start_server(clock.warm_parent, redis) as wrong:
        for servers in ((right, wrong, right), (wrong, right, wrong)):
            work = WORK[workflow]()
            for number, server in enumerate(servers, 1):
                await work.turn(server, number)
            for server in (right, wrong):
                await work.check(server)


async def test_a_server_whose_clock_is_ahead_deletes_nothing_before_its_time(
    redis: str, clock: FakeClock
) -> None:
    clock.set(0)
    async with start_server(clock.warm_parent, redis) as server:
        lasting: Any = await server.wire.threads.create(ttl={"ttl": 10})
        expired: Any = await server.wire.threads.create(ttl={"ttl": 0.0001})
    clock.set(3600)
    async with start_server(clock.warm_parent, redis) as server:
        run: Any = await server.wire.runs.create(None, "post", input={"text": "alone"})
        await server.wire.runs.join(run["thread_id"], run["run_id"])
        assert await server.wire.runs.get(run["thread_id"], run["run_id"])

        async def is_deleted() -> bool:
            return (await server.http.get(f"/threads/{expired['thread_id']}")).status_code == 404

        await eventually(is_deleted, "the expired thread is deleted", patience_s=60)
        assert await server.wire.threads.get(lasting["thread_id"])


async def test_crons_follow_the_clock_of_redis(redis: str, clock: FakeClock) -> None:
    """Those of a server whose clock is three hours ahead are due with those of all others."""
    clock.set(3 * 3600)
    async with start_server(clock.warm_parent, redis) as server:
        cron: Any = await server.wire.crons.create("post", schedule="0 * * * *", input={"text": "news"})
        assert datetime.fromisoformat(cron["next_run_date"]) - datetime.now(UTC) <= timedelta(hours=1)
        assert datetime.fromisoformat(cron["created_at"]) <= datetime.now(UTC)


@by_shift(-3600)
@by_workflow("pages")
async def test_a_conversation_continues_after_a_restart_with_another_clock(
    redis: str, clock: FakeClock, shift_s: int, workflow: str
) -> None:
    """It is set back again with the next restart."""
    work = WORK[workflow]()
    for number, shift in enumerate((0, shift_s, 0), 1):
        clock.set(shift)
        async with start_server(clock.warm_parent, redis) as server:
            await work.turn(server, number)
            if number == TURNS:
                await work.check(server)


@by_shift(60)
@by_workflow("ads")
async def test_a_turn_of_a_process_with_a_wrong_clock_that_dies_is_done_once(
    redis: str,
    warm_parent: WarmParent,
    clock: FakeClock,
    request: pytest.FixtureRequest,
    shift_s: int,
    workflow: str,
) -> None:
    """It is killed at a message to Redis in the middle of the second turn, and another server goes on."""
    clock.set(shift_s)
    target = redis.removeprefix("unix://").split("?")[0]
    shares = (0.3, 0.6, 0.9) if request.config.getoption("--long") else (0.6,)
    async with KillingProxy(f"{target}-clock", target) as proxy, start_server(warm_parent, redis) as right:
        servers = KillableServer(clock.warm_parent, proxy, redis)
        servers.config = CONFIG
        count = await count_messages(servers, WORK[workflow]())
        for share in shares:
            work = WORK[workflow]()
            await work.turn(right, 1)
            kill = Kill(at=max(1, int(count * share)), when="after")
            await servers.run_until_killed(kill, partial(second_turn, work))
            for number in (2, 3):
                await work.turn(right, number)
            await work.check(right)


async def second_turn(work: Work, url: str) -> None:
    async with clients(url) as server:
        await work.turn(server, 2)


async def count_messages(servers: KillableServer, work: Work) -> int:
    """Count the messages that the second turn of this work sends to Redis."""
    never = Kill(at=-1, when="before")

    async def use(url: str) -> None:
        never.armed = False
        async with clients(url) as server:
            await work.turn(server, 1)
        never.armed = True
        await second_turn(work, url)

    await servers.run_until_killed(never, use)
    return never.message_count
