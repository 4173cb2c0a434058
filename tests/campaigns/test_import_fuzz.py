"""Random files of campaigns: each row is imported as it was written, or named in the report (E29, X13)."""

import random
from typing import Any

import httpx
import pytest

from tests.campaigns.test_import_of_libraries import import_file, library_of
from tests.doubles.random_libraries import RandomFile, random_file

TEXTS = ("csv", "tsv", "json", "jsonl")
IN_TEXTS, IN_BOOKS, CHANGED = 5, 2, 20
"""Files of a quick run."""
LONGER = 40
"""A long run has so many times more."""


def count_files(request: pytest.FixtureRequest, quick: int) -> int:
    return quick * (LONGER if request.config.getoption("--long") else 1)


@pytest.mark.timeout(3_000)
@pytest.mark.slow
async def test_each_row_of_a_random_text_is_imported_as_written_or_named(
    api: httpx.AsyncClient, request: pytest.FixtureRequest
):
    """E28, E29: an export of it can be imported, too, and changes nothing."""
    for seed in range(count_files(request, IN_TEXTS)):
        await check_file(api, random_file(seed, TEXTS))


@pytest.mark.timeout(3_000)
@pytest.mark.slow
async def test_each_row_of_a_random_workbook_is_imported_as_written_or_named(
    api: httpx.AsyncClient, request: pytest.FixtureRequest
):
    """E28, E29."""
    for seed in range(count_files(request, IN_BOOKS)):
        await check_file(api, random_file(seed, ("xlsx",)))


async def check_file(api: httpx.AsyncClient, file: RandomFile) -> None:
    """Import the file into an empty library, compare, and repeat it with an export of the library."""
    await api.delete("/api/campaigns")
    reply = await api.post(
        "/api/campaigns/import", params={"fileName": file.name, **file.params}, content=file.content
    )
    assert reply.status_code == 200, (file.name, reply.text)
    check_report(file, reply.json())
    library = await library_of(api) if file.campaigns else {}
    assert library.keys() == file.campaigns.keys(), file.name
    for name, campaign in file.campaigns.items():
        warnings = [one["reason"] for one in reply.json()["warnings"] if one["line"] == file.lines[name]]
        for key, value in campaign.items():
            where = (file.name, file.lines[name], key)
            if value is None:
                assert any(one.startswith(f"{key} is ") for one in warnings), where
                assert library[name][key] == "", where
            else:
                assert library[name][key] == value, where
        assert len(warnings) == [*campaign.values()].count(None), (file.name, warnings)
    if library:
        exported = (await api.get("/api/campaigns/export")).content
        await api.delete("/api/campaigns")
        report = await import_file(api, "export.csv", exported)
        assert (report["refused"], report["warnings"]) == ([], []), file.name
        assert await library_of(api) == library, file.name


def check_report(file: RandomFile, report: dict[str, Any]) -> None:
    """Compare what the report names with what the file has."""
    assert {row["line"] for row in report["refused"]} == file.refused, (file.name, report["refused"])
    assert report["imported"] == len(file.campaigns), file.name
    assert report["ignoredColumns"] == file.ignored, file.name
    for words in file.notes:
        assert any(words in note for note in report["notes"]), (file.name, words, report["notes"])


@pytest.mark.timeout(3_000)
@pytest.mark.slow
async def test_a_random_file_with_changed_bytes_is_imported_or_refused(
    api: httpx.AsyncClient, request: pytest.FixtureRequest
):
    """X13: never an internal error, and the report has the counts of the library."""
    for seed in range(count_files(request, CHANGED)):
        chances = random.Random(seed)
        file = random_file(seed, TEXTS)
        content = change_bytes(file.content, chances)
        for _ in range(3):
            await api.delete("/api/campaigns")
            reply = await api.post("/api/campaigns/import", params={"fileName": file.name}, content=content)
            # On a busy machine Redis may not answer in time.
            if reply.status_code != 503:
                break
        assert reply.status_code in {200, 422}, (seed, reply.text)
        if reply.status_code == 422:
            assert reply.json()["remedy"], seed
            continue
        report = reply.json()
        page = (await api.get("/api/campaigns", params={"limit": 200})).json()
        if report["imported"]:
            assert (page["total"], report["new"]) == (report["imported"], report["imported"]), seed
        assert report["refusedCount"] == len(report["refused"]), seed
        assert (await api.get("/api/campaigns/export")).status_code == 200, seed


def change_bytes(content: bytes, chances: random.Random) -> bytes:
    """Return the file with bytes changed, lost, repeated or put in."""
    changed = bytearray(content)
    for _ in range(chances.randint(1, 8)):
        at = chances.randrange(len(changed) + 1)
        kind = chances.randrange(4)
        if kind == 0:
            changed[at : at + 1] = chances.randbytes(1)
        elif kind == 1:
            del changed[at : at + chances.randint(1, 30)]
        elif kind == 2:
            changed[at:at] = changed[at : at + chances.randint(1, 200)]
        else:
            changed[at:at] = chances.choice(
                (b'"', b"\0", b"\r", b"\n", b",", b"{", b"]", b"\xff", b"\\ud800")
            )
    return bytes(changed)
