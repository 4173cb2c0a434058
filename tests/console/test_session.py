"""The session of the page: a cookie in place of an API key, for pages of this server alone."""

from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from callsheet.server.console.session_routes import MAX_SIGN_INS
from callsheet.server.http.sessions import COOKIE
from callsheet.storage import Storage
from callsheet.storage import api_keys as stored_keys
from tests.doubles.auth_cases import create_key
from tests.doubles.served import BRIEF, served_app

OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
OWN_PAGE_BYTES = [(b"Sec-Fetch-Site", b"same-origin")]
OWN_ORIGIN = {"Origin": "http://127.0.0.1:2024"}
FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    # A page on another port of this machine.
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:3000"},
    {"Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "none"},
    {},
]


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url, auth=("keys",)) as client:
        yield client


async def sign_in(client: httpx.AsyncClient, storage: Storage, permission: str = "write") -> str:
    """Sign in as alice; return the key's text."""
    key = await create_key(storage, "alice", permission)
    reply = await client.post("/api/session", json={"key": key}, headers=OWN_PAGE)
    assert (reply.status_code, reply.content) == (204, b""), reply.text
    return key


async def session(client: httpx.AsyncClient) -> dict[str, Any]:
    reply = await client.get("/api/session", headers=OWN_PAGE)
    assert reply.status_code == 200
    body: dict[str, Any] = reply.json()
    return body


