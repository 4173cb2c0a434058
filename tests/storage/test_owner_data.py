"""Everything that an owner has, exported and imported: equal afterwards, or refused without a change."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis import Redis

from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from callsheet.storage import Storage
from callsheet.storage.archive.owner_file import FileEntry, OwnerFileWriter
from tests.doubles.auth_cases import create_key
from tests.doubles.documented import OURS
from tests.doubles.served import app_client, served_app, started_app
from tests.storage.test_lifetimes import (
    OFFLINE,
    WORK,
    CountingClient,
    make_ad,
    make_campaigns,
    make_lesson,
    make_page,
    make_video,
    use_the_wire,
)

Change = Callable[[list[dict[str, Any]]], None]
_TIMES = {"updatedAt", "updated_at", "state_updated_at", "next_run_date", "indexedAt"}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[CountingClient]:
    async with served_app(valkey_url) as http:
        yield CountingClient(http)


async def export_data(client: CountingClient, **query: str) -> bytes:
    reply = await client.http.get("/api/data/export", params=query)
    assert reply.status_code == 200, reply.text
    return reply.content


def without_times(value: Any) -> Any:
    """The value without the times of changes, which an import is."""
    if isinstance(value, dict):
        return {name: without_times(part) for name, part in value.items() if name not in _TIMES}
    return [without_times(part) for part in value] if isinstance(value, list) else value


PARTS = (
    *[("ad", f"/api/ads/{{}}/{stream}") for stream in ("voices", "music", "sfx")],
    *[("video", f"/api/projects/{{}}/{part}") for part in ("scenes", "executions", "context")],
    ("page", "/api/pages/{}"),
)


async def read_everything(client: CountingClient) -> dict[str, Any]:
    """Return all that the routes show of the owner's data."""
    every = {"limit": 100}
    shown: dict[str, Any] = {}
    threads = await client.ok("POST", "/threads/search", {**every, "sort_by": "thread_id"})
    for one in threads:
        path = f"/threads/{one['thread_id']}"
        shown[path] = [one, await client.ok("POST", f"{path}/history", every)]
    for kind in ("ad", "page", "video", "lesson"):
        rows = (await client.ok("GET", f"/api/artefacts/{kind}"))["artefacts"]
        shown[kind] = sorted(rows, key=lambda row: str(row["id"]))
    for kind, path in PARTS:
        for row in shown[kind]:
            shown[path.format(row["id"])] = await client.ok("GET", path.format(row["id"]))
    for name, path, body in (
        ("assistants", "/assistants/search", {**every, "sort_by": "assistant_id"}),
        ("crons", "/runs/crons/search", every),
        ("items", "/store/items/search", {"namespace_prefix": [], **every}),
    ):
        shown[name] = await client.ok("POST", path, body)
    for path in ("presets", "preferences", "searches", "pronunciations", "campaigns"):
        shown[path] = await client.ok("GET", f"/api/{path}")
    return dict(without_times(shown))


async def do_mixed_work(client: CountingClient) -> None:
    for work in (make_ad, make_page, make_video, make_lesson, make_campaigns, use_the_wire):
        await work(client, work.__name__)
    assert len(WORK) == 6
    await client.ok("PUT", "/api/pronunciations", {"names": {"Miel": "me-EL"}})
    item = {"namespace": ["notes", "kept"], "key": "a b", "value": {"n": [1, None]}, "ttl": 600}
    await client.ok("PUT", "/store/items", item)
    [assistant] = await client.ok("POST", "/assistants/search", {"name": "use_the_wire"})
    await client.ok("PATCH", f"/assistants/{assistant['assistant_id']}", {"name": "second"})
    await client.ok("PATCH", "/assistants/ad_creation", {"context": OFFLINE})
    # The ad stays when its conversation is deleted.
    await make_ad(client, "alone")
    await client.ok("DELETE", "/threads/alone")


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_an_owners_imported_data_equals_the_exported(client: CountingClient, inspector: Redis) -> None:
    await do_mixed_work(client)
    for run in await client.ok("POST", "/threads/search", {"status": "busy", "limit": 100}):
        await client.ok("POST", "/runs/cancel", {"thread_id": run["thread_id"], "status": "all"})
    before, content = await read_everything(client), await export_data(client)
    assert b"left-out" not in content
    inspector.flushdb()
    done = await client.ok("POST", "/api/data/import", content=content)
    after = await read_everything(client)
    assert {name for name in before if before[name] != after.get(name)} == set()
    assert done["imported"]["campaign"] == 2
    assert done["imported"]["cron"] == 1
    assert before.keys() == after.keys()
    reply = await client.http.post("/api/data/import", content=content)
    assert (reply.status_code, "there is already" in reply.json()["error"]) == (409, True), reply.text
    assert await read_everything(client) == after


