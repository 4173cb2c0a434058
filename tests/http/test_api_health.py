"""How the server is and what it offers: /ok, /health, /docs; and storage that goes away (X13)."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter
from redis import Redis

from callsheet.server.operations.replies import Health
from callsheet.storage.embedded import watchdog
from tests.doubles.redis_server import RedisServer
from tests.doubles.served import GENERATE, app_client, generate_ad, served_app, started_app
from tests.doubles.waiting import eventually
from tests.doubles.wire_server import running_server

FILES = (
    "/uploads/{upload_id}",
    "/files/{file_id}",
    "/session/narration",
    "/assets/{asset_id}/file",
    "/campaigns/export",
)
MEDIA = {"application/json", "application/x-ndjson", "text/event-stream", "text/html", "text/plain"}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as one:
        yield one


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Valkey of the test's own, to be killed."""
    one = RedisServer(watchdog.binary(), tmp_path)
    one.start()
    yield one
    one.kill()


async def test_the_server_says_that_it_is_up(client: httpx.AsyncClient) -> None:
    assert (await client.get("/ok")).json() == {"ok": True}


def test_what_watches_a_server_may_ask_without_the_body(valkey_url: str) -> None:
    """X13: HEAD is answered as GET is, by its head alone."""
    with running_server(valkey_url) as url, httpx.Client(base_url=url, timeout=20) as client:
        for path in ("/ok", "/health", "/docs", "/"):
            asked, whole = client.head(path), client.get(path)
            assert (asked.status_code, asked.content) == (whole.status_code, b""), path
            for name in ("content-type", "location"):
                assert asked.headers.get(name) == whole.headers.get(name), path
        assert client.head("/docs").headers["content-length"] == str(len(client.get("/docs").content))
        described = client.get("/openapi.json").json()["paths"]
    assert not [path for path, methods in described.items() if "head" in methods]


async def test_health_says_where_the_data_is_and_who_would_answer(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    reply = await client.get("/health")
    found = reply.json()
    TypeAdapter(Health).validate_python(found)
    assert (reply.status_code, found["status"], found["storage"]["ok"]) == (200, "ok", True)
    assert found["provider"]["name"] == "offline"
    assert "OPENAI_API_KEY" in found["provider"]["reason"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    reply = await client.get("/health")
    assert reply.json()["provider"]["name"] == "openai"
    assert "sk-very-secret" not in reply.text


# The task engine leaves the connections of a server that died to the garbage collector.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:unclosed <StreamWriter", "ignore::pytest.PytestUnraisableExceptionWarning"
)
async def test_storage_that_goes_away_is_503_and_comes_back_by_itself(server: RedisServer) -> None:
    """Never 500, always with Retry-After, and the same application goes on afterwards."""
    async with served_app(server.url) as client:
        await generate_ad(client)
        server.kill()
        health = await client.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "degraded")
        assert health.json()["degraded"] == ["storage"]
        TypeAdapter(Health).validate_python(health.json())
        replies = await asyncio.gather(
            client.get("/api/ads/ad-1"), client.post("/api/ai/generate", json=GENERATE)
        )
        for reply in replies:
            assert (reply.status_code, reply.json()["type"]) == (503, "storage_down"), reply.text
            assert int(reply.headers["retry-after"]) >= 1
        assert (await client.get("/ok")).status_code == 200
        server.start()
        assert (await client.get("/health")).status_code == 200
        await generate_ad(client)


async def test_a_full_memory_is_a_warning_before_it_is_a_failure(server: RedisServer) -> None:
    """X13: what is in danger is named while everything still works."""
    async with served_app(server.url) as client:
        # The start is over, so that nothing else takes the memory that is left.
        assert (await client.get("/health")).status_code == 200
        with Redis.from_url(server.url) as redis:
            redis.config_set("maxmemory", redis.info("memory")["used_memory"] + 40_000)
            reply = await client.get("/health")
    found = reply.json()
    TypeAdapter(Health).validate_python(found)
    assert (reply.status_code, found["status"], found["degraded"]) == (200, "degraded", ["memory"])
    assert found["storage"]["ok"]
    assert "maxmemory" in found["remedy"]


@pytest.mark.slow
async def test_a_replica_is_of_no_use(server: RedisServer, tmp_path: Path) -> None:
    async with served_app(server.url) as client:
        with Redis.from_url(server.url) as redis:
            redis.replicaof("127.0.0.1", "1")
            reply = await client.get("/health")
            refused = await client.post("/api/ai/generate", json=GENERATE)
    assert (reply.status_code, reply.json()["degraded"]) == (503, ["storage"])
    assert "replica" in reply.json()["error"]
    assert reply.headers["retry-after"] == "1"
    assert refused.status_code == 503
    # By the probe, within the promised time; the command's own retries would take longer.
    assert refused.json()["error"].endswith("is a replica and takes no writes")


