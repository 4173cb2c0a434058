"""The routes /ok, /health, /docs and /openapi.json, also while storage is down (X13)."""

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter
from redis import Redis

from callsheet.server.operations.health_routes import Health
from callsheet.storage.embedded import watchdog
from tests.doubles.documented import resolve
from tests.doubles.needs import need
from tests.doubles.redis_server import RedisServer
from tests.doubles.served import GENERATE, generate_ad, served_app
from tests.doubles.wire_server import running_server

FILE_ROUTES = (
    "/uploads/{upload_id}",
    "/files/{file_id}",
    "/session/narration",
    "/session/quiz",
    "/assets/{asset_id}/file",
    "/campaigns/export",
    "/audio",
    "/preview",
    "/handoff",
    "/export",
    "/timeline.otio",
)
MEDIA_TYPES = {"application/json", "application/x-ndjson", "text/event-stream", "text/html", "text/plain"}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as client:
        yield client


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Valkey that the test may kill."""
    server = RedisServer(watchdog.binary(), tmp_path)
    server.start()
    yield server
    server.kill()


async def test_ok_answers_true(client: httpx.AsyncClient) -> None:
    assert (await client.get("/ok")).json() == {"ok": True}


def test_head_has_the_status_and_headers_of_get_without_a_body(valkey_url: str) -> None:
    """X13: monitoring may use HEAD."""
    with running_server(valkey_url) as url, httpx.Client(base_url=url, timeout=20) as client:
        for path in ("/ok", "/ready", "/health", "/docs", "/"):
            head, get = client.head(path), client.get(path)
            assert (head.status_code, head.content) == (get.status_code, b""), path
            for name in ("content-type", "location"):
                assert head.headers.get(name) == get.headers.get(name), path
        assert client.head("/docs").headers["content-length"] == str(len(client.get("/docs").content))
        documented = client.get("/openapi.json").json()["paths"]
    assert not [path for path, methods in documented.items() if "head" in methods]


async def test_health_reports_storage_and_the_provider_without_its_key(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    reply = await client.get("/health")
    health = reply.json()
    TypeAdapter(Health).validate_python(health)
    assert (reply.status_code, health["status"], health["storage"]["ok"]) == (200, "ok", True)
    assert health["provider"]["name"] == "offline"
    assert "OPENAI_API_KEY" in health["provider"]["reason"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    reply = await client.get("/health")
    assert reply.json()["provider"]["name"] == "openai"
    assert "sk-very-secret" not in reply.text


# The task engine leaves the connections of a server that died to the garbage collector.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:unclosed <StreamWriter", "ignore::pytest.PytestUnraisableExceptionWarning"
)
async def test_an_outage_of_storage_is_503_and_the_server_recovers_by_itself(server: RedisServer) -> None:
    """Never 500, always with Retry-After, and without a restart of the application."""
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


async def test_health_is_degraded_while_memory_is_nearly_full(server: RedisServer) -> None:
    """X13: the warning comes while everything still works."""
    async with served_app(server.url) as client:
        # Wait for the start to end, so that nothing else uses the memory that is left.
        assert (await client.get("/health")).status_code == 200
        with Redis.from_url(server.url) as redis:
            redis.config_set("maxmemory", redis.info("memory")["used_memory"] + 100_000)
            reply = await client.get("/health")
    health = reply.json()
    TypeAdapter(Health).validate_python(health)
    assert (reply.status_code, health["status"], health["degraded"]) == (200, "degraded", ["memory"])
    assert health["storage"]["ok"]
    assert "maxmemory" in health["remedy"]


@pytest.mark.slow
async def test_a_storage_server_that_became_a_replica_is_reported_and_writes_are_503(
    server: RedisServer, tmp_path: Path
) -> None:
    async with served_app(server.url) as client:
        with Redis.from_url(server.url) as redis:
            redis.replicaof("127.0.0.1", "1")
            reply = await client.get("/health")
            refusal = await client.post("/api/ai/generate", json=GENERATE)
    assert (reply.status_code, reply.json()["degraded"]) == (503, ["storage"])
    assert "replica" in reply.json()["error"]
    assert reply.headers["retry-after"] == "1"
    assert refusal.status_code == 503
    # The probe found this, within the promised time; the command's own retries would take longer.
    assert refusal.json()["error"].endswith("is a replica and takes no writes")


async def test_health_hides_the_password_of_redis(tmp_path: Path) -> None:
    server = RedisServer(watchdog.binary(), tmp_path, "--requirepass", "hunter2")
    server.start()
    try:
        async with served_app(f"redis://:hunter2@{server.address}") as client:
            reply = await client.get("/health")
    finally:
        server.kill()
    assert reply.status_code == 200
    assert "hunter2" not in reply.text
    assert server.address in reply.json()["storage"]["place"]


CONVERSATIONS = {
    "/api/ai/generate",
    "/api/chat",
    "/api/campaigns/export",
    "/api/ads",
    "/api/pages",
    "/api/projects",
}
"""Paths whose body or query may name a conversation or a source, so that they can be 404."""


async def test_every_operation_documents_its_description_replies_and_errors(
    client: httpx.AsyncClient,
) -> None:
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
            reply = resolve(spec, reply)  # noqa: PLW2901 -- one or the other form
            content = reply.get("content", {})
            assert all({"schema", "itemSchema"} & entry.keys() for entry in content.values()), (
                method,
                path,
                status,
            )
            # A file has its own media type.
            assert set(content) <= MEDIA_TYPES or path.endswith(FILE_ROUTES), (
                method,
                path,
            )
            assert bool(content) == (status not in {"202", "204", "304"}), (method, path, status)
        if path.startswith("/api/"):
            assert {"403", "500", "503"} <= operation["responses"].keys()
            parameters = {entry["name"] for entry in operation.get("parameters", ())}
            names = "{" in path or "sessionId" in parameters
            assert names == ("404" in operation["responses"]) or path in CONVERSATIONS, (method, path)


async def test_the_root_path_shows_the_console(client: httpx.AsyncClient) -> None:
    """The server's start message tells people to open this address; without its page, that is said there."""
    reply = await client.get("/")
    assert reply.status_code in {200, 404}
    assert "<title>Callsheet</title>" in reply.text