async def make_settings(client: CountingClient) -> bytes:
    """Make a few records, and return their export."""
    await client.ok("PUT", "/store/items", {"namespace": ["notes"], "key": "k", "value": {"text": "x"}})
    await client.ok("PUT", "/api/presets/quick", {"message": "make all scenes faster"})
    await client.ok("POST", "/threads", {"thread_id": "t-1"})
    run = {
        "assistant_id": "ad_creation",
        "input": {"messages": []},
        "webhook": "https://example.org/?token=s3",
    }
    await client.ok("POST", "/runs/crons", {**run, "schedule": "0 9 * * *"})
    return await export_data(client)


async def test_a_file_has_no_webhooks_and_no_keys(client: CountingClient) -> None:
    content = await make_settings(client)
    assert b"s3" not in content
    assert b"apikey" not in content


async def test_nothing_is_imported_where_a_record_of_it_exists(
    client: CountingClient, inspector: Redis
) -> None:
    content = await make_settings(client)
    inspector.flushdb()
    await client.ok("PUT", "/api/presets/quick", {"message": "make all scenes slower"})
    before = await read_everything(client)
    reply = await client.http.post("/api/data/import", content=content)
    assert (reply.status_code, "preset 'quick'" in reply.json()["error"]) == (409, True), reply.text
    assert await read_everything(client) == before


def damage(content: bytes) -> dict[str, bytes]:
    """Return damaged files by what is wrong with them."""
    lines = content.splitlines(keepends=True)
    return {
        "damaged": content.replace(b"faster", b"slower"),
        "incomplete": b"".join(lines[:-1]),
        "does not match": b"".join([*lines[:2], *lines[3:]]),
        "no owner's data": b"{}",
        "follow": content + lines[1],
    }


async def test_a_damaged_file_is_refused_before_anything_is_written(
    client: CountingClient, inspector: Redis
) -> None:
    content = await make_settings(client)
    inspector.flushdb()
    before = await read_everything(client)
    for words, damaged in damage(content).items():
        reply = await client.http.post("/api/data/import", content=damaged)
        assert (reply.status_code, words in reply.json()["error"]) == (422, True), reply.text
    assert await read_everything(client) == before


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("left-out", {"reason": None}, "has no name or no reason"),
        # It was imported, and no list of the owner's crons could be shown.
        ("cron", {"updated_ms": 10**16}, "has a wrong time"),
        ("cron", {"end_ms": 10**16}, "has a wrong time"),
    ],
)
async def test_a_record_that_no_export_has_is_refused(
    client: CountingClient, inspector: Redis, kind: str, change: dict[str, Any], words: str
) -> None:
    lines = [json.loads(line) for line in (await make_settings(client)).splitlines()]
    rows = {line["type"]: line["data"] for line in lines} | {"left-out": {"thread": "t"}}
    row = rows[kind]
    if "text" in row:
        row["text"] = json.dumps(json.loads(row["text"]) | change)
    else:
        row |= change
    inspector.flushdb()
    writer = OwnerFileWriter()
    content = writer.header({}) + writer.entry(FileEntry(kind, row)) + writer.end()
    reply = await client.http.post("/api/data/import", content=content)
    assert (reply.status_code, words in reply.json()["error"]) == (422, True), reply.text


