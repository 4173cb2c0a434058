"""Export and import of a thread as a file: complete, or refused without a change."""

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
from tests.storage.test_lifetimes import CountingClient, make_video

Change = Callable[[list[dict[str, Any]]], None]


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[FastAPI]:
    async with started_app(valkey_url) as one:
        yield one


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app) as one:
        yield one


async def export_thread(client: httpx.AsyncClient, thread: str = "ad-1") -> bytes:
    reply = await client.get(f"/api/threads/{thread}/export")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    return reply.content


async def export_edited_ad(client: httpx.AsyncClient) -> bytes:
    """Export a thread with two turns, an active version and a mixer."""
    await generate_ad(client)
    await chat_about_ad(client, "make the music calmer")
    assert (await client.post("/api/ads/ad-1/music/v1/activate")).status_code == 200
    assert (await client.patch("/api/ads/ad-1/mixer", json={"voices": {"track-0": -3}})).status_code == 200
    return await export_thread(client)


_shared: list[bytes] = []


async def shared_export(client: httpx.AsyncClient, url: str) -> bytes:
    """The same export, made once for all tests that only read it; the server is emptied after it."""
    if not _shared:
        _shared.append(await export_edited_ad(client))
        flush(url)
    return _shared[0]


async def read_ad(client: httpx.AsyncClient, ad: str = "ad-1") -> dict[str, Any]:
    """Everything that the API shows of an ad and its conversation, without times."""
    state: dict[str, Any] = (await client.get(f"/api/ads/{ad}")).json()
    for stream in ("voices", "music", "sfx"):
        state[stream] = (await client.get(f"/api/ads/{ad}/{stream}")).json()
    state["history"] = (await client.post(f"/threads/{ad}/history", json={"limit": 100})).json()
    state["messages"] = (await client.get(f"/api/ads/{ad}/conversation")).json()["messages"]
    return {name: part for name, part in state.items() if name not in {"updatedAt", "createdAt"}}


def flush(url: str) -> None:
    with Redis.from_url(url) as redis:
        redis.flushall()


def list_keys(url: str) -> set[bytes]:
    with Redis.from_url(url) as redis:
        # Without the counters of callers and the keys of the task engine.
        kept = (key for key in redis.scan_iter() if b"owner:" not in key)
        return {key for key in kept if not key.startswith(b"callsheet:")}


def change_lines(content: bytes, change: Change) -> bytes:
    """The file with its lines changed and every checksum made to fit."""
    lines = [json.loads(line) for line in content.splitlines()]
    change(lines)
    writer = LineWriter()
    signed_lines = [writer.line(line["type"], line["data"]) for line in lines[:-1]]
    return b"".join([*signed_lines, writer.end()])


async def test_an_imported_thread_equals_the_exported_one_and_takes_another_turn(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    content = await export_edited_ad(client)
    before = await read_ad(client)
    flush(valkey_url)
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, reply.json()) == (
        201,
        {"threadId": "ad-1", "graph": "ad_creation", "artefact": "ad:ad-1"},
    )
    assert await read_ad(client) == before
    assert (await client.get("/api/ads")).json()["ads"][0]["adId"] == "ad-1"
    turn = await chat_about_ad(client, "make the music louder and add a whoosh at the start")
    assert turn["drafts"]["sfx"] == "v2"
    assert await read_ad(client) != before


async def test_two_exports_of_an_unchanged_thread_are_equal(client: httpx.AsyncClient) -> None:
    assert await export_edited_ad(client) == await export_thread(client)


@pytest.mark.slow
async def test_a_thread_imported_under_another_id_is_independent_of_the_original(
    client: httpx.AsyncClient,
) -> None:
    content = await export_edited_ad(client)
    before = await read_ad(client)
    reply = await client.post("/api/threads/import?as=copy", content=content)
    assert reply.json()["artefact"] == "ad:copy"
    copy = await read_ad(client, "copy")
    # The prompt has the new id of the ad; earlier messages keep the old one.
    assert "copy" in copy["messages"][0]["content"]
    assert copy["messages"][1:] == before["messages"][1:]
    assert copy["music"] == before["music"]
    turn = await chat_about_ad(client, "make the music faster", "copy")
    assert turn["drafts"] == {"music": "v3"}
    assert await read_ad(client) == before


