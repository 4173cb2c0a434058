"""Schedules through LangGraph's own client, and what they start: each due time once, whoever looks."""

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
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid
from callsheet.storage import crons
from callsheet.storage.crons import Cron, Due
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
    with running_server_on_own_redis(cron_interval_s=300) as found:
        yield found


@pytest.fixture
async def here(valkey_url: str) -> AsyncIterator[AppContext]:
    app = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with app.router.lifespan_context(app):
        yield app.state.context


async def scheduled(here: AppContext, thread: str | None = None, **chosen: Any) -> Cron:
    """A schedule that is due on the hour, and was never fired."""
    now_ms = int(time.time() * 1000)
    said: dict[str, Any] = {"payload": {"input": {"x": 1}}, "schedule": HOURLY, **chosen}
    cron = Cron(new_id(), "local", "counter", created_ms=now_ms, updated_ms=now_ms, thread=thread, **said)
    await crons.create(here.storage, cron, next_due_ms(cron.schedule, None, now_ms))
    return cron


async def due_ms(here: AppContext, cron: Cron) -> int:
    found = await crons.next_ms(here.storage, cron)
    assert found is not None
    return found


async def new_thread(here: AppContext) -> str:
    thread = new_id()
    await threads.create(here.storage, NewThread(thread, "local"))
    return thread


async def test_a_schedule_is_made_shown_found_changed_and_taken_away(client: LangGraphClient) -> None:
    made: Any = await client.crons.create(
        "counter", schedule=HOURLY, input={"x": 1}, metadata={"team": "a"}, webhook="https://a.example/"
    )
    cron = made["cron_id"]
    assert (made["schedule"], made["thread_id"], made["enabled"]) == (HOURLY, None, True)
    assert made["payload"]["input"] == {"x": 1}
    due = datetime.fromisoformat(made["next_run_date"])
    assert (due.minute, due.second) == (0, 0)
    assert timedelta() < due - datetime.now(UTC) <= timedelta(hours=1)
    assert [one["cron_id"] for one in await client.crons.search(metadata={"team": "a"})] == [cron]
    assert await client.crons.search(metadata={"team": "b"}) == []
    assert await client.crons.count(assistant_id=made["assistant_id"], metadata={"team": "a"}) == 1
    changed: Any = await client.crons.update(cron, schedule="*/5 * * * *", enabled=False, input={"x": 2})
    assert (changed["schedule"], changed["next_run_date"]) == ("*/5 * * * *", None)
    assert changed["payload"]["input"] == {"x": 2}
    assert changed["payload"]["webhook"] == "https://a.example/"
    again: Any = await client.crons.update(cron, enabled=True, end_time=datetime(2100, 1, 1, tzinfo=UTC))
    assert again["next_run_date"] is not None
    assert again["end_time"] == "2100-01-01T00:00:00.000000+00:00"
    with pytest.raises(UnprocessableEntityError, match="has passed"):
        await client.crons.update(cron, end_time=datetime(2020, 1, 1, tzinfo=UTC))
    assert (await client.crons.update(cron, end_time=None))["end_time"] is None
    await client.crons.delete(cron)
    with pytest.raises(NotFoundError):
        await client.crons.delete(cron)


