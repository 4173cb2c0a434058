"""Uploaded files of an artefact, stored in pieces in Redis, where every process finds them.

The pieces are written under a temporary key that expires. One script then checks id and space and renames the
key. So a file is either complete or absent, and an interrupted upload disappears.
"""

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, TypedDict

from callsheet.state.errors import Conflict, TooLarge
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.scripts import IS_MISSING
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script

PIECE_BYTES: Final = 256 * 1024
_APPEND: Final = Script(f"""{IS_MISSING}
if is_missing(KEYS[2], true) then return 0 end
-- A piece that is sent again because its reply was lost is stored already.
if redis.call('LLEN', KEYS[1]) == tonumber(ARGV[3]) then redis.call('RPUSH', KEYS[1], ARGV[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")
_STORE: Final = Script(f"""{IS_MISSING}
local part, file, files, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if is_missing(meta, true) then return 'missing' end
local id, record, size, max_bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local existing = redis.call('HGET', files, id)
if existing then return existing == record and 'stored' or 'exists' end
local bytes = tonumber(redis.call('HGET', files, 'bytes') or '0')
if bytes + size > max_bytes then return 'full' end
if redis.call('EXISTS', part) == 0 then return 'expired' end
redis.call('RENAME', part, file)
redis.call('PERSIST', file)
redis.call('HSET', files, id, record, 'bytes', bytes + size)
return 'stored'
""")
_REMOVE: Final = Script("""
local record = redis.call('HGET', KEYS[2], ARGV[1])
if not record then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HINCRBY', KEYS[2], 'bytes', -cjson.decode(record).size)
return redis.call('DEL', KEYS[1])
""")


class FileRecord(TypedDict):
    """Record of a file."""

    name: str
    type: str
    """Media type."""
    size: int
    sha256: str


def split(data: bytes) -> Iterator[bytes]:
    """Return the pieces that a file is stored in."""
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


async def store(
    storage: Storage,
    artefact: Artefact,
    file_id: str,
    pieces: Iterable[bytes],
    record: FileRecord,
    max_bytes: int,
) -> None:
    """Store a file under its id; all files of the artefact may have `max_bytes` together.

    Twice is safe. Raises `Conflict` if another file has this id, `TooLarge` if there is no space, and
    `Missing` if there is no such artefact, or it is being deleted.
    """
    meta = keys.artefact_meta(artefact.kind, artefact.stored_id)
    part = keys.file_part(artefact.kind, artefact.stored_id, uuid.uuid4().hex)
    for number, piece in enumerate(pieces):
        appended = await _APPEND(storage.redis, [part, meta], [piece, int(keys.UPLOAD_TTL_S * 1000), number])
        if not appended:
            raise artefact.missing_artefact()
    file = keys.file(artefact.kind, artefact.stored_id, file_id)
    files = keys.files(artefact.kind, artefact.stored_id)
    text = json.dumps(record, ensure_ascii=False)
    args: list[Argument] = [file_id, text, record["size"], max_bytes]
    answer = await _STORE(storage.redis, [part, file, files, meta], args)
    if answer == b"missing":
        raise artefact.missing_artefact()
    if answer == b"exists":
        await storage.redis.delete(part)
        raise Conflict(f"upload {file_id!r} has a file already", remedy="ask for another ticket")
    if answer == b"full":
        await storage.redis.delete(part)
        raise TooLarge(
            f"the files of {artefact.kind} {artefact.id!r} exceed {max_bytes} bytes in total",
            remedy="send a smaller file",
        )
    if answer == b"expired":
        raise Conflict(f"upload {file_id!r} took too long", remedy="send it again")


async def remove(storage: Storage, artefact: Artefact, file_id: str) -> None:
    """Delete a file and free its space. Twice is safe."""
    file = keys.file(artefact.kind, artefact.stored_id, file_id)
    await _REMOVE(storage.redis, [file, keys.files(artefact.kind, artefact.stored_id)], [file_id])


async def records(storage: Storage, artefact: Artefact) -> dict[str, FileRecord]:
    """Return the records of the artefact's files by id."""
    fields: dict[bytes, bytes] = await storage.redis.hgetall(keys.files(artefact.kind, artefact.stored_id))
    return {name.decode(): json.loads(text) for name, text in fields.items() if name != b"bytes"}


async def pieces(storage: Storage, artefact: Artefact, file_id: str) -> AsyncIterator[bytes]:
    """Yield the bytes of a file; nothing if it does not exist."""
    key = keys.file(artefact.kind, artefact.stored_id, file_id)
    for index in range(await storage.redis.llen(key)):
        piece: bytes | None = await storage.redis.lindex(key, index)
        yield piece or b""