async def test_files_and_copies_keep_the_locks_of_people(client: httpx.AsyncClient, valkey_url: str) -> None:
    await generate_ad(client)
    locked = (await client.put("/api/ads/ad-1/locks/music")).json()
    content = await export_thread(client)
    flush(valkey_url)
    for path in ("/api/threads/import", "/api/threads/import?as=copy"):
        assert (await client.post(path, content=content)).status_code == 201
    for ad in ("ad-1", "copy"):
        turn = await chat_about_ad(client, "make the music calmer", ad)
        assert turn["drafts"] == {}
        unlocked = (await client.delete(f"/api/ads/{ad}/locks/music")).json()
        assert ([one["stream"] for one in locked["locks"]], unlocked["locks"]) == (["music"], [])


async def test_receipts_are_imported_so_that_no_effect_is_repeated(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    content = await export_edited_ad(client)
    with Redis.from_url(valkey_url) as redis:
        before = redis.hgetall("ad:{ad-1}:receipts")
        await client.post("/api/threads/import?as=other", content=content)
        after = redis.hgetall("ad:{other}:receipts")
    assert sorted(before.values()) == sorted(after.values())
    assert {step_of(name.replace(b"ad-1|", b"other|", 1)) for name in before} == set(map(step_of, after))


def step_of(receipt: bytes) -> tuple[bytes, bytes]:
    """Return thread, task and step of a receipt's name, without the plan, whose copy has another id."""
    task, _, step = receipt.rpartition(b"|")
    return task, step.partition(b"/")[2]


async def test_an_import_never_overwrites_a_thread_or_an_artefact(client: httpx.AsyncClient) -> None:
    content = await export_edited_ad(client)
    before = await read_ad(client)
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, reply.json()["type"]) == (409, "conflict")
    assert "'ad-1'" in reply.json()["error"]
    await client.delete("/threads/ad-1")
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, "ad 'ad-1'" in reply.json()["error"]) == (409, True)
    assert (await client.get("/api/ads/ad-1/music")).json() == before["music"]
    assert (await client.get("/threads/ad-1")).status_code == 404


async def test_an_imported_thread_belongs_to_its_importer(client: httpx.AsyncClient, app: FastAPI) -> None:
    content = await export_edited_ad(client)
    context = app.state.context
    thread_archive = ThreadArchive(context.storage, context.saver, context.workflows, "1", context.features)
    record = await archive.import_file(thread_archive, content, "anna", new_id="hers")
    assert record.owner == "anna"
    assert (await client.get("/threads/hers")).status_code == 404
    assert b'"local"' not in b"".join(
        [line async for line in await archive.export_file(thread_archive, "hers", "anna")]
    )


def _data_of(kind: str) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    return lambda lines: next(line["data"] for line in lines if line["type"] == kind)


