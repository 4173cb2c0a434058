"""Frames of a conversation after an event, without gaps or repetitions."""

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
from callsheet.storage.runs.events import ATTEMPT_STARTED, START_ID
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

HEARTBEAT_S: Final = 15.0
"""Seconds of silence until a heartbeat."""
FROM_START: Final = "0"
"""Last seen event id of a reader who wants all stored events."""
_ALL_FRAMES: Final = 999
"""A frame number behind the last of any event."""
_ID: Final = re.compile(r"(\d{1,20}-\d{1,20})\.(\d{1,3})", re.ASCII)


@dataclass(frozen=True)
class StreamPosition:
    """A reader's position: behind the frame `frame` of the stored event `event`."""

    event: str
    frame: int

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key."""
        ms, _, number = self.event.partition("-")
        return int(ms), int(number), self.frame

    def __str__(self) -> str:
        return f"{self.event}.{self.frame}"


async def position_after(worker: Worker, storage: Storage, thread: str, last: str | None) -> StreamPosition:
    """Return the position behind the event `last`; raise `Invalid` for a malformed event id.

    None stands for the beginning of the running turn, else for the newest event.
    """
    if last == FROM_START:
        return StreamPosition(START_ID, -1)
    if last is None:
        return await _current_position(worker, storage, thread)
    match = _ID.fullmatch(last)
    if match is None:
        raise Invalid(
            f"{last[:40]!r} is not an event id",
            remedy=f"send the eventId of a frame, or {FROM_START!r} for all",
        )
    return StreamPosition(match[1], int(match[2]))


async def _current_position(worker: Worker, storage: Storage, thread: str) -> StreamPosition:
    # Read before the active run, so that a turn that starts in between is included from its beginning.
    newest = await newest_position(storage, thread)
    run = await worker.runs.active(thread)
    if run is None:
        return newest
    before = START_ID
    async for event in _stored_events(storage, thread):
        if event.run == run:
            return StreamPosition(before, _ALL_FRAMES)
        before = event.id
    return StreamPosition(before, _ALL_FRAMES)


async def newest_position(storage: Storage, thread: str) -> StreamPosition:
    """Return the position behind the newest event."""
    return StreamPosition(await events.newest_id(storage, thread), _ALL_FRAMES)


async def _stored_events(
    storage: Storage, thread: str, upto: str | None = None
) -> AsyncGenerator[events.Event, None]:
    cursor = events.EventCursor(storage, thread, START_ID)
    while events_page := await cursor.read_next():
        for event in events_page:
            if upto is not None and _is_later(event.id, upto):
                return
            yield event


def _is_later(event: str, other: str) -> bool:
    return StreamPosition(event, 0).order > StreamPosition(other, 0).order


async def follow_frames(
    worker: Worker, storage: Storage, thread: Thread, since: StreamPosition, heartbeat_s: float = HEARTBEAT_S
) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    """Yield the frames after `since` with their ids until the conversation is deleted.

    Yields None after a silence.
    """
    chat = ConversationView(worker, thread.id)
    # Earlier events are translated again without being sent, because later frames depend on them.
    async for event in _stored_events(storage, thread.id, since.event):
        for number, frame in enumerate(await chat.frames(event)):
            if StreamPosition(event.id, number).order > since.order:
                yield str(StreamPosition(event.id, number)), frame
    async with aclosing(worker.events.follow(thread.id, since.event, heartbeat_s=heartbeat_s)) as source:
        async for update in source:
            # A deleted conversation may have been created again by another owner.
            look = update is None or update.name == ATTEMPT_STARTED
            if look and not await threads.find(storage, thread.id, thread.owner):
                return
            for number, frame in enumerate(await chat.frames(update) if update else ()):
                yield str(StreamPosition(update.id if update else since.event, number)), frame
            if update is None:
                yield None
