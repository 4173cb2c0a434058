"""Who is asking, and what that allows, over HTTP (X16, ARCHITECTURE 7)."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.storage import Storage
from tests.doubles.auth_cases import bearer, create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.served import VOICE, generate_ad, served_app
from tests.doubles.signing import AUDIENCE, ISSUER, SECRET, running_issuer, shared_secret_token

BOTH = {"auth": ("keys", "jwt"), "jwt_secret": SECRET, "jwt_audience": AUDIENCE, "jwt_issuer": ISSUER}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url, **BOTH) as found:
        yield found


async def test_a_key_lets_its_owner_in_by_either_header(client: httpx.AsyncClient, storage: Storage) -> None:
    made = await create_key(storage, "alice")
    for headers in ({"X-Api-Key": made}, bearer(made), {"authorization": f"bEARER  {made} "}):
        assert (await client.get("/api/ads", headers=headers)).status_code == 200


async def test_a_token_lets_its_subject_in(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/ads", headers=bearer(shared_secret_token()))).status_code == 200


async def test_a_key_beside_basic_credentials_of_a_proxy_counts(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    headers = {"Authorization": "Basic dXNlcjpwdw==", "X-Api-Key": await create_key(storage, "alice")}
    assert (await client.get("/api/ads", headers=headers)).status_code == 200


async def test_a_bearer_goes_before_a_key_that_a_client_found_in_its_environment(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """The LangGraph client sends LANGSMITH_API_KEY as X-Api-Key wherever that is set."""
    headers = bearer(await create_key(storage, "alice")) | {"X-Api-Key": "lsv2_pt_something"}
    assert (await client.get("/api/ads", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "tried"),
    [
        ({}, False),
        ({"X-Api-Key": ""}, False),
        ({"Authorization": "Bearer"}, False),
        ({"Authorization": "Basic dXNlcjpwdw=="}, False),
        ({"X-Api-Key": "lsv2_pt_something"}, True),
        ({"X-Api-Key": "cs_000000000000_" + "A" * 43}, True),
        ({"Authorization": "Bearer cs_"}, True),
        ({"Authorization": "Bearer nonsense"}, True),
    ],
)
async def test_whoever_does_not_say_who_is_asking_is_told_how(
    client: httpx.AsyncClient,
    headers: dict[str, str],
    tried: bool,  # noqa: FBT001 -- a table
) -> None:
    reply = await client.get("/api/ads", headers=headers)
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"].startswith('Bearer realm="callsheet"')
    assert ('error="invalid_token"' in reply.headers["www-authenticate"]) is tried
    assert reply.json()["type"] == "unauthenticated"
    assert reply.json()["remedy"]


async def test_on_the_wire_the_refusal_is_a_detail(client: httpx.AsyncClient) -> None:
    reply = await client.post("/threads/search", json={})
    assert (reply.status_code, list(reply.json())) == (401, ["detail"])


async def test_without_a_key_nothing_is_open_but_ok(client: httpx.AsyncClient) -> None:
    assert (await client.get("/ok")).status_code == 200
    for path in ("/docs", "/openapi.json", "/info", "/health", "/metrics", "/", "/nothing"):
        assert (await client.get(path)).status_code == 401, path


async def test_a_permission_that_lacks_is_named(client: httpx.AsyncClient, storage: Storage) -> None:
    reading = {"X-Api-Key": await create_key(storage, "alice", "read")}
    assert (await client.get("/api/ads", headers=reading)).status_code == 200
    reply = await client.post("/api/ai/generate", json={}, headers=reading)
    assert reply.status_code == 403
    assert "'write'" in reply.json()["error"]
    assert reply.headers["www-authenticate"].endswith('error="insufficient_scope", scope="write"')
    writing = {"X-Api-Key": await create_key(storage, "alice", "write")}
    assert (await client.get("/metrics", headers=writing)).status_code == 403


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ("read", 200),
        ("openid callsheet:read", 200),
        (["write"], 200),
        ("openid profile", 403),
        ("", 403),
        (None, 403),
        (7, 403),
        ({"read": True}, 403),
    ],
)
async def test_what_a_token_allows_is_what_its_scopes_say(
    client: httpx.AsyncClient, scope: Any, status: int
) -> None:
    reply = await client.get("/api/ads", headers=bearer(shared_secret_token(scope=scope)))
    assert reply.status_code == status


@pytest.mark.parametrize("sub", ["", "local", "x" * 256, "a\u0000b"])
async def test_a_subject_that_cannot_be_an_owner_is_refused(client: httpx.AsyncClient, sub: str) -> None:
    """Nor may an issuer's user be called `local` and have what was made without authentication."""
    assert (await client.get("/api/ads", headers=bearer(shared_secret_token(sub=sub)))).status_code == 401