INCONSISTENT_FILES: dict[str, tuple[Change, str]] = {
    "another owner": (lambda lines: _data_of("artefact")(lines)["facts"].update(owner="anna"), "owner"),
    "an unfinished import": (
        lambda lines: _data_of("artefact")(lines)["facts"].update(importing="x"),
        "importing",
    ),
    "another graph": (lambda lines: _data_of("thread")(lines).update(graph="other"), "not served here"),
    "no id": (lambda lines: _data_of("thread")(lines).update(id=""), "id"),
    "an id that is no text": (lambda lines: _data_of("thread")(lines).update(id=7), "id"),
    "a control character": (lambda lines: _data_of("thread")(lines).update(id="a\x00"), "id"),
    "another artefact": (lambda lines: _data_of("artefact")(lines).update(id="ad-2"), "ad-2"),
    "an unknown kind": (lambda lines: lines[3].update(type="surprise"), "surprise"),
    "a private method": (lambda lines: lines[3].update(type="_check_versions"), "unknown type"),
    "a value too few": (
        lambda lines: lines.remove(next(x for x in lines if x["type"] == "value")),
        "inconsistent",
    ),
    "no thread": (lambda lines: lines.remove(next(x for x in lines if x["type"] == "thread")), "no thread"),
    "a version nobody counted": (lambda lines: _data_of("version")(lines).update(id="v99"), "v99"),
    "an active one that is missing": (lambda lines: _data_of("stream")(lines).update(active="v8"), "v8"),
    "data that is no music": (
        lambda lines: next(x for x in lines if x["data"].get("stream") == "music" and "data" in x["data"])[
            "data"
        ].update(data={"musicPrompt": 7}),
        "musicPrompt",
    ),
    "a lifetime without end": (lambda lines: _data_of("thread")(lines).update(ttl={"ttl": -1}), "ttl"),
    "a mixer that is none": (lambda lines: _data_of("artefact")(lines).update(mixer={"voices": 3}), "voices"),
    "a length that is no number": (
        lambda lines: _data_of("artefact")(lines)["facts"].update(spotSeconds="long"),
        "spotSeconds",
    ),
    "sources of another shape": (
        lambda lines: _data_of("artefact")(lines)["facts"].update(sources='{"items": 1}'),
        "sources",
    ),
    "pronunciations of another shape": (
        lambda lines: _data_of("artefact")(lines)["facts"].update(pronunciations="[1]"),
        "pronunciations",
    ),
    "pronunciations that are no JSON": (
        lambda lines: _data_of("artefact")(lines)["facts"].update(pronunciations="{"),
        "pronunciations",
    ),
    "an encoding of other kinds": (
        lambda lines: _data_of("checkpoint")(lines).update(metadata={"as": "pickle", "base64": ""}),
        "pickle",
    ),
    "base64 that is none": (
        lambda lines: _data_of("checkpoint")(lines).update(metadata={"as": "msgpack", "base64": "!"}),
        "cannot be read",
    ),
    "a checkpoint without its shape": (
        lambda lines: _data_of("checkpoint")(lines).update(checkpoint={"json": {"id": "1"}}),
        "inconsistent",
    ),
}


