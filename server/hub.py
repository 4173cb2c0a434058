"""Following what runs tell, from any process, without a gap and without a repetition."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

from server.transcripts import Transcript, Transcripts
from storage import events
from storage.announcements import Announcements, rung
from storage.connection import Storage
from storage.events import END, Event

_LOOK_S: Final = 2.0
"""How long an announcement may be missed before one looks without it."""


class Hub:
    """The events of all threads."""

    def __init__(self, storage: Storage, announcements: Announcements) -> None:
        self._storage = storage
        self._announcements = announcements
        self.transcripts = Transcripts()
        """Of the runs that this process carries out."""

    async def follow(
        self, thread: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield the thread's events that follow the id `after`, for ever; None after a silence."""
        loop = asyncio.get_running_loop()
        following = events.Following(self._storage, thread, after)
        async with self._announcements.listening(thread) as bell:
            said = loop.time()
            while True:
                bell.clear()
                found = await following.more()
                for event in found:
                    said = loop.time()
                    yield event
                if found:
                    continue
                await rung(bell, _patience_s(loop.time() - said, heartbeat_s))
                if heartbeat_s and loop.time() - said >= heartbeat_s:
                    said = loop.time()
                    yield None

    def followed(self, thread: str, transcript: Transcript | None) -> bool:
        """Return whether somebody in this process follows the thread, or the run of this transcript."""
        return bool(transcript and transcript.followers) or self._announcements.heard(thread)

    async def last(self, thread: str, run: str, among: int) -> Mapping[str, Event]:
        """Return by name the newest of a run's events that are among so many of the thread's newest."""
        return self.transcripts.last(run) or await events.newest_of(self._storage, thread, run, among)

    async def ends(self, thread: str, heartbeat_s: float) -> AsyncGenerator[bool, None]:
        """Yield True whenever a run of the thread may have ended, for ever; False after a silence."""
        loop = asyncio.get_running_loop()
        async with self._announcements.listening(thread, "end") as bell:
            said = loop.time()
            while True:
                await rung(bell, _patience_s(loop.time() - said, heartbeat_s))
                bell.clear()
                yield True
                if loop.time() - said >= heartbeat_s:
                    said = loop.time()
                    yield False

    async def of_run(
        self, thread: str, run: str, after: str, *, heartbeat_s: float | None = None
    ) -> AsyncGenerator[Event | None, None]:
        """Yield one run's events that follow `after`, its end among them, and stop there."""
        if here := self.transcripts.find(run, after):
            async with aclosing(here.follow(after, heartbeat_s)) as told:
                async for event in told:
                    yield event
                    after = event.id if event else after
            if here.over:
                return
        async for event in self.follow(thread, after, heartbeat_s=heartbeat_s):
            if event is None:
                yield None
            elif event.run == run:
                yield event
                if event.name == END:
                    return


def _patience_s(silence_s: float, heartbeat_s: float | None) -> float:
    """How long one waits for an announcement: not beyond the next look, nor the next heartbeat."""
    return min(_LOOK_S, max(0.0, heartbeat_s - silence_s)) if heartbeat_s else _LOOK_S
