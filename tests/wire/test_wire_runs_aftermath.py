"""After the end of runs: threads of stateless runs are deleted, and webhooks are called once (X15)."""

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
from callsheet.storage import journals
from callsheet.storage.redis import keys
from callsheet.storage.runs.records import Run, RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from tests.doubles.served import app_client
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS

COUNT_BODY = {"assistant_id": "counter", "input": {"x": 1}}


@pytest.fixture
async def context(valkey_url: str) -> AsyncIterator[AppContext]:
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app):
        yield app.state.context


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[tuple[httpx.AsyncClient, AppContext]]:
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app), app_client(app) as client:
        yield client, app.state.context


async def keys_of(context: AppContext, run: str) -> list[bytes]:
    return [key async for key in context.storage.redis.scan_iter(f"*{run}*") if b"callsheet" not in key]


async def finalize_after(worker: Worker, context: AppContext, run: str, ago_s: float) -> None:
    """Finalize a run as if it had ended `ago_s` seconds ago."""
    ended_ms = int((time.time() - ago_s) * 1000)
    await context.storage.redis.hset(keys.run(run, run), "updatedMs", ended_ms)
    await worker.finalizer.finalize(run, run)


async def open_runs(runs: Runs) -> list[tuple[str, str]]:
    members = [member.decode() for member in await runs.redis.zrange(keys.open_runs(), 0, -1)]
    return [(thread, run) for run, _, thread in (member.partition("\0") for member in members)]


async def test_the_thread_of_a_stateless_run_is_deleted_a_minute_after_its_end(
    http: tuple[httpx.AsyncClient, AppContext],
) -> None:
    client, context = http
    reply = await client.post("/runs/wait", json=COUNT_BODY)
    assert reply.json() == {"x": 4, "log": ["a", "b", "c"]}
    run = reply.headers["content-location"].rpartition("/")[2]
    await finalize_after(context.worker, context, run, FINISHED_RUN_TTL_S - 30)
    assert (await client.get(f"/runs/{run}/join")).json() == reply.json()
    await finalize_after(context.worker, context, run, FINISHED_RUN_TTL_S + 1)
    assert await keys_of(context, run) == []
    assert await open_runs(context.worker.runs) == []
    assert (await client.get(f"/runs/{run}")).status_code == 404
    await context.worker.finalizer.finalize(run, run)


async def test_a_rollback_of_a_stateless_run_deletes_its_thread(
    http: tuple[httpx.AsyncClient, AppContext],
) -> None:
    client, context = http
    created = (await client.post("/runs", json={**COUNT_BODY, "after_seconds": 3600})).json()
    run = created["run_id"]
    await context.worker.cancel(run, run, "rollback")

    async def is_deleted() -> bool:
        return await keys_of(context, run) == []

    await eventually(is_deleted, "the thread is deleted")


class RecordingWebhookCaller:
    """A webhook caller that records the runs."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def __call__(self, run: Run) -> None:
        self.runs.append(run.id)


async def test_a_webhook_is_called_once_by_another_process_if_the_first_died(context: AppContext) -> None:
    runs, run = context.worker.runs, str(uuid.uuid4())
    fields = request_fields(webhook="https://a.example/", input={"x": 1})
    await runs.create(RunRequest("t", run, "counter", "local", fields))
    attempt = await runs.claim("t", run)
    await runs.finish(attempt, RunOutcome("success"))  # type: ignore[arg-type]  # nobody else claims it
    assert await open_runs(runs) == [("t", run)]
    without_webhooks, webhook_caller = (
        RunFinalizer(context.storage, runs, context.saver, None),
        RecordingWebhookCaller(),
    )
    await without_webhooks.finalize("t", run)
    assert await open_runs(runs) == [("t", run)], "a process without webhooks leaves the run open"
    with_webhooks = RunFinalizer(context.storage, runs, context.saver, webhook_caller)
    await with_webhooks.finalize("t", run)
    await with_webhooks.finalize("t", run)
    assert webhook_caller.runs == [run]
    assert await open_runs(runs) == []


async def test_a_failure_is_listed_once_by_another_process_if_the_first_died(context: AppContext) -> None:
    runs, run = context.worker.runs, str(uuid.uuid4())
    await runs.create(RunRequest("t", run, "counter", "local", request_fields(input={"x": 1})))
    attempt = await runs.claim("t", run)
    assert isinstance(attempt, RunAttempt)
    outcome = RunOutcome("error", "error", error={"error": "Unavailable", "message": "no vendor"})
    await runs.finish(attempt, outcome)
    finalizer = RunFinalizer(context.storage, runs, context.saver, None)
    assert await open_runs(runs) == [("t", run)]
    await finalizer.finalize("t", run)
    await finalizer.finalize("t", run)
    await finalizer.unlist(await runs.get("t", run), attempt, outcome)
    assert await open_runs(runs) == []
    [entry] = await journals.read(context.storage, keys.FAILED_RUNS, most=10)
    listed = {name: entry.fields[name] for name in ("id", "status", "attempts", "error", "message")}
    assert listed == {
        "id": run,
        "status": "error",
        "attempts": 1,
        "error": "Unavailable",
        "message": "no vendor",
    }
