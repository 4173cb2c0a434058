"""What runs leave: threads that go with them, and webhooks that another process has to tell (X15)."""

import time
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from callsheet.server.app import create_app
from callsheet.server.engine.finalizer import FINISHED_RUN_TTL_S, RunFinalizer
from callsheet.server.engine.worker import Worker
from callsheet.server.http.context import AppContext
from callsheet.server.settings.settings import Settings
from callsheet.storage.redis import keys
from callsheet.storage.runs.records import Run, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from tests.doubles.served import app_client
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS

ASKED = {"assistant_id": "counter", "input": {"x": 1}}


@pytest.fixture
async def here(valkey_url: str) -> AsyncIterator[AppContext]:
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app):
        yield app.state.context


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[tuple[httpx.AsyncClient, AppContext]]:
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app), app_client(app) as client:
        yield client, app.state.context


async def keys_of(here: AppContext, run: str) -> list[bytes]:
    return [key async for key in here.storage.redis.scan_iter(f"*{run}*") if b"callsheet" not in key]


async def settled_after(worker: Worker, here: AppContext, run: str, ago_s: float) -> None:
    """Settle a run as if it had ended so long ago."""
    ended_ms = int((time.time() - ago_s) * 1000)
    await here.storage.redis.hset(keys.run(run, run), "updatedMs", ended_ms)
    await worker.finalizer.finalize(run, run)


async def listed(runs: Runs) -> list[tuple[str, str]]:
    return await runs._all_open()


async def test_a_thread_goes_with_its_run_a_minute_after_it(
    http: tuple[httpx.AsyncClient, AppContext],
) -> None:
    client, here = http
    reply = await client.post("/runs/wait", json=ASKED)
    assert reply.json() == {"x": 4, "log": ["a", "b", "c"]}
    run = reply.headers["content-location"].rpartition("/")[2]
    await settled_after(here.worker, here, run, FINISHED_RUN_TTL_S - 30)
    assert (await client.get(f"/runs/{run}/join")).json() == reply.json()
    await settled_after(here.worker, here, run, FINISHED_RUN_TTL_S + 1)
    assert await keys_of(here, run) == []
    assert await listed(here.worker.runs) == []
    assert (await client.get(f"/runs/{run}")).status_code == 404
    await here.worker.finalizer.finalize(run, run)


async def test_a_run_that_was_taken_back_takes_its_thread_along(
    http: tuple[httpx.AsyncClient, AppContext],
) -> None:
    client, here = http
    made = (await client.post("/runs", json={**ASKED, "after_seconds": 3600})).json()
    run = made["run_id"]
    await here.worker.cancel(run, run, "rollback")

    async def gone() -> bool:
        return await keys_of(here, run) == []

    await eventually(gone, "the thread is gone")


class Told:
    """A webhook's caller that remembers."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def __call__(self, run: Run) -> None:
        self.runs.append(run.id)


async def test_a_webhook_is_told_by_another_process_where_the_first_died(here: AppContext) -> None:
    runs, run = here.worker.runs, str(uuid.uuid4())
    asked = request_fields(webhook="https://a.example/", input={"x": 1})
    await runs.create(RunRequest("t", run, "counter", "local", asked))
    attempt = await runs.claim("t", run)
    await runs.finish(attempt, RunOutcome("success"))  # type: ignore[arg-type]  # nobody else claims it
    assert await listed(runs) == [("t", run)]
    silent, told = RunFinalizer(runs, here.saver, None), Told()
    await silent.finalize("t", run)
    assert await listed(runs) == [("t", run)], "a process that may tell nobody leaves it"
    speaking = RunFinalizer(runs, here.saver, told)
    await speaking.finalize("t", run)
    await speaking.finalize("t", run)
    assert told.runs == [run]
    assert await listed(runs) == []
