"""Permissions of requests, the config that a caller may set, and the middleware's refusals (X16)."""

import logging
from typing import Any

import pytest
from fastapi import FastAPI

from callsheet.server.app import create_app
from callsheet.server.engine.permissions import PERMISSIONS
from callsheet.server.http import origins
from callsheet.server.http.auth import (
    ANYONE,
    AuthenticationMiddleware,
    Authenticator,
    get_caller,
    public_config,
    required_permission,
)
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry import logs
from callsheet.state.errors import Broken, Invalid
from callsheet.storage import Storage
from tests.doubles.auth_cases import bearer, create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.served import app_client, route_permission, scope_with_policy, started_app
from tests.doubles.signing import SECRET, shared_secret_token


@pytest.mark.parametrize(
    ("method", "path", "permission"),
    [
        ("GET", "/threads/t", "read"),
        ("HEAD", "/docs", "public"),
        ("GET", "/threads/t/runs/r/stream", "read"),
        ("POST", "/threads/search", "read"),
        ("POST", "/threads/t/history", "read"),
        ("POST", "/threads/t/state/checkpoint", "read"),
        ("POST", "/threads/t/stream/events", "read"),
        ("POST", "/assistants/a/versions", "read"),
        ("POST", "/store/namespaces", "read"),
        ("POST", "/threads/search/", "read"),
        ("POST", "/threads", "write"),
        ("POST", "/threads/t/state", "write"),
        ("POST", "/threads/t/commands", "write"),
        ("POST", "/threads/search/runs/stream", "write"),
        ("POST", "/assistants/a/latest", "write"),
        ("POST", "/api/ads/search/chat", "write"),
        ("PUT", "/store/items", "write"),
        ("DELETE", "/threads/search", "write"),
        ("POST", "/something/new", "write"),
        ("GET", "/metrics", "admin"),
        ("POST", "/metrics", "admin"),
    ],
)
def test_a_request_needs_write_unless_its_route_only_reads(method: str, path: str, permission: str) -> None:
    assert route_permission(method, path) == permission


@pytest.mark.parametrize(
    ("query", "permission"),
    [
        ("", "read"),
        ("cancel_on_disconnect=0", "read"),
        ("cancel_on_disconnect=False", "read"),
        ("cancel_on_disconnect=1", "write"),
        ("cancel_on_disconnect=true", "write"),
        ("a=b&cancel_on_disconnect=false&cancel_on_disconnect=1", "write"),
        ("%63ancel_on_disconnect=1", "write"),
    ],
)
def test_a_stream_that_cancels_its_run_on_disconnect_needs_write(query: str, permission: str) -> None:
    assert route_permission("GET", "/threads/t/runs/r/stream", query) == permission


def test_a_web_socket_needs_write_since_it_carries_commands() -> None:
    scope = {"type": "websocket", "path": "/threads/t/stream/events"}
    assert required_permission(scope_with_policy(scope)) == "write"


def test_the_caller_of_a_request_without_authentication_middleware_is_an_error() -> None:
    with pytest.raises(Broken, match="bypassed authentication"):
        get_caller({"type": "http", "path": "/threads"})


def test_without_authentication_the_local_owner_has_all_permissions() -> None:
    assert (ANYONE.owner, ANYONE.permissions) == ("local", frozenset(PERMISSIONS))


@pytest.mark.parametrize("part", ["configurable", "metadata"])
def test_fields_that_only_the_server_may_set_are_dropped_from_a_callers_config(part: str) -> None:
    fields = {
        "model": "openai",
        "checkpoint_id": "c",
        "__callsheet_owner": "alice",
        "__pregel_resuming": True,
        "langgraph_auth_user": {"identity": "alice"},
        "langgraph_auth_user_id": "alice",
        "langgraph_auth_permissions": ["admin"],
        "thread_id": "hers",
        "run_id": "hers",
    }
    assert public_config({part: fields}) == {part: {"model": "openai", "checkpoint_id": "c"}}
    assert fields["thread_id"] == "hers", "the caller's own object stays as it is"


def test_other_fields_of_a_callers_config_are_kept() -> None:
    config = {"recursion_limit": 7, "tags": ["a"], "run_name": "x", "configurable": {"_one": 1}}
    assert public_config({**config, "callbacks": ["x"], "run_id": "r", "metadata": None}) == config
    assert public_config({}) == {}


@pytest.mark.parametrize("value", [7, "text", ["thread_id"], False])
def test_a_config_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(Invalid, match=r"config\.configurable"):
        public_config({"configurable": value})


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"jwt_secret": SECRET}, "does not include jwt"),
        ({"auth": ("keys",), "jwks_url": "https://a.example"}, "does not include jwt"),
        ({"auth": ("jwt",)}, "need a secret or published keys"),
    ],
)
def test_contradictory_authentication_settings_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(Invalid, match=rule):
        create_app(Settings(**settings))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7"])
