"""Records of an owner that an import has written are removed again, and nothing else."""

from typing import Any

import pytest

from callsheet.storage import Storage, store
from callsheet.storage.archive.owner_records import RecordKind, Row, record_kinds
from callsheet.storage.redis import keys
from callsheet.storage.redis.scripts import read_time_ms

ITEM: dict[str, Any] = {
    "namespace": ["notes"],
    "key": "k",
    "vectors": "",
    "createdUs": 1,
    "updatedUs": 1,
    "lifetimeMs": 0,
    "expiresMs": 0,
}


def kind_of(storage: Storage, name: str) -> RecordKind:
    return next(one for one in record_kinds(storage, lambda _cron, _ms: None, 100) if one.name == name)


async def write(kind: RecordKind, row: Row) -> list[Row]:
    return [one async for one in kind.write("anna", [row])]


async def read(kind: RecordKind) -> list[Row]:
    return [row async for row in kind.read("anna")]


@pytest.mark.parametrize(
    ("name", "own", "imported"),
    [
        ("preset", {"id": "a", "text": "own"}, {"id": "a", "text": "imported"}),
        (
            "assistant",
            {"id": "a", "text": "own", "versions": ["own"]},
            {"id": "a", "text": "imported", "versions": ["imported"]},
        ),
        ("item", {**ITEM, "value": {"text": "own"}}, {**ITEM, "value": {"text": "imported"}}),
        ("pronunciations", {"names": {"Miel": "me-EL"}}, {"names": {"Miel": "MEAL"}}),
    ],
)
async def test_what_an_owner_has_made_during_an_import_stays_when_it_fails(
    storage: Storage, name: str, own: dict[str, Any], imported: dict[str, Any]
) -> None:
    kind = kind_of(storage, name)
    [written] = await write(kind, own)
    before = await read(kind)
    again = await write(kind, imported)
    assert again == []
    await kind.remove("anna", again)
    assert await read(kind) == before
    await kind.remove("anna", [written])
    assert await read(kind) == []


async def test_an_item_that_is_imported_again_keeps_the_lifetime_that_a_read_has_renewed(
    storage: Storage,
) -> None:
    """It ended with the lifetime of the file."""
    kind, now_ms = kind_of(storage, "item"), await read_time_ms(storage.redis)
    row = {**ITEM, "value": {"text": "x"}, "lifetimeMs": 60_000, "expiresMs": now_ms + 60_000}
    assert len(await write(kind, row)) == 1
    key = keys.store_item("anna", store.member_of(row["namespace"], row["key"]))
    await storage.redis.pexpire(key, 600_000)
    assert len(await write(kind, row)) == 1
    assert await storage.redis.pttl(key) > 60_000
