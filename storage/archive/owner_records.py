"""The records that an owner has beside threads, by kind: read, checked, and written where none exists.

What a failed import has written of a kind is removed again, and nothing else.
"""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from langgraph.store.base import PutOp, validate_op_namespace
from pydantic import TypeAdapter

from callsheet.state.errors import Invalid
from callsheet.storage import crons, pronunciations, store
from callsheet.storage.archive.file import MAX_MS
from callsheet.storage.assistants import Assistant
from callsheet.storage.campaigns.searches import MAX_SEARCHES
from callsheet.storage.crons import Cron
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Command, Script, execute, execute_all, read_time_ms
from callsheet.storage.video.settings import MAX_PREFERENCES, MAX_PRESETS

Row = dict[str, Any]
CHUNK: Final = 100
"""Rows that are read or written at once."""
_NO_LIMIT: Final[int | None] = None
_ASSISTANTS: Final = TypeAdapter(Assistant)
_CRONS: Final = TypeAdapter(Cron)

# An equal record is that of the same call, which is sent again because its reply was lost.
_ADD_FIELDS: Final = Script("""
local new = {}
for i = 1, #ARGV, 2 do
  redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1])
  new[#new + 1] = redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] and 1 or 0
end
return new
""")
_ADD_ASSISTANT: Final = Script("""
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then
  return redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] and 1 or 0
end
redis.call('DEL', KEYS[2])
for i = 3, #ARGV do redis.call('RPUSH', KEYS[2], ARGV[i]) end
return 1
""")
# A lifetime that has ended leaves nothing.
_ADD_ITEM: Final = Script.with_clock("""
local item, index, vectors = unpack(KEYS)
local left = tonumber(ARGV[3])
if left > 0 then left = left - now_ms() end
if ARGV[3] ~= '0' and left <= 0 then return 0 end
-- One that is there keeps its lifetime, which a read may have renewed.
if redis.call('SETNX', item, ARGV[2]) == 0 then return redis.call('GET', item) == ARGV[2] and 1 or 0 end
redis.call('ZADD', index, 0, ARGV[1])
if ARGV[4] ~= '' then redis.call('SET', vectors, ARGV[4]) end
if left > 0 then
  redis.call('PEXPIRE', item, left)
  redis.call('PEXPIRE', vectors, left)
end
return 1
""")


class RecordKind(Protocol):
    """Records of one kind."""

    @property
    def name(self) -> str:
        """Type of their lines."""

    def read(self, owner: str) -> AsyncIterator[Row]:
        """Yield the owner's records."""

    def check(self, row: Row) -> None:
        """Raise `Invalid` for a row that is no record; pydantic's error and `ValueError` mean the same."""

    async def existing(self, owner: str, rows: Sequence[Row]) -> list[str]:
        """Return the names of the rows that the owner has already."""

    async def most(self, owner: str) -> int | None:
        """Return how many more the owner may have; None for no limit."""

    def write(self, owner: str, rows: Sequence[Row]) -> AsyncIterator[Row]:
        """Write rows that do not exist, and yield for each what `remove` needs of it.

        One that somebody else has made meanwhile stays as it is.
        """

    async def remove(self, owner: str, rows: Sequence[Row]) -> None:
        """Remove what `write` has yielded. Twice is safe."""


