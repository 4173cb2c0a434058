"""Host and Origin checks: this machine may call, and no website but the allowed ones (ARCHITECTURE 7)."""

import pytest
from fastapi import FastAPI

from callsheet.server.app import create_app
from callsheet.server.http import origins
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid
from tests.doubles.served import app_client


@pytest.fixture
def app() -> FastAPI:
    """An application that was never started: these checks need no storage."""
    return create_app(
        Settings(allow_origins=("https://studio.example",), allow_hosts=("callsheet.internal",))
    )


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:2024", "localhost", "localhost:80", "[::1]:2024", "app.localhost:1", "Callsheet.Internal:99"],
)
async def test_a_request_with_a_loopback_or_allowed_host_is_accepted(app: FastAPI, host: str) -> None:
    async with app_client(app) as client:
        assert (await client.get("/ok", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:2024",
        "10.0.0.1",
        "",
        "a b",
        "x:y",
        "127.0.0.1@e",
        "[::1].evil",
    ],
)
async def test_a_request_with_another_host_is_403(app: FastAPI, host: str) -> None:
    async with app_client(app) as client:
        reply = await client.get("/ok", headers={"Host": host})
    assert reply.status_code == 403
    assert repr(host) in reply.json()["error"]
    assert "CALLSHEET_ALLOW_HOSTS" in reply.json()["remedy"]


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000",
        "http://127.0.0.1:5173",
        "https://[::1]",
        origins.STUDIO,
        "https://studio.example",
    ],
)
async def test_loopback_origins_the_studio_and_allowed_origins_may_call(app: FastAPI, origin: str) -> None:
    async with app_client(app) as client:
        reply = await client.get("/ok", headers={"Origin": origin})
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == origin


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "https://smith.langchain.com.evil.example",
        "http://smith.langchain.com",
        "https://user@localhost",
        "file://",
        "https://studio.example.evil.example",
        "http://[::1].evil",
    ],
)
async def test_another_origin_is_403_even_for_a_plain_text_post(app: FastAPI, origin: str) -> None:
    """Browsers send a text/plain POST without a preflight request."""
    async with app_client(app) as client:
        reply = await client.post(
            "/api/ai/generate", content="{}", headers={"Origin": origin, "Content-Type": "text/plain"}
        )
    assert reply.status_code == 403
    assert repr(origin) in reply.json()["error"]
    assert "access-control-allow-origin" not in reply.headers


async def test_a_preflight_request_is_answered_with_the_allowed_headers(app: FastAPI) -> None:
    headers = {
        "Origin": origins.STUDIO,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,idempotency-key",
        "Access-Control-Request-Private-Network": "true",
    }
    async with app_client(app) as client:
        reply = await client.options("/api/ai/generate", headers=headers)
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-private-network"] == "true"
    assert "idempotency-key" in reply.headers["access-control-allow-headers"]


async def test_a_request_over_a_public_interface_is_403_even_with_a_loopback_host(app: FastAPI) -> None:
    async with app_client(app, base_url="http://192.168.1.7:2024") as client:
        reply = await client.get("/ok", headers={"Host": "localhost"})
    assert reply.status_code == 403
    assert reply.json()["error"] == "calls from other machines need authentication"


async def test_a_web_socket_of_another_origin_is_closed_before_the_handshake(app: FastAPI) -> None:
    sent = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"origin", b"https://evil.example")]
    scope = {
        "type": "websocket",
        "path": "/",
        "headers": headers,
        "server": ("127.0.0.1", 2024),
        "query_string": b"",
    }
    await app(scope, receive, send)  # type: ignore[arg-type]  # plain dicts are ASGI's messages
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "callsheet.internal"])
def test_a_bind_address_beyond_loopback_is_refused_without_authentication(host: str) -> None:
    with pytest.raises(Invalid, match="no authentication") as caught:
        create_app(Settings(host=host))
    assert repr(host) in caught.value.message
    assert "127.0.0.1" in caught.value.remedy


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost", "LOCALHOST.", "a.localhost"]
)
def test_loopback_names_and_addresses_are_recognised(host: str) -> None:
    assert origins.is_loopback(host)
