"""Bad input over REST: the right status, a plain error, and nothing is written (A81, X13)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.runs.records import RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from tests.doubles.served import BRIEF, GENERATE, VOICE, generate_ad, served_app

MAX_BODY_BYTES = 20_000
"""Bytes of a body on this server."""


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url, max_body_bytes=MAX_BODY_BYTES) as client:
        yield client


async def count_keys(valkey_url: str) -> int:
    """Count the keys, except those of the task engine."""
    async with Redis.from_url(valkey_url) as server:
        return len([key async for key in server.scan_iter() if not key.startswith(b"callsheet:")])


def assert_refused(reply: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """Check the properties of every refusal; return its body."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    body: dict[str, Any] = reply.json()
    assert isinstance(body["error"], str)
    assert "Traceback" not in reply.text
    for word in words:
        assert word in body["error"]
    return body


GENERATE_REFUSALS = [
    ({"brief": BRIEF}, 422, "'adId' is missing"),
    ({"adId": "ad-1"}, 422, "'brief' is missing"),
    ({"adId": 7, "brief": BRIEF}, 422, "'adId'"),
    ({"adId": "ad-1", "brief": 7}, 422, "'brief': input should be text or an object"),
    ({"adId": "ad-1", "brief": None}, 422, "'brief': input should be text or an object"),
    ({"adId": "ad-1", "brief": BRIEF, "duration": 0}, 422, "duration is 0 s"),
    ({"adId": "ad-1", "brief": BRIEF, "duration": -5}, 422, "duration is -5 s"),
    ({"adId": "ad-1", "brief": BRIEF, "duration": "soon"}, 422, "'duration'"),
    ({"adId": "ad-1", "brief": ""}, 422, "the brief is empty"),
    ({"adId": "ad-1", "brief": {}}, 422, "the brief is empty"),
    ({"adId": "ad-1", "brief": {"clientDescription": " \n"}}, 422, "the brief is empty"),
    ({"adId": "ad-1", "brief": {"clientDescription": ["x"]}}, 422, "brief.clientDescription is list"),
    ({"adId": "ad-1", "brief": {**BRIEF, "duration": 0}}, 422, "duration is 0 s"),
    ({"adId": "ad-1", "brief": {**BRIEF, "duration": -5}}, 422, "duration is -5 s"),
    ({"adId": "ad-1", "brief": {**BRIEF, "duration": "soon"}}, 422, "holds no number of seconds"),
    ({"adId": "ad-1", "brief": {**BRIEF, "duration": True}}, 422, "is not a number of seconds"),
    ({"adId": "ad-1", "brief": BRIEF, "language": "klingon"}, 422, "language 'klingon' is not known"),
    ({"adId": "ad-1", "brief": {**BRIEF, "language": "klingon"}}, 422, "language 'klingon' is not known"),
    ({"adId": "ad-1", "brief": BRIEF, "language": ["thai"]}, 422, "'language'"),
    ({"adId": "ad-1", "brief": BRIEF, "provider": "acme"}, 422, "no provider 'acme'"),
    ({"adId": "ad-1", "brief": BRIEF, "model": "acme/one"}, 422, "no provider 'acme'"),
    ({"adId": "", "brief": BRIEF}, 422, "adId '' must have 1 to 255 printable characters"),
    ({"adId": "ad\x00", "brief": BRIEF}, 422, "printable"),
    ({"adId": "ad\n1", "brief": BRIEF}, 422, "printable"),
    ({"adId": "a" * 256, "brief": BRIEF}, 422, "has 256"),
    ({"adId": "a" * 10_000, "brief": BRIEF}, 422, "has 10000"),
    ({"adId": "ad-1", "brief": BRIEF, "conversationId": "c\x07"}, 422, "conversationId"),
]


@pytest.mark.parametrize(("body", "status", "words"), GENERATE_REFUSALS)
async def test_a_brief_that_breaks_a_rule_is_refused_before_anything_is_written(
    client: httpx.AsyncClient, valkey_url: str, body: dict[str, Any], status: int, words: str
) -> None:
    """A51, A-R15, ids of ARCHITECTURE 5: refused, and storage is still empty."""
    assert_refused(await client.post("/api/ai/generate", json=body), status, words)
    assert await count_keys(valkey_url) == 0


