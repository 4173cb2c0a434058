"""Following what runs tell, from any process, without a gap and without a repetition."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from callsheet.server.runtime.event_buffer import LocalEventBuffer, LocalEventBuffers
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs import events
from callsheet.storage.runs.announcements import Announcements, wait_for_signal
from callsheet.storage.runs.events import END, Event
from callsheet.storage.runs.runs import Runs

_LOOK_S: Final = 2.0
"""How long an announcement may be missed before one looks without it."""


class EventBus:
    """The events of all threads."""

    def __init__(self, storage: Storage, announcements: Announcements) -> None:
        self._storage = storage
        self._announcements = announcements
        self._runs = Runs(storage)
        self.transcripts = LocalEventBuffers()
        """Of the runs that this process carries out."""

    async def follow(
        self, thread: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events that follow the id `after`, for ever.

        None after a silence, and when the thread was taken away.
        """
        loop = asyncio.get_running_loop()
        following = events.EventCursor(self._storage, thread, after)
        async with self._announcements.subscribe(thread) as bell:
            said = loop.time()
            while True:
                bell.clear()
                found = await following.read_next()
                for event in found:
                    said = loop.time()
                    yield event
                if found:
                    continue
                if not bell.gone:
                    await wait_for_signal(bell, _patience_s(loop.time() - said, heartbeat_s))
                if bell.gone or (heartbeat_s and loop.time() - said >= heartbeat_s):
                    bell.gone, said = False, loop.time()
                    yield None

    def has_local_follower(self, thread: str, transcript: LocalEventBuffer | None) -> bool:
        """Return whether somebody in this process follows the thread, or the run of this transcript."""
        return bool(transcript and transcript.followers) or self._announcements.has_subscriber(thread)

    async def last_events(self, thread: str, run: str, among: int) -> Mapping[str, Event]:
        """Return by name the newest of a run's events that are among so many of the thread's newest."""
        return self.transcripts.last(run) or await events.newest_of_run(self._storage, thread, run, among)

    async def run_ends(self, thread: str, heartbeat_s: float) -> AsyncGenerator[bool, None]:
        """Yield True whenever a run of the thread may have ended, for ever; False after a silence."""
        loop = asyncio.get_running_loop()
        async with self._announcements.subscribe(thread, "end") as bell:
            said = loop.time()
            while True:
                await wait_for_signal(bell, _patience_s(loop.time() - said, heartbeat_s))
                bell.clear()
                yield True
                if loop.time() - said >= heartbeat_s:
                    said = loop.time()
                    yield False

    async def follow_run(
        self, thread: str, run: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield one run's events that follow `after`, to its end; None after a silence."""
        if here := self.transcripts.find(run, after):
            async with aclosing(here.follow(after, heartbeat_s)) as told:
                async for event in told:
                    yield event
                    after = event.id if event else after
            if here.over:
                return
        async with aclosing(self._stored(thread, run, after, heartbeat_s)) as source:
            async for event in source:
                yield event

    async def _stored(
        self, thread: str, run: str, after: str, heartbeat_s: float | None
    ) -> AsyncGenerator[Event | None, None]:
        async with aclosing(self.follow(thread, after, heartbeat_s=heartbeat_s)) as source:
            async for event in source:
                if event and event.run != run:
                    continue
                yield event
                after = event.id if event else after
                if event and event.name == END:
                    return
                # Its end may have been trimmed from the log, or the thread may be gone.
                if event is None and await self._runs.has_ended(thread, run):
                    break
        # It may have ended just now, and told the last of it since the silence.
        async for event in self.stored_events(thread, run, after):
            yield event

    async def stored_events(self, thread: str, run: str, after: str) -> AsyncGenerator[Event, None]:
        """Yield what is still kept of one run's events that follow `after`."""
        following = events.EventCursor(self._storage, thread, after)
        while found := await following.read_next():
            for event in (one for one in found if one.run == run):
                yield event


def _patience_s(silence_s: float, heartbeat_s: float | None) -> float:
    """How long one waits for an announcement: not beyond the next look, nor the next heartbeat."""
    return min(_LOOK_S, max(0.0, heartbeat_s - silence_s)) if heartbeat_s else _LOOK_S
