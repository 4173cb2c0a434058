"""Journals for operators: entries are appended and never changed; old ones go, and the oldest of too many."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script

_APPEND: Final = Script.with_clock("""
redis.call('XADD', KEYS[1], '*', 'entry', ARGV[1])
redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f', tonumber(now_ms()) - tonumber(ARGV[2])))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True)
class JournalEntry:
    """An entry, and its time by the clock of Redis."""

    id: str
    """`<milliseconds>-<number>`."""
    fields: Mapping[str, Any]

    @property
    def at_ms(self) -> int:
        """Time at which it was appended."""
        return int(self.id.partition("-")[0])


async def append(storage: Storage, journal: str, fields: Mapping[str, Any], *, ttl_s: float) -> None:
    """Append an entry; those older than `ttl_s` go."""
    await _APPEND(storage.redis, [journal], [_ENCODER.encode(fields), int(ttl_s * 1000)])


async def trim(storage: Storage, journal: str, most: int) -> None:
    """Delete the oldest entries of more than `most`."""
    await storage.redis.xtrim(journal, maxlen=most, approximate=False)


async def read(
    storage: Storage, journal: str, *, since_ms: int = 0, before: str = "", most: int
) -> list[JournalEntry]:
    """Return the newest `most` entries since a time, newest first; those before the entry `before`."""
    newest = f"({before}" if before else "+"
    entries = await storage.redis.xrevrange(journal, newest, str(since_ms), count=most)
    return [JournalEntry(entry_id.decode(), json.loads(fields[b"entry"])) for entry_id, fields in entries]