async def test_the_documentation_and_its_page_need_no_key(valkey_url: str) -> None:
    """A browser cannot send one with an address; what it tries out has the key that the page asks for."""
    async with served_app(valkey_url, auth=("keys",)) as client:
        for path in ("/docs", "/openapi.json", "/docs/start.js"):
            assert (await client.get(path)).status_code == 200, path
        assert (await client.get("/api/ads")).status_code == 401


async def test_the_documentation_page_loads_everything_from_its_own_server(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http" not in page.text + policy
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 4
    for address in addresses:
        asset = await client.get(f"/{address}")
        assert asset.status_code == 200, address
        kinds = {"css": "text/css", "js": "text/javascript", "json": "application/json"}
        assert asset.headers["content-type"].startswith(kinds[address.rpartition(".")[2]]), address
    assert (await client.get("/docs/other.js")).status_code == 404


async def test_tags_are_in_the_order_of_their_descriptions(client: httpx.AsyncClient) -> None:
    """The texts contain no numbers of requirements."""
    spec = (await client.get("/openapi.json")).json()
    tags = [tag["name"] for tag in spec["tags"]]
    used = {
        tag
        for methods in spec["paths"].values()
        for operation in methods.values()
        for tag in operation["tags"]
    }
    assert (tags[:2], set(tags)) == (["ads", "versions"], used)
    assert not re.findall(r"\([A-Z](?:-R)?\d+[^)]*\)", json.dumps(spec["paths"]))


@pytest.mark.slow
def test_the_documentation_page_shows_every_tag_in_a_browser(valkey_url: str) -> None:
    browser = need("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    with running_server(valkey_url) as url:
        page = subprocess.run(
            [str(browser), "--no-sandbox", "--virtual-time-budget=20000", "--dump-dom", f"{url}/docs"],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        tags = [tag["name"] for tag in httpx.get(f"{url}/openapi.json", timeout=30).json()["tags"]]
    assert [tag for tag in tags if f'data-tag="{tag}"' not in page] == []
    assert "Authorize" in page
