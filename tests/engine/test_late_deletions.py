"""A process that stands still deletes no thread that a person has used meanwhile (X8)."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.finalizer import RunFinalizer
from callsheet.server.langgraph.retention import expire_thread, sweep
from callsheet.state.errors import Conflict, Missing
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import connect
from callsheet.storage.runs.records import RunAttempt, RunOutcome, RunRequest
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from tests.doubles.holding_proxy import HoldingProxy
from tests.engine.test_worker import word_request

LEASE_S = 10.0
LONG_AGO_MS = 1_000


@dataclass(frozen=True)
class Deleting:
    """Storage of threads, as one process reaches it."""

    storage: Storage
    saver: RedisSaver


async def end_run(runs: Runs, request: RunRequest) -> str:
    await runs.create(request)
    attempt = await runs.claim("t", request.id)
    assert isinstance(attempt, RunAttempt)
    await runs.finish(attempt, RunOutcome("success"))
    return str(request.id)


async def test_a_run_that_ended_before_the_deletion_of_a_crons_thread_keeps_the_thread(
    storage: Storage, valkey_url: str, tmp_path: Path
) -> None:
    runs = Runs(storage, LEASE_S)
    await threads.create(storage, NewThread("t", LOCAL, "stage"))
    unwatched = word_request()
    unwatched = replace(unwatched, request=unwatched.request | {"temporary": True})
    first = await end_run(runs, unwatched)
    await storage.redis.hset(keys.run("t", first), "updatedMs", LONG_AGO_MS)
    target = valkey_url.removeprefix("unix://").partition("?")[0]
    async with (
        HoldingProxy(str(tmp_path / "proxy"), target) as proxy,
        connect(proxy.url, timeout_s=60) as slow,
    ):
        saver = RedisSaver(slow.redis, fence=EPOCH_KEY)
        finalizer = RunFinalizer(slow, Runs(slow, LEASE_S), saver, None)
        proxy.hold(keys.thread_meta("t"))
        finalizing = asyncio.create_task(finalizer.finalize("t", first))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        await end_run(runs, word_request("more"))
        proxy.release()
        await finalizing
        await saver.aclose()
    assert await threads.find(storage, "t", LOCAL)


async def test_a_thread_that_expires_takes_no_run_whose_states_a_late_process_would_delete(
    storage: Storage, valkey_url: str, tmp_path: Path
) -> None:
    runs = Runs(storage, LEASE_S)
    lifetime = {"ttl": 1, "strategy": "delete"}
    thread = await threads.create(storage, NewThread("t", LOCAL, "stage", ttl=lifetime))
    target = valkey_url.removeprefix("unix://").partition("?")[0]
    async with (
        HoldingProxy(str(tmp_path / "proxy"), target) as proxy,
        connect(proxy.url, timeout_s=60) as slow,
    ):
        late = Deleting(slow, RedisSaver(slow.redis, fence=EPOCH_KEY))
        proxy.hold(keys.checkpoints("t").records)
        expiring = asyncio.create_task(expire_thread(late, thread, thread.updated_ms + 60_000))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        # As if the process had stood still for longer than its lease.
        await storage.redis.delete(keys.run_keys("t").lease)
        own = await threads.get(storage, "t", LOCAL)
        body = replace(
            word_request(), precondition=threads.run_precondition(own, NewThread("t", LOCAL, "stage"))
        )
        with pytest.raises(Missing, match="being deleted"):
            await runs.create(body)
        proxy.release()
        assert await expiring
        await late.saver.aclose()
    assert await threads.find(storage, "t", LOCAL) is None


async def test_a_thread_that_was_used_just_before_its_expiry_stays(storage: Storage) -> None:
    lifetime = {"ttl": 1, "strategy": "delete"}
    thread = await threads.create(storage, NewThread("t", LOCAL, "stage", ttl=lifetime))
    saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
    assert not await expire_thread(Deleting(storage, saver), thread, thread.updated_ms + 59_000)
    await end_run(Runs(storage, LEASE_S), word_request())
    used = threads.hold(storage, "t", LOCAL, deletes=True, updated_ms=thread.updated_ms)
    with pytest.raises(Conflict, match="was used meanwhile"):
        await used.__aenter__()
    await saver.aclose()
    assert (await threads.get(storage, "t", LOCAL)).status == "idle"


async def test_a_thread_whose_process_was_killed_right_after_its_creation_expires(
    storage: Storage, valkey_url: str, tmp_path: Path
) -> None:
    """It was in no list of threads that expire, and stayed for ever."""
    target = valkey_url.removeprefix("unix://").partition("?")[0]
    new = NewThread("t", LOCAL, "stage", ttl={"ttl": 1, "strategy": "delete"})
    async with (
        HoldingProxy(str(tmp_path / "proxy"), target) as proxy,
        connect(proxy.url, timeout_s=60) as slow,
    ):
        await threads.count(slow, LOCAL)
        proxy.hold(keys.THREADS_EXPIRING)
        creating = asyncio.create_task(threads.create(slow, new))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)
    saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
    await sweep(Deleting(storage, saver), int(time.time() * 1000) + 120_000)
    await saver.aclose()
    assert await threads.find(storage, "t", LOCAL) is None


async def test_a_thread_keeps_its_time_of_expiry_when_it_is_created_again(storage: Storage) -> None:
    new = NewThread("t", LOCAL, "stage", ttl={"ttl": 1, "strategy": "delete"})
    thread = await threads.create(storage, new)
    longer = replace(new, token="other", ttl={"ttl": 60, "strategy": "delete"})
    assert await threads.create(storage, longer, or_get=True) == thread
    assert await threads.list_expired(storage, thread.updated_ms + 60_000, 1) == [thread]
