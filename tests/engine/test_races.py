"""What happens between a look and an act: nothing is lost by it, left behind, or done unasked (X8)."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from callsheet.server.app import create_app
from callsheet.server.artefacts import conversation_stream
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph import retention, run_streams
from callsheet.server.langgraph.protocol.events import Subscription, follow_thread
from callsheet.server.langgraph.protocol.views import ThreadView
from callsheet.server.pages.chat_events import ConversationView
from callsheet.server.settings.settings import Settings
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from callsheet.storage.runs import events
from callsheet.storage.runs.records import Created, RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread, Thread
from tests.doubles.served import app_client
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_served import HELLO, collect, new_id

COUNT: dict[str, Any] = {"assistant_id": "counter", "input": {"x": 1}}


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[FastAPI]:
    made = create_app(Settings(redis_url=valkey_url, heartbeat_s=60), GRAPHS)
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture
def here(app: FastAPI) -> AppContext:
    found: AppContext = app.state.context
    return found


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app) as client:
        yield client


async def threaded(here: AppContext, **chosen: Any) -> str:
    thread = new_id()
    await threads.create(here.storage, NewThread(thread, "local", "counter", **chosen))
    return thread


async def left(here: AppContext, thread: str) -> list[bytes]:
    return [key async for key in here.storage.redis.scan_iter(f"*{keys.hash_tag(thread)}*")]


async def test_a_run_waits_for_whoever_holds_its_thread(http: httpx.AsyncClient, here: AppContext) -> None:
    """Its state is being changed by hand, or it is being taken away."""
    thread = await threaded(here)
    async with threads.hold(here.storage, thread, "local"):
        run = (await http.post(f"/threads/{thread}/runs", json=COUNT)).json()["run_id"]
        assert (await here.worker.runs.get(thread, run)).status == "pending"
    assert (await http.get(f"/threads/{thread}/runs/{run}/join")).json()["x"] == 4


async def test_no_run_is_made_on_a_thread_that_went_while_it_was_looked_at(
    http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, thread = here.worker.submit, await threaded(here, metadata={"graph_id": "counter"})

    async def late(*asked: Any) -> Any:
        await http.delete(f"/threads/{thread}")
        return await start(*asked)

    monkeypatch.setattr(here.worker, "submit", late)
    reply = await http.post(f"/threads/{thread}/runs", json=COUNT)
    assert reply.status_code == 404, reply.text
    assert await left(here, thread) == []


async def test_a_run_that_is_recorded_while_its_thread_goes_goes_with_it(
    http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, runs, redis = await threaded(here), here.worker.runs, here.storage.redis
    remove, listed = threads.delete, redis.zrange
    made: list[str] = []

    async def another() -> None:
        made.append((await http.post(f"/threads/{thread}/runs", json=COUNT)).json()["run_id"])

    async def late(*asked: Any) -> None:
        await another()
        await remove(*asked)

    async def later(name: str, *asked: Any, **more: Any) -> Any:
        found = await listed(name, *asked, **more)
        if name == keys.run_keys(thread).runs and len(made) < 2:
            await another()
        return found

    monkeypatch.setattr(threads, "delete", late)
    monkeypatch.setattr(redis, "zrange", later)
    assert (await http.delete(f"/threads/{thread}")).status_code == 204
    assert await left(here, thread) == []
    for run in made:
        await runs.schedule_check(thread, run, 0)

    async def forgotten() -> bool:
        return not await runs._all_open()

    await eventually(forgotten, "the end of what was begun for them")


async def followed(here: AppContext, thread: str, source: Any) -> "asyncio.Task[list[Any]]":
    """What a reader is told, who follows the thread by now."""
    task = asyncio.create_task(collect(source))

    async def listening() -> bool:
        return here.worker.events.announcements.has_subscriber(thread)

    await eventually(listening, "a reader of the thread")
    return task


def of_thread(here: AppContext, thread: str) -> Any:
    record = threads.Thread(thread, "local", "counter")
    return run_streams.stream_thread(here, record, events.START_ID, {"run_modes", "state_update"})


def of_protocol(here: AppContext, thread: str) -> Any:
    wanted = Subscription(channels=["lifecycle", "values"])
    return follow_thread(ThreadView(here, thread, "local"), wanted)


def of_chat(here: AppContext, thread: str) -> Any:
    place = conversation_stream.StreamPosition(events.START_ID)
    view = ConversationView(here.worker, thread)
    return conversation_stream.follow_conversation(here, Thread(thread, "local", "counter", ""), place, view)


@pytest.mark.parametrize("reader", [of_thread, of_protocol, of_chat])
async def test_a_stream_of_a_thread_ends_when_that_is_taken_away(
    reader: Any, http: httpx.AsyncClient, here: AppContext
) -> None:
    thread = await threaded(here)
    reading = await followed(here, thread, reader(here, thread))
    await http.delete(f"/threads/{thread}")
    assert await reading in ([], [None])


@pytest.mark.parametrize("event", [events.ATTEMPT_STARTED, events.STATE_UPDATED])
@pytest.mark.parametrize("reader", [of_thread, of_chat])
async def test_whoever_gets_the_id_of_a_thread_that_went_is_not_overheard(
    reader: Any, event: str, here: AppContext
) -> None:
    thread = await threaded(here)
    names, redis = keys.run_keys(thread), here.storage.redis
    reading = await followed(here, thread, reader(here, thread))
    await redis.hset(names.thread, "owner", "bob")
    fields: Any = {"run": "r", "event": event, "data": '{"checkpoint_id": "1"}'}
    await redis.xadd(names.events, fields)
    await redis.xadd(names.events, fields | {"event": events.ATTEMPT_STARTED})
    await redis.xadd(names.events, fields | {"event": "custom", "data": '{"secret": 1}'})
    await redis.expire(names.events, 60)
    await redis.publish(names.events, "events")
    assert await reading == []


async def test_a_run_that_goes_with_its_thread_is_waited_for_no_longer(
    http: httpx.AsyncClient, here: AppContext
) -> None:
    thread = await threaded(here)
    later = COUNT | {"after_seconds": 3600}
    run = (await http.post(f"/threads/{thread}/runs", json=later)).json()["run_id"]
    reading = await followed(here, thread, here.worker.events.follow_run(thread, run, events.START_ID))
    waiting = asyncio.create_task(http.get(f"/threads/{thread}/runs/{run}/join"))
    await http.delete(f"/threads/{thread}")
    assert [(one.name, one.data) for one in await reading] == [("end", b"interrupted")]
    assert (await waiting).status_code == 200


async def test_only_what_is_still_over_is_swept_away(
    http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X15: a lifetime is counted from the last change."""
    used, other = [await threaded(here, ttl={"ttl": 1, "strategy": "delete"}) for _ in range(2)]
    postpone = threads.postpone

    async def late(storage: Any, record: threads.Thread, until_ms: int) -> None:
        await postpone(storage, record, until_ms)
        if record.id == used:
            await http.patch(f"/threads/{used}", json={"ttl": 60})

    monkeypatch.setattr(threads, "postpone", late)
    assert await retention.sweep(here, int(time.time() * 1000) + 90_000) == 1
    assert [(await http.get(f"/threads/{one}")).status_code for one in (used, other)] == [200, 404]


