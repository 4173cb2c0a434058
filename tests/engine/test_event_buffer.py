"""Events of a run: the local buffer for followers in the same process, and the publisher that stores them."""

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.event_bus import EventBus, LocalEventBuffer, LocalEventBuffers
from callsheet.server.engine.event_publisher import EventPublisher
from callsheet.state.errors import Fenced
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.checkpoints.context import STEP_STORE
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.events import END, Announcements, Event
from callsheet.storage.runs.records import RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs

ATTEMPT_STARTED = Event("0-1", "r", events.ATTEMPT_STARTED, b'{"run_id":"r","attempt":1}')


def run_request(run: str = "r") -> RunRequest:
    return RunRequest("t", run, "counter", "local", request_fields(input={"x": 1}))


async def create_and_claim(runs: Runs) -> RunAttempt:
    created = await runs.create(run_request(), claim=True)
    assert created.attempt
    return created.attempt


async def event_names(storage: Storage) -> list[str]:
    """Return the names of the thread's events after the first, which is the start of the attempt."""
    started, *rest = await events.read_after(storage, "t", events.START_ID)
    assert started.name == events.ATTEMPT_STARTED
    return [event.name for event in rest]


async def collect_names(buffer: LocalEventBuffer, after: str = events.START_ID) -> list[str]:
    return [event.name async for event in buffer.follow(after, 5.0) if event]


async def test_a_follower_gets_earlier_and_later_events_in_order() -> None:
    buffer = LocalEventBuffer(ATTEMPT_STARTED)
    buffer.add(["1-0", "1-1"], [("a", b"1"), ("b", b"2")])
    late, later = (asyncio.create_task(collect_names(buffer, after)) for after in ("0-0", "1-0"))
    await asyncio.sleep(0)
    buffer.add(["10-0", "10-1"], [("c", b"3"), (END, b"success")])
    assert await late == [events.ATTEMPT_STARTED, "a", "b", "c", END]
    assert await later == ["b", "c", END]
    assert buffer.over


async def test_a_follower_gets_none_when_no_event_comes_in_time() -> None:
    buffer = LocalEventBuffer(ATTEMPT_STARTED)
    assert await anext(buffer.follow(ATTEMPT_STARTED.id, 0.01)) is None


