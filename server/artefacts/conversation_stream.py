"""Frames of a conversation or of one run after a frame, without gaps or repetitions, from any process.

A frame is an event for the clients of a domain. Frames follow from the stored events alone, so all readers
get the same frames with the same ids.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from callsheet.server.context import AppContext
from callsheet.state.errors import Invalid, Missing
from callsheet.storage.runs import events
from callsheet.storage.runs.events import END, PAUSED, START_ID, Event, id_before, is_event_id, order_of
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
    """Return the position behind the frame with the id `last`; raise `Invalid` for a malformed id."""
    event, _, frame = last.partition(".")
    if not is_event_id(event) or not _FRAME.fullmatch(frame):
        raise Invalid(f"{last[:40]!r} is not an event id", remedy="send the id of the last event you got")
    return StreamPosition(event, int(frame))


async def position_after(ctx: AppContext, thread: str, last: str | None) -> StreamPosition:
    """Return the position behind the frame with the id `last`; raise `Invalid` for a malformed id.

    `FROM_START` stands for the beginning, and None for that of the running turn, else for the newest event.
    """
    if last == FROM_START:
        return StreamPosition(START_ID)
    if last is not None:
        return parse_position(last)
    # Read before the active run, so that a turn that starts in between is included from its beginning.
    newest = await newest_position(ctx, thread)
    active = await ctx.worker.runs.active(thread)
    return StreamPosition(await start_of_turn(ctx, thread, active) or newest.event) if active else newest


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
            if upto and order_of(event.id) > order_of(upto):
                break
            start = id_before(event.id) if ended else start
            last, ended = event.id, event.name == END
    # A run that was just resumed may have no event of its new turn yet.
    return last if ended and not upto and record.status in OPEN_STATUSES else start


async def follow_conversation(
    ctx: AppContext, thread: Thread, since: StreamPosition, translator: FrameTranslator
) -> Frames:
    """Yield the frames after `since` until the conversation is deleted; None after a silence."""
    # The frames of a turn depend on its earlier events.
    earlier = await events.find(ctx.storage, thread.id, since.event)
    start = await start_of_turn(ctx, thread.id, earlier.run, earlier.id) if earlier else ""
    is_readable = partial(threads.find, ctx.storage, thread.id, thread.owner)
    source = ctx.worker.events.follow(thread.id, start or since.event, is_readable)
    async with aclosing(_frames(ctx, source, since, translator)) as frames:
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

    Once the reader asks for more than the last frame, it is known to have the reply.
    """
    ends: list[Event] = []
    async with aclosing(_frames(ctx, _to_end(ctx, turn, ends.append), since, translator)) as frames:
        async for frame in frames:
            yield frame
    if ends and ends[0].data in _SUCCESS:
        await ctx.worker.runs.mark_answered(turn.thread, turn.run)


async def _to_end(ctx: AppContext, turn: Turn, on_end: Callable[[Event], None]) -> Events:
    """Yield a turn's stored events, to its end; one that was trimmed is made from the run's record."""
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
    with suppress(Missing):
        record = await ctx.worker.runs.get(turn.thread, turn.run)
        end = Event(f"{record.updated_ms}-0", turn.run, END, record.status.encode())
        on_end(end)
        yield end


def _frames(ctx: AppContext, source: Events, since: StreamPosition, translator: FrameTranslator) -> Frames:
    async def translate(event: Event) -> list[Frame]:
        frames = await translator.translate(event)
        return [frame for frame in frames if frame.position.order > since.order]

    return ctx.worker.events.translate(source, translate)
