"""What a request needs, what a caller may say of a run, and what the door does with the rest (X16)."""

import logging
from typing import Any

import pytest
from fastapi import FastAPI

from callsheet.server.app import create_app
from callsheet.server.http import origins
from callsheet.server.http.auth import (
    ANYONE,
    AuthenticationMiddleware,
    Authenticator,
    get_caller,
    public_config,
    required_permission,
)
from callsheet.server.http.policy import PERMISSIONS
from callsheet.server.operations import logs
from callsheet.server.settings import Settings
from callsheet.state.errors import Broken, Invalid
from callsheet.storage import Storage
from tests.doubles.auth_cases import bearer, create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.served import app_client, route_permission, scope_with_policy, started_app
from tests.doubles.signing import SECRET, shared_secret_token


@pytest.mark.parametrize(
    ("method", "path", "permission"),
    [
        ("GET", "/threads/t", "read"),
        ("HEAD", "/docs", "read"),
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
def test_what_is_not_known_to_only_ask_needs_leave_to_write(method: str, path: str, permission: str) -> None:
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
def test_a_viewer_who_ends_the_run_by_leaving_needs_leave_to_write(query: str, permission: str) -> None:
    assert route_permission("GET", "/threads/t/runs/r/stream", query) == permission


def test_a_web_socket_needs_leave_to_write_since_it_carries_commands() -> None:
    opened = {"type": "websocket", "path": "/threads/t/stream/events"}
    assert required_permission(scope_with_policy(opened)) == "write"


def test_nobody_is_asking_where_nobody_was_asked() -> None:
    with pytest.raises(Broken, match="bypassed authentication"):
        get_caller({"type": "http", "path": "/threads"})


def test_without_authentication_this_machine_may_do_all() -> None:
    assert (ANYONE.owner, ANYONE.permissions) == ("local", frozenset(PERMISSIONS))


@pytest.mark.parametrize("part", ["configurable", "metadata"])
def test_what_only_the_server_may_say_is_dropped_from_a_callers_config(part: str) -> None:
    said = {
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
    assert public_config({part: said}) == {part: {"model": "openai", "checkpoint_id": "c"}}
    assert said["thread_id"] == "hers", "the caller's own object stays as it is"


def test_the_rest_of_a_callers_config_stays() -> None:
    config = {"recursion_limit": 7, "tags": ["a"], "run_name": "x", "configurable": {"_one": 1}}
    assert public_config({**config, "callbacks": ["x"], "run_id": "r", "metadata": None}) == config
    assert public_config({}) == {}


@pytest.mark.parametrize("wrong", [7, "text", ["thread_id"], False])
def test_a_config_that_is_no_object_is_refused(wrong: object) -> None:
    with pytest.raises(Invalid, match=r"config\.configurable"):
        public_config({"configurable": wrong})


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"jwt_secret": SECRET}, "does not include jwt"),
        ({"auth": ("keys",), "jwks_url": "https://a.example"}, "does not include jwt"),
        ({"auth": ("jwt",)}, "need a secret or published keys"),
    ],
)
def test_settings_that_do_not_go_together_keep_the_server_from_starting(
    settings: dict[str, Any], rule: str
) -> None:
    with pytest.raises(Invalid, match=rule):
        create_app(Settings(**settings))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7"])
def test_any_address_may_be_listened_on_once_callers_are_asked(host: str) -> None:
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
async def test_with_authentication_only_its_own_pages_and_those_allowed_may_call(
    origin: str, status: int
) -> None:
    app = create_app(Settings(auth=("keys",)))
    async with app_client(app, base_url="http://10.1.2.3:2024") as client:
        reply = await client.get("/ok", headers={"Host": "callsheet.example", "Origin": origin})
    assert reply.status_code == status


async def test_a_browser_may_ask_what_is_allowed_without_a_key() -> None:
    asked = {
        "Origin": "http://localhost:3000",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-api-key,content-type",
    }
    async with app_client(create_app(Settings(auth=("keys",)))) as client:
        reply = await client.options("/threads", headers=asked)
    assert reply.status_code == 200
    assert "x-api-key" in reply.headers["access-control-allow-headers"]


