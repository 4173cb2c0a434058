"""Rendered files in Redis: complete or absent, bounded, and gone with their artefact."""

import pytest

from callsheet.state.errors import Missing
from callsheet.storage import Storage
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.artefacts.files import PIECE_BYTES
from callsheet.storage.artefacts.receipts import receipt_name

OWNER = "ana"
DETAILS = {"versions": {"voices": "v1"}}


async def new_ad(storage: Storage) -> Artefact:
    artefact = Artefact(storage, "ad", "ad-1", OWNER)
    await artefact.claim(
        receipt_name("thread", "task", "call"), epoch=0, owner=OWNER, thread="thread", facts={}
    )
    return artefact


async def read(storage: Storage, artefact: Artefact, start: int, end: int) -> bytes:
    return b"".join([piece async for piece in recordings.read(storage, artefact, "0a", start, end)])


async def test_a_file_of_several_pieces_is_read_in_parts(storage: Storage) -> None:
    artefact = await new_ad(storage)
    data = bytes(range(256)) * (PIECE_BYTES // 100)
    for _ in range(2):
        record = await recordings.store(storage, artefact, "0a", data, "audio/mpeg", DETAILS)
    assert record["size"] == len(data)
    assert await recordings.find(storage, artefact, "0a") == record
    assert await read(storage, artefact, 0, len(data)) == data
    assert (
        await read(storage, artefact, PIECE_BYTES - 3, PIECE_BYTES + 3)
        == data[PIECE_BYTES - 3 : PIECE_BYTES + 3]
    )
    assert await recordings.find(storage, artefact, "0b") is None
    assert not await storage.redis.keys("*recording-part*")


async def test_the_oldest_files_make_room_for_new_ones(storage: Storage) -> None:
    artefact = await new_ad(storage)
    half = bytes(recordings.MAX_BYTES // 2)
    for digest in ("0a", "0b", "0c"):
        await recordings.store(storage, artefact, digest, half, "audio/wav", DETAILS)
    kept = [await recordings.find(storage, artefact, digest) for digest in ("0a", "0b", "0c")]
    assert [record is not None for record in kept] == [False, True, True]
    assert [record["number"] for record in await recordings.newest(storage, artefact)] == [3, 2]
    assert len(await storage.redis.keys("ad:*:recording:*")) == 2


async def test_an_ad_that_is_gone_gets_no_file(storage: Storage) -> None:
    artefact = Artefact(storage, "ad", "nobody", OWNER)
    with pytest.raises(Missing):
        await recordings.store(storage, artefact, "0a", b"x", "audio/mpeg", DETAILS)
    assert not await storage.redis.keys("*recording*")


async def test_a_line_of_speech_is_kept_for_its_owner(storage: Storage) -> None:
    await recordings.keep_speech_clip(storage, OWNER, "0a", b"sound")
    assert await recordings.speech_clip(storage, OWNER, "0a") == b"sound"
    assert await recordings.speech_clip(storage, "ben", "0a") is None