@dataclass(frozen=True)
class HashRecords:
    """Records in the fields of one hash, as text."""

    storage: Storage
    name: str
    key: Callable[[str], str]
    """Returns the hash of an owner."""
    check_text: Callable[[str], object]
    """Raises `ValueError` for a text that is no record."""
    limit: int = 0
    """Most records that an owner may have; 0 for no limit."""

    async def read(self, owner: str) -> AsyncIterator[Row]:
        """Yield id and text of each record, in the order of ids."""
        fields = await self.storage.redis.hgetall(self.key(owner))
        for name, text in sorted(fields.items()):
            yield {"id": name.decode(), "text": text.decode()}

    def check(self, row: Row) -> None:
        """Raise `ValueError` for a row that is no record."""
        _require_texts(row, "id", "text")
        self.check_text(row["text"])

    async def existing(self, owner: str, rows: Sequence[Row]) -> list[str]:
        """Return the ids that the owner has already."""
        texts = await execute(self.storage.redis, "HMGET", self.key(owner), *(row["id"] for row in rows))
        return [row["id"] for row, text in zip(rows, texts, strict=True) if text is not None]

    async def most(self, owner: str) -> int | None:
        """Return how many more the owner may have; None for no limit."""
        if not self.limit:
            return _NO_LIMIT
        return self.limit - int(await execute(self.storage.redis, "HLEN", self.key(owner)))

    async def write(self, owner: str, rows: Sequence[Row]) -> AsyncIterator[Row]:
        """Write rows that do not exist, and yield their ids."""
        args: list[Argument] = [part for row in rows for part in (row["id"], row["text"])]
        are_new = await _ADD_FIELDS(self.storage.redis, [self.key(owner)], args)
        for row, is_new in zip(rows, are_new, strict=True):
            if is_new:
                yield {"id": row["id"]}

    async def remove(self, owner: str, rows: Sequence[Row]) -> None:
        """Remove rows. Twice is safe."""
        if rows:
            await execute(self.storage.redis, "HDEL", self.key(owner), *(row["id"] for row in rows))


@dataclass(frozen=True)
class AssistantRecords(HashRecords):
    """Assistants with all their versions."""

    async def read(self, owner: str) -> AsyncIterator[Row]:
        """Yield each assistant with its versions, oldest first."""
        async for row in super().read(owner):
            key = keys.assistant_versions(owner, row["id"])
            versions: list[bytes] = await execute(self.storage.redis, "LRANGE", key, 0, -1)
            yield {**row, "versions": [text.decode() for text in versions]}

    def check(self, row: Row) -> None:
        """Raise for a row that is no assistant."""
        _require_texts({**row, "versions": ""}, "id", "text", "versions")
        for text in (row["text"], *row["versions"]):
            if _read_assistant(text).assistant_id != row["id"]:
                raise Invalid(f"assistant {row['id']!r} has another id in a version")

    async def write(self, owner: str, rows: Sequence[Row]) -> AsyncIterator[Row]:
        """Write assistants that do not exist with their versions, and yield their ids."""
        for row in rows:
            names = [self.key(owner), keys.assistant_versions(owner, row["id"])]
            if await _ADD_ASSISTANT(self.storage.redis, names, [row["id"], row["text"], *row["versions"]]):
                yield {"id": row["id"]}

    async def remove(self, owner: str, rows: Sequence[Row]) -> None:
        """Remove assistants with their versions. Twice is safe."""
        await super().remove(owner, rows)
        for row in rows:
            await execute(self.storage.redis, "UNLINK", keys.assistant_versions(owner, row["id"]))


@dataclass(frozen=True)
class CronRecords(HashRecords):
    """Cron jobs without the addresses of their webhooks, which may hold secrets."""

    next_ms: Callable[[Cron, int], int | None] = lambda _cron, _after_ms: None
    """Returns when a cron job is due next after a time; raises `Invalid` for a wrong schedule."""

    async def read(self, owner: str) -> AsyncIterator[Row]:
        """Yield each cron job; `hasWebhook` says that an address is left out."""
        async for row in super().read(owner):
            record = json.loads(row["text"])
            webhook = record["payload"].pop("webhook", None)
            yield {"id": row["id"], "text": json.dumps(record), "hasWebhook": bool(webhook)}

    def check(self, row: Row) -> None:
        """Raise for a row that is no cron job."""
        _require_texts({**row, "hasWebhook": ""}, "id", "text", "hasWebhook")
        cron = _read_cron(row["text"])
        if cron.id != row["id"] or "webhook" in cron.payload:
            raise Invalid(f"cron {row['id']!r} has another id, or a webhook")
        if not all(0 <= ms <= MAX_MS for ms in (cron.created_ms, cron.updated_ms, cron.end_ms or 0)):
            raise Invalid(f"cron {row['id']!r} has a wrong time")
        self.next_ms(cron, cron.created_ms)

    async def write(self, owner: str, rows: Sequence[Row]) -> AsyncIterator[Row]:
        """Write cron jobs that are the owner's; they are due when their schedule says next."""
        now_ms = await read_time_ms(self.storage.redis)
        for row in rows:
            cron = replace(_CRONS.validate_json(row["text"]), owner=owner)
            stored = await execute(self.storage.redis, "HGET", self.key(owner), cron.id)
            # An equal one may be that of an import that was cut before its time was stored.
            if stored and _read_cron(stored.decode()) != cron:
                continue
            # Before it is written: it may fail between the record and its time.
            yield row
            await crons.create(self.storage, cron, self.next_ms(cron, now_ms) if cron.enabled else None)

    async def remove(self, owner: str, rows: Sequence[Row]) -> None:
        """Remove cron jobs. Twice is safe."""
        for row in rows:
            cron = replace(_CRONS.validate_json(row["text"]), owner=owner)
            await crons.delete(self.storage, cron)


