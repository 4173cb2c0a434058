"""A video's context and plans in the file of its thread: exported whole, refused if wrong."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callsheet.storage import Storage
from callsheet.storage.redis.scripts import execute
from callsheet.storage.video.context import ContextStore
from tests.doubles.served import served_app
from tests.storage.test_archive import change_lines, export_thread
from tests.storage.test_lifetimes import CountingClient, make_video

LONG = "web:https://example.com/?" + "x" * 300
"""Over the 255 characters of a key that is not hashed."""


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[CountingClient]:
    async with served_app(valkey_url) as http:
        yield CountingClient(http)


async def import_as(client: CountingClient, name: str, content: bytes) -> tuple[int, str]:
    reply = await client.http.post("/api/threads/import", params={"as": name}, content=content)
    return reply.status_code, reply.text


async def test_long_keys_of_context_are_exported_and_copied(client: CountingClient, storage: Storage) -> None:
    """Keys with the same first 255 characters too."""
    project = await client.ok("POST", "/api/projects", {"id": "launch", "starter": "product-launch"})
    for end in ("a", "b"):
        body = {"value": {"end": end}}
        await client.ok("PUT", f"/api/projects/launch/context/{'k' * 300}{end}", body)
        await ContextStore(storage, "launch", "local").set(LONG + end, {"end": end})
    before = await client.ok("GET", "/api/projects/launch/context")
    assert len(before["entries"]) == 4
    thread = project["threadId"]
    content = await export_thread(client.http, thread)
    status, text = await import_as(client, "imported", content)
    assert status == 201, text
    await client.ok("POST", f"/threads/{thread}/copy")
    assert await client.ok("GET", "/api/projects/imported/context") == before
    store = ContextStore(storage, "imported", "local")
    assert await store.get(LONG + "b") == {"end": "b"}
    longest = "web:" + "x" * 10_000
    await store.set(longest, [3])
    assert await store.get(longest) == [3]
    assert (await export_thread(client.http, "imported")).count(b'"key":"sha256:') == 1


async def test_context_of_an_older_server_with_a_cut_key_is_exported(
    client: CountingClient, storage: Storage
) -> None:
    """It is known by its hash."""
    project = await client.ok("POST", "/api/projects", {"id": "launch", "starter": "product-launch"})
    store = ContextStore(storage, "launch", "local")
    for end in ("a", "b"):
        await store.set(LONG + end, {"end": end})
    [key] = [name async for name in storage.redis.scan_iter("*context*")]
    fields: dict[bytes, bytes] = await storage.redis.hgetall(key)
    for name, stored in fields.items():
        head, _, entry = stored.partition(b" ")
        cut = json.dumps({**json.loads(entry), "key": LONG[:255]}).encode()
        await execute(storage.redis, "HSET", key, name, head + b" " + cut)
    content = await export_thread(client.http, project["threadId"])
    status, text = await import_as(client, "imported", content)
    assert status == 201, text
    assert await ContextStore(storage, "imported", "local").get(LONG + "b") == {"end": "b"}


async def test_times_and_sizes_that_no_server_writes_are_refused(client: CountingClient) -> None:
    """They were imported, and then nothing could be read."""
    await make_video(client, "launch")
    content = await export_thread(client.http, "launch")

    async def check(kind: str, change: dict[str, Any], status: int, part: str = "") -> None:
        def set_fields(lines: list[dict[str, Any]]) -> None:
            data = next(line["data"] for line in lines if line["type"] == kind)
            data = data["record"] if kind == "execution" else data
            (data["steps"][0] if part else data).update(change)

        reply = await import_as(client, "imported", change_lines(content, set_fields))
        assert reply[0] == status, (change, reply)

    for name in ("created_ms", "started_ms", "ended_ms"):
        for value in (2**63, -1):
            await check("execution", {name: value}, 422)
    await check("execution", {"started_ms": 2**63}, 422, "step")
    change = {"kind": "paused", "step": "", "before": {}, "after": {}, "at_ms": 2**63}
    await check("execution", {"changes": [change]}, 422)
    for name in ("created_s", "expires_s"):
        await check("context", {name: 10**14}, 422)
    await check("context", {"value": "x" * 3_000_000}, 413)
    await check("context", {"value": "x" * 100_000, "created_s": 10**10}, 201)