async def test_a_thread_with_an_active_run_is_left_out_and_named(client: CountingClient) -> None:
    await client.ok("POST", "/threads", {"thread_id": "busy"})
    run = {"assistant_id": "ad_creation", "input": {"messages": []}, "after_seconds": 3600}
    await client.ok("POST", "/threads/busy/runs", run)
    await client.ok("POST", "/threads", {"thread_id": "idle"})
    lines = [json.loads(line) for line in (await export_data(client)).splitlines()]
    named = [line["data"].get("thread") for line in lines if line["type"] == "left-out"]
    exported = [line["data"]["id"] for line in lines if line["type"] == "thread-file"]
    assert exported + named in (["idle", "busy"], ["busy", "idle"])


async def test_a_thread_of_a_workflow_that_is_not_served_is_left_out_and_named(
    client: CountingClient, valkey_url: str
) -> None:
    """It ended the file after the first lines."""
    project = await client.ok("POST", "/api/projects", {"id": "launch", "starter": "product-launch"})
    await client.ok("POST", "/threads", {"thread_id": "plain"})
    graphs = {name: graph for name, graph in OURS.graphs.items() if name != "scene_edit"}
    app = create_app(Settings(redis_url=valkey_url), graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        lines = [json.loads(line) for line in (await export_data(CountingClient(http))).splitlines()]
    [left_out] = [line["data"] for line in lines if line["type"] == "left-out"]
    assert left_out["thread"] == project["threadId"]
    assert "no served workflow" in left_out["reason"]
    assert [line["data"]["id"] for line in lines if line["type"] == "thread-file"] == ["plain"]
    assert lines[-1]["type"] == "end"


async def test_campaigns_are_refused_by_a_server_without_their_workflow(
    client: CountingClient, valkey_url: str, inspector: Redis
) -> None:
    """Their lines were "of the unknown type 'campaign'", and the remedy was another export."""
    await make_campaigns(client, "c")
    content = await export_data(client)
    inspector.flushdb()
    graphs = {name: graph for name, graph in OURS.graphs.items() if name != "campaign_search"}
    app = create_app(Settings(redis_url=valkey_url), graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        reply = await http.post("/api/data/import", content=content)
    assert (reply.status_code, "'campaign_search' is not served here" in reply.text) == (422, True), (
        reply.text
    )


async def test_campaigns_that_a_server_does_not_export_are_named_in_the_file_and_at_the_import(
    client: CountingClient, valkey_url: str, inspector: Redis
) -> None:
    """They were missing in silence."""
    graphs = {name: graph for name, graph in OURS.graphs.items() if name != "campaign_search"}
    app = create_app(Settings(redis_url=valkey_url), graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        assert b"campaign" not in await export_data(CountingClient(http))
        await make_campaigns(client, "c")
        content = await export_data(CountingClient(http))
    inspector.flushdb()
    [left_out] = (await client.ok("POST", "/api/data/import", content=content))["leftOut"]
    assert (left_out["kind"], left_out["thread"]) == ("campaign", "campaigns")
    assert "'campaign_search' is not served" in left_out["reason"]


async def test_only_an_admin_exports_and_imports_the_data_of_others(
    valkey_url: str, storage: Storage
) -> None:
    async with started_app(valkey_url, auth=("keys",)) as app, app_client(app) as http:
        client = CountingClient(http)
        http.headers["X-Api-Key"] = await create_key(storage, "anna")
        await client.ok("PUT", "/store/items", {"namespace": ["n"], "key": "k", "value": {"text": "anna's"}})
        content = await export_data(client)
        assert b"anna's" in content
        http.headers["X-Api-Key"] = await create_key(storage, "ben")
        for method, path in (("GET", "export"), ("POST", "import")):
            reply = await http.request(method, f"/api/data/{path}", params={"owner": "anna"}, content=content)
            assert reply.status_code == 403, reply.text
        assert b"anna's" not in await export_data(client)
        await client.ok("POST", "/api/data/import", content=content)
        [item] = (await client.ok("POST", "/store/items/search", {"namespace_prefix": []}))["items"]
        assert item["value"] == {"text": "anna's"}
        http.headers["X-Api-Key"] = await create_key(storage, "carl", "admin")
        assert await export_data(client, owner="anna") == content
        await client.ok("POST", "/api/data/import?owner=dora", content=content)
        assert b"anna's" in await export_data(client, owner="dora")