@dataclass(frozen=True)
class PronunciationRecords:
    """The owner's pronunciations of names, one record in all."""

    storage: Storage
    name = "pronunciations"

    async def read(self, owner: str) -> AsyncIterator[Row]:
        """Yield the pronunciations if there are any."""
        if names := await pronunciations.read(self.storage, owner):
            yield {"names": names}

    def check(self, row: Row) -> None:
        """Raise for a row that is no pronunciations."""
        names = row.get("names")
        if row.keys() != {"names"} or not isinstance(names, dict):
            raise Invalid("the pronunciations are not names with texts")
        _require_texts(names, *names)

    async def existing(self, owner: str, rows: Sequence[Row]) -> list[str]:
        """Return a name for the record if there is one."""
        return ["of names"] if rows and await pronunciations.read(self.storage, owner) else []

    async def most(self, owner: str) -> int | None:
        """Return 1."""
        del owner
        return 1

    async def write(self, owner: str, rows: Sequence[Row]) -> AsyncIterator[Row]:
        """Write the pronunciations if there are none, and yield nothing in particular."""
        for row in rows:
            await pronunciations.create(self.storage, owner, row["names"])
            if await pronunciations.read(self.storage, owner) == row["names"]:
                yield {}

    async def remove(self, owner: str, rows: Sequence[Row]) -> None:
        """Remove the pronunciations."""
        if rows:
            await pronunciations.replace(self.storage, owner, {})


@dataclass(frozen=True)
class ItemRecords:
    """Items of the store, with their times, lifetimes and vectors."""

    storage: Storage
    name = "item"

    async def read(self, owner: str) -> AsyncIterator[Row]:
        """Yield each item, by namespace and key."""
        redis, low = self.storage.redis, b"-"
        while members := await redis.zrangebylex(keys.store_index(owner), low, b"+", start=0, num=CHUNK):
            for member in members:
                name = member.decode()
                item, vectors = keys.store_item(owner, name), keys.store_vectors(owner, name)
                text, expires_ms, stored = await execute_all(
                    redis, [Command(("GET", item)), Command(("PEXPIRETIME", item)), Command(("GET", vectors))]
                )
                if text is not None:
                    yield _item_row(name, text, max(0, expires_ms), stored)
            low = b"(" + members[-1]

    def check(self, row: Row) -> None:
        """Raise for a row that is no item."""
        numbers = ("createdUs", "updatedUs", "lifetimeMs", "expiresMs")
        names = {"namespace", "key", "value", "vectors", *numbers}
        if row.keys() != names or not (row["namespace"] and isinstance(row["namespace"], list)):
            raise Invalid(f"an item has not the fields {', '.join(sorted(names))}")
        has_times = all(type(row[name]) is int and 0 <= row[name] < 10**17 for name in numbers)
        if not (has_times and isinstance(row["value"], dict)):
            raise Invalid(f"item {row['key']!r} has a wrong time, or no object as its value")
        validate_op_namespace(PutOp(tuple(row["namespace"]), row["key"], row["value"]))
        b64decode(row["vectors"], validate=True)

    async def existing(self, owner: str, rows: Sequence[Row]) -> list[str]:
        """Return the items that the owner has already."""
        names = [_member(row) for row in rows]
        commands = [Command(("EXISTS", keys.store_item(owner, name))) for name in names]
        counts = await execute_all(self.storage.redis, commands)
        return [name.replace("\0", " ") for name, count in zip(names, counts, strict=True) if count]

    async def most(self, owner: str) -> int | None:
        """Return no limit."""
        del owner
        return _NO_LIMIT

    async def write(self, owner: str, rows: Sequence[Row]) -> AsyncIterator[Row]:
        """Write items that do not exist, and yield their names."""
        for row in rows:
            member = _member(row)
            value = json.dumps(row["value"], allow_nan=False)
            text = f"{row['createdUs']} {row['updatedUs']} {row['lifetimeMs']} {value}"
            args: list[Argument] = [member, text, row["expiresMs"], b64decode(row["vectors"])]
            if await _ADD_ITEM(self.storage.redis, _item_keys(owner, member), args):
                yield {"namespace": row["namespace"], "key": row["key"]}

    async def remove(self, owner: str, rows: Sequence[Row]) -> None:
        """Remove items. Twice is safe."""
        for row in rows:
            item, index, vectors = _item_keys(owner, _member(row))
            await execute(self.storage.redis, "UNLINK", item, vectors)
            await execute(self.storage.redis, "ZREM", index, _member(row))