async def test_the_scopes_may_be_in_another_claim(valkey_url: str) -> None:
    async with served_app(valkey_url, **BOTH, jwt_scopes_claim="permissions") as client:
        headers = bearer(shared_secret_token(scope=None, permissions=["read"]))
        assert (await client.get("/api/ads", headers=headers)).status_code == 200


async def test_each_way_in_is_open_only_if_it_is_named(valkey_url: str, storage: Storage) -> None:
    made, token = await create_key(storage, "alice"), shared_secret_token()
    async with served_app(valkey_url, auth=("keys",)) as client:
        assert (await client.get("/api/ads", headers=bearer(made))).status_code == 200
        assert (await client.get("/api/ads", headers=bearer(token))).status_code == 401
    async with served_app(valkey_url, **BOTH | {"auth": ("jwt",)}) as client:
        assert (await client.get("/api/ads", headers=bearer(made))).status_code == 401
        assert (await client.get("/api/ads", headers=bearer(token))).status_code == 200


async def test_published_keys_work_over_http_and_503_says_when_they_cannot_be_had(valkey_url: str) -> None:
    with running_issuer() as issuer:
        issuer.add_key("k")
        chosen = {"auth": ("jwt",), "jwks_url": issuer.url, "jwt_audience": AUDIENCE, "jwt_issuer": ISSUER}
        async with served_app(valkey_url, **chosen) as client:
            assert (await client.get("/api/ads", headers=bearer(issuer.token("k")))).status_code == 200
        issuer.down = True
        async with served_app(valkey_url, **chosen) as client:
            reply = await client.get("/api/ads", headers=bearer(issuer.token("k")))
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")


async def test_without_authentication_keys_are_not_looked_at(valkey_url: str) -> None:
    async with served_app(valkey_url) as client:
        reply = await client.get("/api/ads", headers={"X-Api-Key": "lsv2_pt_something"})
        assert reply.status_code == 200
        for path in ("/docs", "/openapi.json"):
            assert (await client.get(path)).status_code == 200


async def test_two_owners_may_each_have_an_ad_of_a_name(client: httpx.AsyncClient, storage: Storage) -> None:
    """ARCHITECTURE 5: neither sees anything of the other's, in lists nor in conversations."""
    keys = {who: {"X-Api-Key": await create_key(storage, who)} for who in ("alice", "bob")}
    made: dict[str, Any] = {}
    for who, headers in keys.items():
        client.headers.update(headers)
        made[who] = await generate_ad(client, brief=f"Miel bakes sourdough bread for {who} every morning.")
    assert {one["adId"] for one in made.values()} == {"ad-1"}
    assert made["alice"]["conversationId"] != made["bob"]["conversationId"]
    for who, headers in keys.items():
        shown = await client.get("/api/ads/ad-1", headers=headers)
        assert who in shown.json()["brief"]["clientDescription"]
        listed = (await client.get("/api/ads", headers=headers)).json()["ads"]
        assert [one["adId"] for one in listed] == ["ad-1"]
        versions = (await client.get("/api/ads/ad-1/music", headers=headers)).json()["versions"]
        assert [one["id"] for one in versions] == ["v1"]
    theirs = made["bob"]["conversationId"]
    body = {"message": "louder", "conversationId": theirs, "provider": "offline"}
    stolen = await client.post("/api/ads/ad-1/chat", json=body, headers=keys["alice"])
    assert stolen.status_code == 404
    assert (await client.get(f"/api/ads/{theirs}", headers=keys["alice"])).status_code == 404
    patched = await client.patch("/api/ads/ad-1/mixer", json={"sfx": {"volumeDb": -9}}, headers=keys["alice"])
    assert patched.json()["sfx"]["volumeDb"] == -9
    other = await client.get("/api/ads/ad-1/mixer", headers=keys["bob"])
    assert other.json()["sfx"]["volumeDb"] != -9


async def test_what_the_local_owner_made_is_not_another_owners(valkey_url: str, storage: Storage) -> None:
    async with served_app(valkey_url) as client:
        await generate_ad(client)
    async with served_app(valkey_url, auth=("keys",)) as client:
        theirs = {"X-Api-Key": await create_key(storage, "alice")}
        assert (await client.get("/api/ads/ad-1", headers=theirs)).status_code == 404
        ours = {"X-Api-Key": await create_key(storage, "local")}
        assert (await client.get("/api/ads/ad-1", headers=ours)).status_code == 200
        body = {"voiceTracks": [{"voiceId": VOICE, "text": "Mine now."}]}
        assert (await client.post("/api/ads/ad-1/voices", json=body, headers=theirs)).status_code == 404