async def test_a_plan_whose_result_names_no_version_is_refused(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    await make_video(CountingClient(client), "film")
    content = (await client.get("/api/threads/film/export")).content
    flush(valkey_url)
    for wrong in (
        {"output": {"versionId": 5}},
        {"output": {"versionId": "v1", "versions": ["v1"]}},
        {"output": {"versionId": "v1", "versions": {"scene-1": None}}},
        {"earlier": [{"scene-1": "newest"}]},
    ):

        def change(lines: list[dict[str, Any]], wrong: dict[str, Any] = wrong) -> None:
            _data_of("execution")(lines)["record"]["steps"][0].update(wrong)

        reply = await client.post("/api/threads/import", content=change_lines(content, change))
        assert reply.status_code == 422, (wrong, reply.text)
        assert "without its version" in reply.json()["error"]
        assert list_keys(valkey_url) == set()
    assert (await client.post("/api/threads/import", content=content)).status_code == 201


async def test_an_imported_number_of_any_length_is_no_error_of_the_server(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        _data_of("artefact")(lines)["facts"]["removed:music"] = "9" * 5000

    content = change_lines(await shared_export(client, valkey_url), change)
    assert (await client.post("/api/threads/import", content=content)).status_code == 201
    assert (await client.get("/api/artefacts/ad/ad-1/music/v999")).status_code == 404


@pytest.mark.parametrize("name", INCONSISTENT_FILES)
async def test_an_inconsistent_file_is_refused_and_changes_nothing(
    client: httpx.AsyncClient, valkey_url: str, name: str
) -> None:
    change, word = INCONSISTENT_FILES[name]
    content = change_lines(await shared_export(client, valkey_url), change)
    reply = await client.post("/api/threads/import", content=content)
    assert reply.status_code in {400, 422}, reply.text
    assert word in reply.json()["error"]
    assert list_keys(valkey_url) == set()


async def test_a_damaged_file_is_refused_wherever_it_is_damaged(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    content = await shared_export(client, valkey_url)
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
        lines[0].replace(b'"version":4', b'"version":2') + b"".join(lines[1:]),
    ):
        reply = await client.post("/api/threads/import", content=damaged)
        assert (reply.status_code, reply.json()["type"]) == (422, "invalid"), (damaged[:80], reply.text)
        assert reply.json()["remedy"]
    assert list_keys(valkey_url) == set()
    assert (await client.post("/api/threads/import", content=content)).status_code == 201


@pytest.mark.parametrize("version", [1, 5])
async def test_a_file_of_another_version_is_refused_with_a_remedy(
    client: httpx.AsyncClient, valkey_url: str, version: int
) -> None:
    content = change_lines(
        await shared_export(client, valkey_url), lambda lines: lines[0]["data"].update(version=version)
    )
    reply = await client.post("/api/threads/import", content=content)
    assert reply.status_code == 422
    assert f"version {version} of the format; only 2 to 4 can be read" in reply.json()["error"]
    assert "export the thread again" in reply.json()["remedy"]
    assert list_keys(valkey_url) == set()


def as_version_2(lines: list[dict[str, Any]]) -> None:
    """Write lists as version 2 of the format did: with the number of each element."""
    lines[0]["data"]["version"] = 2
    for line in lines:
        if "spans" in line["data"]:
            spans = line["data"].pop("spans")
            line["data"]["elements"] = [first + at for first, count in spans for at in range(count)]


async def test_a_file_of_version_2_is_imported(client: httpx.AsyncClient, valkey_url: str) -> None:
    content = await export_edited_ad(client)
    before = await read_ad(client)
    flush(valkey_url)
    old = change_lines(content, as_version_2)
    assert b'"elements"' in old
    assert (await client.post("/api/threads/import", content=old)).status_code == 201
    assert await read_ad(client) == before


async def test_a_file_grows_with_a_conversation_and_not_with_its_square(client: httpx.AsyncClient) -> None:
    words = [{"values": {"messages": [{"role": "user", "content": f"turn {n}"}]}} for n in range(40)]
    steps = [{"updates": [{**one, "as_node": "planner"}]} for one in words]
    body = {"thread_id": "long", "metadata": {"graph_id": "page_builder"}, "supersteps": steps}
    assert (await client.post("/threads", json=body)).status_code == 200
    lines = [json.loads(line) for line in (await export_thread(client, "long")).splitlines()]
    lists = [line["data"]["spans"] for line in lines if line["data"].get("channel") == "messages"]
    assert lists == [[[0, count]] for count in range(1, 41)]


@pytest.mark.parametrize("span", [[0, 2**62], [2**40, 1], [-1, 1], [0], [0, 1, 1], ["0", 1], [0, 2**31]])
async def test_a_list_of_elements_that_are_not_there_is_refused(
    client: httpx.AsyncClient, valkey_url: str, span: list[Any]
) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        next(line["data"] for line in lines if "spans" in line["data"])["spans"].append(span)

    content = change_lines(await shared_export(client, valkey_url), change)
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, reply.json()["type"]) == (422, "invalid"), reply.text


@pytest.mark.parametrize(
    ("value", "elements", "spans", "error"),
    [
        ("", 3_000, 5_000, "elements in all"),
        ("x" * 500_000, 1, 1_100, "the lists of a state in the file have 55"),
    ],
)
async def test_a_small_file_cannot_fill_the_memory_with_long_lists(
    client: httpx.AsyncClient, valkey_url: str, value: str, elements: int, spans: int, error: str
) -> None:
    def change(lines: list[dict[str, Any]]) -> None:
        at = next(number for number, line in enumerate(lines) if "spans" in line["data"])
        first = max(line["data"]["number"] for line in lines if line["type"] == "element") + 1
        more = [
            {"type": "element", "data": {"number": first + number, "value": {"json": value}}}
            for number in range(elements)
        ]
        lines[at]["data"]["spans"] += [[first, elements]] * spans
        lines[at:at] = more

    content = change_lines(await shared_export(client, valkey_url), change)
    assert len(content) < 1_000_000
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, error in reply.json()["error"]) == (422, True), reply.text