async def test_schedules_are_listed_in_pages(client: LangGraphClient) -> None:
    mark = new_id()
    for _ in range(3):
        await client.crons.create("counter", schedule=HOURLY, input={"x": 1}, metadata={"mark": mark})
    first = await client.crons.search(metadata={"mark": mark}, limit=2, sort_by="cron_id", sort_order="asc")
    rest = await client.crons.search(
        metadata={"mark": mark}, limit=2, offset=2, sort_by="cron_id", sort_order="asc"
    )
    ids = [one["cron_id"] for one in (*first, *rest)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    "said",
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
async def test_what_is_no_schedule_is_refused(client: LangGraphClient, said: Any) -> None:
    with pytest.raises(UnprocessableEntityError):
        await client.crons.create("counter", input={"x": 1}, **said)
    with pytest.raises(UnprocessableEntityError):
        await client.crons.create("nobody", schedule=HOURLY)


async def test_an_owner_has_so_many_crons_and_none_is_due_too_often(valkey_url: str) -> None:
    with running_server(valkey_url, crons_per_owner=2, cron_interval_s=600) as url:
        async with get_client(url=url) as client:
            with pytest.raises(UnprocessableEntityError, match=r"shortest is 600; choose a longer"):
                await client.crons.create("counter", schedule="0,1 9 * * 1")
            made: Any = [await client.crons.create("counter", schedule="*/10 * * * *") for _ in range(2)]
            with pytest.raises(
                UnprocessableEntityError,
                match=r"has 2 crons, and no more are allowed; raise CALLSHEET_CRONS_PER_OWNER",
            ):
                await client.crons.create("counter", schedule=HOURLY)
            with pytest.raises(UnprocessableEntityError, match="shortest is 600"):
                await client.crons.update(made[0]["cron_id"], schedule="*/5 * * * *")
            await client.crons.delete(made[0]["cron_id"])
            await client.crons.create("counter", schedule=HOURLY)


async def test_a_schedule_on_a_thread_needs_the_thread(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    made: Any = await client.crons.create_for_thread(thread, "counter", schedule=HOURLY, input={"x": 1})
    assert made["thread_id"] == thread
    assert await client.crons.count(thread_id=thread) == 1
    with pytest.raises(NotFoundError):
        await client.crons.create_for_thread(new_id(), "counter", schedule=HOURLY)


async def test_a_due_time_starts_one_run_whoever_looks(here: AppContext) -> None:
    thread = await new_thread(here)
    cron = await scheduled(here, thread)
    now_ms = await due_ms(here, cron)
    assert await fire_due(here, now_ms - 1) == 0
    assert sum(await asyncio.gather(*(fire_due(here, now_ms) for _ in range(5)))) == 1
    assert len(await here.worker.runs.list_runs(thread)) == 1
    assert await due_ms(here, cron) == now_ms + HOUR_MS
    assert await fire_due(here, now_ms + HOUR_MS) == 1
    assert len(await here.worker.runs.list_runs(thread)) == 2
    await ended(here, thread)


async def ended(here: AppContext, thread: str) -> None:
    async def over() -> bool:
        runs = await here.worker.runs.list_runs(thread)
        return bool(runs) and all(run.status == "success" for run in runs)

    await eventually(over, "the runs have ended")


async def test_a_schedule_that_cannot_run_any_more_keeps_no_other_from_its_time(
    here: AppContext, caplog: pytest.LogCaptureFixture
) -> None:
    thread = await new_thread(here)
    broken = await scheduled(here, thread, payload={"stream_mode": "a mode of another version"})
    cron = await scheduled(here, thread)
    now_ms = max([await due_ms(here, one) for one in (broken, cron)])
    assert await fire_due(here, now_ms) == 2
    assert f"cron {broken.id} created no run" in caplog.text
    assert len(await here.worker.runs.list_runs(thread)) == 1
    await ended(here, thread)


async def test_a_process_that_dies_between_the_run_and_the_schedule_starts_no_second_run(
    here: AppContext,
) -> None:
    thread = await new_thread(here)
    cron = await scheduled(here, thread)
    now_ms = await due_ms(here, cron)
    await fire_due(here, now_ms)
    await ended(here, thread)
    await crons.create(here.storage, cron, now_ms)
    assert await fire_due(here, now_ms) == 1
    assert len(await here.worker.runs.list_runs(thread)) == 1


async def test_what_came_due_while_nobody_was_there_is_started_once(here: AppContext) -> None:
    thread = await new_thread(here)
    cron = await scheduled(here, thread)
    late_ms = await due_ms(here, cron) + 10 * HOUR_MS + 60_000
    assert await fire_due(here, late_ms) == 1
    assert await fire_due(here, late_ms) == 0
    assert await due_ms(here, cron) == late_ms - 60_000 + HOUR_MS
    await ended(here, thread)


async def test_a_schedule_ends_when_it_is_to_end(here: AppContext) -> None:
    first_ms = next_due_ms(HOURLY, None, int(time.time() * 1000))
    assert first_ms is not None
    thread = await new_thread(here)
    cron = await scheduled(here, thread, end_ms=first_ms + 1)
    assert await fire_due(here, first_ms) == 1
    assert await crons.next_ms(here.storage, cron) is None
    await ended(here, thread)


async def test_a_schedule_without_a_thread_starts_a_run_with_one_of_its_own(here: AppContext) -> None:
    cron = await scheduled(here, on_run_completed="keep", metadata={"from": "cron"})
    assert await fire_due(here, await due_ms(here, cron)) == 1
    [record] = await threads.list_newest(here.storage, "local", 0, 10)
    await ended(here, record.id)
    [run] = await here.worker.runs.list_runs(record.id)
    assert run.metadata["from"] == "cron"


async def test_a_schedule_that_can_start_nothing_waits_for_its_next_time(
    here: AppContext, caplog: pytest.LogCaptureFixture
) -> None:
    cron = await scheduled(here, new_id())
    now_ms = await due_ms(here, cron)
    assert await fire_due(here, now_ms) == 1
    assert f"cron {cron.id} created no run" in caplog.text
    assert await due_ms(here, cron) == now_ms + HOUR_MS


async def test_a_schedule_that_was_taken_away_starts_nothing(here: AppContext) -> None:
    cron = await scheduled(here)
    now_ms = await due_ms(here, cron)
    await crons.delete(here.storage, cron)
    await crons.reschedule(here.storage, Due("local", cron.id, now_ms), now_ms)
    assert await fire_due(here, now_ms) == 0


def test_hours_are_those_of_a_place() -> None:
    noon_utc = int(datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp() * 1000)
    in_utc = next_due_ms("0 15 * * *", None, noon_utc)
    in_paris = next_due_ms("0 15 * * *", "Europe/Paris", noon_utc)
    assert in_utc is not None
    assert in_paris is not None
    assert (in_utc - noon_utc, in_paris - noon_utc) == (3 * HOUR_MS, HOUR_MS)


def test_a_day_that_never_comes_is_no_time() -> None:
    with pytest.raises(Invalid):
        next_due_ms("0 0 30 2 *", "UTC", 0)
