"""Questions to people: the threads that wait for an answer, and the answers that were given.

An owner's lists may have an entry without its record, so readers check: a thread is listed before it waits,
in case the process dies between the two, and leaves the list once a reader finds that it does not wait.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from callsheet.storage import indexes
from callsheet.storage.indexes import IndexPage
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Command, Script, execute, execute_all

TOPIC: Final = "events"
"""Topic under which changes of an owner's questions are announced."""
_GRACE_MS: Final = 60_000
"""Age of an entry whose thread will not begin to wait any more."""

_NOTE: Final = Script.with_clock("""
local ms = now_ms()
return redis.call('ZADD', KEYS[1], ms, ARGV[1])
""")

_ANNOUNCE: Final = Script("return redis.call('PUBLISH', KEYS[1], ARGV[1])")


@dataclass(frozen=True)
class AnswerRecord:
    """An answer of a person."""

    question: str
    """Id of the interrupt."""
    sentence: str
    """The question in words, as it was shown."""
    shown: str
    """SHA-256 of the interrupt's value as it was shown."""
    answer: Any
    owner: str
    key_id: str
    """Id of the API key; empty for a token, and without authentication."""
    run: str
    """The run that brought the answer."""
    graph: str
    answered_ms: int = 0

    @property
    def actor(self) -> str:
        """The person or program that answered, in words."""
        return f"API key {self.key_id!r}" if self.key_id else self.owner

    def encode(self) -> str:
        """Return the record as JSON, without the time, which Redis adds."""
        fields = {name: value for name, value in vars(self).items() if name != "answered_ms"}
        return json.dumps(fields, ensure_ascii=False)


async def note_waiting(storage: Storage, owner: str, thread: str) -> None:
    """List a thread that is about to wait for a person."""
    await _NOTE(storage.redis, [keys.waiting_threads(owner)], [thread])


async def drop_waiting(storage: Storage, owner: str, thread: str, until_ms: int) -> None:
    """Remove a thread that waited until `until_ms` at most. Twice is safe."""
    await indexes.DROP_UNTIL(storage.redis, [keys.waiting_threads(owner)], [thread, until_ms])


async def drop_stale(storage: Storage, owner: str, thread: str) -> None:
    """Remove a thread that does not wait, unless it was listed a moment ago."""
    await indexes.DROP_OLDER(storage.redis, [keys.waiting_threads(owner)], [thread, _GRACE_MS])


async def note_answered(storage: Storage, owner: str, thread: str) -> None:
    """List a thread on which a person is about to answer."""
    await _NOTE(storage.redis, [keys.answered_threads(owner)], [thread])


async def forget_thread(storage: Storage, owner: str, thread: str) -> None:
    """Remove a deleted thread from the owner's lists. Twice is safe."""
    for key in (keys.waiting_threads(owner), keys.answered_threads(owner)):
        await execute(storage.redis, "ZREM", key, thread)
    await announce(storage, owner)


async def announce(storage: Storage, owner: str) -> None:
    """Wake those who follow the owner's questions."""
    await _ANNOUNCE(storage.redis, [keys.waiting_threads(owner)], [TOPIC])


async def list_waiting(storage: Storage, owner: str, after: str | None, limit: int) -> IndexPage:
    """Return a page of the owner's threads that may wait for a person, longest first."""
    return await indexes.read_page(storage, keys.waiting_threads(owner), after, limit, oldest_first=True)


async def list_answered(storage: Storage, owner: str, after: str | None, limit: int) -> IndexPage:
    """Return a page of the owner's threads with answers, last answer first."""
    return await indexes.read_page(storage, keys.answered_threads(owner), after, limit)


async def waiting_revision(storage: Storage, owner: str) -> tuple[object, ...]:
    """Return a value that changes with the list of the owner's threads that may wait for a person."""
    key = keys.waiting_threads(owner)
    count, newest = await execute_all(
        storage.redis, [Command(("ZCARD", key)), Command(("ZRANGE", key, -1, -1, "WITHSCORES"))]
    )
    return (count, str(newest))


async def answers_of(storage: Storage, thread: str, skip: int = 0, count: int = 0) -> list[AnswerRecord]:
    """Return the answers that people gave on a thread, oldest first; or `count` before the last `skip`."""
    first, last = -(skip + count) if count else 0, -(skip + 1)
    lines: list[bytes] = await execute(storage.redis, "LRANGE", keys.thread_answers(thread), first, last)
    return [_answer(*line.decode().split(" ", 1)) for line in lines]


def _answer(answered_ms: str, text: str) -> AnswerRecord:
    fields: Mapping[str, Any] = json.loads(text)
    return AnswerRecord(**fields, answered_ms=int(answered_ms))
