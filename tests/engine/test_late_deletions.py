"""A process that stands still deletes no thread that a person has used meanwhile (X8)."""

import asyncio
from dataclasses import replace
from pathlib import Path

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.finalizer import RunFinalizer
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