async def test_events_over_the_memory_limit_are_read_from_storage(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await create_and_claim(runs)
    bus = EventBus(storage, Announcements(storage), 5.0)
    buffer = bus.buffers.begin(attempt.started_event)
    publisher = EventPublisher(runs, attempt, buffer)
    for name in ("first", "huge", "left out"):
        await publisher.publish([(name, b"1" * (5_000_000 if name == "huge" else 1))])
        await publisher.flush()
    _, ids = await runs.finish(attempt, RunOutcome("success"))
    buffer.add(ids, RunOutcome("success").events)
    assert buffer.closed
    assert not buffer.over
    names = [event.name async for event in bus.follow_run("t", "r", events.START_ID) if event]
    assert names == [events.ATTEMPT_STARTED, "first", "huge", "left out", END]


@pytest.mark.parametrize(("heartbeat_s", "expected"), [(1e-9, [None, None, "step"]), (60.0, ["step"])])
async def test_events_that_are_filtered_out_count_as_silence_and_give_a_heartbeat(
    storage: Storage, heartbeat_s: float, expected: list[str | None]
) -> None:
    async def source() -> AsyncGenerator[Event | None, None]:
        for number, name in enumerate(("chunk", "chunk", "step")):
            yield Event(f"1-{number}", "r", name, b"{}")

    async def steps(event: Event) -> list[str]:
        return [event.name] if event.name == "step" else []

    bus = EventBus(storage, Announcements(storage), heartbeat_s)
    assert [frame async for frame in bus.translate(source(), steps)] == expected


async def test_the_buffer_of_a_failed_run_is_not_used_after_its_end_event(storage: Storage) -> None:
    bus = EventBus(storage, Announcements(storage), 5.0)
    bus.buffers.begin(ATTEMPT_STARTED).add(["5-1"], [(END, b"error")])
    assert bus.buffers.find("r")
    assert bus.buffers.find("r", "5-0")
    assert bus.buffers.find("r", "5-1") is None


async def test_a_run_is_created_and_claimed_in_one_call(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await create_and_claim(runs)
    assert (attempt.run, attempt.number) == ("r", 1)
    assert (await runs.get("t", "r")).status == "running"
    assert await runs.execution_state("t", "r") == "held"
    second = await runs.create(run_request("q"), claim=True)
    assert (second.verdict, second.attempt) == ("queued", None)


async def test_the_run_built_from_a_request_equals_its_stored_record(storage: Storage) -> None:
    runs, request = (
        Runs(storage),
        RunRequest("t", "r", "counter", "ana", request_fields(input={"x": (1, 2)}), metadata={"a": 1}),
    )
    await runs.create(request, claim=True)
    stored, run = await runs.get("t", "r"), request.to_run()
    assert abs(run.created_ms - stored.created_ms) < 5_000
    times = {"created_ms": 0, "updated_ms": 0}
    assert {**vars(run), **times} == {**vars(stored), **times}


async def test_events_sent_again_after_a_lost_reply_are_stored_once(storage: Storage) -> None:
    """No reader gets an event twice, also when the connection to storage was lost in between."""
    runs = Runs(storage)
    attempt = await create_and_claim(runs)
    await runs.emit(attempt, 1, [("a", b"1", "")])
    ids, _ = await runs.emit(attempt, 2, [("b", b"2", ""), ("c", b"3", "")])
    assert await runs.emit(attempt, 2, [("b", b"2", ""), ("c", b"3", "")]) == (ids, [])
    started, *rest = await events.read_after(storage, "t", events.START_ID)
    assert started == attempt.started_event
    assert [event.name for event in rest] == ["a", "b", "c"]
    assert [event.id for event in rest[1:]] == ids


async def test_a_publisher_that_lost_its_thread_is_fenced_at_the_next_event(storage: Storage) -> None:
    runs = Runs(storage, 0.05)
    attempt = await create_and_claim(runs)
    publisher = EventPublisher(runs, attempt, None)
    await storage.redis.hincrby("thread:{t}:meta", "epoch", 1)
    await publisher.publish([("a", b"1")])
    with pytest.raises(Fenced):
        await publisher.flush()
    with pytest.raises(Fenced):
        await publisher.publish([("b", b"2")])
    await publisher.discard()
    assert await event_names(storage) == []


async def test_draining_returns_the_events_that_are_not_stored_yet(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await create_and_claim(runs)
    buffer = LocalEventBuffer(attempt.started_event)
    publisher = EventPublisher(runs, attempt, buffer)
    await publisher.publish([("a", b"1")])
    assert await publisher.drain() == [("a", b"1")]
    await publisher.publish([("b", b"2")])
    await publisher.flush()
    assert buffer.last["b"] == Event(buffer.last["b"].id, "r", "b", b"2")


async def test_events_without_a_local_follower_are_batched_until_the_end(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await create_and_claim(runs)
    publisher = EventPublisher(runs, attempt, None, batch_delay_s=60)
    for name in "abc":
        await publisher.publish([(name, b"1")])
        await asyncio.sleep(0)
    assert [name for name, _ in await publisher.drain()] == ["a", "b", "c"]
    assert await event_names(storage) == []


async def test_events_of_a_step_are_stored_before_its_checkpoint(storage: Storage) -> None:
    """A step with a checkpoint is not executed again, so its events could not be sent later."""
    runs = Runs(storage)
    attempt = await create_and_claim(runs)
    publisher = EventPublisher(runs, attempt, None, batch_delay_s=60)
    saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
    STEP_STORE.set(publisher)
    config: RunnableConfig = {
        "configurable": {"thread_id": "t", "checkpoint_ns": "", EPOCH_KEY: attempt.epoch}
    }
    for number, name in enumerate("abc", 1):
        await publisher.publish([(name, b"1")])
        await saver.aput(config, empty_checkpoint(), {}, {})
        assert await event_names(storage) == [*"abc"[:number]]
    await saver.aclose()


async def test_events_published_during_a_flush_are_stored_before_the_checkpoint_too(
    storage: Storage,
) -> None:
    runs = Runs(storage)
    attempt = await create_and_claim(runs)
    publisher = EventPublisher(runs, attempt, None, batch_delay_s=60)
    saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
    STEP_STORE.set(publisher)
    config: RunnableConfig = {
        "configurable": {"thread_id": "t", "checkpoint_ns": "", EPOCH_KEY: attempt.epoch}
    }
    await publisher.publish([("a", b"1")])
    sending = asyncio.create_task(publisher.flush())
    await asyncio.sleep(0)
    for name in "bc":
        await publisher.publish([(name, b"1")])
        await asyncio.sleep(0)
    await saver.aput(config, empty_checkpoint(), {}, {})
    assert await event_names(storage) == ["a", "b", "c"]
    await sending
    await saver.aclose()


async def test_events_without_a_local_follower_are_stored_after_the_batch_delay(storage: Storage) -> None:
    runs = Runs(storage)
    publisher = EventPublisher(runs, await create_and_claim(runs), None, batch_delay_s=0.001)
    for number, name in enumerate("abc", 1):
        await publisher.publish([(name, b"1")])
        await wait_for_events(storage, number)


async def test_events_with_a_local_follower_are_stored_at_once(storage: Storage) -> None:
    runs, announcements = Runs(storage), Announcements(storage)
    bus, attempt = EventBus(storage, announcements, 5.0), await create_and_claim(runs)
    buffer = bus.buffers.begin(attempt.started_event)
    publisher = EventPublisher(
        runs, attempt, buffer, lambda: bus.has_local_follower("t", buffer), batch_delay_s=60
    )
    following = asyncio.create_task(collect_names(buffer, attempt.started_event.id))
    await asyncio.sleep(0)
    for number, name in enumerate("abc", 1):
        await publisher.publish([(name, b"1")])
        await wait_for_events(storage, number)
    assert await publisher.drain() == []
    buffer.close()
    assert await following == ["a", "b", "c"]
    assert not bus.has_local_follower("t", buffer)
    async with announcements.subscribe("t"):
        assert bus.has_local_follower("t", buffer)
    async with announcements.subscribe("t", "cancel"):
        assert not bus.has_local_follower("t", buffer)


async def wait_for_events(storage: Storage, count: int) -> None:
    async with asyncio.timeout(5):
        while len(await event_names(storage)) < count:
            pass


async def test_a_publisher_waits_when_more_events_are_published_than_stored(storage: Storage) -> None:
    runs = Runs(storage)
    publisher = EventPublisher(runs, await create_and_claim(runs), None)
    for number in range(300):
        await publisher.publish([(f"e{number}", b"1")])
    await publisher.flush()
    assert len(await event_names(storage)) == 300


async def test_the_events_of_a_run_are_freed_without_a_garbage_collection(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await create_and_claim(runs)

    async def publish() -> "weakref.ref[EventPublisher]":
        publisher = EventPublisher(runs, attempt, LocalEventBuffer(ATTEMPT_STARTED))
        STEP_STORE.set(publisher)
        await publisher.publish([("custom", b"1")])
        await publisher.flush()
        await publisher.discard()
        return weakref.ref(publisher)

    gc.disable()
    try:
        published = [await asyncio.create_task(publish()) for _ in range(5)]
        await asyncio.sleep(0.01)
        # A connection that was opened in one of the tasks keeps that task's context.
        assert len([reference for reference in published if reference()]) <= 1
    finally:
        gc.enable()


async def test_the_buffer_of_a_large_run_is_dropped_when_it_ends() -> None:
    buffers = LocalEventBuffers()
    small, large = buffers.begin(ATTEMPT_STARTED), buffers.begin(replace(ATTEMPT_STARTED, run="l"))
    small.add(["1-0", "1-1"], [("custom", b"x"), (END, b"success")])
    large.add(["1-0", "1-1"], [("custom", b"x" * 100_000), (END, b"success")])
    for buffer in (small, large):
        buffers.end(buffer)
    await asyncio.sleep(0.01)
    assert buffers.last("r")
    assert buffers.last("l") is None
