"""Ads made and refined over REST, with the offline model and with a vendor's at the wire (A50-A61)."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from pydantic import TypeAdapter
from redis.asyncio import Redis

from callsheet.server.ads.schemas import AdTurn
from tests.doubles.chat_double import ChatDouble, Say, Silence
from tests.doubles.served import (
    BRIEF,
    GENERATE,
    app_client,
    chat_about_ad,
    generate_ad,
    parse_events,
    served_app,
    started_app,
)
from tests.doubles.waiting import eventually

TURN = TypeAdapter(AdTurn)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_MAX_RETRIES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as http:
        yield http


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A vendor's endpoint; it answers requests that name `openai`."""
    with ChatDouble() as chat_double:
        for name, value in chat_double.environ.items():
            monkeypatch.setenv(name, value)
        yield chat_double


async def test_a_brief_leads_to_a_first_version_of_every_stream(client: httpx.AsyncClient) -> None:
    """A50, A53, A59, A-R9: and the reply names the call that made each."""
    reply = await generate_ad(client)
    TURN.validate_python(reply)
    assert reply["adId"] == reply["conversationId"] == "ad-1"
    assert reply["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    calls = {call["id"]: call["name"] for call in reply["toolCalls"]}
    tools = {version["stream"]: calls[version["toolCallId"]] for version in reply["created"]}
    assert tools == {
        "voices": "create_voice_draft",
        "music": "create_music_draft",
        "sfx": "create_sfx_draft",
    }
    assert reply["message"]
    assert reply["timeline"]["spotSeconds"] == 30
    assert reply["timeline"]["fits"]
    assert set(reply["mixer"]["voices"]) == {span["id"] for span in reply["timeline"]["voices"]}
    assert reply["provider"] == "offline"
    assert reply["providerReason"]
    assert reply["usage"]["modelCalls"] >= 2


async def test_a_reply_shows_the_tool_calls_with_arguments_and_results(client: httpx.AsyncClient) -> None:
    """A76: "see tool calls"."""
    calls = (await generate_ad(client))["toolCalls"]
    search = next(call for call in calls if call["name"] == "search_voices")
    assert search["arguments"]["language"] == "english"
    assert search["result"] == {"count": search["result"]["count"]}
    music = next(call for call in calls if call["name"] == "create_music_draft")
    assert music["result"]["versionId"] == "v1"
    assert {call["status"] for call in calls} == {"completed"}


async def test_a_chat_makes_new_versions_of_the_named_stream_only(client: httpx.AsyncClient) -> None:
    """A56, A58."""
    await generate_ad(client)
    reply = await chat_about_ad(client, "Make the music more upbeat")
    TURN.validate_python(reply)
    assert reply["drafts"] == {"music": "v2"}
    music = (await client.get("/api/ads/ad-1/music/v2")).json()
    assert "upbeat" in music["musicPrompt"]
    assert (await client.get("/api/ads/ad-1/voices")).json()["versions"][-1]["id"] == "v1"


async def test_an_added_effect_keeps_the_earlier_effects(client: httpx.AsyncClient) -> None:
    """A60."""
    await generate_ad(client)
    before = (await client.get("/api/ads/ad-1/sfx/v1")).json()["soundFxPrompts"]
    assert (await chat_about_ad(client, "Add a whoosh at the start"))["drafts"] == {"sfx": "v2"}
    after = (await client.get("/api/ads/ad-1/sfx/v2")).json()["soundFxPrompts"]
    whoosh = [effect for effect in after if "whoosh" in effect["description"].casefold()]
    assert [effect["placement"]["type"] for effect in whoosh] == ["start"]
    assert [effect["description"] for effect in before] == [
        effect["description"] for effect in after if effect not in whoosh
    ]


@pytest.mark.parametrize(
    "brief", ["Miel, a bakery in Lyon. 15 second spot.", {"client": "Miel, a bakery", "length": 15}]
)
async def test_a_brief_may_be_a_sentence_or_an_object_of_other_field_names(
    client: httpx.AsyncClient, brief: object
) -> None:
    """A-R15."""
    reply = await generate_ad(client, brief=brief)
    assert reply["timeline"]["spotSeconds"] == 15
    assert (await client.get("/api/ads/ad-1")).json()["brief"]["duration"] == 15


async def test_the_language_of_the_request_takes_precedence_over_the_briefs(
    client: httpx.AsyncClient,
) -> None:
    """A12, A-R13, A-R15: a native name is stored in English; the old flag changes nothing."""
    await generate_ad(client, language="ภาษาไทย", useToolCalling=True)
    ad = (await client.get("/api/ads/ad-1")).json()
    assert (ad["language"], ad["brief"]["language"]) == ("thai", "thai")


async def test_text_in_any_script_is_stored_and_returned_byte_for_byte(client: httpx.AsyncClient) -> None:
    """A38, X18: Thai, Chinese, Arabic right to left, emoji with joiners, combining marks; also in an id."""
    text = "สวัสดี 你好 Dzień dobry مرحبا بالعالم \u202eabc\u202c 👩🏽‍🚀 e\u0301 \U0001f1eb\U0001f1f7 {}%:*"
    ad_id = "ad สวัสดี/你好 {1}%2F🚀"
    await generate_ad(client, adId=ad_id, brief={**BRIEF, "additionalContext": text})
    path = "/api/ads/ad%20%E0%B8%AA%E0%B8%A7%E0%B8%B1%E0%B8%AA%E0%B8%94%E0%B8%B5%2F%E4%BD%A0%E5%A5%BD%20"
    path += "%7B1%7D%252F%F0%9F%9A%80"
    reply = await client.get(path)
    assert reply.json()["adId"] == ad_id
    assert reply.json()["brief"]["additionalContext"] == text
    assert text.encode() in reply.content
    messages = (await client.get(f"{path}/conversation")).json()["messages"]
    assert text in messages[1]["content"]
    assert (await client.get(f"{path}/voices/v1")).status_code == 200


async def test_a_new_length_and_language_are_stored_and_sent_to_the_model(
    client: httpx.AsyncClient,
) -> None:
    """In the state, the ad's record and the message."""
    await generate_ad(client)
    reply = await chat_about_ad(client, "Make it shorter", duration=45, language="polish", market="PL")
    assert reply["timeline"]["spotSeconds"] == 45
    ad = (await client.get("/api/ads/ad-1")).json()
    assert (ad["language"], ad["market"], ad["spotSeconds"]) == ("polish", "PL", 45)
    texts = [
        message["content"] for message in (await client.get("/api/ads/ad-1/conversation")).json()["messages"]
    ]
    assert "Make it shorter\n(Ad language now: polish)\n(Spot now: 45 s)" in texts


async def test_a_conversation_may_have_an_id_of_its_own(client: httpx.AsyncClient) -> None:
    """A-R14, X5: one conversation an ad, reached by either id; any other id is 404."""
    assert (await generate_ad(client, conversationId="conv-123"))["conversationId"] == "conv-123"
    assert (await chat_about_ad(client, "Make the music calmer"))["conversationId"] == "conv-123"
    assert (await chat_about_ad(client, "Make it shorter", conversationId="conv-123"))[
        "conversationId"
    ] == "conv-123"
    assert (await chat_about_ad(client, "Make the music louder", "conv-123"))["adId"] == "ad-1"
    assert (await client.get("/api/ads/conv-123")).json()["adId"] == "ad-1"
    unknown_conversation = await client.post(
        "/api/ai/generate", json={**GENERATE, "conversationId": "conv-4"}
    )
    assert (unknown_conversation.status_code, unknown_conversation.json()["type"]) == (404, "missing")
    other_ad = await client.post(
        "/api/ai/generate", json={**GENERATE, "adId": "ad-2", "conversationId": "conv-123"}
    )
    assert other_ad.status_code == 404
    assert (await client.get("/api/ads/ad-2")).status_code == 404


async def test_a_repeated_request_with_its_idempotency_key_gets_the_first_reply(
    client: httpx.AsyncClient,
) -> None:
    """X8: exactly once; another request with the same key is a conflict."""
    headers = {"Idempotency-Key": "order 66"}
    first = await client.post("/api/ai/generate", json=GENERATE, headers=headers)
    repeated = await client.post("/api/ai/generate", json=GENERATE, headers=headers)
    assert (first.status_code, repeated.status_code) == (200, 200)
    assert {key: repeated.json()[key] for key in ("drafts", "created", "message", "toolCalls")} == {
        key: first.json()[key] for key in ("drafts", "created", "message", "toolCalls")
    }
    assert len((await client.get("/api/ads/ad-1/voices")).json()["versions"]) == 1
    other = await client.post("/api/ai/generate", json={**GENERATE, "brief": "Another"}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (409, "conflict")


@pytest.mark.parametrize("collection", ["ads", "pages"])
async def test_equal_requests_with_different_idempotency_keys_are_different_requests(
    client: httpx.AsyncClient, double: ChatDouble, collection: str
) -> None:
    """X9: also while the first runs; an equal request without a key joins none that has one."""
    path, body = f"/api/{collection}/shop/chat", {"message": "say something new?", "provider": "openai"}
    if collection == "ads":
        await generate_ad(client, adId="shop")
    double.script(Silence(), Say("Second."), Say("Third."))
    slow_request = asyncio.create_task(client.post(path, json=body, headers={"Idempotency-Key": "k1"}))
    await eventually(lambda: _is_true(double.requests), "the slow run reached its model")
    for headers in ({"Idempotency-Key": "k2"}, {}):
        busy_reply = await client.post(path, json=body, headers=headers)
        assert (busy_reply.status_code, busy_reply.json()["type"]) == (409, "busy"), busy_reply.text
    same_request = asyncio.create_task(client.post(path, json=body, headers={"Idempotency-Key": "k1"}))
    double.closing.set()
    # Both get the end of the one run, whose model has failed.
    assert {(await request).status_code for request in (slow_request, same_request)} == {503}
    second_reply = await client.post(path, json=body, headers={"Idempotency-Key": "k2"})
    assert second_reply.json()["message"].partition("\n\n")[0] == "Second."
    repeated_reply = await client.post(path, json=body, headers={"Idempotency-Key": "k2"})
    assert repeated_reply.json()["message"].partition("\n\n")[0] == "Second."
    third_reply = await client.post(path, json=body, headers={"Idempotency-Key": "k3"})
    assert third_reply.json()["message"].partition("\n\n")[0] == "Third."


async def test_two_concurrent_equal_requests_are_executed_once(client: httpx.AsyncClient) -> None:
    """X9: both get the same reply."""
    first, second = await asyncio.gather(generate_ad(client), generate_ad(client))
    assert first["created"] == second["created"]
    for stream in ("voices", "music", "sfx"):
        assert len((await client.get(f"/api/ads/ad-1/{stream}")).json()["versions"]) == 1


async def test_another_request_during_a_run_is_refused_with_retry_after(
    client: httpx.AsyncClient, double: ChatDouble
) -> None:
    """X8: one run a thread; nothing of the refused request is stored."""
    await generate_ad(client)
    double.script(Silence())
    slow_request = asyncio.create_task(
        client.post("/api/ads/ad-1/chat", json={"message": "slowly", "provider": "openai"})
    )
    await eventually(lambda: _is_true(double.requests), "the slow run reached its model")
    busy_reply = await client.post("/api/ads/ad-1/chat", json={"message": "now", "provider": "offline"})
    assert (busy_reply.status_code, busy_reply.json()["type"]) == (409, "busy")
    assert int(busy_reply.headers["retry-after"]) >= 1
    assert (await client.delete("/api/ads/ad-1/conversation")).status_code == 409
    double.closing.set()
    slow_reply = await slow_request
    assert (slow_reply.status_code, slow_reply.json()["type"]) == (503, "unavailable")
    messages = (await client.get("/api/ads/ad-1/conversation")).json()["messages"]
    assert "now" not in [message["content"] for message in messages]


async def test_an_equal_request_after_a_failure_continues_the_failed_run(
    client: httpx.AsyncClient, double: ChatDouble
) -> None:
    """A-R10: the message is stored before the model is called, and only once."""
    await generate_ad(client)
    body = {"message": "Say something new?", "provider": "openai"}
    assert (await client.post("/api/ads/ad-1/chat", json=body)).status_code == 500
    double.script(Say("Here is an idea."))
    reply = await client.post("/api/ads/ad-1/chat", json=body)
    assert (reply.status_code, reply.json()["message"].partition("\n\n")[0]) == (200, "Here is an idea.")
    assert reply.json()["provider"] == "openai"
    messages = (await client.get("/api/ads/ad-1/conversation")).json()["messages"]
    assert [message["content"] for message in messages].count("Say something new?") == 1


async def test_a_stream_has_each_draft_after_its_step_and_the_reply_at_the_end(
    client: httpx.AsyncClient,
) -> None:
    """A80, A82."""
    reply = await client.post("/api/ai/generate", json=GENERATE, headers={"Accept": "text/event-stream"})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-accel-buffering"] == "no"
    assert "no-transform" in reply.headers["cache-control"]
    events = parse_events(reply.text)
    names = [name for name, _ in events]
    assert names[-1] == "result"
    assert names.count("drafts") == 3
    TURN.validate_python(events[-1][1])
    drafts = [data for name, data in events if name == "drafts"]
    assert {stream: version for draft in drafts for stream, version in draft.items()} == events[-1][1][
        "drafts"
    ]
    for index, name in enumerate(names):
        if name == "drafts":
            assert events[index - 1][1]["preview"]["versionId"] in events[index][1].values()


async def test_text_that_comes_with_a_tool_call_is_streamed_in_pieces_before_the_step(
    client: httpx.AsyncClient, double: ChatDouble
) -> None:
    """A63, A82: the vendor's answer is streamed for REST, too."""
    await generate_ad(client)
    look_call = ("c1", "get_current_state", "{}")
    double.script(Say("First I look.", calls=[look_call]), Say("All is well."))
    reply = await client.post(
        "/api/ads/ad-1/chat",
        json={"message": "hello?", "provider": "openai"},
        headers={"Accept": "text/event-stream"},
    )
    events = parse_events(reply.text)
    texts = [data for name, data in events if name == "text"]
    assert "".join(text["content"] for text in texts) == "First I look.All is well."
    assert len(texts) > 4
    assert len({text["messageId"] for text in texts}) == 2
    names = [name for name, _ in events]
    assert names.index("text") < names.index("step")
    assert events[-1][1]["message"].partition("\n\n")[0] == "All is well."
    double.script(Say("Again."))
    await client.post("/api/ads/ad-1/chat", json={"message": "again?", "provider": "openai"})
    assert [request.body["stream"] for request in double.requests] == [True] * 3


async def test_a_broken_off_answer_is_streamed_under_another_message_id_and_not_stored(
    client: httpx.AsyncClient, double: ChatDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A-R20."""
    await generate_ad(client)
    monkeypatch.setenv("OPENAI_MAX_RETRIES", "1")
    double.script(Say("Half a sentence", break_off="end"), Say("A whole sentence."))
    reply = await client.post(
        "/api/ads/ad-1/chat",
        json={"message": "hello?", "provider": "openai"},
        headers={"Accept": "text/event-stream"},
    )
    events = parse_events(reply.text)
    texts = [data for name, data in events if name == "text"]
    last_text = [text["content"] for text in texts if text["messageId"] == texts[-1]["messageId"]]
    assert ("".join(last_text), events[-1][1]["message"].partition("\n\n")[0]) == (
        "A whole sentence.",
        "A whole sentence.",
    )
    conversation = (await client.get("/api/ads/ad-1/conversation")).text
    assert "Half" not in conversation


async def test_a_stream_that_fails_ends_with_the_error(client: httpx.AsyncClient, double: ChatDouble) -> None:
    await generate_ad(client)
    reply = await client.post(
        "/api/ads/ad-1/chat",
        json={"message": "hello", "provider": "openai/none"},
        headers={"Accept": "text/event-stream"},
    )
    (name, body) = parse_events(reply.text)[-1]
    assert name == "error"
    assert (body["status"], body["type"]) == (500, "broken")
    assert "OpenAI" in body["error"]


async def test_an_invalid_request_for_a_stream_is_refused_with_its_status(
    client: httpx.AsyncClient,
) -> None:
    reply = await client.post(
        "/api/ads/ad-1/chat", json={"message": "hello"}, headers={"Accept": "text/event-stream"}
    )
    assert (reply.status_code, reply.headers["content-type"]) == (400, "application/json")


async def test_a_conversation_continues_after_a_restart_of_the_server(valkey_url: str) -> None:
    """X5: another process on the same storage."""
    async with started_app(valkey_url) as first, app_client(first) as client:
        await generate_ad(client)
    async with started_app(valkey_url) as second, app_client(second) as client:
        assert (await chat_about_ad(client, "Make the music more upbeat"))["drafts"] == {"music": "v2"}


async def test_stored_json_has_no_unicode_escapes(client: httpx.AsyncClient, valkey_url: str) -> None:
    """A-R21: others may read it from Redis."""
    await generate_ad(client, brief={**BRIEF, "language": "thai"})
    async with Redis.from_url(valkey_url) as server:
        record = await server.get("ad:{ad-1}:voices:v:v1")
    assert isinstance(record, bytes)
    assert b"\\u" not in record
    assert re.search("[\u0e00-\u0e7f]", record.decode())


async def _is_true(value: object) -> bool:
    return bool(value)