async def test_the_password_of_redis_is_shown_nowhere(tmp_path: Path) -> None:
    one = RedisServer(watchdog.binary(), tmp_path, "--requirepass", "hunter2")
    one.start()
    try:
        async with served_app(f"redis://:hunter2@{one.address}") as client:
            reply = await client.get("/health")
    finally:
        one.kill()
    assert reply.status_code == 200
    assert "hunter2" not in reply.text
    assert one.address in reply.json()["storage"]["place"]


CONVERSATIONS = {"/api/ai/generate", "/api/chat", "/api/campaigns/export"}
"""Paths whose body or query may name a conversation."""


async def test_every_operation_is_described_with_its_reply_and_its_errors(client: httpx.AsyncClient) -> None:
    spec = (await client.get("/openapi.json")).json()
    assert "HTTPValidationError" not in str(spec)
    operations = [
        (path, method, operation)
        for path, methods in spec["paths"].items()
        for method, operation in methods.items()
    ]
    for path, method, operation in operations:
        assert operation["description"], (method, path)
        for status, reply in operation["responses"].items():
            media = reply.get("content", {})
            assert all({"schema", "itemSchema"} & one.keys() for one in media.values()), (
                method,
                path,
                status,
            )
            # A file is sent as what it is.
            assert set(media) <= MEDIA or path.endswith(FILES), (
                method,
                path,
            )
            assert bool(media) == (status not in {"202", "204"}), (method, path, status)
        if path.startswith("/api/"):
            assert {"403", "500", "503"} <= operation["responses"].keys()
            parameters = {one["name"] for one in operation.get("parameters", ())}
            names = "{" in path or "sessionId" in parameters
            assert names == ("404" in operation["responses"]) or path in CONVERSATIONS, (method, path)


async def test_who_opens_the_address_of_the_server_sees_the_documentation(client: httpx.AsyncClient) -> None:
    """It is the address the server says to open."""
    reply = await client.get("/", follow_redirects=True)
    assert (reply.status_code, reply.url.path) == (200, "/docs")


@pytest.mark.slow
async def test_the_documentation_has_a_section_for_everything(client: httpx.AsyncClient) -> None:
    """Each is said in a few words, without the numbers of our requirements."""
    spec = (await client.get("/openapi.json")).json()
    named = [tag["name"] for tag in spec["tags"]]
    used = {tag for methods in spec["paths"].values() for one in methods.values() for tag in one["tags"]}
    assert (named[:2], set(named)) == (["ads", "versions"], used)
    page = (await client.get("/docs")).text
    assert page.count("<details>") == sum(len(methods) for methods in spec["paths"].values())
    for name in named:
        place = name.replace(" ", "-")
        assert f'<a href="#{place}">{name}</a>' in page
        assert f'<h2 id="{place}">{name}</h2>' in page
    assert not re.findall(r"\([A-Z](?:-R)?\d+[^)]*\)", json.dumps(spec["paths"]) + page)
    assert "<code>drafts</code> names only what changed" in page
    assert "<td><code>brief</code></td><td>string or object, required</td>" in page


@pytest.mark.slow
async def test_the_documentation_needs_no_other_site(client: httpx.AsyncClient) -> None:
    """Every operation is on the page, and the page loads nothing."""
    reply = await client.get("/docs")
    assert reply.headers["content-type"].startswith("text/html")
    spec = (await client.get("/openapi.json")).json()
    for path in spec["paths"]:
        assert f"<code>{path}</code>" in reply.text
    assert not re.findall(r"<(?:script|link|img|iframe)|https?://", reply.text)


async def test_a_server_that_leaves_runs_to_workers_is_degraded_without_one(valkey_url: str) -> None:
    """The remedy is a worker; once one is there, the server is well."""
    async with started_app(valkey_url, carry_runs=False) as app, app_client(app) as client:

        async def degraded() -> list[str]:
            health = (await client.get("/health")).json()
            TypeAdapter(Health).validate_python(health)
            return list(health.get("degraded", ()))

        async def reported() -> bool:
            # The task queue is loaded in the background.
            return await degraded() == ["workers"]

        await eventually(reported, "the missing worker is reported")
        health = (await client.get("/health")).json()
        assert health["status"] == "degraded"
        assert "callsheet worker" in health["remedy"]
        async with started_app(valkey_url):

            async def well() -> bool:
                return not await degraded()

            await eventually(well, "a worker's heartbeat")
