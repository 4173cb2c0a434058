"""Events of a run reach its readers in order, each once, and no later than the checkpoint of their step."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.event_bus import EventBus
from callsheet.server.engine.event_publisher import EventPublisher
from callsheet.state.errors import Fenced
from callsheet.storage import questions
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.checkpoints.context import STEP_STORE
from callsheet.storage.questions import AnswerRecord
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.events import END, Announcements, Event, EventLimits, NewEvent
from callsheet.storage.runs.records import LeaseHeld, RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from tests.doubles.waiting import eventually


def run_request(run: str = "r") -> RunRequest:
    return RunRequest("t", run, "counter", "local", request_fields(input={"x": 1}))


async def claimed_attempt(runs: Runs) -> RunAttempt:
    await runs.create(run_request())
    attempt = await runs.claim("t", "r")
    assert isinstance(attempt, RunAttempt)
    return attempt


async def published_names(storage: Storage) -> list[str]:
    """The names of the thread's events, but for the first: the start of the attempt."""
    started, *rest = await events.read_after(storage, "t", events.START_ID)
    assert started.name == events.ATTEMPT_STARTED
    return [event.name for event in rest]


async def until_published(storage: Storage, count: int) -> None:
    async def enough_stored() -> bool:
        return len(await published_names(storage)) >= count

    await eventually(enough_stored, f"{count} events in Redis")


@asynccontextmanager
async def running_bus(storage: Storage) -> AsyncIterator[EventBus]:
    """A bus that hears announcements."""
    announcements = Announcements(storage)
    await announcements.open()
    listening = asyncio.create_task(announcements.listen())
    try:
        yield EventBus(storage, announcements, 5.0)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await announcements.aclose()


async def test_readers_of_a_run_get_all_events_in_order_whenever_they_come(storage: Storage) -> None:
    """Also one that is as large as many others together, and only what follows the id that a reader has."""
    runs = Runs(storage)
    attempt = await claimed_attempt(runs)
    async with running_bus(storage) as bus:

        async def read(after: str) -> list[tuple[str, int]]:
            stream = bus.follow_run("t", "r", after)
            return [(event.name, len(event.data)) async for event in stream if event]

        early = asyncio.create_task(read(events.START_ID))
        publisher = EventPublisher(runs, attempt)
        for name, size in (("first", 1), ("huge", 5_000_000), ("last", 1)):
            await publisher.publish([(name, b"1" * size)])
            await publisher.flush()
        middle = asyncio.create_task(read(attempt.started_id))
        await runs.finish(attempt, RunOutcome("success"))
        expected = [("first", 1), ("huge", 5_000_000), ("last", 1), (END, 7)]
        assert (await early)[1:] == expected
        assert await middle == expected
        assert (await read(events.START_ID))[1:] == expected


async def test_only_the_attempt_that_ends_its_run_leaves_an_answer_in_words(storage: Storage) -> None:
    runs = Runs(storage, lease_s=60)
    attempt = await claimed_attempt(runs)
    await storage.redis.delete(keys.run_keys("t").lease)
    successor = await runs.claim("t", "r")
    assert isinstance(successor, RunAttempt)
    record = AnswerRecord("q", "Which?", "", "1 and 2", "alice", "", "r", "stage").encode()
    with pytest.raises(Fenced):
        await runs.finish(attempt, RunOutcome("success", answers=[record]))
    assert await questions.answers_of(storage, "t") == []
    await runs.finish(successor, RunOutcome("success", answers=[record]))
    [answer] = await questions.answers_of(storage, "t")
    assert (answer.question, answer.answer) == ("q", "1 and 2")


async def test_an_end_that_a_reader_has_is_not_the_end_of_a_run_that_continues(storage: Storage) -> None:
    """A failed run may be executed again; whoever saw its first end follows to the next one."""
    runs = Runs(storage)
    attempt = await claimed_attempt(runs)
    await runs.finish(attempt, RunOutcome("error"))
    first_end = await events.newest_id(storage, "t")
    await storage.redis.hset("thread:{t}:run:r", "status", "pending")
    await storage.redis.hset("thread:{t}:meta", "active", "r")
    async with running_bus(storage) as bus:

        async def read() -> list[str]:
            return [event.name async for event in bus.follow_run("t", "r", first_end) if event]

        reading = asyncio.create_task(read())
        second = await runs.claim("t", "r")
        assert isinstance(second, RunAttempt)
        await runs.finish(second, RunOutcome("success"))
        assert await reading == [events.ATTEMPT_STARTED, END]


