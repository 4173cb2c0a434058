"""Files that came to an artefact, in pieces, for every machine on the same Redis.

A file is first written under a name of its own that expires; one script then checks that there is room and
no such file yet, and gives it its place. So there is never half a file, and what is broken off goes.
"""

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, TypedDict

from callsheet.state.errors import Conflict, TooLarge
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Script

PIECE_BYTES: Final = 256 * 1024
"""Bytes of a piece."""
_APPEND: Final = Script("""
-- Sent once more, since its answer was lost, a piece is there already.
if redis.call('LLEN', KEYS[1]) == tonumber(ARGV[3]) then redis.call('RPUSH', KEYS[1], ARGV[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")
_KEEP: Final = Script("""
local part, file, files = KEYS[1], KEYS[2], KEYS[3]
local id, record, size, most = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local there = redis.call('HGET', files, id)
if there then return there == record and 'kept' or 'there' end
local held = tonumber(redis.call('HGET', files, 'bytes') or '0')
if held + size > most then return 'full' end
if redis.call('EXISTS', part) == 0 then return 'gone' end
redis.call('RENAME', part, file)
redis.call('PERSIST', file)
redis.call('HSET', files, id, record, 'bytes', held + size)
return 'kept'
""")
_REMOVE: Final = Script("""
local record = redis.call('HGET', KEYS[2], ARGV[1])
if not record then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HINCRBY', KEYS[2], 'bytes', -cjson.decode(record).size)
return redis.call('DEL', KEYS[1])
""")


class FileRecord(TypedDict):
    """What is known of a file."""

    name: str
    type: str
    """Its media type."""
    size: int
    sha256: str


def split(data: bytes) -> Iterator[bytes]:
    """Return a file as it is kept."""
    return (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))


async def store(
    storage: Storage, artefact: Artefact, file_id: str, pieces: Iterable[bytes], record: FileRecord, most: int
) -> None:
    """Keep a file under its id; `most` is how many bytes all files of the artefact may have.

    Twice is safe. Raises `Conflict` where another file has this id, and `TooLarge` where there is no room.
    """
    part = keys.file_part(artefact.kind, artefact.stored_id, uuid.uuid4().hex)
    for i, piece in enumerate(pieces):
        await _APPEND(storage.redis, [part], [piece, int(keys.PART_S * 1000), i])
    file = keys.file(artefact.kind, artefact.stored_id, file_id)
    files = keys.files(artefact.kind, artefact.stored_id)
    told = json.dumps(record, ensure_ascii=False)
    answer = await _KEEP(storage.redis, [part, file, files], [file_id, told, record["size"], most])
    if answer == b"there":
        await storage.redis.delete(part)
        raise Conflict(f"upload {file_id!r} has a file already", remedy="ask for another ticket")
    if answer == b"full":
        await storage.redis.delete(part)
        raise TooLarge(
            f"the files of {artefact.kind} {artefact.id!r} have at most {most} bytes together",
            remedy="send a smaller file",
        )
    if answer == b"gone":
        raise Conflict(f"upload {file_id!r} took too long", remedy="send it again")


async def remove(storage: Storage, artefact: Artefact, file_id: str) -> None:
    """Take a file away, and make room for another; nothing for one that is not there."""
    file = keys.file(artefact.kind, artefact.stored_id, file_id)
    await _REMOVE(storage.redis, [file, keys.files(artefact.kind, artefact.stored_id)], [file_id])


async def records(storage: Storage, artefact: Artefact) -> dict[str, FileRecord]:
    """Return what is known of the artefact's files, by their ids."""
    found: dict[bytes, bytes] = await storage.redis.hgetall(keys.files(artefact.kind, artefact.stored_id))
    return {name.decode(): json.loads(text) for name, text in found.items() if name != b"bytes"}


async def pieces(storage: Storage, artefact: Artefact, file_id: str) -> AsyncIterator[bytes]:
    """Yield a file's bytes; nothing for a file that is not there."""
    key = keys.file(artefact.kind, artefact.stored_id, file_id)
    for i in range(await storage.redis.llen(key)):
        piece: bytes | None = await storage.redis.lindex(key, i)
        yield piece or b""
