"""Following a run in the process that carries it out, without asking Redis; and telling beside the work."""

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

BEGUN = Event("0-1", "r", events.ATTEMPT_STARTED, b'{"run_id":"r","attempt":1}')


def wanted(run: str = "r") -> RunRequest:
    return RunRequest("t", run, "counter", "local", request_fields(input={"x": 1}))


async def claimed(runs: Runs) -> RunAttempt:
    made = await runs.create(wanted(), claim=True)
    assert made.attempt
    return made.attempt


async def told(storage: Storage) -> list[str]:
    """The names of the thread's events, but for the first: that an attempt has begun."""
    begun, *rest = await events.read_after(storage, "t", events.START_ID)
    assert begun.name == events.ATTEMPT_STARTED
    return [event.name for event in rest]


async def followed(transcript: LocalEventBuffer, after: str = events.START_ID) -> list[str]:
    return [event.name async for event in transcript.follow(after, 5.0) if event]


async def test_a_follower_gets_what_was_told_before_and_what_is_told_then_in_order() -> None:
    transcript = LocalEventBuffer(BEGUN)
    transcript.add(["1-0", "1-1"], [("a", b"1"), ("b", b"2")])
    late, later = (asyncio.create_task(followed(transcript, after)) for after in ("0-0", "1-0"))
    await asyncio.sleep(0)
    transcript.add(["10-0", "10-1"], [("c", b"3"), (END, b"success")])
    assert await late == [events.ATTEMPT_STARTED, "a", "b", "c", END]
    assert await later == ["b", "c", END]
    assert transcript.over


async def test_a_follower_is_told_of_a_silence() -> None:
    transcript = LocalEventBuffer(BEGUN)
    assert await anext(transcript.follow(BEGUN.id, 0.01)) is None