@pytest.mark.parametrize(("heartbeat_s", "expected"), [(1e-9, [None, None, "step"]), (60.0, ["step"])])
async def test_events_without_a_frame_for_the_reader_count_as_silence(
    storage: Storage, heartbeat_s: float, expected: list[str | None]
) -> None:
    async def source() -> AsyncGenerator[Event | None, None]:
        for number, name in enumerate(("chunk", "chunk", "step")):
            yield Event(f"1-{number}", "r", name, b"{}")

    async def steps(event: Event) -> list[str]:
        return [event.name] if event.name == "step" else []

    bus = EventBus(storage, Announcements(storage), heartbeat_s)
    assert [frame async for frame in bus.translate(source(), steps)] == expected


async def test_a_run_is_claimed_by_one_attempt_and_the_next_waits_in_the_queue(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed_attempt(runs)
    assert (attempt.run, attempt.number) == ("r", 1)
    assert (await runs.get("t", "r")).status == "running"
    assert await runs.execution_state("t", "r") == "held"
    assert isinstance(await runs.claim("t", "r"), LeaseHeld)
    assert (await runs.create(run_request("q"))).verdict == "queued"
    assert await runs.claim("t", "q") is None


async def test_the_record_of_a_request_is_what_another_process_reads(storage: Storage) -> None:
    runs = Runs(storage)
    fields = request_fields(input={"x": (1, 2)})
    request = RunRequest("t", "r", "counter", "ana", fields, metadata={"a": 1})
    await runs.create(request)
    await runs.claim("t", "r")
    stored, record = await runs.get("t", "r"), request.to_run()
    assert abs(record.created_ms - stored.created_ms) < 5_000
    changed = {"created_ms": 0, "updated_ms": 0, "attempts": 1}
    assert {**vars(record), **changed} == {**vars(stored), **changed}
    assert stored.attempts == 1


async def test_events_sent_twice_because_the_reply_was_lost_are_stored_once(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed_attempt(runs)
    await runs.emit(attempt, 1, [NewEvent("a", b"1")])
    for _ in range(2):
        assert await runs.emit(attempt, 2, [NewEvent("b", b"2"), NewEvent("c", b"3")]) == []
    assert await published_names(storage) == ["a", "b", "c"]


async def test_an_attempt_that_lost_its_thread_gets_fenced_at_the_next_event(storage: Storage) -> None:
    runs = Runs(storage, 0.05)
    attempt = await claimed_attempt(runs)
    publisher = EventPublisher(runs, attempt)
    await storage.redis.hincrby("thread:{t}:meta", "epoch", 1)
    await publisher.publish([("a", b"1")])
    with pytest.raises(Fenced):
        await publisher.flush()
    with pytest.raises(Fenced):
        await publisher.publish([("b", b"2")])
    await publisher.discard()
    assert await published_names(storage) == []


async def test_the_error_of_a_batch_that_nobody_waits_for_is_not_reported_as_unhandled(
    storage: Storage,
) -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    runs = Runs(storage)
    publisher = EventPublisher(runs, await claimed_attempt(runs), batch_delay_s=0)
    before = asyncio.all_tasks()
    await storage.redis.hincrby("thread:{t}:meta", "epoch", 1)
    await publisher.publish([("a", b"1")])
    # The batch leaves in a task of its own, which fails.
    for _ in range(2):
        await asyncio.sleep(0)
    sending = asyncio.all_tasks() - before
    assert sending
    await asyncio.wait(sending, timeout=10)
    sending.clear()
    del publisher
    gc.collect()
    assert reported == []


async def test_events_without_a_local_reader_leave_together_or_with_the_end(storage: Storage) -> None:
    publisher = EventPublisher(runs := Runs(storage), await claimed_attempt(runs), batch_delay_s=60)
    for name in "abc":
        await publisher.publish([(name, b"1")])
        await asyncio.sleep(0)
    assert [event.name for event in await publisher.drain()] == ["a", "b", "c"]
    assert await published_names(storage) == []


async def test_events_without_a_local_reader_leave_after_the_delay(storage: Storage) -> None:
    runs = Runs(storage)
    publisher = EventPublisher(runs, await claimed_attempt(runs), batch_delay_s=0.001)
    for number, name in enumerate("abc", 1):
        await publisher.publish([(name, b"1")])
        await until_published(storage, number)


async def test_events_with_a_local_reader_leave_at_once(storage: Storage) -> None:
    runs, announcements = Runs(storage), Announcements(storage)
    attempt = await claimed_attempt(runs)
    publisher = EventPublisher(runs, attempt, lambda: announcements.has_subscriber("t"), batch_delay_s=60)
    async with announcements.subscribe("t", "cancel"):
        assert not announcements.has_subscriber("t")
    async with announcements.subscribe("t"):
        for number, name in enumerate("abc", 1):
            await publisher.publish([(name, b"1")])
            await until_published(storage, number)
    assert await publisher.drain() == []
    await announcements.aclose()


async def test_events_of_a_step_are_stored_no_later_than_its_checkpoint(storage: Storage) -> None:
    """A step that is stored is not executed again, so nobody would publish them once more."""
    publisher = EventPublisher(
        runs := Runs(storage), attempt := await claimed_attempt(runs), batch_delay_s=60
    )
    async with checkpoints_of(storage, publisher, attempt) as (saver, config):
        for number, name in enumerate("abc", 1):
            await publisher.publish([(name, b"1")])
            await saver.aput(config, empty_checkpoint(), {}, {})
            assert await published_names(storage) == [*"abc"[:number]]


async def test_events_published_while_others_are_sent_leave_before_the_checkpoint_too(
    storage: Storage,
) -> None:
    publisher = EventPublisher(
        runs := Runs(storage), attempt := await claimed_attempt(runs), batch_delay_s=60
    )
    async with checkpoints_of(storage, publisher, attempt) as (saver, config):
        await publisher.publish([("a", b"1")])
        sending = asyncio.create_task(publisher.flush())
        await asyncio.sleep(0)
        for name in "bc":
            await publisher.publish([(name, b"1")])
            await asyncio.sleep(0)
        await saver.aput(config, empty_checkpoint(), {}, {})
        assert await published_names(storage) == ["a", "b", "c"]
        await sending


@asynccontextmanager
async def checkpoints_of(
    storage: Storage, publisher: EventPublisher, attempt: RunAttempt
) -> AsyncIterator[tuple[RedisSaver, RunnableConfig]]:
    """The saver, which stores steps through the publisher, and the config of the attempt."""
    saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
    STEP_STORE.set(publisher)
    yield saver, {"configurable": {"thread_id": "t", "checkpoint_ns": "", EPOCH_KEY: attempt.epoch}}
    await saver.aclose()


async def test_a_publisher_of_more_events_than_redis_takes_waits(storage: Storage) -> None:
    runs = Runs(storage)
    publisher = EventPublisher(runs, await claimed_attempt(runs))
    for number in range(300):
        await publisher.publish([(f"e{number}", b"1")])
    await publisher.flush()
    assert len(await published_names(storage)) == 300


async def test_the_events_of_a_run_are_freed_without_a_garbage_collection(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed_attempt(runs)

    async def publish() -> "weakref.ref[EventPublisher]":
        publisher = EventPublisher(runs, attempt)
        STEP_STORE.set(publisher)
        await publisher.publish([("custom", b"1")])
        await publisher.flush()
        await publisher.discard()
        return weakref.ref(publisher)

    gc.disable()
    try:
        published = [await asyncio.create_task(publish()) for _ in range(5)]

        async def are_free() -> bool:
            # A connection that was opened for one of them keeps its context.
            return len([one for one in published if one()]) <= 1

        await eventually(are_free, "the freed publishers")
    finally:
        gc.enable()


async def test_the_oldest_events_beyond_the_bytes_of_a_thread_are_removed(storage: Storage) -> None:
    """The newest one stays, however large it is."""
    runs = Runs(storage, event_limits=EventLimits(max_bytes=10_000))
    attempt = await claimed_attempt(runs)
    for batch in range(50):
        await runs.emit(attempt, batch, [NewEvent(f"e{batch}", b"1" * 900)])
    names = await stored_names(storage)
    assert names[-1] == "e49"
    assert 9 <= len(names) <= 12
    await runs.finish(attempt, RunOutcome("success", final_events=[("huge", b"1" * 20_000)]))
    assert await stored_names(storage) == ["huge", END]


async def test_events_beyond_an_age_are_removed_although_the_thread_goes_on(storage: Storage) -> None:
    runs = Runs(storage, event_limits=EventLimits(max_age_s=0.001))
    attempt = await claimed_attempt(runs)
    data = b"1" * 5_000
    await runs.emit(attempt, 1, [NewEvent("old", data)])
    old_ms = events.order_of(await events.newest_id(storage, "t"))[0]

    async def is_later() -> bool:
        seconds, microseconds = await storage.redis.time()
        return bool(seconds * 1000 + microseconds // 1000 > old_ms + 2)

    await eventually(is_later, "the age of the first event")
    await runs.emit(attempt, 2, [NewEvent("new", data)])
    assert await stored_names(storage) == ["new"]


async def stored_names(storage: Storage) -> list[str]:
    return [event.name for event in await events.read_after(storage, "t", events.START_ID)]
