"""Frames of a conversation or of one run after a frame, without gaps or repetitions, from any process.

A frame is an event for the clients of a domain. Frames follow from the stored events alone, so all readers
get the same frames with the same ids.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import orjson

from callsheet.server.http.context import AppContext
from callsheet.state.errors import Malformed, Missing
from callsheet.storage.runs import events
from callsheet.storage.runs.events import (
    ATTEMPT_STARTED,
    END,
    GAP,
    PAUSED,
    START_ID,
    Event,
    id_before,
    is_event_id,
    order_of,
)
from callsheet.storage.runs.records import OPEN_STATUSES
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

FROM_START: Final = "0"
"""Last seen event id of a reader who wants all stored events."""
_ALL_FRAMES: Final = 999
"""A frame number behind the last of any event."""
_FRAME: Final = re.compile(r"\d{1,3}", re.ASCII)
_SUCCESS: Final = frozenset({b"success", PAUSED.encode()})


class StreamPosition(NamedTuple):
    """A reader's position: behind the frame `frame` of the stored event `event`."""

    event: str
    frame: int = _ALL_FRAMES
    gap: str | None = None
    """Id of the first stored event, empty for none, if events behind the position are not stored any more."""

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key."""
        return *order_of(self.event), self.frame

    def __str__(self) -> str:
        return f"{self.event}.{self.frame}"


class Frame(NamedTuple):
    """An event for the clients of a domain."""

    position: StreamPosition
    """Its `str` is the id of the frame."""
    name: str
    data: Mapping[str, Any]


class FrameTranslator(Protocol):
    """Translates the stored events of a conversation or run, in order, to frames."""

    async def translate(self, event: Event) -> Sequence[Frame]:
        """Return the frames of an event."""
        ...


Events = AsyncGenerator[Event | None, None]
"""Stored events, and None after each silence of a heartbeat's length."""
Frames = AsyncGenerator[Frame | None, None]
"""Frames, and None after each silence of a heartbeat's length."""


def parse_position(last: str) -> StreamPosition:
    """Return the position behind the frame with the id `last`; raise `Malformed` for a malformed id."""
    event, _, frame = last.partition(".")
    if not is_event_id(event) or not _FRAME.fullmatch(frame):
        raise Malformed(f"{last[:40]!r} is not an event id", remedy="send the id of the last event you got")
    return StreamPosition(event, int(frame))


async def position_after(ctx: AppContext, thread: str, last: str | None) -> StreamPosition:
    """Return the position behind the frame with the id `last`.

    `FROM_START` stands for the beginning, and None for that of the running turn, else for the newest event.
    Raises `Malformed` for no id, and `Missing` for an event that is not stored, since events after it
    may be missing, too.
    """
    if last == FROM_START:
        return StreamPosition(START_ID, gap=await events.first_after_gap(ctx.storage, thread, START_ID))
    if last is not None:
        return await _stored_position(ctx, thread, parse_position(last))
    # Read before the active run, so that a turn that starts in between is included from its beginning.
    newest = await newest_position(ctx, thread)
    active = await ctx.worker.runs.active(thread)
    if active and (start := await start_of_turn(ctx, thread, active)):
        return await position_before_turn(ctx, Turn(thread, active, start, open=True))
    return newest


async def position_before_turn(ctx: AppContext, turn: "Turn") -> StreamPosition:
    """Return the position before a turn's first event; it has a gap if the turn's beginning is not stored."""
    first = next(iter(await events.read_after(ctx.storage, turn.thread, turn.start, limit=1)), None)
    # A turn that has ended had events; an open one may not have begun.
    is_lost = first.name != ATTEMPT_STARTED if first and first.run == turn.run else not turn.open
    return StreamPosition(turn.start, gap=(first.id if first else "") if is_lost else None)


async def _stored_position(ctx: AppContext, thread: str, position: StreamPosition) -> StreamPosition:
    if await events.find(ctx.storage, thread, position.event) is None:
        raise Missing(
            f"event {str(position)!r} is not stored in this conversation, or no longer",
            remedy="read the conversation, then follow it without an id; 0 is the first event that is stored",
        )
    return position


async def newest_position(ctx: AppContext, thread: str) -> StreamPosition:
    """Return the position behind the newest event."""
    return StreamPosition(await events.newest_id(ctx.storage, thread))