def _item_row(member: str, text: bytes, expires_ms: int, vectors: bytes | None) -> Row:
    created, updated, lifetime, value = text.split(b" ", 3)
    namespace, key = store.split_member(member)
    return {
        "namespace": list(namespace),
        "key": key,
        "value": json.loads(value),
        "createdUs": int(created),
        "updatedUs": int(updated),
        "lifetimeMs": int(lifetime),
        "expiresMs": expires_ms,
        "vectors": b64encode(vectors or b"").decode(),
    }


def _member(row: Row) -> str:
    return store.member_of(row["namespace"], row["key"])


def _item_keys(owner: str, member: str) -> list[str]:
    return [keys.store_item(owner, member), keys.store_index(owner), keys.store_vectors(owner, member)]


def record_kinds(
    storage: Storage, next_ms: Callable[[Cron, int], int | None], most_crons: int
) -> tuple[RecordKind, ...]:
    """Return the kinds of records, in the order in which they are written."""

    def video(name: str) -> Callable[[str], str]:
        return lambda owner: keys.video_settings(owner, name)

    return (
        AssistantRecords(storage, "assistant", keys.owned_assistants, _read_assistant),
        HashRecords(storage, "search", keys.saved_searches, _require_object, MAX_SEARCHES),
        HashRecords(storage, "preset", video("presets"), str, MAX_PRESETS),
        HashRecords(storage, "preference", video("preferences"), _require_preference, MAX_PREFERENCES),
        HashRecords(storage, "duration", video("timings"), _require_seconds),
        PronunciationRecords(storage),
        ItemRecords(storage),
        CronRecords(storage, "cron", keys.owned_crons, _read_cron, most_crons, next_ms),
    )


def _read_assistant(text: str) -> Assistant:
    """Return an assistant; raise `ValueError` or `TypeError` for another text."""
    Assistant(**json.loads(text))
    return _ASSISTANTS.validate_json(text)


def _read_cron(text: str) -> Cron:
    """Return a cron job; raise `ValueError` or `TypeError` for another text."""
    Cron(**json.loads(text))
    return _CRONS.validate_json(text)


def _require_texts(row: Mapping[str, Any], *names: str) -> None:
    if row.keys() != {*names} or not all(isinstance(row[name], str) for name in names):
        raise Invalid(f"a record has not the fields {', '.join(names)} as texts")


def _require_object(text: str) -> None:
    if not isinstance(json.loads(text), dict):
        raise Invalid("a record is no JSON object")


def _require_preference(text: str) -> None:
    fields = json.loads(text)
    if not (isinstance(fields, dict) and {*map(type, fields.values())} <= {str, int}):
        raise Invalid("a preference is not a text with a time")
    if fields.keys() != {"text", "at_ms"} or type(fields["at_ms"]) is not int:
        raise Invalid("a preference is not a text with a time")


def _require_seconds(text: str) -> None:
    if not 0 <= float(text) < math.inf:
        raise Invalid("a duration is no number of seconds")
