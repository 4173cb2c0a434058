"""Races between reading a thread, run or cron and changing it (X8)."""

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
from callsheet.server.langgraph.protocol.events import Subscription, ThreadView, follow_thread
from callsheet.server.pages.chat import ConversationView
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
    app_under_test = create_app(Settings(redis_url=valkey_url, heartbeat_s=60), GRAPHS)
    async with app_under_test.router.lifespan_context(app_under_test):
        yield app_under_test


@pytest.fixture
def context(app: FastAPI) -> AppContext:
    app_context: AppContext = app.state.context
    return app_context


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app) as client:
        yield client


async def create_thread(context: AppContext, **chosen: Any) -> str:
    thread = new_id()
    await threads.create(context.storage, NewThread(thread, "local", "counter", **chosen))
    return thread


async def keys_left(context: AppContext, thread: str) -> list[bytes]:
    return [key async for key in context.storage.redis.scan_iter(f"*{keys.hash_tag(thread)}*")]


async def test_a_run_waits_while_its_thread_is_held(http: httpx.AsyncClient, context: AppContext) -> None:
    """A thread is held while its state is updated or it is deleted."""
    thread = await create_thread(context)
    async with threads.hold(context.storage, thread, "local"):
        run = (await http.post(f"/threads/{thread}/runs", json=COUNT)).json()["run_id"]
        assert (await context.worker.runs.get(thread, run)).status == "pending"
    assert (await http.get(f"/threads/{thread}/runs/{run}/join")).json()["x"] == 4


