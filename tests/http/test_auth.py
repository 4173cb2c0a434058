"""Authentication over HTTP: API keys, tokens, permissions, owners (X16, ARCHITECTURE 7)."""

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
    """A server that accepts API keys and tokens."""
    async with served_app(valkey_url, **BOTH) as client:
        yield client


async def test_an_api_key_is_accepted_in_either_header(client: httpx.AsyncClient, storage: Storage) -> None:
    key = await create_key(storage, "alice")
    for headers in ({"X-Api-Key": key}, bearer(key), {"authorization": f"bEARER  {key} "}):
        assert (await client.get("/api/ads", headers=headers)).status_code == 200


async def test_a_valid_jwt_is_accepted(client: httpx.AsyncClient) -> None:
    assert (await client.get("/api/ads", headers=bearer(shared_secret_token()))).status_code == 200


async def test_an_api_key_is_accepted_with_basic_credentials_of_a_proxy(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    headers = {"Authorization": "Basic dXNlcjpwdw==", "X-Api-Key": await create_key(storage, "alice")}
    assert (await client.get("/api/ads", headers=headers)).status_code == 200


async def test_a_bearer_token_takes_precedence_over_x_api_key(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """The LangGraph client sends LANGSMITH_API_KEY as X-Api-Key wherever that is set."""
    headers = bearer(await create_key(storage, "alice")) | {"X-Api-Key": "lsv2_pt_something"}
    assert (await client.get("/api/ads", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "has_credentials"),
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
async def test_a_request_without_valid_credentials_gets_401_with_a_challenge(
    client: httpx.AsyncClient,
    headers: dict[str, str],
    has_credentials: bool,  # noqa: FBT001 -- a table
) -> None:
    reply = await client.get("/api/ads", headers=headers)
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"].startswith('Bearer realm="callsheet"')
    assert ('error="invalid_token"' in reply.headers["www-authenticate"]) is has_credentials
    assert reply.json()["type"] == "unauthenticated"
    assert reply.json()["remedy"]


async def test_a_401_on_a_langgraph_route_has_the_field_detail_alone(client: httpx.AsyncClient) -> None:
    reply = await client.post("/threads/search", json={})
    assert (reply.status_code, list(reply.json())) == (401, ["detail"])


async def test_without_a_key_every_route_but_ok_the_page_and_the_documentation_is_401(
    client: httpx.AsyncClient,
) -> None:
    for path in ("/ok", "/ready", "/docs", "/openapi.json"):
        assert (await client.get(path)).status_code == 200, path
    for path in ("/info", "/health", "/metrics", "/nothing"):
        assert (await client.get(path)).status_code == 401, path


async def test_a_403_names_the_missing_permission(client: httpx.AsyncClient, storage: Storage) -> None:
    read_only = {"X-Api-Key": await create_key(storage, "alice", "read")}
    assert (await client.get("/api/ads", headers=read_only)).status_code == 200
    reply = await client.post("/api/ai/generate", json={}, headers=read_only)
    assert reply.status_code == 403
    assert "'write'" in reply.json()["error"]
    assert reply.headers["www-authenticate"].endswith('error="insufficient_scope", scope="write"')
    may_write = {"X-Api-Key": await create_key(storage, "alice", "write")}
    assert (await client.get("/metrics", headers=may_write)).status_code == 403


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
async def test_the_permissions_of_a_token_are_its_scopes(
    client: httpx.AsyncClient, scope: Any, status: int
) -> None:
    reply = await client.get("/api/ads", headers=bearer(shared_secret_token(scope=scope)))
    assert reply.status_code == status


@pytest.mark.parametrize("sub", ["", "local", "x" * 256, "a\u0000b"])
async def test_a_token_whose_subject_is_no_valid_owner_is_refused(
    client: httpx.AsyncClient, sub: str
) -> None:
    """A subject `local` would own everything that was written without authentication."""
    assert (await client.get("/api/ads", headers=bearer(shared_secret_token(sub=sub)))).status_code == 401


async def test_the_claim_that_holds_the_scopes_can_be_configured(valkey_url: str) -> None:
    async with served_app(valkey_url, **BOTH, jwt_scopes_claim="permissions") as client:
        headers = bearer(shared_secret_token(scope=None, permissions=["read"]))
        assert (await client.get("/api/ads", headers=headers)).status_code == 200


async def test_keys_and_tokens_are_accepted_only_where_the_setting_names_them(
    valkey_url: str, storage: Storage
) -> None:
    key, token = await create_key(storage, "alice"), shared_secret_token()
    async with served_app(valkey_url, auth=("keys",)) as client:
        assert (await client.get("/api/ads", headers=bearer(key))).status_code == 200
        assert (await client.get("/api/ads", headers=bearer(token))).status_code == 401
    async with served_app(valkey_url, **BOTH | {"auth": ("jwt",)}) as client:
        assert (await client.get("/api/ads", headers=bearer(key))).status_code == 401
        assert (await client.get("/api/ads", headers=bearer(token))).status_code == 200


async def test_a_token_of_a_jwks_issuer_is_accepted_and_an_unreachable_issuer_is_503(valkey_url: str) -> None:
    with running_issuer() as issuer:
        issuer.add_key("k")
        settings = {"auth": ("jwt",), "jwks_url": issuer.url, "jwt_audience": AUDIENCE, "jwt_issuer": ISSUER}
        async with served_app(valkey_url, **settings) as client:
            assert (await client.get("/api/ads", headers=bearer(issuer.token("k")))).status_code == 200
        issuer.down = True
        async with served_app(valkey_url, **settings) as client:
            reply = await client.get("/api/ads", headers=bearer(issuer.token("k")))
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")


async def test_without_authentication_an_api_key_is_ignored(valkey_url: str) -> None:
    async with served_app(valkey_url) as client:
        reply = await client.get("/api/ads", headers={"X-Api-Key": "lsv2_pt_something"})
        assert reply.status_code == 200
        for path in ("/docs", "/openapi.json"):
            assert (await client.get(path)).status_code == 200


async def test_two_owners_may_each_have_an_ad_with_the_same_id(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """ARCHITECTURE 5: neither owner sees the other's ad, in lists or in conversations."""
    keys = {owner: {"X-Api-Key": await create_key(storage, owner)} for owner in ("alice", "bob")}
    ads: dict[str, Any] = {}
    for owner, headers in keys.items():
        client.headers.update(headers)
        ads[owner] = await generate_ad(client, brief=f"Miel bakes sourdough bread for {owner} every morning.")
    assert {item["adId"] for item in ads.values()} == {"ad-1"}
    assert ads["alice"]["conversationId"] != ads["bob"]["conversationId"]
    for owner, headers in keys.items():
        reply = await client.get("/api/ads/ad-1", headers=headers)
        assert owner in reply.json()["brief"]["clientDescription"]
        ads_of_owner = (await client.get("/api/ads", headers=headers)).json()["ads"]
        assert [item["adId"] for item in ads_of_owner] == ["ad-1"]
        versions = (await client.get("/api/ads/ad-1/music", headers=headers)).json()["versions"]
        assert [item["id"] for item in versions] == ["v1"]
    bobs_conversation = ads["bob"]["conversationId"]
    body = {"message": "louder", "conversationId": bobs_conversation, "provider": "offline"}
    refusal = await client.post("/api/ads/ad-1/chat", json=body, headers=keys["alice"])
    assert refusal.status_code == 404
    assert (await client.get(f"/api/ads/{bobs_conversation}", headers=keys["alice"])).status_code == 404
    mixer = await client.patch("/api/ads/ad-1/mixer", json={"sfx": {"volumeDb": -9}}, headers=keys["alice"])
    assert mixer.json()["sfx"]["volumeDb"] == -9
    bobs_mixer = await client.get("/api/ads/ad-1/mixer", headers=keys["bob"])
    assert bobs_mixer.json()["sfx"]["volumeDb"] != -9


async def test_an_ad_of_the_local_owner_is_hidden_from_other_owners(
    valkey_url: str, storage: Storage
) -> None:
    async with served_app(valkey_url) as client:
        await generate_ad(client)
    async with served_app(valkey_url, auth=("keys",)) as client:
        alice = {"X-Api-Key": await create_key(storage, "alice")}
        assert (await client.get("/api/ads/ad-1", headers=alice)).status_code == 404
        local = {"X-Api-Key": await create_key(storage, "local")}
        assert (await client.get("/api/ads/ad-1", headers=local)).status_code == 200
        body = {"voiceTracks": [{"voiceId": VOICE, "text": "Mine now."}]}
        assert (await client.post("/api/ads/ad-1/voices", json=body, headers=alice)).status_code == 404
