"""Rendered sound files of an artefact, kept for a day, and spoken lines of an owner, which they are made of.

A file is written under a temporary key that expires; one script renames it and enters its record. So it is
either complete or absent. An artefact keeps so many bytes; the oldest files make room for new ones.
"""

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, TypedDict

from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.files import PIECE_BYTES, split
from callsheet.storage.artefacts.scripts import IS_MISSING
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import Argument, Script, hgetall

MAX_BYTES: Final = 32_000_000
"""Bytes of the rendered files of one artefact."""
_MS: Final = int(keys.DAY_S * 1000)
_APPEND: Final = Script(f"""{IS_MISSING}
if is_missing(KEYS[2], true) then return 0 end
-- A piece that is sent again because its reply was lost is stored already.
if redis.call('STRLEN', KEYS[1]) == tonumber(ARGV[3]) then redis.call('APPEND', KEYS[1], ARGV[1]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
""")
_STORE: Final = Script.with_clock(f"""{IS_MISSING}
local part, file, records, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if is_missing(meta, true) then return 'missing' end
local record = cjson.decode(ARGV[2])
if redis.call('EXISTS', part) == 1 then redis.call('RENAME', part, file) end
if redis.call('STRLEN', file) ~= record.size then return 'expired' end
redis.call('PEXPIRE', file, ARGV[3])
for i = 4, #ARGV do redis.call('HDEL', records, ARGV[i]) end
for i = 5, #KEYS do redis.call('DEL', KEYS[i]) end
redis.call('HSET', records, ARGV[1], ARGV[2])
redis.call('PEXPIRE', records, ARGV[3])
return 'stored'
""")


class RecordingRecord(TypedDict):
    """Record of a rendered sound file."""

    type: str
    """Media type."""
    size: int
    number: int
    """Grows with each file of the artefact."""
    details: dict[str, Any]
    """Measurements and notes, for those who ask for the file."""


async def store(
    storage: Storage,
    artefact: Artefact,
    digest: str,
    data: bytes,
    media_type: str,
    details: Mapping[str, Any],
) -> RecordingRecord:
    """Store a file under its digest and return its record. Twice is safe.

    Raises `Missing` if there is no such artefact, or it is being deleted.
    """
    kind, stored_id = artefact.kind, artefact.stored_id
    known = await _records(storage, artefact)
    number = 1 + max((one["number"] for one in known.values()), default=0)
    record = RecordingRecord(type=media_type, size=len(data), number=number, details=dict(details))
    part = keys.recording_part(kind, stored_id, uuid.uuid4().hex)
    meta = keys.artefact_meta(kind, stored_id)
    for i, piece in enumerate(split(data)):
        arguments: list[Argument] = [piece, int(keys.UPLOAD_TTL_S * 1000), i * PIECE_BYTES]
        if not await _APPEND(storage.redis, [part, meta], arguments):
            raise artefact.missing_artefact()
    dropped = _oldest_files(known, digest, len(data))
    file = keys.recording(kind, stored_id, digest)
    names = [part, file, keys.recordings(kind, stored_id), meta]
    names += [keys.recording(kind, stored_id, name) for name in dropped]
    text = json.dumps(record, ensure_ascii=False)
    if await _STORE(storage.redis, names, [digest, text, _MS, *dropped]) == b"missing":
        raise artefact.missing_artefact()
    return record


def _oldest_files(known: Mapping[str, RecordingRecord], digest: str, size: int) -> list[str]:
    """Return the oldest files that make room for `size` bytes."""
    dropped, room = [], MAX_BYTES - size
    for name, record in sorted(known.items(), key=lambda item: -item[1]["number"]):
        room -= record["size"]
        if room < 0 and name != digest:
            dropped.append(name)
    return dropped


async def find(storage: Storage, artefact: Artefact, digest: str) -> RecordingRecord | None:
    """Return the record of a file, or None if it is not kept any more."""
    kind, stored_id = artefact.kind, artefact.stored_id
    text: bytes | None = await storage.redis.hget(keys.recordings(kind, stored_id), digest)
    if text is None or not await storage.redis.exists(keys.recording(kind, stored_id, digest)):
        return None
    record: RecordingRecord = json.loads(text)
    return record


async def newest(storage: Storage, artefact: Artefact) -> list[RecordingRecord]:
    """Return the records of the artefact's files, newest first."""
    return sorted((await _records(storage, artefact)).values(), key=lambda record: -record["number"])


async def _records(storage: Storage, artefact: Artefact) -> dict[str, RecordingRecord]:
    name = keys.recordings(artefact.kind, artefact.stored_id)
    fields = await hgetall(storage.redis, name)
    return {digest.decode(): json.loads(text) for digest, text in fields.items()}


async def read(
    storage: Storage, artefact: Artefact, digest: str, start: int, end: int
) -> AsyncIterator[bytes]:
    """Yield the bytes of a file from `start` to before `end`."""
    key = keys.recording(artefact.kind, artefact.stored_id, digest)
    for at in range(start, end, PIECE_BYTES):
        piece: bytes = await storage.redis.getrange(key, at, min(end, at + PIECE_BYTES) - 1)
        yield piece


async def speech_clip(storage: Storage, owner: str, digest: str) -> bytes | None:
    """Return the sound of a line that was spoken within a day, or None."""
    sound: bytes | None = await storage.redis.get(keys.speech_clip(owner, digest))
    return sound


async def keep_speech_clip(storage: Storage, owner: str, digest: str, sound: bytes) -> None:
    """Keep the sound of a line for a day. Twice is safe."""
    await storage.redis.set(keys.speech_clip(owner, digest), sound, px=_MS)


async def drop_speech_clips(storage: Storage, owner: str, digests: Sequence[str]) -> None:
    """Forget the sounds of these lines."""
    if digests:
        await storage.redis.delete(*(keys.speech_clip(owner, digest) for digest in digests))
