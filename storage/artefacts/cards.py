"""Cards of threads: the title of each in lists, and the words that a search looks at."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Command, Script, execute_all
from callsheet.storage.threads.threads import Thread

_FORM: Final = 1
"""Raise it when titles or words are read otherwise; kept cards are then read anew."""
# A thread may have been deleted since it was read.
_KEEP: Final = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call('HSET', KEYS[2], 'of', ARGV[1], 'title', ARGV[2], 'words', ARGV[3])
""")


@dataclass(frozen=True)
class ThreadCard:
    """A thread in lists and searches, as it was when it was read."""

    stamp: str
    """State and artefact that it was read from."""
    title: str
    words: str
    """Texts that a search looks at; empty where none is made."""


async def stamps(storage: Storage, records: Sequence[Thread]) -> list[str]:
    """Return what the card of each thread would be read from now."""
    artefacts = [artefact_of(storage, record) for record in records]
    names = [keys.artefact_meta(one.kind, one.stored_id) for one in artefacts if one]
    reads = [Command(("HGET", name, "updatedMs")) for name in names]
    changes = iter(await execute_all(storage.redis, reads))
    return [
        f"{_FORM}.{record.state_updated_ms}.{(next(changes) or b'').decode() if artefact else ''}"
        for record, artefact in zip(records, artefacts, strict=True)
    ]


def artefact_of(storage: Storage, record: Thread) -> Artefact | None:
    """Return the main artefact of a thread; None for none."""
    kind, _, name = record.artefact.partition(":")
    return Artefact(storage, kind, name, record.owner) if name else None


async def read(storage: Storage, records: Sequence[Thread], *, with_words: bool) -> list[ThreadCard | None]:
    """Return the kept card of each thread, if nothing has changed since it was read."""
    names = ("of", "title", "words") if with_words else ("of", "title")
    reads = [Command(("HMGET", keys.thread_card(one.id), *names)) for one in records]
    now, replies = await asyncio.gather(stamps(storage, records), execute_all(storage.redis, reads))
    texts = [[(part or b"").decode() for part in reply] for reply in replies]
    return [
        ThreadCard(*fields, *([] if with_words else [""])) if fields[0] == stamp else None
        for fields, stamp in zip(texts, now, strict=True)
    ]


async def keep(storage: Storage, record: Thread, card: ThreadCard) -> None:
    """Keep the card of a thread, unless the thread is gone."""
    places = [keys.thread_meta(record.id), keys.thread_card(record.id)]
    await _KEEP(storage.redis, places, [card.stamp, card.title, card.words])