async def test_a_key_is_exchanged_for_a_cookie_that_no_script_reads_and_that_has_no_key(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    key = await create_key(storage, "alice")
    reply = await client.post("/api/session", json={"key": key}, headers=OWN_PAGE)
    morsel = SimpleCookie(reply.headers["set-cookie"])[COOKIE]
    assert morsel["httponly"]
    assert morsel["samesite"] == "strict"
    assert not morsel["secure"]
    assert not any(part in morsel.value for part in key.split("_", 2)[1:])
    assert morsel.value.encode() not in b"".join(
        [name async for name in storage.redis.scan_iter("session:*")]
    )
    assert (await client.get("/api/ads", headers=OWN_PAGE)).status_code == 200


async def test_the_cookie_is_secure_where_the_page_is_encrypted(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    key = await create_key(storage, "alice")
    headers = {"Host": "callsheet.example", "Origin": "https://callsheet.example"}
    reply = await client.post("/api/session", json={"key": key}, headers=headers)
    assert SimpleCookie(reply.headers["set-cookie"])[COOKIE]["secure"]


async def test_the_session_says_who_is_signed_in_and_what_can_be_done(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    before = await session(client)
    assert (before["auth"], before["signedIn"], before["user"], before["workflows"]) == (
        "keys",
        False,
        None,
        [],
    )
    await sign_in(client, storage, "read")
    after = await session(client)
    assert after["user"]["owner"] == "alice"
    assert after["user"]["permissions"] == ["read"]
    assert after["model"] == {**after["model"], "provider": "offline", "offline": True}
    titles = {one["name"]: one["title"] for one in after["workflows"]}
    assert titles["ad_creation"] == "audio ads"
    assert all(len(one["examples"]) == 2 and one["description"] for one in after["workflows"])


async def test_people_sign_in_where_requests_are_limited(valkey_url: str, storage: Storage) -> None:
    """Nobody is counted before they have signed in."""
    async with served_app(valkey_url, auth=("keys",), requests_per_minute=2) as client:
        for _ in range(3):
            assert not (await session(client))["signedIn"]
            assert (await client.get("/openapi.json")).status_code == 200
            assert (await client.get("/docs")).status_code == 200
            assert (await client.delete("/api/session", headers=OWN_PAGE)).status_code == 204
        await sign_in(client, storage)
        replies = [await client.get("/api/ads", headers=OWN_PAGE) for _ in range(3)]
        assert [reply.status_code for reply in replies] == [200, 200, 429]


async def test_without_authentication_everyone_is_the_local_owner(valkey_url: str) -> None:
    async with served_app(valkey_url) as client:
        body = await session(client)
        assert (body["auth"], body["signedIn"], body["user"]["owner"]) == ("none", True, "local")
        reply = await client.post("/api/session", json={"key": "cs_x"}, headers=OWN_PAGE)
        assert reply.status_code == 409


@pytest.mark.parametrize("headers", [OWN_PAGE, OWN_ORIGIN])
async def test_a_page_of_the_server_may_write_with_the_cookie(
    client: httpx.AsyncClient, storage: Storage, headers: dict[str, str]
) -> None:
    await sign_in(client, storage)
    assert (await client.post("/threads", json={}, headers=headers)).status_code == 200


@pytest.mark.parametrize("headers", FOREIGN)
async def test_no_other_page_may_write_with_the_cookie(
    client: httpx.AsyncClient, storage: Storage, headers: dict[str, str]
) -> None:
    """A browser sends it by itself, so the request must prove where it comes from."""
    key = await sign_in(client, storage)
    assert (await client.post("/threads", json={}, headers=headers)).status_code == 403
    assert (await client.delete("/api/session", headers=headers)).status_code == 403
    assert (await client.post("/api/session", json={"key": key}, headers=headers)).status_code == 403
    assert (await session(client))["signedIn"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 200), ({"Sec-Fetch-Site": "none"}, 200), *((one, 403) for one in FOREIGN[:3])],
)
async def test_reading_with_the_cookie_is_for_people_and_pages_of_the_server(
    client: httpx.AsyncClient, storage: Storage, headers: dict[str, str], status: int
) -> None:
    await sign_in(client, storage)
    assert (await client.get("/api/ads", headers=headers)).status_code == status


async def test_a_revoked_key_ends_its_sessions(client: httpx.AsyncClient, storage: Storage) -> None:
    key = await sign_in(client, storage)
    await stored_keys.revoke(storage, key.split("_")[1])
    assert (await client.get("/api/ads", headers=OWN_PAGE)).status_code == 401
    assert not (await session(client))["signedIn"]


async def test_signing_out_ends_the_session_also_for_a_copy_of_the_cookie(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    await sign_in(client, storage)
    copy = client.cookies[COOKIE]
    reply = await client.delete("/api/session", headers=OWN_PAGE)
    assert (reply.status_code, dict(client.cookies)) == (204, {})
    headers = {**OWN_PAGE, "Cookie": f"{COOKIE}={copy}"}
    assert (await client.get("/api/ads", headers=headers)).status_code == 401
    assert (await client.delete("/api/session", headers=OWN_PAGE)).status_code == 204


async def test_a_session_has_the_permissions_of_its_key(client: httpx.AsyncClient, storage: Storage) -> None:
    await sign_in(client, storage, "read")
    assert (await client.get("/api/ads", headers=OWN_PAGE)).status_code == 200
    reply = await client.post("/api/ai/generate", json={"brief": BRIEF}, headers=OWN_PAGE)
    assert reply.status_code == 403


@pytest.mark.parametrize("key", ["", "cs_000000000000_" + "x" * 43, "a token"])
async def test_a_wrong_key_is_401_without_a_cookie(client: httpx.AsyncClient, key: str) -> None:
    reply = await client.post("/api/session", json={"key": key}, headers=OWN_PAGE)
    assert (reply.status_code, reply.headers.get("set-cookie")) == (401, None)
    assert reply.json()["remedy"]


async def test_attempts_to_sign_in_are_limited_for_each_address(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    for _ in range(MAX_SIGN_INS):
        reply = await client.post("/api/session", json={"key": "cs_wrong"}, headers=OWN_PAGE)
        assert reply.status_code == 401
    key = await create_key(storage, "alice")
    reply = await client.post("/api/session", json={"key": key}, headers=OWN_PAGE)
    assert reply.status_code == 429
    assert int(reply.headers["retry-after"]) > 0
    assert (await client.get("/api/ads", headers={"X-Api-Key": key})).status_code == 200


async def test_a_key_sent_with_a_cookie_needs_no_page(client: httpx.AsyncClient, storage: Storage) -> None:
    """No browser adds it by itself."""
    key = await sign_in(client, storage)
    assert (await client.post("/threads", json={}, headers={"X-Api-Key": key})).status_code == 200


@pytest.mark.parametrize("cookie", ["", "x" * 43, "cs_0", '"; callsheet_session=x', "ä"])
async def test_a_cookie_that_was_made_up_is_401(client: httpx.AsyncClient, cookie: str) -> None:
    headers = [*OWN_PAGE_BYTES, (b"Cookie", f"{COOKIE}={cookie}".encode("latin-1"))]
    assert (await client.get("/api/ads", headers=headers)).status_code == 401


async def test_successful_sign_ins_do_not_count_as_attempts(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """Many people may share the address of a proxy."""
    for _ in range(MAX_SIGN_INS + 1):
        await sign_in(client, storage)