async def test_what_another_process_has_swept_away_keeps_nothing_from_going(
    http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, other = [await threaded(here, ttl={"ttl": 1, "strategy": "delete"}) for _ in range(2)]
    postpone = threads.postpone

    async def late(storage: Any, record: threads.Thread, until_ms: int) -> None:
        await postpone(storage, record, until_ms)
        if record.id == gone:
            await http.delete(f"/threads/{gone}")

    monkeypatch.setattr(threads, "postpone", late)
    assert await retention.sweep(here, int(time.time() * 1000) + 90_000) == 1
    assert (await http.get(f"/threads/{other}")).status_code == 404


@pytest.mark.parametrize("way", ["prune", "assistant"])
async def test_a_thread_that_goes_while_others_are_taken_away_keeps_them_from_nothing(
    way: str, http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    assistant = (await http.post("/assistants", json={"graph_id": "counter"})).json()["assistant_id"]
    other, gone = [await threaded(here, metadata={"assistant_id": assistant}) for _ in range(2)]
    many = threads.get_many

    async def late(*asked: Any) -> list[Any]:
        found = await many(*asked)
        await http.delete(f"/threads/{gone}")
        return found

    monkeypatch.setattr(threads, "get_many", late)
    if way == "prune":
        reply = await http.post("/threads/prune", json={"thread_ids": [gone, other]})
        assert reply.json() == {"pruned_count": 1}
    else:
        await http.delete(f"/assistants/{assistant}", params={"delete_threads": True})
    assert await left(here, other) == []


def asked(fingerprint: str = "") -> RunRequest:
    return RunRequest(
        "t", new_id(), "counter", "local", request_fields(input={"x": 1}), fingerprint=fingerprint
    )


async def ended(runs: Runs, made: Created, how: Any) -> None:
    attempt = await runs.claim("t", made.run)
    assert isinstance(attempt, RunAttempt)
    await runs.finish(attempt, RunOutcome(how))
    await runs.unschedule_check("t", made.run)


async def test_a_run_that_ended_before_its_maker_heard_of_it_is_told_whole(storage: Storage) -> None:
    """The call is sent again where its answer was lost."""
    runs, wanted = Runs(storage), asked()
    await ended(runs, await runs.create(wanted), "success")
    again = await runs.create(wanted)
    told = await events.read_after(storage, "t", again.since)
    assert [event.name for event in told] == [events.ATTEMPT_STARTED, events.END]


@pytest.mark.parametrize("late", [False, True])
async def test_a_run_that_failed_and_is_gone_on_with_is_looked_after_again(
    storage: Storage, *, late: bool
) -> None:
    """X8: where its process dies, too, another goes on; `late` is whoever saw it fail, and lets it go."""
    runs, same = Runs(storage), "f" * 64
    made = await runs.create(asked(same))
    await ended(runs, made, "error")
    again = await runs.create(asked(same))
    assert (again.verdict, again.run) == ("start", made.run)
    if late:
        await runs.unschedule_check("t", made.run)
        assert isinstance(await runs.claim("t", made.run), RunAttempt)
    assert await runs._all_open() == [("t", made.run)]


@pytest.fixture
async def scheduled(http: httpx.AsyncClient) -> str:
    reply = await http.post("/runs/crons", json=COUNT | {"schedule": "0 * * * *"})
    return f"/runs/crons/{reply.json()['cron_id']}"


def after(redis: Any, name: str, act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something done once after a command, and before its answer is known."""
    command = getattr(redis, name)

    async def late(*words: Any, **more: Any) -> Any:
        found = await command(*words, **more)
        monkeypatch.setattr(redis, name, command)
        await act()
        return found

    monkeypatch.setattr(redis, name, late)


def before(redis: Any, name: str, act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something done once before a command."""
    command = getattr(redis, name)

    async def late(*words: Any, **more: Any) -> Any:
        monkeypatch.setattr(redis, name, command)
        await act()
        return await command(*words, **more)

    monkeypatch.setattr(redis, name, late)


async def test_two_changes_of_a_schedule_are_both_kept(
    scheduled: str, http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other() -> None:
        await http.patch(scheduled, json={"metadata": {"a": 1}})

    after(here.storage.redis, "hget", other, monkeypatch)
    changed = (await http.patch(scheduled, json={"timezone": "Asia/Tokyo"})).json()
    assert (changed["timezone"], changed["metadata"]) == ("Asia/Tokyo", {"a": 1})


async def test_a_schedule_is_due_as_it_was_changed_last(
    scheduled: str, http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other() -> None:
        await http.patch(scheduled, json={"enabled": False})

    before(here.storage.redis, "zadd", other, monkeypatch)
    shown = (await http.patch(scheduled, json={"schedule": "30 * * * *"})).json()
    assert shown["next_run_date"] is None


async def test_a_schedule_that_was_taken_away_is_not_brought_back_by_a_change(
    scheduled: str, http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other() -> None:
        assert (await http.delete(scheduled)).status_code == 204

    after(here.storage.redis, "hget", other, monkeypatch)
    assert (await http.patch(scheduled, json={"timezone": "Asia/Tokyo"})).status_code == 404
    assert (await http.post("/runs/crons/count", json={})).json() == 0


async def test_a_copy_asks_what_its_states_ask(
    http: httpx.AsyncClient, here: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run ends with a question when the thread was just looked at, and not yet copied."""
    thread = new_id()
    await threads.create(here.storage, NewThread(thread, "local"))

    async def run() -> None:
        await http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "agent", "input": HELLO})

    await http.patch(f"/threads/{thread}", json={"metadata": {"graph_id": "agent"}})
    before(here.saver, "acopy_thread", run, monkeypatch)
    copy = (await http.post(f"/threads/{thread}/copy")).json()
    shown = (await http.get(f"/threads/{thread}")).json()
    assert shown["status"] == "interrupted"
    assert [copy[name] for name in ("status", "interrupts", "values")] == [
        shown[name] for name in ("status", "interrupts", "values")
    ]