def test_any_bind_address_is_allowed_with_authentication(host: str) -> None:
    """ARCHITECTURE 7: any other bind address needs authentication."""
    with pytest.raises(Invalid, match="no authentication"):
        origins.require_safe_binding(Settings(host=host))
    origins.require_safe_binding(Settings(host=host, auth=("keys",)))


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://callsheet.example", 200),
        ("http://localhost:3000", 200),
        ("https://evil.example", 403),
        ("https://callsheet.example.evil.example", 403),
        ("null", 403),
    ],
)
async def test_with_authentication_only_same_origin_loopback_and_allowed_pages_may_call(
    origin: str, status: int
) -> None:
    app = create_app(Settings(auth=("keys",)))
    async with app_client(app, base_url="http://10.1.2.3:2024") as client:
        reply = await client.get("/ok", headers={"Host": "callsheet.example", "Origin": origin})
    assert reply.status_code == status


async def test_a_preflight_request_needs_no_key() -> None:
    headers = {
        "Origin": "http://localhost:3000",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key,content-type",
    }
    async with app_client(create_app(Settings(auth=("keys",)))) as client:
        reply = await client.options("/threads", headers=headers)
    assert reply.status_code == 200
    assert "x-api-key" in reply.headers["access-control-allow-headers"]


async def test_a_401_has_the_cors_headers_that_let_a_page_read_it(valkey_url: str) -> None:
    async with started_app(valkey_url, auth=("keys",)) as app, app_client(app) as client:
        reply = await client.get("/api/ads", headers={"Origin": "http://localhost:3000"})
    assert reply.status_code == 401
    assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "WWW-Authenticate" in reply.headers["access-control-expose-headers"]


async def open_web_socket(app: Any, headers: list[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    """Open a web socket; return the messages that the application sends."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/threads/t/stream/events",
        "headers": [(b"host", b"localhost"), *headers],
        "server": ("127.0.0.1", 2024),
        "query_string": b"",
        "subprotocols": [],
    }
    await app(scope, receive, send)
    return sent


async def test_a_web_socket_without_write_permission_is_closed_before_the_handshake(
    valkey_url: str, storage: Storage
) -> None:
    async with started_app(valkey_url, auth=("keys",)) as app:
        assert await open_web_socket(app, []) == [{"type": "websocket.close", "code": 1008}]
        read_only = (b"x-api-key", (await create_key(storage, "alice", "read")).encode())
        assert await open_web_socket(app, [read_only]) == [{"type": "websocket.close", "code": 1008}]


async def test_a_web_socket_with_a_key_gets_its_owner_as_caller_and_in_the_log(storage: Storage) -> None:
    owners = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        owners.append((get_caller(scope).owner, logs.context_fields()["owner"]))

    class State:
        context = type("Context", (), {"storage": storage})

    middleware = AuthenticationMiddleware(app, Authenticator(Settings(auth=("keys",))))
    headers = [(b"authorization", f"Bearer {await create_key(storage, 'alice')}".encode())]
    scope = {
        "type": "websocket",
        "path": "/x",
        "headers": headers,
        "app": type("App", (), {"state": State}),
    }
    await middleware(scope, None, None)  # type: ignore[arg-type]  # neither is touched
    assert owners == [("alice", "alice")], "every log line of the web socket names the owner"


async def test_ok_answers_before_the_application_has_started() -> None:
    app: FastAPI = create_app(Settings(auth=("keys", "jwt"), jwt_secret=SECRET))
    async with app_client(app) as client:
        assert (await client.get("/ok")).status_code == 200


def fragments(text: str) -> set[str]:
    """Return every substring of 16 characters of the secret, which is the last 43 characters."""
    secret = text[-43:]
    return {secret[start : start + 16] for start in range(len(secret) - 15)}


async def test_no_log_or_reply_shows_a_key_or_a_token(
    valkey_url: str, storage: Storage, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """At level DEBUG, in all libraries, for accepted and refused credentials."""
    caplog.set_level(logging.DEBUG)
    key, expired = await create_key(storage, "alice"), shared_secret_token(exp=1)
    misspelt = key[:-1] + ("A" if key[-1] != "A" else "B")
    texts = [
        key,
        misspelt,
        shared_secret_token(),
        expired,
        shared_secret_token(SECRET[::-1]),
        "sk-somebody-elses-secret",
    ]
    settings = {"auth": ("keys", "jwt"), "jwt_secret": SECRET, "jwt_audience": "callsheet"}
    async with started_app(valkey_url, **settings) as app, app_client(app) as client:
        for headers in [option for text in texts for option in (bearer(text), {"X-Api-Key": text})]:
            read = await client.get("/api/ads", headers=headers)
            written = await client.post("/threads", headers=headers, content="{")
            replies = f"{read.text}{read.headers}{written.text}{written.headers}"
            assert not [text for text in texts if text in replies]
    logged = caplog.text + "".join(capfd.readouterr())
    assert "rejected" in logged, "some requests were refused"
    assert "GET /api/ads 200" in logged, "some requests were accepted"
    for text in (*texts, SECRET):
        assert not [fragment for fragment in fragments(text) if fragment in logged]