async def test_creating_a_run_is_404_if_the_thread_is_deleted_during_the_request(
    http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, thread = context.worker.submit, await create_thread(context, metadata={"graph_id": "counter"})

    async def delete_then_submit(*arguments: Any) -> Any:
        await http.delete(f"/threads/{thread}")
        return await submit(*arguments)

    monkeypatch.setattr(context.worker, "submit", delete_then_submit)
    reply = await http.post(f"/threads/{thread}/runs", json=COUNT)
    assert reply.status_code == 404, reply.text
    assert await keys_left(context, thread) == []


async def test_a_run_is_refused_while_its_thread_is_deleted_and_leaves_nothing(
    http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, runs = await create_thread(context), context.worker.runs
    delete = threads.delete
    statuses: list[int] = []

    async def create_then_delete(*arguments: Any) -> None:
        statuses.append((await http.post(f"/threads/{thread}/runs", json=COUNT)).status_code)
        await delete(*arguments)

    monkeypatch.setattr(threads, "delete", create_then_delete)
    assert (await http.delete(f"/threads/{thread}")).status_code == 204
    assert statuses == [404]
    assert await keys_left(context, thread) == []

    async def no_checks_left() -> bool:
        return not await runs.redis.exists(keys.open_runs())

    await eventually(no_checks_left, "no check of the runs is scheduled")


async def follow(context: AppContext, thread: str, source: Any) -> "asyncio.Task[list[Any]]":
    """Start a task that collects a stream, and return it once it follows the thread."""
    task = asyncio.create_task(collect(source))

    async def is_following() -> bool:
        return context.worker.events.announcements.has_subscriber(thread)

    await eventually(is_following, "a reader of the thread")
    return task


def thread_stream(context: AppContext, thread: str) -> Any:
    record = threads.Thread(thread, "local", "counter")
    return run_streams.stream_thread(context, record, events.START_ID, {"run_modes", "state_update"})


def protocol_stream(context: AppContext, thread: str) -> Any:
    subscription = Subscription(channels=["lifecycle", "values"])
    return follow_thread(ThreadView(context, thread, "local"), subscription)


def chat_stream(context: AppContext, thread: str) -> Any:
    position = conversation_stream.StreamPosition(events.START_ID)
    view = ConversationView(context.worker, thread)
    return conversation_stream.follow_conversation(
        context, Thread(thread, "local", "counter", ""), position, view
    )


@pytest.mark.parametrize("reader", [thread_stream, protocol_stream, chat_stream])
async def test_a_stream_of_a_thread_ends_when_the_thread_is_deleted(
    reader: Any, http: httpx.AsyncClient, context: AppContext
) -> None:
    thread = await create_thread(context)
    reading = await follow(context, thread, reader(context, thread))
    await http.delete(f"/threads/{thread}")
    assert await reading in ([], [None])


@pytest.mark.parametrize("event", [events.ATTEMPT_STARTED, events.STATE_UPDATED])
@pytest.mark.parametrize("reader", [thread_stream, chat_stream])
async def test_a_stream_does_not_show_the_events_of_a_new_owner_of_the_thread_id(
    reader: Any, event: str, context: AppContext
) -> None:
    thread = await create_thread(context)
    names, redis = keys.run_keys(thread), context.storage.redis
    reading = await follow(context, thread, reader(context, thread))
    await redis.hset(names.thread, "owner", "bob")
    fields: Any = {"run": "r", "event": event, "data": '{"checkpoint_id": "1"}'}
    await redis.xadd(names.events, fields)
    await redis.xadd(names.events, fields | {"event": events.ATTEMPT_STARTED})
    await redis.xadd(names.events, fields | {"event": "custom", "data": '{"secret": 1}'})
    await redis.expire(names.events, 60)
    await redis.publish(names.events, "events")
    assert await reading == []


async def test_readers_of_a_scheduled_run_end_when_its_thread_is_deleted(
    http: httpx.AsyncClient, context: AppContext
) -> None:
    thread = await create_thread(context)
    body = COUNT | {"after_seconds": 3600}
    run = (await http.post(f"/threads/{thread}/runs", json=body)).json()["run_id"]
    reading = await follow(context, thread, context.worker.events.follow_run(thread, run, events.START_ID))
    waiting = asyncio.create_task(http.get(f"/threads/{thread}/runs/{run}/join"))
    await http.delete(f"/threads/{thread}")
    assert [(event.name, event.data) for event in await reading] == [("end", b"interrupted")]
    assert (await waiting).status_code == 200


async def test_a_sweep_keeps_a_thread_whose_ttl_is_extended_during_the_sweep(
    http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X15: a TTL is counted from the last change."""
    extended, expired = [await create_thread(context, ttl={"ttl": 1, "strategy": "delete"}) for _ in range(2)]
    postpone = threads.postpone

    async def postpone_then_extend(storage: Any, record: threads.Thread, until_ms: int) -> None:
        await postpone(storage, record, until_ms)
        if record.id == extended:
            await http.patch(f"/threads/{extended}", json={"ttl": 60})

    monkeypatch.setattr(threads, "postpone", postpone_then_extend)
    assert await retention.sweep(context, int(time.time() * 1000) + 90_000) == 1
    assert [(await http.get(f"/threads/{thread}")).status_code for thread in (extended, expired)] == [
        200,
        404,
    ]


async def test_a_sweep_continues_after_a_thread_whose_import_was_cut(
    http: httpx.AsyncClient, context: AppContext
) -> None:
    cut, remaining = [await create_thread(context, ttl={"ttl": 1, "strategy": "delete"}) for _ in range(2)]
    await context.storage.redis.hset(keys.thread_meta(cut), "import", "a")
    assert await retention.sweep(context, int(time.time() * 1000) + 90_000) == 1
    assert [(await http.get(f"/threads/{thread}")).status_code for thread in (cut, remaining)] == [200, 404]


async def test_a_sweep_continues_after_a_thread_that_another_process_deleted(
    http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted, remaining = [
        await create_thread(context, ttl={"ttl": 1, "strategy": "delete"}) for _ in range(2)
    ]
    postpone = threads.postpone

    async def postpone_then_delete(storage: Any, record: threads.Thread, until_ms: int) -> None:
        await postpone(storage, record, until_ms)
        if record.id == deleted:
            await http.delete(f"/threads/{deleted}")

    monkeypatch.setattr(threads, "postpone", postpone_then_delete)
    assert await retention.sweep(context, int(time.time() * 1000) + 90_000) == 1
    assert (await http.get(f"/threads/{remaining}")).status_code == 404


@pytest.mark.parametrize("route", ["prune", "assistant"])
async def test_deleting_several_threads_continues_after_one_that_another_request_deleted(
    route: str, http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    assistant = (await http.post("/assistants", json={"graph_id": "counter"})).json()["assistant_id"]
    remaining, deleted = [
        await create_thread(context, metadata={"assistant_id": assistant}) for _ in range(2)
    ]
    get_many = threads.get_many

    async def get_then_delete(*arguments: Any) -> list[Any]:
        result = await get_many(*arguments)
        await http.delete(f"/threads/{deleted}")
        return result

    monkeypatch.setattr(threads, "get_many", get_then_delete)
    if route == "prune":
        reply = await http.post("/threads/prune", json={"thread_ids": [deleted, remaining]})
        assert reply.json() == {"pruned_count": 1}
    else:
        await http.delete(f"/assistants/{assistant}", params={"delete_threads": True})
    assert await keys_left(context, remaining) == []


def run_request(fingerprint: str = "") -> RunRequest:
    return RunRequest(
        "t", new_id(), "counter", "local", request_fields(input={"x": 1}), fingerprint=fingerprint
    )


async def finish(runs: Runs, created: Created, status: Any) -> None:
    attempt = await runs.claim("t", created.run)
    assert isinstance(attempt, RunAttempt)
    await runs.finish(attempt, RunOutcome(status))
    await runs.unschedule_check("t", created.run)


async def test_a_create_that_is_repeated_after_a_lost_reply_has_all_events_of_the_ended_run(
    storage: Storage,
) -> None:
    """The Redis call is repeated when its reply was lost."""
    runs, request = Runs(storage), run_request()
    await finish(runs, await runs.create(request), "success")
    repeated = await runs.create(request)
    stored = await events.read_after(storage, "t", repeated.since)
    assert [event.name for event in stored] == [events.ATTEMPT_STARTED, events.END]


@pytest.mark.parametrize("late", [False, True])
async def test_a_failed_run_that_is_continued_is_scheduled_for_checks_again(
    storage: Storage, *, late: bool
) -> None:
    """X8: another process can take it over, even if the failed attempt unschedules the check late."""
    runs, fingerprint = Runs(storage), "f" * 64
    created = await runs.create(run_request(fingerprint))
    await finish(runs, created, "error")
    continued = await runs.create(run_request(fingerprint))
    assert (continued.verdict, continued.run) == ("start", created.run)
    if late:
        await runs.unschedule_check("t", created.run)
        assert isinstance(await runs.claim("t", created.run), RunAttempt)
    scheduled = await runs.redis.zrange(keys.open_runs(), 0, -1)
    assert scheduled == [f"{created.run}\0t".encode()]


@pytest.fixture
async def cron_path(http: httpx.AsyncClient) -> str:
    reply = await http.post("/runs/crons", json=COUNT | {"schedule": "0 * * * *"})
    return f"/runs/crons/{reply.json()['cron_id']}"


def act_after(redis: Any, name: str, action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `action` once, after a method's call and before its result is returned."""
    command = getattr(redis, name)

    async def call_and_act(*arguments: Any, **more: Any) -> Any:
        result = await command(*arguments, **more)
        monkeypatch.setattr(redis, name, command)
        await action()
        return result

    monkeypatch.setattr(redis, name, call_and_act)


def act_before(redis: Any, name: str, action: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `action` once, before a method's call."""
    command = getattr(redis, name)

    async def act_and_call(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(redis, name, command)
        await action()
        return await command(*arguments, **more)

    monkeypatch.setattr(redis, name, act_and_call)


async def test_two_concurrent_changes_of_different_fields_of_a_cron_are_both_kept(
    cron_path: str, http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change() -> None:
        await http.patch(cron_path, json={"metadata": {"a": 1}})

    act_after(context.storage.redis, "hget", change, monkeypatch)
    changed = (await http.patch(cron_path, json={"timezone": "Asia/Tokyo"})).json()
    assert (changed["timezone"], changed["metadata"]) == ("Asia/Tokyo", {"a": 1})


async def test_a_cron_that_is_disabled_during_another_change_is_not_due(
    cron_path: str, http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def change() -> None:
        await http.patch(cron_path, json={"enabled": False})

    act_before(context.storage.redis, "zadd", change, monkeypatch)
    cron = (await http.patch(cron_path, json={"schedule": "30 * * * *"})).json()
    assert cron["next_run_date"] is None


async def test_changing_a_cron_is_404_and_does_not_restore_it_if_it_is_deleted_during_the_request(
    cron_path: str, http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete() -> None:
        assert (await http.delete(cron_path)).status_code == 204

    act_after(context.storage.redis, "hget", delete, monkeypatch)
    assert (await http.patch(cron_path, json={"timezone": "Asia/Tokyo"})).status_code == 404
    assert (await http.post("/runs/crons/count", json={})).json() == 0


async def test_a_copy_of_a_thread_has_the_interrupts_of_the_states_that_it_copied(
    http: httpx.AsyncClient, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run ends with an interrupt after the thread's record was read and before its states are copied."""
    thread = new_id()
    await threads.create(context.storage, NewThread(thread, "local"))

    async def run_until_interrupt() -> None:
        await http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "agent", "input": HELLO})

    await http.patch(f"/threads/{thread}", json={"metadata": {"graph_id": "agent"}})
    act_before(context.saver, "acopy_thread", run_until_interrupt, monkeypatch)
    copy = (await http.post(f"/threads/{thread}/copy")).json()
    original = (await http.get(f"/threads/{thread}")).json()
    assert original["status"] == "interrupted"
    for field in ("status", "interrupts", "values"):
        assert copy[field] == original[field]