async def start_of_turn(ctx: AppContext, thread: str, run: str, upto: str = "") -> str:
    """Return an id before the first event of a run's newest turn; empty without events of it.

    A run that failed and was resumed has several turns, each with an end. Events after the id `upto` do not
    count.
    """
    try:
        record = await ctx.worker.runs.get(thread, run)
    except Missing:
        return ""
    start, last, ended = "", "", True
    first = id_before(f"{record.created_ms}-0")
    async with aclosing(ctx.worker.events.stored_events(thread, run, first)) as stored:
        async for event in stored:
            if event.name == GAP:
                continue
            if upto and order_of(event.id) > order_of(upto):
                break
            start = id_before(event.id) if ended else start
            last, ended = event.id, event.name == END
    # A run that was just resumed may have no event of its new turn yet. Its record is read again, since a run
    # that ended meanwhile is open in the first reading.
    if ended and not upto and await _is_open(ctx, thread, run):
        return last
    return start


async def _is_open(ctx: AppContext, thread: str, run: str) -> bool:
    try:
        return (await ctx.worker.runs.get(thread, run)).status in OPEN_STATUSES
    except Missing:
        return False


async def follow_conversation(
    ctx: AppContext,
    thread: Thread,
    since: StreamPosition,
    translator: FrameTranslator,
    check: Callable[[], Awaitable[object]] | None = None,
) -> Frames:
    """Yield the frames after `since` until the conversation is deleted; None after a silence.

    `check` is called after each silence and when a run starts; what it raises ends the frames.
    """
    # The frames of a turn depend on its earlier events.
    earlier = await events.find(ctx.storage, thread.id, since.event)
    start = await start_of_turn(ctx, thread.id, earlier.run, earlier.id) if earlier else ""

    async def is_readable() -> bool:
        if check:
            await check()
        return await threads.belongs_to(ctx.storage, thread.id, thread.owner)

    source = ctx.worker.events.follow(thread.id, start or since.event, is_readable)
    async with aclosing(_frames(ctx, thread.id, source, since, translator)) as frames:
        async for frame in frames:
            yield frame


@dataclass(frozen=True)
class Turn:
    """A run, or one of its turns if it failed and was resumed."""

    thread: str
    run: str
    start: str
    """Id before its first event."""
    open: bool
    """False if the run had ended when it was looked up."""


async def follow_turn(
    ctx: AppContext, turn: Turn, since: StreamPosition, translator: FrameTranslator
) -> Frames:
    """Yield a turn's frames after `since`, to its end; None after a silence.

    Once the last frame has left, the request counts as answered.
    """
    ends: list[Event] = []
    seen = since
    source = _to_end(ctx, turn, since, ends.append)
    async with aclosing(_frames(ctx, turn.thread, source, since, translator)) as frames:
        async for frame in frames:
            yield frame
            seen = frame.position if frame and frame.name != GAP else seen
    if ends and ends[0].data in _SUCCESS and order_of(seen.event) >= order_of(ends[0].id):
        await ctx.worker.runs.mark_answered(turn.thread, turn.run)


async def _to_end(
    ctx: AppContext, turn: Turn, since: StreamPosition, on_end: Callable[[Event], None]
) -> Events:
    """Yield a turn's stored events, to its end.

    An end that was trimmed is made from the run's record, behind `since`; without a record the conversation
    was deleted, which interrupts the turn.
    """
    bus = ctx.worker.events
    source: Events = (
        bus.follow_run(turn.thread, turn.run, turn.start)
        if turn.open
        else bus.stored_events(turn.thread, turn.run, turn.start)
    )
    async with aclosing(source):
        async for event in source:
            if event and event.name == END:
                on_end(event)
                yield event
                return
            yield event
    try:
        record = await ctx.worker.runs.get(turn.thread, turn.run)
        ended_ms, ending = record.updated_ms, record.status
    except Missing:
        ended_ms, ending = 0, "interrupted"
    ms, counter = order_of(since.event)
    end = Event(f"{ended_ms}-0" if ended_ms > ms else f"{ms}-{counter + 1}", turn.run, END, ending.encode())
    on_end(end)
    yield end


async def _frames(
    ctx: AppContext, thread: str, source: Events, since: StreamPosition, translator: FrameTranslator
) -> Frames:
    """Yield the frames of the events that are after `since`, and `GAP` where events are lost."""

    def gap_frame(first: str | None) -> Frame:
        return Frame(since, GAP, {"type": GAP, "conversationId": thread, "first": first})

    async def translate(event: Event) -> list[Frame]:
        if event.name == GAP:
            return [gap_frame(orjson.loads(event.data)["first"])]
        frames = await translator.translate(event)
        return [frame for frame in frames if frame.position.order > since.order]

    async with aclosing(ctx.worker.events.translate(source, translate)) as frames:
        if since.gap is not None:
            yield gap_frame(since.gap or None)
        async for frame in frames:
            yield frame