class Harmful:
    """A class that no file may instantiate."""

    instances = 0

    def __init__(self, n: int = 0) -> None:
        type(self).instances += 1

    def model_dump(self) -> dict[str, int]:
        return {"n": 1}

    @classmethod
    def model_validate_json(cls, _text: str) -> "Harmful":
        return cls()


async def test_a_file_cannot_instantiate_an_untrusted_class(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    value = ValueCodec(trusted=True).encode(Harmful())
    before = Harmful.instances
    with pytest.raises(Invalid, match=r"test_archive\.Harmful"):
        ValueCodec().decode(value)
    assert Harmful.instances == before
    assert isinstance(ValueCodec(trusted=True).decode(value), Harmful)

    def change(lines: list[dict[str, Any]]) -> None:
        _data_of("value")(lines).update(value=value)
        _data_of("value")(lines).pop("spans", None)

    content = change_lines(await shared_export(client, valkey_url), change)
    reply = await client.post("/api/threads/import", content=content)
    assert (reply.status_code, "Harmful" in reply.json()["error"]) == (422, True)
    assert Harmful.instances == before + 1


async def test_an_interrupted_import_is_marked_as_an_error_and_can_be_repeated(
    client: httpx.AsyncClient, app: FastAPI, valkey_url: str
) -> None:
    content = await shared_export(client, valkey_url)
    context = app.state.context

    class FailingSaver(RedisSaver):
        """A saver whose storage fails during the import."""

        async def aput(self, *args: Any, **options: Any) -> Any:
            raise StorageDown("away")

        async def adelete_thread(self, thread_id: str) -> None:
            if await context.storage.redis.exists(f"ad:{{{thread_id}}}:meta"):
                raise StorageDown("away")

    thread_archive = ThreadArchive(
        context.storage, FailingSaver(context.storage.redis), context.workflows, "1", context.features
    )
    with pytest.raises(StorageDown):
        await archive.import_file(thread_archive, content, "local", new_id="cut")
    thread = (await client.get("/threads/cut")).json()
    assert (thread["status"], thread["error"]["error"]) == ("error", "ImportUnfinished")
    # Until its lease has expired, the import may still be at work.
    assert (await client.post("/api/threads/import?as=cut", content=content)).status_code == 409
    await context.storage.redis.delete("thread:{cut}:lease")
    reply = await client.post("/api/threads/import?as=cut", content=content)
    assert reply.status_code == 201, reply.text
    assert (await client.get("/threads/cut")).json()["status"] == "idle"
    assert (await chat_about_ad(client, "make the music faster", "cut"))["drafts"] == {"music": "v3"}


@pytest.mark.slow
async def test_of_concurrent_imports_under_one_id_exactly_one_succeeds(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    content = await shared_export(client, valkey_url)
    assert (await client.post("/api/threads/import", content=content)).status_code == 201
    replies = await asyncio.gather(
        *(client.post("/api/threads/import?as=twin", content=content) for _ in range(4))
    )
    assert sorted(reply.status_code for reply in replies) == [201, 409, 409, 409]
    first, twin = await read_ad(client), await read_ad(client, "twin")
    assert twin["music"] == first["music"]
    assert len(twin["history"]) == len(first["history"])


async def test_the_export_of_a_missing_thread_is_404(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/threads/none/export")).status_code == 404


async def test_an_import_has_a_size_limit_of_its_own_above_that_of_other_bodies(valkey_url: str) -> None:
    async with (
        started_app(valkey_url, max_body_bytes=2_000, max_import_bytes=3_000_000) as one,
        app_client(one) as client,
    ):
        await generate_ad(client)
        content = await export_thread(client)
        assert len(content) > 2_000
        assert (await client.post("/api/threads/import?as=b", content=content)).status_code == 201
        refused = await client.post("/api/threads/import", content=b" " * 3_000_001)
        assert refused.status_code == 413
        assert "callsheet threads import FILE" in refused.json()["remedy"]
        assert "CALLSHEET_MAX_IMPORT_BYTES" in refused.json()["remedy"]
        assert (await client.post("/api/ai/generate", content=b" " * 2_001)).status_code == 413
