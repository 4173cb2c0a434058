"""A thread as a file: taken along whole, brought back whole or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from redis import Redis

from callsheet.server.artefacts import archive
from callsheet.server.artefacts.archive import ThreadArchive
from callsheet.state.errors import Invalid, StorageDown
from callsheet.storage.archive.lines import LineWriter, ValueCodec
from callsheet.storage.checkpoints import RedisSaver
from tests.doubles.served import app_client, chat_about_ad, generate_ad, started_app

Change = Callable[[list[dict[str, Any]]], None]


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[FastAPI]:
    async with started_app(valkey_url) as one:
        yield one


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app) as one:
        yield one


async def file_of(client: httpx.AsyncClient, thread: str = "ad-1") -> bytes:
    reply = await client.get(f"/api/threads/{thread}/export")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    return reply.content


async def refined(client: httpx.AsyncClient) -> bytes:
    """A thread with two turns, an active version and a mixer, as a file."""
    await generate_ad(client)
    await chat_about_ad(client, "make the music calmer")
    assert (await client.post("/api/ads/ad-1/music/v1/activate")).status_code == 200
    assert (await client.patch("/api/ads/ad-1/mixer", json={"voices": {"track-0": -3}})).status_code == 200
    return await file_of(client)


_made: list[bytes] = []


async def once(client: httpx.AsyncClient, url: str) -> bytes:
    """The same as a file that is made once for all tests that only read it; the server is empty then."""
    if not _made:
        _made.append(await refined(client))
        emptied(url)
    return _made[0]


async def shown(client: httpx.AsyncClient, ad: str = "ad-1") -> dict[str, Any]:
    """Everything callers see of an ad and its conversation, without the ids and the times of changes."""
    found: dict[str, Any] = (await client.get(f"/api/ads/{ad}")).json()
    for stream in ("voices", "music", "sfx"):
        found[stream] = (await client.get(f"/api/ads/{ad}/{stream}")).json()
    found["history"] = (await client.post(f"/threads/{ad}/history", json={"limit": 100})).json()
    found["messages"] = (await client.get(f"/api/ads/{ad}/conversation")).json()["messages"]
    return {name: part for name, part in found.items() if name not in {"updatedAt", "createdAt"}}


def emptied(url: str) -> None:
    with Redis.from_url(url) as redis:
        redis.flushall()


def keys_of(url: str) -> set[bytes]:
    with Redis.from_url(url) as redis:
        # Neither what is counted of a caller, nor what the task engine says of its workers.
        kept = (key for key in redis.scan_iter() if b"owner:" not in key)
        return {key for key in kept if not key.startswith(b"callsheet:")}


def changed(content: bytes, change: Change) -> bytes:
    """The file with its lines changed and every checksum made to fit."""
    lines = [json.loads(line) for line in content.splitlines()]
    change(lines)
    writer = LineWriter()
    written = [writer.line(line["type"], line["data"]) for line in lines[:-1]]
    return b"".join([*written, writer.end()])


async def test_a_thread_comes_back_as_it_was_and_goes_on(client: httpx.AsyncClient, valkey_url: str) -> None:
    content = await refined(client)
    before = await shown(client)
    emptied(valkey_url)
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, reply.json()) == (
        201,
        {"threadId": "ad-1", "graph": "ad_creation", "artefact": "ad:ad-1"},
    )
    assert await shown(client) == before
    assert (await client.get("/api/ads")).json()["ads"][0]["adId"] == "ad-1"
    turn = await chat_about_ad(client, "make the music louder and add a whoosh at the start")
    assert turn["drafts"]["sfx"] == "v2"
    assert await shown(client) != before


async def test_a_thread_that_did_not_change_is_the_same_file_again(client: httpx.AsyncClient) -> None:
    assert await refined(client) == await file_of(client)


@pytest.mark.slow
async def test_it_stands_beside_the_original_under_another_id(client: httpx.AsyncClient) -> None:
    content = await refined(client)
    before = await shown(client)
    reply = await client.post("/api/threads/import?as=copy", content=content)
    assert reply.json()["artefact"] == "ad:copy"
    copy = await shown(client, "copy")
    # The prompt names the ad anew; what was said before keeps the old name.
    assert "copy" in copy["messages"][0]["content"]
    assert copy["messages"][1:] == before["messages"][1:]
    assert copy["music"] == before["music"]
    turn = await chat_about_ad(client, "make the music faster", "copy")
    assert turn["drafts"] == {"music": "v3"}
    assert await shown(client) == before


async def test_a_receipt_goes_along_so_that_nothing_happens_twice(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    content = await refined(client)
    with Redis.from_url(valkey_url) as redis:
        before = redis.hgetall("ad:{ad-1}:receipts")
        await client.post("/api/threads/import?as=other", content=content)
        after = redis.hgetall("ad:{other}:receipts")
    assert sorted(before.values()) == sorted(after.values())
    assert {name.replace(b"ad-1|", b"other|", 1) for name in before} == set(after)


async def test_what_is_there_is_never_written_over(client: httpx.AsyncClient) -> None:
    content = await refined(client)
    before = await shown(client)
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, reply.json()["type"]) == (409, "conflict")
    assert "'ad-1'" in reply.json()["error"]
    await client.delete("/threads/ad-1")
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, "ad 'ad-1'" in reply.json()["error"]) == (409, True)
    assert (await client.get("/api/ads/ad-1/music")).json() == before["music"]
    assert (await client.get("/threads/ad-1")).status_code == 404


async def test_the_importer_owns_what_was_anothers(client: httpx.AsyncClient, app: FastAPI) -> None:
    content = await refined(client)
    here = app.state.context
    shelf = ThreadArchive(here.storage, here.saver, here.workflows, "1", here.features)
    record = await archive.import_thread(shelf, content, "anna", new_id="hers")
    assert record.owner == "anna"
    assert (await client.get("/threads/hers")).status_code == 404
    assert b'"local"' not in b"".join(
        [line async for line in await archive.export_thread(shelf, "hers", "anna")]
    )


def _line(kind: str) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    return lambda lines: next(line["data"] for line in lines if line["type"] == kind)


BAD: dict[str, tuple[Change, str]] = {
    "another owner": (lambda lines: _line("artefact")(lines)["facts"].update(owner="anna"), "owner"),
    "an unfinished import": (
        lambda lines: _line("artefact")(lines)["facts"].update(importing="x"),
        "importing",
    ),
    "another graph": (lambda lines: _line("thread")(lines).update(graph="other"), "not served here"),
    "no id": (lambda lines: _line("thread")(lines).update(id=""), "id"),
    "an id that is no text": (lambda lines: _line("thread")(lines).update(id=7), "id"),
    "a control character": (lambda lines: _line("thread")(lines).update(id="a\x00"), "id"),
    "another artefact": (lambda lines: _line("artefact")(lines).update(id="ad-2"), "ad-2"),
    "an unknown kind": (lambda lines: lines[3].update(type="surprise"), "surprise"),
    "a private method": (lambda lines: lines[3].update(type="_check_versions"), "unknown type"),
    "a value too few": (
        lambda lines: lines.remove(next(x for x in lines if x["type"] == "value")),
        "inconsistent",
    ),
    "no thread": (lambda lines: lines.remove(next(x for x in lines if x["type"] == "thread")), "no thread"),
    "a version nobody counted": (lambda lines: _line("version")(lines).update(id="v99"), "v99"),
    "an active one that is missing": (lambda lines: _line("stream")(lines).update(active="v8"), "v8"),
    "data that is no music": (
        lambda lines: next(x for x in lines if x["data"].get("stream") == "music" and "data" in x["data"])[
            "data"
        ].update(data={"musicPrompt": 7}),
        "musicPrompt",
    ),
    "a lifetime without end": (lambda lines: _line("thread")(lines).update(ttl={"ttl": -1}), "ttl"),
    "a mixer that is none": (lambda lines: _line("artefact")(lines).update(mixer={"voices": 3}), "voices"),
    "a length that is no number": (
        lambda lines: _line("artefact")(lines)["facts"].update(spotSeconds="long"),
        "spotSeconds",
    ),
    "an encoding of other kinds": (
        lambda lines: _line("checkpoint")(lines).update(metadata={"as": "pickle", "base64": ""}),
        "pickle",
    ),
    "base64 that is none": (
        lambda lines: _line("checkpoint")(lines).update(metadata={"as": "msgpack", "base64": "!"}),
        "cannot be read",
    ),
    "a checkpoint without its shape": (
        lambda lines: _line("checkpoint")(lines).update(checkpoint={"json": {"id": "1"}}),
        "inconsistent",
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_file_with_something_wrong_in_it_changes_nothing(
    client: httpx.AsyncClient, valkey_url: str, name: str
) -> None:
    change, word = BAD[name]
    content = changed(await once(client, valkey_url), change)
    reply = await client.post("/api/threads/import", content=content)
    assert reply.status_code in {400, 422}, reply.text
    assert word in reply.json()["error"]
    assert keys_of(valkey_url) == set()


async def test_a_damaged_file_is_refused_wherever_it_is_damaged(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    content = await once(client, valkey_url)
    middle = content.index(b"musicPrompt")
    lines = content.splitlines(keepends=True)
    for damaged in (
        content[: middle + 2] + b"X" + content[middle + 3 :],
        content[: len(content) // 2],
        b"".join(lines[:-1]),
        b"".join(lines[:4] + lines[5:]),
        b"".join([*lines, lines[2]]),
        b"".join([lines[0], lines[2], lines[1], *lines[3:]]),
        b"",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"type": "header", "sha256": 3, "data": []}',
        lines[0].replace(b'"version":2', b'"version":3') + b"".join(lines[1:]),
    ):
        reply = await client.post("/api/threads/import", content=damaged)
        assert (reply.status_code, reply.json()["type"]) == (400, "invalid"), (damaged[:80], reply.text)
        assert reply.json()["remedy"]
    assert keys_of(valkey_url) == set()
    assert (await client.post("/api/threads/import", content=content)).status_code == 201


@pytest.mark.parametrize("version", [1, 3])
async def test_a_file_of_another_version_is_refused_with_a_remedy(
    client: httpx.AsyncClient, valkey_url: str, version: int
) -> None:
    content = changed(await once(client, valkey_url), lambda lines: lines[0]["data"].update(version=version))
    reply = await client.post("/api/threads/import", content=content)
    assert reply.status_code == 400
    assert f"version {version} of the format; only version 2" in reply.json()["error"]
    assert "export the thread again" in reply.json()["remedy"]
    assert keys_of(valkey_url) == set()


class Harmful:
    """What a file must not be able to make."""

    made = 0

    def __init__(self, n: int = 0) -> None:
        type(self).made += 1

    def model_dump(self) -> dict[str, int]:
        return {"n": 1}

    @classmethod
    def model_validate_json(cls, _text: str) -> "Harmful":
        return cls()


async def test_a_type_that_could_run_code_is_not_made(client: httpx.AsyncClient, valkey_url: str) -> None:
    value = ValueCodec(trusted=True).encode(Harmful())
    before = Harmful.made
    with pytest.raises(Invalid, match=r"test_archive\.Harmful"):
        ValueCodec().decode(value)
    assert Harmful.made == before
    assert isinstance(ValueCodec(trusted=True).decode(value), Harmful)

    def change(lines: list[dict[str, Any]]) -> None:
        _line("value")(lines).update(value=value)
        _line("value")(lines).pop("elements", None)

    content = changed(await once(client, valkey_url), change)
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, "Harmful" in reply.json()["error"]) == (400, True)
    assert Harmful.made == before + 1


async def test_what_a_cut_off_import_left_is_begun_anew(
    client: httpx.AsyncClient, app: FastAPI, valkey_url: str
) -> None:
    content = await once(client, valkey_url)
    here = app.state.context

    class Failing(RedisSaver):
        """A saver whose storage goes away in the middle."""

        async def aput(self, *args: Any, **options: Any) -> Any:
            raise StorageDown("away")

        async def adelete_thread(self, thread_id: str) -> None:
            if await here.storage.redis.exists(f"ad:{{{thread_id}}}:meta"):
                raise StorageDown("away")

    shelf = ThreadArchive(here.storage, Failing(here.storage.redis), here.workflows, "1", here.features)
    with pytest.raises(StorageDown):
        await archive.import_thread(shelf, content, "local", new_id="cut")
    left = (await client.get("/threads/cut")).json()
    assert (left["status"], left["error"]["error"]) == ("error", "ImportUnfinished")
    # Until its lease has run out, it may be an import that is only slow.
    assert (await client.post("/api/threads/import?as=cut", content=content)).status_code == 409
    await here.storage.redis.delete("thread:{cut}:lease")
    reply = await client.post("/api/threads/import?as=cut", content=content)
    assert reply.status_code == 201, reply.text
    assert (await client.get("/threads/cut")).json()["status"] == "idle"
    assert (await chat_about_ad(client, "make the music faster", "cut"))["drafts"] == {"music": "v3"}


@pytest.mark.slow
async def test_of_many_imports_at_once_all_but_one_are_refused_and_nothing_is_mixed(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    content = await once(client, valkey_url)
    assert (await client.post("/api/threads/import", content=content)).status_code == 201
    replies = await asyncio.gather(
        *(client.post("/api/threads/import?as=twin", content=content) for _ in range(4))
    )
    assert sorted(reply.status_code for reply in replies) == [201, 409, 409, 409]
    first, twin = await shown(client), await shown(client, "twin")
    assert twin["music"] == first["music"]
    assert len(twin["history"]) == len(first["history"])


async def test_a_thread_that_is_not_there_has_no_file(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/threads/none/export")).status_code == 404


async def test_a_file_may_be_larger_than_other_bodies_and_has_a_limit_of_its_own(valkey_url: str) -> None:
    async with (
        started_app(valkey_url, max_body_bytes=2_000, max_import_bytes=3_000_000) as one,
        app_client(one) as client,
    ):
        await generate_ad(client)
        content = await file_of(client)
        assert len(content) > 2_000
        assert (await client.post("/api/threads/import?as=b", content=content)).status_code == 201
        refused = await client.post("/api/threads/import", content=b" " * 3_000_001)
        assert refused.status_code == 413
        assert "callsheet threads import FILE" in refused.json()["remedy"]
        assert "CALLSHEET_MAX_IMPORT_BYTES" in refused.json()["remedy"]
        assert (await client.post("/api/ai/generate", content=b" " * 2_001)).status_code == 413