async def test_a_run_that_tells_too_much_for_memory_is_read_on_in_storage(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed(runs)
    hub = EventBus(storage, Announcements(storage), 5.0)
    transcript = hub.buffers.begin(attempt.started_event)
    teller = EventPublisher(runs, attempt, transcript)
    for name in ("first", "huge", "left out"):
        await teller.publish([(name, b"1" * (5_000_000 if name == "huge" else 1))])
        await teller.flush()
    _, ids = await runs.finish(attempt, RunOutcome("success"))
    transcript.add(ids, RunOutcome("success").events)
    assert transcript.closed
    assert not transcript.over
    names = [event.name async for event in hub.follow_run("t", "r", events.START_ID) if event]
    assert names == [events.ATTEMPT_STARTED, "first", "huge", "left out", END]


@pytest.mark.parametrize(("heartbeat_s", "expected"), [(1e-9, [None, None, "step"]), (60.0, ["step"])])
async def test_events_that_tell_a_reader_nothing_are_a_silence(
    storage: Storage, heartbeat_s: float, expected: list[str | None]
) -> None:
    async def source() -> AsyncGenerator[Event | None, None]:
        for number, name in enumerate(("chunk", "chunk", "step")):
            yield Event(f"1-{number}", "r", name, b"{}")

    async def steps(event: Event) -> list[str]:
        return [event.name] if event.name == "step" else []

    bus = EventBus(storage, Announcements(storage), heartbeat_s)
    assert [frame async for frame in bus.translate(source(), steps)] == expected


async def test_a_run_that_failed_and_goes_on_is_not_taken_for_ended(storage: Storage) -> None:
    hub = EventBus(storage, Announcements(storage), 5.0)
    hub.buffers.begin(BEGUN).add(["5-1"], [(END, b"error")])
    assert hub.buffers.find("r")
    assert hub.buffers.find("r", "5-0")
    assert hub.buffers.find("r", "5-1") is None


async def test_a_run_is_created_and_claimed_in_one_step(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed(runs)
    assert (attempt.run, attempt.number) == ("r", 1)
    assert (await runs.get("t", "r")).status == "running"
    assert await runs.execution_state("t", "r") == "held"
    second = await runs.create(wanted("q"), claim=True)
    assert (second.verdict, second.attempt) == ("queued", None)


async def test_what_is_recorded_is_what_the_one_who_claimed_it_at_once_goes_by(storage: Storage) -> None:
    runs, asked = (
        Runs(storage),
        RunRequest("t", "r", "counter", "ana", request_fields(input={"x": (1, 2)}), metadata={"a": 1}),
    )
    await runs.create(asked, claim=True)
    recorded, held = await runs.get("t", "r"), asked.to_run()
    assert abs(held.created_ms - recorded.created_ms) < 5_000
    times = {"created_ms": 0, "updated_ms": 0}
    assert {**vars(held), **times} == {**vars(recorded), **times}


async def test_events_that_are_sent_twice_because_the_answer_was_lost_are_told_once(storage: Storage) -> None:
    """What a caller reads has no event twice, also where storage went away in between."""
    runs = Runs(storage)
    attempt = await claimed(runs)
    await runs.emit(attempt, 1, [("a", b"1", "")])
    ids, _ = await runs.emit(attempt, 2, [("b", b"2", ""), ("c", b"3", "")])
    assert await runs.emit(attempt, 2, [("b", b"2", ""), ("c", b"3", "")]) == (ids, [])
    begun, *rest = await events.read_after(storage, "t", events.START_ID)
    assert begun == attempt.started_event
    assert [event.name for event in rest] == ["a", "b", "c"]
    assert [event.id for event in rest[1:]] == ids


async def test_who_lost_the_thread_is_told_so_at_the_next_word(storage: Storage) -> None:
    runs = Runs(storage, 0.05)
    attempt = await claimed(runs)
    teller = EventPublisher(runs, attempt, None)
    await storage.redis.hincrby("thread:{t}:meta", "epoch", 1)
    await teller.publish([("a", b"1")])
    with pytest.raises(Fenced):
        await teller.flush()
    with pytest.raises(Fenced):
        await teller.publish([("b", b"2")])
    await teller.discard()
    assert await told(storage) == []


async def test_what_is_not_told_yet_when_a_run_ends_is_told_with_its_end(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed(runs)
    transcript = LocalEventBuffer(attempt.started_event)
    teller = EventPublisher(runs, attempt, transcript)
    await teller.publish([("a", b"1")])
    assert await teller.drain() == [("a", b"1")]
    await teller.publish([("b", b"2")])
    await teller.flush()
    assert transcript.last["b"] == Event(transcript.last["b"].id, "r", "b", b"2")


async def test_what_nobody_here_follows_leaves_together_or_with_the_end(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed(runs)
    teller = EventPublisher(runs, attempt, None, batch_delay_s=60)
    for name in "abc":
        await teller.publish([(name, b"1")])
        await asyncio.sleep(0)
    assert [name for name, _ in await teller.drain()] == ["a", "b", "c"]
    assert await told(storage) == []


async def test_what_a_step_told_is_in_storage_no_later_than_its_checkpoint(storage: Storage) -> None:
    """A step that is stored is not done again, so nobody would tell of it once more."""
    runs = Runs(storage)
    attempt = await claimed(runs)
    teller = EventPublisher(runs, attempt, None, batch_delay_s=60)
    saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
    STEP_STORE.set(teller)
    config: RunnableConfig = {
        "configurable": {"thread_id": "t", "checkpoint_ns": "", EPOCH_KEY: attempt.epoch}
    }
    for number, name in enumerate("abc", 1):
        await teller.publish([(name, b"1")])
        await saver.aput(config, empty_checkpoint(), {}, {})
        assert await told(storage) == [*"abc"[:number]]
    await saver.aclose()


async def test_what_is_told_while_earlier_words_are_on_their_way_leaves_before_the_checkpoint_too(
    storage: Storage,
) -> None:
    runs = Runs(storage)
    attempt = await claimed(runs)
    teller = EventPublisher(runs, attempt, None, batch_delay_s=60)
    saver = RedisSaver(storage.redis, fence=EPOCH_KEY)
    STEP_STORE.set(teller)
    config: RunnableConfig = {
        "configurable": {"thread_id": "t", "checkpoint_ns": "", EPOCH_KEY: attempt.epoch}
    }
    await teller.publish([("a", b"1")])
    sending = asyncio.create_task(teller.flush())
    await asyncio.sleep(0)
    for name in "bc":
        await teller.publish([(name, b"1")])
        await asyncio.sleep(0)
    await saver.aput(config, empty_checkpoint(), {}, {})
    assert await told(storage) == ["a", "b", "c"]
    await sending
    await saver.aclose()


async def test_what_nobody_here_follows_leaves_in_a_moment(storage: Storage) -> None:
    runs = Runs(storage)
    teller = EventPublisher(runs, await claimed(runs), None, batch_delay_s=0.001)
    for number, name in enumerate("abc", 1):
        await teller.publish([(name, b"1")])
        await until_told(storage, number)


async def test_what_somebody_here_follows_leaves_at_once(storage: Storage) -> None:
    runs, announcements = Runs(storage), Announcements(storage)
    hub, attempt = EventBus(storage, announcements, 5.0), await claimed(runs)
    transcript = hub.buffers.begin(attempt.started_event)
    teller = EventPublisher(
        runs, attempt, transcript, lambda: hub.has_local_follower("t", transcript), batch_delay_s=60
    )
    following = asyncio.create_task(followed(transcript, attempt.started_event.id))
    await asyncio.sleep(0)
    for number, name in enumerate("abc", 1):
        await teller.publish([(name, b"1")])
        await until_told(storage, number)
    assert await teller.drain() == []
    transcript.close()
    assert await following == ["a", "b", "c"]
    assert not hub.has_local_follower("t", transcript)
    async with announcements.subscribe("t"):
        assert hub.has_local_follower("t", transcript)
    async with announcements.subscribe("t", "cancel"):
        assert not hub.has_local_follower("t", transcript)


async def until_told(storage: Storage, many: int) -> None:
    async with asyncio.timeout(5):
        while len(await told(storage)) < many:
            pass


async def test_who_tells_more_than_storage_takes_waits(storage: Storage) -> None:
    runs = Runs(storage)
    teller = EventPublisher(runs, await claimed(runs), None)
    for number in range(300):
        await teller.publish([(f"e{number}", b"1")])
    await teller.flush()
    assert len(await told(storage)) == 300


async def test_the_events_of_a_run_are_freed_without_a_garbage_collection(storage: Storage) -> None:
    runs = Runs(storage)
    attempt = await claimed(runs)

    async def publish() -> "weakref.ref[EventPublisher]":
        publisher = EventPublisher(runs, attempt, LocalEventBuffer(BEGUN))
        STEP_STORE.set(publisher)
        await publisher.publish([("custom", b"1")])
        await publisher.flush()
        await publisher.discard()
        return weakref.ref(publisher)

    gc.disable()
    try:
        published = [await asyncio.create_task(publish()) for _ in range(5)]
        await asyncio.sleep(0.01)
        # A connection that was opened for one of them keeps its context.
        assert len([one for one in published if one()]) <= 1
    finally:
        gc.enable()


async def test_the_buffer_of_a_large_run_is_dropped_when_it_ends() -> None:
    buffers = LocalEventBuffers()
    small, large = buffers.begin(BEGUN), buffers.begin(replace(BEGUN, run="l"))
    small.add(["1-0", "1-1"], [("custom", b"x"), (END, b"success")])
    large.add(["1-0", "1-1"], [("custom", b"x" * 100_000), (END, b"success")])
    for one in (small, large):
        buffers.end(one)
    await asyncio.sleep(0.01)
    assert buffers.last("r")
    assert buffers.last("l") is None
