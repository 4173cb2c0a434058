"""A Redis whose memory or disk is full for a while: runs wait for room, and no effect happens twice."""

import asyncio
import itertools
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.graph import END, START, StateGraph
from redis import Redis
from typing_extensions import TypedDict

from tests.doubles.needs import need
from tests.doubles.redis_server import running_redis
from tests.doubles.waiting import until
from tests.doubles.wire_server import running_server

STEPS = 25
EFFECTS: Counter[tuple[str, int]] = Counter()
"""Effects of all runs, by name of the run and step."""


class LedgerState(TypedDict):
    """The entries of one run."""

    name: str
    done: int


async def book(state: LedgerState) -> dict[str, Any]:
    EFFECTS[state["name"], state["done"]] += 1
    await asyncio.sleep(0.02)
    return {"done": state["done"] + 1}


def ledger_graph() -> Any:
    """A graph with an outside effect in every step."""
    builder = StateGraph(LedgerState)
    builder.add_node("book", book)
    builder.add_edge(START, "book")
    builder.add_conditional_edges("book", lambda state: END if state["done"] >= STEPS else "book")
    return builder.compile(name="ledger")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of the server's snapshots."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def redis(tmp_path: Path) -> Iterator["Redis"]:
    """A client of a real Redis, full at no time but by the test; it has room at the end."""
    with (
        running_redis(need("redis-server"), tmp_path, "--enable-protected-configs", "yes") as server,
        Redis.from_url(server.url) as client,
        running_server(server.url, {"ledger": ledger_graph()}, lease_s=2.0) as url,
    ):
        client.url = url
        yield client
        client.config_set("maxmemory", 0)


@pytest.fixture
async def http(redis: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=redis.url, timeout=90) as client:
        yield client


def fill_memory(redis: "Redis", _folder: Path) -> None:
    redis.config_set("maxmemory", 1)


def free_memory(redis: "Redis", _folder: Path) -> None:
    redis.config_set("maxmemory", 0)


def save_snapshot(redis: "Redis", status: str) -> None:
    redis.bgsave()
    until(lambda: redis.info("persistence")["rdb_last_bgsave_status"] == status, f"a snapshot: {status}")


def fill_disk(redis: "Redis", folder: Path) -> None:
    """Let snapshots fail, so that Redis refuses writes."""
    redis.config_set("dir", str(folder))
    redis.config_set("save", "3600 1")
    shutil.rmtree(folder)
    save_snapshot(redis, "err")


def free_disk(redis: "Redis", folder: Path) -> None:
    folder.mkdir()
    redis.config_set("dir", str(folder))
    save_snapshot(redis, "ok")
    redis.config_set("save", "")


Change = Callable[["Redis", Path], None]


async def start_ledger(http: httpx.AsyncClient, name: str) -> str:
    """Start a run in the background; return its path once it is acknowledged."""
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "ledger", "input": {"name": name, "done": 0}}
    reply = await http.post(f"/threads/{thread}/runs", json=body)
    assert reply.status_code == 200, reply.text
    return f"/threads/{thread}/runs/{reply.json()['run_id']}"


async def wait_for_end(http: httpx.AsyncClient, path: str, patience_s: float) -> Any:
    deadline_s = time.monotonic() + patience_s
    while (record := (await http.get(path)).json())["status"] in {"pending", "running"}:
        assert time.monotonic() < deadline_s, record
        await asyncio.sleep(0.1)
    return record


async def fill_for_a_while(
    redis: "Redis", folder: Path, phases: list[float], change: tuple[Change, Change]
) -> None:
    """Fill and free the storage in turn, each for the next number of seconds."""
    for fill, phase_s in zip(itertools.cycle((True, False)), phases, strict=False):
        await asyncio.to_thread(change[0] if fill else change[1], redis, folder)
        await asyncio.sleep(phase_s)
    await asyncio.to_thread(change[1], redis, folder)


async def check_runs_wait(
    redis: "Redis", http: httpx.AsyncClient, filling: Callable[[], Awaitable[None]], *, runs: int = 4
) -> None:
    EFFECTS.clear()
    paths = [await start_ledger(http, f"run {number}") for number in range(runs)]
    await asyncio.to_thread(until, lambda: len(EFFECTS) >= runs, "the first effects")
    await filling()
    records = await asyncio.gather(*(wait_for_end(http, path, 60) for path in paths))
    assert [record["status"] for record in records] == ["success"] * runs, records
    twice = {step: count for step, count in EFFECTS.items() if count > 1}
    assert twice == {}
    assert len(EFFECTS) == runs * STEPS


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [(fill_memory, free_memory), (fill_disk, free_disk)], ids=["memory", "disk"]
)
async def test_runs_wait_while_storage_is_full_and_go_on_without_repeating_effects(
    redis: "Redis", http: httpx.AsyncClient, folder: Path, change: tuple[Change, Change]
) -> None:
    """No run ends as one that crashed its processes, although it was full for longer than a lease."""
    await check_runs_wait(redis, http, lambda: fill_for_a_while(redis, folder, [3.0], change))


@pytest.mark.slow
async def test_runs_survive_a_memory_at_its_limit_where_only_some_writes_are_refused(
    redis: "Redis", http: httpx.AsyncClient, folder: Path
) -> None:
    """Claims go through and checkpoints do not, again and again."""
    phases = [0.05] * 60
    change = (fill_memory, free_memory)
    await check_runs_wait(redis, http, lambda: fill_for_a_while(redis, folder, phases, change))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_runs_wait_ten_times_while_memory_is_full_for_twelve_seconds(
    redis: "Redis", http: httpx.AsyncClient, folder: Path
) -> None:
    change = (fill_memory, free_memory)
    for _ in range(10):
        await check_runs_wait(redis, http, lambda: fill_for_a_while(redis, folder, [12.0], change), runs=8)
