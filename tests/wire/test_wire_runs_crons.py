"""Crons through LangGraph's own client; each due time starts one run."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError, UnprocessableEntityError

from callsheet.server.app import create_app
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.crons import fire_due, next_due_ms
from callsheet.server.langgraph.retention import end_run
from callsheet.server.langgraph.schemas import RunCreate
from callsheet.server.langgraph.starting import start_run
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid, Missing
from callsheet.storage import crons, questions
from callsheet.storage.crons import Cron, Due
from callsheet.storage.redis import keys
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_served import create_thread, new_id, running_server_on_own_redis
from tests.doubles.wire_server import running_server

HOURLY = "0 * * * *"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(cron_interval_s=300) as server_url:
        yield server_url


@pytest.fixture
async def context(valkey_url: str) -> AsyncIterator[AppContext]:
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app):
        yield app.state.context


async def create_cron(context: AppContext, thread: str | None = None, **chosen: Any) -> Cron:
    """Create a cron that is due on the hour and was never fired."""
    now_ms = int(time.time() * 1000)
    options: dict[str, Any] = {"assistant": "counter", "payload": {"input": {"x": 1}}, "schedule": HOURLY}
    times: dict[str, Any] = {"created_ms": now_ms, "updated_ms": now_ms}
    cron = Cron(new_id(), "local", thread=thread, **times, **options | chosen)
    await crons.create(context.storage, cron, next_due_ms(cron.schedule, None, now_ms))
    return cron


async def due_ms(context: AppContext, cron: Cron) -> int:
    next_ms = await crons.next_ms(context.storage, cron)
    assert next_ms is not None
    return next_ms


async def new_thread(context: AppContext) -> str:
    thread = new_id()
    await threads.create(context.storage, NewThread(thread, "local"))
    return thread


async def test_a_cron_is_created_searched_updated_and_deleted(client: LangGraphClient) -> None:
    created: Any = await client.crons.create(
        "counter", schedule=HOURLY, input={"x": 1}, metadata={"team": "a"}, webhook="https://a.example/"
    )
    cron = created["cron_id"]
    assert (created["schedule"], created["thread_id"], created["enabled"]) == (HOURLY, None, True)
    assert created["payload"]["input"] == {"x": 1}
    due = datetime.fromisoformat(created["next_run_date"])
    assert (due.minute, due.second) == (0, 0)
    assert timedelta() < due - datetime.now(UTC) <= timedelta(hours=1)
    assert [entry["cron_id"] for entry in await client.crons.search(metadata={"team": "a"})] == [cron]
    assert await client.crons.search(metadata={"team": "b"}) == []
    assert await client.crons.count(assistant_id=created["assistant_id"], metadata={"team": "a"}) == 1
    changed: Any = await client.crons.update(cron, schedule="*/5 * * * *", enabled=False, input={"x": 2})
    assert (changed["schedule"], changed["next_run_date"]) == ("*/5 * * * *", None)
    assert changed["payload"]["input"] == {"x": 2}
    assert changed["payload"]["webhook"] == "https://a.example/"
    enabled: Any = await client.crons.update(cron, enabled=True, end_time=datetime(2100, 1, 1, tzinfo=UTC))
    assert enabled["next_run_date"] is not None
    assert enabled["end_time"] == "2100-01-01T00:00:00.000000+00:00"
    with pytest.raises(UnprocessableEntityError, match="has passed"):
        await client.crons.update(cron, end_time=datetime(2020, 1, 1, tzinfo=UTC))
    assert (await client.crons.update(cron, end_time=None))["end_time"] is None
    await client.crons.delete(cron)
    with pytest.raises(NotFoundError):
        await client.crons.delete(cron)


async def test_crons_are_listed_in_pages(client: LangGraphClient) -> None:
    mark = new_id()
    for _ in range(3):
        await client.crons.create("counter", schedule=HOURLY, input={"x": 1}, metadata={"mark": mark})
    first = await client.crons.search(metadata={"mark": mark}, limit=2, sort_by="cron_id", sort_order="asc")
    rest = await client.crons.search(
        metadata={"mark": mark}, limit=2, offset=2, sort_by="cron_id", sort_order="asc"
    )
    ids = [entry["cron_id"] for entry in (*first, *rest)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "often"},
        {"schedule": "99 * * * *"},
        {"schedule": "* * * * * *"},
        {"schedule": "*/4 * * * *"},
        {"schedule": "0,58 * * * *"},
        {"schedule": HOURLY, "timezone": "Mars/Olympus"},
        {"schedule": HOURLY, "webhook": "file:///etc/passwd"},
        {"schedule": HOURLY, "end_time": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
async def test_an_invalid_cron_is_refused(client: LangGraphClient, options: Any) -> None:
    with pytest.raises(UnprocessableEntityError):
        await client.crons.create("counter", input={"x": 1}, **options)
    with pytest.raises(UnprocessableEntityError):
        await client.crons.create("nobody", schedule=HOURLY)


async def test_a_webhook_at_a_private_address_is_refused_with_the_setting_that_allows_it(
    client: LangGraphClient,
) -> None:
    cron: Any = await client.crons.create("counter", schedule=HOURLY, input={"x": 1})
    thread = await create_thread(client)
    run: Any = {"assistant_id": "counter", "input": {"x": 1}}
    for webhook in ("http://127.0.0.1:9595/hook", "https://[::1]/", "http://localhost/", "http://10.0.0.1/"):
        for create in (
            lambda hook=webhook: client.runs.create(thread, "counter", input={"x": 1}, webhook=hook),
            lambda hook=webhook: client.runs.create(None, "counter", input={"x": 1}, webhook=hook),
            lambda hook=webhook: client.runs.create_batch([run | {"webhook": hook}]),
            lambda hook=webhook: client.crons.create("counter", schedule=HOURLY, webhook=hook),
            lambda hook=webhook: client.crons.update(cron["cron_id"], webhook=hook),
        ):
            with pytest.raises(UnprocessableEntityError, match="public internet alone") as refusal:
                await create()
            assert "CALLSHEET_WEBHOOK_PRIVATE" in refusal.value.response.text
    assert await client.runs.list(thread) == []


async def test_the_number_of_crons_per_owner_and_their_interval_are_limited(valkey_url: str) -> None:
    with running_server(valkey_url, crons_per_owner=2, cron_interval_s=600) as url:
        async with get_client(url=url) as client:
            with pytest.raises(UnprocessableEntityError, match=r"shortest is 600. Choose a longer"):
                await client.crons.create("counter", schedule="0,1 9 * * 1")
            created: Any = [await client.crons.create("counter", schedule="*/10 * * * *") for _ in range(2)]
            with pytest.raises(
                UnprocessableEntityError,
                match=r"has 2 crons, and no more are allowed. Raise CALLSHEET_CRONS_PER_OWNER",
            ):
                await client.crons.create("counter", schedule=HOURLY)
            with pytest.raises(UnprocessableEntityError, match="shortest is 600"):
                await client.crons.update(created[0]["cron_id"], schedule="*/5 * * * *")
            await client.crons.delete(created[0]["cron_id"])
            await client.crons.create("counter", schedule=HOURLY)


async def test_a_cron_on_a_missing_thread_is_refused(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    created: Any = await client.crons.create_for_thread(thread, "counter", schedule=HOURLY, input={"x": 1})
    assert created["thread_id"] == thread
    assert await client.crons.count(thread_id=thread) == 1
    with pytest.raises(NotFoundError):
        await client.crons.create_for_thread(new_id(), "counter", schedule=HOURLY)


async def test_a_due_time_starts_one_run_with_five_processes_firing(context: AppContext) -> None:
    thread = await new_thread(context)
    cron = await create_cron(context, thread)
    now_ms = await due_ms(context, cron)
    assert await fire_due(context, now_ms - 1) == 0
    assert sum(await asyncio.gather(*(fire_due(context, now_ms) for _ in range(5)))) == 1
    assert len(await context.worker.runs.list_runs(thread)) == 1
    assert await due_ms(context, cron) == now_ms + HOUR_MS
    assert await fire_due(context, now_ms + HOUR_MS) == 1
    assert len(await context.worker.runs.list_runs(thread)) == 2
    await wait_for_success(context, thread)


async def test_many_crons_that_are_due_at_once_fire_side_by_side_each_in_one_process(
    context: AppContext,
) -> None:
    """More than one batch: the next is claimed as soon as a batch has started, not a second later."""
    created = await asyncio.gather(*(create_cron(context) for _ in range(120)))
    now_ms = max([await due_ms(context, cron) for cron in created])
    counts = await asyncio.gather(*(fire_due(context, now_ms) for _ in range(3)))
    assert sum(counts) == len(created)
    due = await asyncio.gather(*(due_ms(context, cron) for cron in created))
    assert set(due) == {now_ms + HOUR_MS}


async def test_a_claim_of_a_process_that_died_ends(context: AppContext) -> None:
    cron = await create_cron(context)
    now_ms = await due_ms(context, cron)
    assert [due.id for due in (await crons.claim_due(context.storage, 10, now_ms))[1]] == [cron.id]
    assert (await crons.claim_due(context.storage, 10, now_ms))[1] == []
    [(member, ends_ms)] = await context.storage.redis.zrange(keys.CRONS_CLAIMED, 0, -1, withscores=True)
    assert 0 < ends_ms - time.time() * 1000 <= 31_000
    await context.storage.redis.zadd(keys.CRONS_CLAIMED, {member: 1})
    assert await fire_due(context, now_ms) == 1


async def wait_for_success(context: AppContext, thread: str) -> None:
    async def all_succeeded() -> bool:
        runs = await context.worker.runs.list_runs(thread)
        return bool(runs) and all(run.status == "success" for run in runs)

    await eventually(all_succeeded, "the runs have ended")


async def test_a_cron_that_cannot_run_does_not_delay_another(
    context: AppContext, caplog: pytest.LogCaptureFixture
) -> None:
    thread = await new_thread(context)
    broken = await create_cron(context, thread, payload={"stream_mode": "a mode of another version"})
    cron = await create_cron(context, thread)
    now_ms = max([await due_ms(context, each) for each in (broken, cron)])
    assert await fire_due(context, now_ms) == 2
    assert f"cron {broken.id} created no run" in caplog.text
    assert len(await context.worker.runs.list_runs(thread)) == 1
    await wait_for_success(context, thread)


async def test_a_crash_between_creating_the_run_and_rescheduling_starts_no_second_run(
    context: AppContext,
) -> None:
    thread = await new_thread(context)
    cron = await create_cron(context, thread)
    now_ms = await due_ms(context, cron)
    await fire_due(context, now_ms)
    await wait_for_success(context, thread)
    await crons.create(context.storage, cron, now_ms)
    assert await fire_due(context, now_ms) == 1
    assert len(await context.worker.runs.list_runs(thread)) == 1


async def test_missed_due_times_start_one_run(context: AppContext) -> None:
    thread = await new_thread(context)
    cron = await create_cron(context, thread)
    late_ms = await due_ms(context, cron) + 10 * HOUR_MS + 60_000
    assert await fire_due(context, late_ms) == 1
    assert await fire_due(context, late_ms) == 0
    assert await due_ms(context, cron) == late_ms - 60_000 + HOUR_MS
    await wait_for_success(context, thread)


async def test_a_cron_is_not_due_after_its_end_time(context: AppContext) -> None:
    first_ms = next_due_ms(HOURLY, None, int(time.time() * 1000))
    assert first_ms is not None
    thread = await new_thread(context)
    cron = await create_cron(context, thread, end_ms=first_ms + 1)
    assert await fire_due(context, first_ms) == 1
    assert await crons.next_ms(context.storage, cron) is None
    await wait_for_success(context, thread)


async def test_a_cron_without_a_thread_starts_a_run_on_a_new_thread(context: AppContext) -> None:
    cron = await create_cron(context, on_run_completed="keep", metadata={"from": "cron"})
    assert await fire_due(context, await due_ms(context, cron)) == 1
    [record] = await threads.list_newest(context.storage, "local", 0, 10)
    await wait_for_success(context, record.id)
    [run] = await context.worker.runs.list_runs(record.id)
    assert run.metadata["from"] == "cron"


async def test_the_thread_of_a_cron_stays_while_its_run_asks_a_person_and_once_one_has_answered(
    context: AppContext,
) -> None:
    plain = await create_cron(context)
    await create_cron(context, assistant="agent", payload={"input": {"messages": []}})
    now_ms = await due_ms(context, plain)
    assert await fire_due(context, now_ms) == 2
    records = {one.graph: one for one in await threads.list_newest(context.storage, "local", 0, 10)}

    async def is_waiting() -> bool:
        waiting = await questions.list_waiting(context.storage, "local", None, 10)
        return waiting.ids == (records["agent"].id,)

    async def ended_long_ago(graph: str) -> None:
        [*_, run] = await context.worker.runs.list_runs(records[graph].id)
        key = keys.run(records[graph].id, run.id)
        await context.storage.redis.hset(key, "updatedMs", now_ms - 10 * HOUR_MS)
        await context.worker.finalizer.finalize(records[graph].id, run.id)

    await wait_for_success(context, records["counter"].id)
    await eventually(is_waiting, "the question is listed")
    await ended_long_ago("counter")
    await ended_long_ago("agent")
    with pytest.raises(Missing):
        await threads.get(context.storage, records["counter"].id, "local")
    kept = await threads.get(context.storage, records["agent"].id, "local")
    assert kept.status == "interrupted"
    resume = {"assistant_id": "agent", "command": {"resume": {"type": "ignore"}}}
    await start_run(context, "local", kept.id, RunCreate.model_validate(resume))
    await wait_for_success(context, kept.id)
    await ended_long_ago("agent")
    assert (await threads.get(context.storage, kept.id, "local")).status == "idle"


async def test_the_thread_of_a_cron_that_is_being_exported_is_deleted_afterwards(context: AppContext) -> None:
    cron = await create_cron(context)
    now_ms = await due_ms(context, cron)
    await fire_due(context, now_ms)
    [thread] = await threads.list_newest(context.storage, "local", 0, 10)
    await wait_for_success(context, thread.id)
    [run] = await context.worker.runs.list_runs(thread.id)
    await context.storage.redis.hset(keys.run(thread.id, run.id), "updatedMs", now_ms - 10 * HOUR_MS)
    async with threads.hold(context.storage, thread.id, "local"):
        await context.worker.finalizer.finalize(thread.id, run.id)
    assert [check async for check in context.storage.redis.zscan_iter(keys.open_runs())]
    await context.worker.finalizer.finalize(thread.id, run.id)
    assert await threads.find(context.storage, thread.id, "local") is None


@pytest.mark.parametrize("on_run_completed", ["delete", "keep"])
async def test_a_run_of_a_cron_that_is_rolled_back_leaves_its_thread_only_where_threads_are_kept(
    context: AppContext, on_run_completed: str
) -> None:
    payload = {"input": {"x": 1_000}}
    cron = await create_cron(context, assistant="slow", payload=payload, on_run_completed=on_run_completed)
    await fire_due(context, await due_ms(context, cron))
    [thread] = await threads.list_newest(context.storage, "local", 0, 10)
    [run] = await context.worker.runs.list_runs(thread.id)
    await end_run(context, run, "rollback")

    async def is_checked() -> bool:
        return not [check async for check in context.storage.redis.zscan_iter(keys.open_runs())]

    await eventually(is_checked, "nothing is left to do after the run")
    left = await threads.find(context.storage, thread.id, "local")
    assert (left is not None) == (on_run_completed == "keep")


async def test_a_cron_whose_thread_is_missing_waits_for_its_next_time(
    context: AppContext, caplog: pytest.LogCaptureFixture
) -> None:
    cron = await create_cron(context, new_id())
    now_ms = await due_ms(context, cron)
    assert await fire_due(context, now_ms) == 1
    assert f"cron {cron.id} created no run" in caplog.text
    assert await due_ms(context, cron) == now_ms + HOUR_MS


async def test_a_deleted_cron_starts_no_run(context: AppContext) -> None:
    cron = await create_cron(context)
    now_ms = await due_ms(context, cron)
    await crons.delete(context.storage, cron)
    await crons.reschedule(context.storage, Due("local", cron.id, now_ms), now_ms)
    assert await fire_due(context, now_ms) == 0


def test_the_hours_of_a_schedule_are_in_its_timezone() -> None:
    noon_utc = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)
    in_utc = next_due_ms("0 15 * * *", None, noon_utc)
    in_paris = next_due_ms("0 15 * * *", "Europe/Paris", noon_utc)
    assert in_utc is not None
    assert in_paris is not None
    assert (in_utc - noon_utc, in_paris - noon_utc) == (3 * HOUR_MS, HOUR_MS)


def test_a_schedule_without_any_due_date_is_refused() -> None:
    with pytest.raises(Invalid):
        next_due_ms("0 0 30 2 *", "UTC", 0)