async def test_a_page_can_read_why_it_was_refused(valkey_url: str) -> None:
    async with started_app(valkey_url, auth=("keys",)) as app, app_client(app) as client:
        reply = await client.get("/api/ads", headers={"Origin": "http://localhost:3000"})
    assert reply.status_code == 401
    assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "WWW-Authenticate" in reply.headers["access-control-expose-headers"]


async def sent_to_a_socket(app: Any, headers: list[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    """What is sent to whoever opens a web socket."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    opened = {
        "type": "websocket",
        "path": "/threads/t/stream/events",
        "headers": [(b"host", b"localhost"), *headers],
        "server": ("127.0.0.1", 2024),
        "query_string": b"",
        "subprotocols": [],
    }
    await app(opened, receive, send)
    return sent


async def test_a_web_socket_without_a_key_is_closed_before_it_opens(
    valkey_url: str, storage: Storage
) -> None:
    async with started_app(valkey_url, auth=("keys",)) as app:
        assert await sent_to_a_socket(app, []) == [{"type": "websocket.close", "code": 1008}]
        reading = (b"x-api-key", (await create_key(storage, "alice", "read")).encode())
        assert await sent_to_a_socket(app, [reading]) == [{"type": "websocket.close", "code": 1008}]


async def test_a_web_socket_with_a_key_is_let_in_as_its_owner(storage: Storage) -> None:
    reached = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append((get_caller(scope).owner, logs.context_fields()["owner"]))

    class State:
        context = type("Context", (), {"storage": storage})

    door = AuthenticationMiddleware(app, Authenticator(Settings(auth=("keys",))))
    headers = [(b"authorization", f"Bearer {await create_key(storage, 'alice')}".encode())]
    opened = {
        "type": "websocket",
        "path": "/x",
        "headers": headers,
        "app": type("App", (), {"state": State}),
    }
    await door(opened, None, None)  # type: ignore[arg-type]  # neither is touched
    assert reached == [("alice", "alice")], "every line that is logged meanwhile names the owner"


async def test_an_application_that_was_never_started_still_says_it_is_up() -> None:
    app: FastAPI = create_app(Settings(auth=("keys", "jwt"), jwt_secret=SECRET))
    async with app_client(app) as client:
        assert (await client.get("/ok")).status_code == 200


def pieces(text: str) -> set[str]:
    """Every 16 characters in a row of what is secret of a key or a token: the last 43, of 32 bytes."""
    secret = text[-43:]
    return {secret[start : start + 16] for start in range(len(secret) - 15)}


async def test_no_log_shows_a_key_or_a_token_let_in_or_not(
    valkey_url: str, storage: Storage, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Everything at the finest level, from every library."""
    caplog.set_level(logging.DEBUG)
    made, expired = await create_key(storage, "alice"), shared_secret_token(exp=1)
    wrong = made[:-1] + ("A" if made[-1] != "A" else "B")
    texts = [
        made,
        wrong,
        shared_secret_token(),
        expired,
        shared_secret_token(SECRET[::-1]),
        "sk-somebody-elses-secret",
    ]
    chosen = {"auth": ("keys", "jwt"), "jwt_secret": SECRET, "jwt_audience": "callsheet"}
    async with started_app(valkey_url, **chosen) as app, app_client(app) as client:
        for headers in [one for text in texts for one in (bearer(text), {"X-Api-Key": text})]:
            read = await client.get("/api/ads", headers=headers)
            written = await client.post("/threads", headers=headers, content="{")
            told = f"{read.text}{read.headers}{written.text}{written.headers}"
            assert not [text for text in texts if text in told]
    shown = caplog.text + "".join(capfd.readouterr())
    assert "rejected" in shown, "the log was looked at while something was refused"
    assert "GET /api/ads 200" in shown, "and while somebody was let in"
    for text in (*texts, SECRET):
        assert not [piece for piece in pieces(text) if piece in shown]
