"""Following a conversation from an event on, without a gap and without a repetition."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from callsheet.server.pages.chat_events import ConversationView, Frame
from callsheet.server.runtime.worker import Worker
from callsheet.state.errors import Invalid
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.events import BEGINNING, BEGUN
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.threads import Thread

HEARTBEAT_S: Final = 15.0
"""Silence after which a reader is told that the line is open."""
FROM_START: Final = "0"
"""The last seen event of a reader who wants all that is kept."""
_WHOLE: Final = 999
"""More frames than an event has."""
_ID: Final = re.compile(r"(\d{1,20}-\d{1,20})\.(\d{1,3})", re.ASCII)


@dataclass(frozen=True)
class StreamPosition:
    """Where a reader stands: behind the frame `frame` of the stored event `event`."""

    event: str
    frame: int

    @property
    def order(self) -> tuple[int, int, int]:
        """Places in the order of what is told."""
        ms, _, number = self.event.partition("-")
        return int(ms), int(number), self.frame

    def __str__(self) -> str:
        return f"{self.event}.{self.frame}"


async def position_after(worker: Worker, storage: Storage, thread: str, last: str | None) -> StreamPosition:
    """Return where a reader goes on who saw the event `last`; raises `Invalid` for what is no event's id.

    Without one a reader begins with the turn that is going on, else with what comes next.
    """
    if last == FROM_START:
        return StreamPosition(BEGINNING, -1)
    if last is None:
        return await _now(worker, storage, thread)
    match = _ID.fullmatch(last)
    if match is None:
        raise Invalid(
            f"{last[:40]!r} is the id of no event",
            remedy=f"send an eventId you were told, or {FROM_START!r} for all",
        )
    return StreamPosition(match[1], int(match[2]))


async def _now(worker: Worker, storage: Storage, thread: str) -> StreamPosition:
    # A turn that begins after this is told from its beginning, also where it does so before one looks.
    now = await newest_position(storage, thread)
    run = await worker.runs.active(thread)
    if run is None:
        return now
    before = BEGINNING
    async for event in _kept(storage, thread):
        if event.run == run:
            return StreamPosition(before, _WHOLE)
        before = event.id
    return StreamPosition(before, _WHOLE)


async def newest_position(storage: Storage, thread: str) -> StreamPosition:
    """Return where a reader stands who wants what comes next."""
    return StreamPosition(await events.newest_id(storage, thread), _WHOLE)


async def _kept(storage: Storage, thread: str, upto: str | None = None) -> AsyncGenerator[events.Event, None]:
    following = events.EventCursor(storage, thread, BEGINNING)
    while found := await following.read_next():
        for event in found:
            if upto is not None and _later(event.id, upto):
                return
            yield event


def _later(one: str, other: str) -> bool:
    return StreamPosition(one, 0).order > StreamPosition(other, 0).order


async def follow_frames(
    worker: Worker, storage: Storage, thread: Thread, since: StreamPosition, heartbeat_s: float = HEARTBEAT_S
) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    """Yield what the conversation's runs tell after `since`, each with its id, until it is gone.

    None after a silence.
    """
    chat = ConversationView(worker, thread.id)
    # What was told before is gone through once more, unsaid: what comes depends on it.
    async for event in _kept(storage, thread.id, since.event):
        for number, frame in enumerate(await chat.frames(event)):
            if StreamPosition(event.id, number).order > since.order:
                yield str(StreamPosition(event.id, number)), frame
    async with aclosing(worker.events.follow(thread.id, since.event, heartbeat_s=heartbeat_s)) as source:
        async for one in source:
            # A conversation that was taken away may have been begun again, by somebody else.
            look = one is None or one.name == BEGUN
            if look and not await thread_records.find(storage, thread.id, thread.owner):
                return
            for number, frame in enumerate(await chat.frames(one) if one else ()):
                yield str(StreamPosition(one.id if one else since.event, number)), frame
            if one is None:
                yield None