BODY_REFUSALS = [
    (b"", 422, "'body' is missing"),
    (b"{", 400, "the body is not JSON"),
    (b'{"adId": "ad-1",}', 400, "the body is not JSON"),
    (b"brief=hello", 400, "the body is not JSON"),
    (b'{"adId": "a", "adId": "b", "brief": "x"}', 400, "it has the key 'adId' twice"),
    (b'{"adId": "a", "brief": {"duration": 1, "duration": 2}}', 400, "it has the key 'duration' twice"),
    (b'{"adId": "a", "brief": {"duration": NaN}}', 400, "NaN is not a JSON number"),
    (b'{"adId": "a", "brief": {"duration": -Infinity}}', 400, "-Infinity is not a JSON number"),
    (b'{"adId": "a", "brief": "\\ud800"}', 400, "half of a surrogate pair"),
    (b'{"adId": "a", "brief": {"\\udc00": 1}}', 400, "half of a surrogate pair"),
    (b'{"adId": "a", "brief": "\xff"}', 400, "it is not UTF-8"),
    (b"[" * 101 + b"]" * 101, 400, "nested more than 100 levels"),
    (b'{"a":' * 3_000 + b"1" + b"}" * 3_000, 400, "nested more than 100 levels"),
    (b'{"adId": "a", "brief": ' + b"9" * 5_000 + b"}", 400, "the body is not JSON"),
    (b"[]", 422, "'body'"),
    (b'"text"', 422, "'body'"),
    (b'{"adId": "a", "brief": "' + b"x" * MAX_BODY_BYTES + b'"}', 413, "more than 20000 bytes"),
]


@pytest.mark.parametrize(("body", "status", "words"), BODY_REFUSALS)
async def test_a_body_that_is_not_strict_json_is_refused(
    client: httpx.AsyncClient, valkey_url: str, body: bytes, status: int, words: str
) -> None:
    assert_refused(await client.post("/api/ai/generate", content=body), status, words)
    assert await count_keys(valkey_url) == 0


async def test_the_refusal_of_a_body_that_is_not_json_has_a_remedy_and_no_details(
    client: httpx.AsyncClient,
) -> None:
    body = assert_refused(
        await client.post("/api/ai/generate", content=b'{"adId": '), 400, "the body is not JSON"
    )
    assert body["remedy"] == "send one JSON value in UTF-8"
    assert "details" not in body


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{"adId": ', "at character 9"),
        (b"brief=hello", "at character 0"),
        (b'{"adId": "\xff"}', "at character 10"),
        (b'{"adId": "a", "adId": "b"}', ""),
        (b'{"adId": NaN}', ""),
        (b'{"adId": "\\ud800"}', ""),
    ],
)
async def test_the_refusal_of_a_body_that_is_not_json_names_the_position_if_there_is_one(
    client: httpx.AsyncClient, content: bytes, place: str
) -> None:
    """X13."""
    body = assert_refused(await client.post("/api/ai/generate", content=content), 400, "the body is not JSON")
    assert body["error"].endswith(place)
    assert ("at character" in body["error"]) == bool(place)


async def test_a_body_over_the_limit_is_413_with_and_without_content_length(
    client: httpx.AsyncClient,
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 1_000 + 1):
            yield b"x" * 1_000

    bodies = [
        assert_refused(await client.post("/api/ai/generate", content=content), 413, "more than 20000 bytes")
        for content in (chunks(), b"x" * (MAX_BODY_BYTES + 1))
    ]
    assert bodies[0] == bodies[1]
    assert bodies[0]["remedy"] == "send less, or raise CALLSHEET_MAX_BODY_BYTES"


@pytest.mark.parametrize(
    "media", ["text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded", ""]
)
async def test_a_json_body_is_read_with_any_content_type(client: httpx.AsyncClient, media: str) -> None:
    reply = await client.post(
        "/api/ai/generate", content=json.dumps({**GENERATE, "brief": ""}), headers={"Content-Type": media}
    )
    assert_refused(reply, 422, "the brief is empty")


async def test_a_byte_order_mark_before_json_is_accepted(client: httpx.AsyncClient) -> None:
    reply = await client.post(
        "/api/ai/generate", content=b"\xef\xbb\xbf" + json.dumps({"adId": "a"}).encode()
    )
    assert_refused(reply, 422, "'brief' is missing")


