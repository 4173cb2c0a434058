"""The newest runs of a thread that are kept, and what is read where a thread has many."""

from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs.records import Run, RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from tests.doubles.served import served_app

MANY = 3_000
LATE_MS = 2**42


def request(name: str, **more: Any) -> RunRequest:
    return RunRequest("t", name, "chat", "local", request_fields(), **more)


async def create_ended(runs: Runs, name: str, **more: Any) -> None:
    """Record a run and end it."""
    await runs.create(request(name, **more))
    attempt = await runs.claim("t", name)
    assert isinstance(attempt, RunAttempt)
    await runs.finish(attempt, RunOutcome("success"))


async def let_runs_age(storage: Storage, seconds: int) -> None:
    """Move the ends of all runs of the thread into the past."""
    for member in await storage.redis.zrange(keys.run_keys("t").runs, 0, -1):
        await storage.redis.hincrby(keys.run("t", member.decode()), "updatedMs", -1000 * seconds)


def names(runs: list[Run]) -> list[str]:
    return [run.id for run in runs]


async def test_runs_beyond_the_newest_ones_are_deleted_when_they_are_ten_minutes_old(
    storage: Storage,
) -> None:
    runs = Runs(storage, kept_runs=3)
    for number in range(6):
        await create_ended(runs, f"r{number}")
    assert len(await runs.list_runs("t")) == 6
    await let_runs_age(storage, 601)
    await create_ended(runs, "newest")
    assert names(await runs.list_runs("t")) == ["newest", "r5", "r4"]
    assert not await storage.redis.exists(keys.run("t", "r0"))
    assert await storage.redis.exists(keys.run("t", "r4"))


async def test_a_run_is_kept_while_something_may_ask_for_it(storage: Storage) -> None:
    """One that has not ended, one whose webhook was not called, and one of an idempotency key, for a day."""
    runs = Runs(storage, kept_runs=1)
    await runs.create(request("later", due_ms=LATE_MS))
    hooked = RunRequest("t", "hooked", "chat", "local", request_fields(webhook="https://example.org/"))
    await runs.create(hooked)
    attempt = await runs.claim("t", "hooked")
    assert isinstance(attempt, RunAttempt)
    await runs.finish(attempt, RunOutcome("success"))
    await create_ended(runs, "keyed", fingerprint="f" * 64, idempotency_key="key")
    await create_ended(runs, "plain")
    await let_runs_age(storage, 3600)
    await create_ended(runs, "newest")
    assert names(await runs.list_runs("t")) == ["newest", "keyed", "hooked", "later"]
    await runs.mark_webhook_called("t", "hooked")
    await let_runs_age(storage, 86_401)
    await create_ended(runs, "newer")
    assert names(await runs.list_runs("t")) == ["newer", "later"]
    attached = await runs.create(request("again", due_ms=0))
    assert attached.verdict == "start"


async def test_unfinished_runs_are_listed_wherever_they_wait(storage: Storage) -> None:
    """The active one, one behind it, and one that waits for its time, until it is due or cancelled."""
    runs = Runs(storage)
    await create_ended(runs, "ended")
    for name, due_ms in (("active", 0), ("queued", 0), ("later", LATE_MS), ("never", LATE_MS)):
        await runs.create(request(name, due_ms=due_ms))
    assert names(await runs.list_unfinished("t")) == ["never", "later", "queued", "active"]
    await runs.cancel("t", "never", "interrupt")
    await runs.admit("t", "later")
    assert not await storage.redis.exists(keys.later_runs("t"))
    assert names(await runs.list_unfinished("t")) == ["later", "queued", "active"]
    assert sorted(names(await runs.open_runs("local"))) == ["active", "later", "queued"]
    assert await runs.open_runs("bob") == []


@pytest.mark.slow
async def test_a_thread_with_thousands_of_runs_is_listed_cancelled_and_deleted_without_reading_them(
    valkey_url: str, storage: Storage, inspector: Redis
) -> None:
    async with served_app(valkey_url, carry_runs=False) as client:
        await ok(client.post("/threads", json={"thread_id": "t"}))
        [first, second] = [await ok(client.post("/threads/t/runs", json=RUN)) for _ in range(2)]
        await add_ended(storage, first["run_id"])
        before = commands(inspector, "hgetall")
        for status, ids in (("pending", [second["run_id"], first["run_id"]]), ("running", [])):
            listed = await ok(client.get("/threads/t/runs", params={"status": status}))
            assert [run["run_id"] for run in listed] == ids
        failed = await ok(client.get("/threads/t/runs", params={"status": "error", "limit": 2, "offset": 1}))
        assert [run["run_id"] for run in failed] == [f"old-{MANY - 101}", f"old-{MANY - 201}"]
        reply = await client.post("/runs/cancel", json={"thread_id": "t", "run_ids": [first["run_id"]]})
        assert reply.status_code == 204
        assert (await client.delete("/threads/t")).status_code == 204
        assert commands(inspector, "hgetall") - before < 60
    assert not inspector.keys("thread:{t}:*")


RUN = {"assistant_id": "ad_creation", "input": {"messages": []}}


async def add_ended(storage: Storage, like: str) -> None:
    """Add records of older runs to the thread, one in a hundred of which has failed."""
    fields = await storage.redis.hgetall(keys.run("t", like))
    pipeline = storage.redis.pipeline(transaction=False)
    for number in range(MANY):
        status = "success" if (number + 1) % 100 else "error"
        record = {**fields, b"id": f"old-{number}", b"status": status}
        pipeline.hset(keys.run("t", f"old-{number}"), mapping=record)
        pipeline.zadd(keys.run_keys("t").runs, {f"old-{number}": number - MANY})
    await pipeline.execute()


async def ok(reply: Any) -> Any:
    response: httpx.Response = await reply
    assert response.is_success, response.text
    return response.json()


def commands(inspector: Redis, name: str) -> int:
    """The number of calls of a command so far."""
    counts: Any = inspector.info("commandstats")
    return int(counts.get(f"cmdstat_{name}", {"calls": 0})["calls"])
