"""Records of an owner that an import has written are removed again, and nothing else."""

from typing import Any

import pytest

from callsheet.storage import Storage
from callsheet.storage.archive.owner_records import RecordKind, Row, record_kinds

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