async def test_a_chat_about_an_ad_without_a_brief_is_400_with_the_specified_message(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """A57."""
    reply = await client.post("/api/ads/ad-1/chat", json={"message": "Make the music more upbeat"})
    assert assert_refused(reply, 400)["error"] == "No conversation found. Generate initial ad first."
    assert await count_keys(valkey_url) == 0


async def test_a_chat_while_the_first_run_is_pending_is_409_with_retry_after(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """A57: the conversation begins with the first run, which another process has claimed."""
    runs = Runs(storage)
    await runs.create(RunRequest("ad-1", "r-1", "ad_creation", LOCAL, request_fields(input={})))
    await runs.claim("ad-1", "r-1")
    reply = await client.post("/api/ads/ad-1/chat", json={"message": "Make the music more upbeat"})
    assert_refused(reply, 409, "busy with run 'r-1'")
    assert int(reply.headers["Retry-After"]) > 0


CHAT_REFUSALS: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "'message' is missing"),
    ({"message": ""}, 422, "the message is empty"),
    ({"message": " \x00 "}, 422, "the message is empty"),
    ({"message": 5}, 422, "'message'"),
    ({"message": "shorter", "duration": 0}, 422, "duration is 0 s"),
    ({"message": "shorter", "duration": "20"}, 422, "'duration"),
    ({"message": "in Klingon", "language": "klingon"}, 422, "language 'klingon' is not known"),
    ({"message": "hello", "provider": "acme"}, 422, "no provider 'acme'"),
    ({"message": "hello", "conversationId": "another"}, 404, "there is no thread 'another'"),
]


async def test_a_chat_message_that_breaks_a_rule_changes_nothing(client: httpx.AsyncClient) -> None:
    """A55, A-R14: the conversation and the versions stay the same."""
    await generate_ad(client)
    before = [(await client.get(f"/api/ads/ad-1{part}")).json() for part in ("", "/conversation")]
    for body, status, words in CHAT_REFUSALS:
        assert_refused(await client.post("/api/ads/ad-1/chat", json=body), status, words)
    assert [(await client.get(f"/api/ads/ad-1{part}")).json() for part in ("", "/conversation")] == before


READ_PATHS = ["", "/conversation", "/timeline", "/mixer", "/voices", "/voices/v1"]


@pytest.mark.parametrize("part", READ_PATHS)
async def test_reading_an_unknown_ad_is_404(client: httpx.AsyncClient, part: str) -> None:
    assert_refused(await client.get(f"/api/ads/ad-9{part}"), 404, "there is no ad 'ad-9'")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/mixer", {}),
        ("DELETE", "/conversation", None),
        ("POST", "/voices", {"voiceTracks": [{"voiceId": VOICE, "text": "Hello."}]}),
        ("PATCH", "/voices/v1", {"voiceTracks": []}),
        ("POST", "/voices/v1/activate", None),
        ("POST", "/voices/v1/clone", None),
        ("DELETE", "/voices/v1", None),
    ],
)
async def test_writing_to_an_unknown_ad_is_404_and_writes_nothing(
    client: httpx.AsyncClient, valkey_url: str, method: str, path: str, body: object
) -> None:
    assert_refused(
        await client.request(method, f"/api/ads/ad-9{path}", json=body), 404, "there is no ad 'ad-9'"
    )
    assert await count_keys(valkey_url) == 0


@pytest.mark.parametrize("ad_id", ["%00", "a%0Ab", "a" * 256])
async def test_an_id_with_control_characters_or_over_255_characters_is_refused(
    client: httpx.AsyncClient, ad_id: str
) -> None:
    assert_refused(await client.get(f"/api/ads/{ad_id}"), 422, "printable characters")


async def test_an_unknown_stream_and_an_unknown_version_are_404(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    assert_refused(await client.get("/api/ads/ad-1/video"), 404, "an ad has no stream 'video'")
    for version in ("v99", "v0", "latest", "V1"):
        assert_refused(
            await client.get(f"/api/ads/ad-1/voices/{version}"), 404, f"no voices version '{version}'"
        )


@pytest.mark.parametrize("key", ["", "k" * 256, "caf\u00e9\u0080"])
async def test_an_idempotency_key_must_be_printable_and_short(client: httpx.AsyncClient, key: str) -> None:
    reply = await client.post(
        "/api/ai/generate", json=GENERATE, headers=[(b"Idempotency-Key", key.encode("latin-1"))]
    )
    assert_refused(reply, 422, "Idempotency-Key")


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "after=x", "after=12"])
async def test_invalid_pagination_is_refused(client: httpx.AsyncClient, query: str) -> None:
    assert_refused(await client.get(f"/api/ads?{query}"), 422)


async def test_an_unknown_choice_of_versions_is_refused(client: httpx.AsyncClient) -> None:
    assert_refused(await client.get("/api/ads/ad-1/timeline?versions=best"), 422, "'versions'")
