"""Ads made and refined over REST, with the offline model and with a vendor's at the wire (A50-A61)."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from pydantic import TypeAdapter
from redis.asyncio import Redis

from callsheet.server.ads.replies import AdTurn
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
    async with served_app(valkey_url) as one:
        yield one


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A vendor's endpoint; requests that name `openai` get its answers."""
    with ChatDouble() as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one


async def test_a_brief_becomes_three_drafts(client: httpx.AsyncClient) -> None:
    """A50, A53, A59, A-R9: v1 of every stream, and which call made it."""
    reply = await generate_ad(client)
    TURN.validate_python(reply)
    assert reply["adId"] == reply["conversationId"] == "ad-1"
    assert reply["drafts"] == {"voices": "v1", "music": "v1", "sfx": "v1"}
    calls = {call["id"]: call["name"] for call in reply["toolCalls"]}
    made = {item["stream"]: calls[item["toolCallId"]] for item in reply["created"]}
    assert made == {
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


async def test_the_calls_of_a_turn_are_shown_with_arguments_and_results(client: httpx.AsyncClient) -> None:
    """A76: "see tool calls"."""
    calls = (await generate_ad(client))["toolCalls"]
    searched = next(call for call in calls if call["name"] == "search_voices")
    assert searched["arguments"]["language"] == "english"
    assert searched["result"] == {"count": searched["result"]["count"]}
    music = next(call for call in calls if call["name"] == "create_music_draft")
    assert music["result"]["versionId"] == "v1"
    assert {call["status"] for call in calls} == {"completed"}


async def test_a_chat_changes_only_what_was_asked_for(client: httpx.AsyncClient) -> None:
    """A56, A58: music v2 is more upbeat, and `drafts` names nothing else."""
    await generate_ad(client)
    reply = await chat_about_ad(client, "Make the music more upbeat")
    TURN.validate_python(reply)
    assert reply["drafts"] == {"music": "v2"}
    music = (await client.get("/api/ads/ad-1/music/v2")).json()
    assert "upbeat" in music["musicPrompt"]
    assert (await client.get("/api/ads/ad-1/voices")).json()["versions"][-1]["id"] == "v1"


async def test_an_added_effect_joins_those_that_were_there(client: httpx.AsyncClient) -> None:
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
    "form", ["Miel, a bakery in Lyon. 15 second spot.", {"client": "Miel, a bakery", "length": 15}]
)
async def test_a_brief_comes_in_either_shape_or_as_a_sentence(
    client: httpx.AsyncClient, form: object
) -> None:
    """A-R15."""
    reply = await generate_ad(client, brief=form)
    assert reply["timeline"]["spotSeconds"] == 15
    assert (await client.get("/api/ads/ad-1")).json()["brief"]["duration"] == 15


async def test_the_language_of_the_request_wins_and_its_voices_speak_it(client: httpx.AsyncClient) -> None:
    """A12, A-R13, A-R15: a native name is understood, the English one kept; the old flag changes nothing."""
    await generate_ad(client, language="ภาษาไทย", useToolCalling=True)
    found = (await client.get("/api/ads/ad-1")).json()
    assert (found["language"], found["brief"]["language"]) == ("thai", "thai")


async def test_what_people_write_survives_byte_for_byte(client: httpx.AsyncClient) -> None:
    """A38, X18: Thai, Chinese, Arabic right to left, emoji with joiners, combining marks as they were."""
    text = "สวัสดี 你好 Dzień dobry مرحبا بالعالم \u202eabc\u202c 👩🏽‍🚀 e\u0301 \U0001f1eb\U0001f1f7 {}%:*"
    ad_id = "ad สวัสดี/你好 {1}%2F🚀"
    await generate_ad(client, adId=ad_id, brief={**BRIEF, "additionalContext": text})
    path = "/api/ads/ad%20%E0%B8%AA%E0%B8%A7%E0%B8%B1%E0%B8%AA%E0%B8%94%E0%B8%B5%2F%E4%BD%A0%E5%A5%BD%20"
    path += "%7B1%7D%252F%F0%9F%9A%80"
    found = await client.get(path)
    assert found.json()["adId"] == ad_id
    assert found.json()["brief"]["additionalContext"] == text
    assert text.encode() in found.content
    messages = (await client.get(f"{path}/conversation")).json()["messages"]
    assert text in messages[1]["content"]
    assert (await client.get(f"{path}/voices/v1")).status_code == 200


async def test_a_new_length_and_language_are_remembered_and_told_to_the_model(
    client: httpx.AsyncClient,
) -> None:
    """The state, the ad's record and the message all know."""
    await generate_ad(client)
    reply = await chat_about_ad(client, "Make it shorter", duration=45, language="polish", market="PL")
    assert reply["timeline"]["spotSeconds"] == 45
    found = (await client.get("/api/ads/ad-1")).json()
    assert (found["language"], found["market"], found["spotSeconds"]) == ("polish", "PL", 45)
    told = [
        message["content"] for message in (await client.get("/api/ads/ad-1/conversation")).json()["messages"]
    ]
    assert "Make it shorter\n(Ad language now: polish)\n(Spot now: 45 s)" in told


async def test_the_conversation_may_have_a_name_of_its_own(client: httpx.AsyncClient) -> None:
    """A-R14, X5: one conversation an ad, found by either id; any other id is not found."""
    assert (await generate_ad(client, conversationId="conv-123"))["conversationId"] == "conv-123"
    assert (await chat_about_ad(client, "Make the music calmer"))["conversationId"] == "conv-123"
    assert (await chat_about_ad(client, "Make it shorter", conversationId="conv-123"))[
        "conversationId"
    ] == "conv-123"
    assert (await chat_about_ad(client, "Make the music louder", "conv-123"))["adId"] == "ad-1"
    assert (await client.get("/api/ads/conv-123")).json()["adId"] == "ad-1"
    wrong = await client.post("/api/ai/generate", json={**GENERATE, "conversationId": "conv-4"})
    assert (wrong.status_code, wrong.json()["type"]) == (404, "missing")
    other = await client.post(
        "/api/ai/generate", json={**GENERATE, "adId": "ad-2", "conversationId": "conv-123"}
    )
    assert other.status_code == 404
    assert (await client.get("/api/ads/ad-2")).status_code == 404


async def test_a_request_sent_again_under_its_key_gets_the_first_reply(client: httpx.AsyncClient) -> None:
    """X8, exactly once: no second version, and another request under the key is refused."""
    keyed = {"Idempotency-Key": "order 66"}
    first = await client.post("/api/ai/generate", json=GENERATE, headers=keyed)
    again = await client.post("/api/ai/generate", json=GENERATE, headers=keyed)
    assert (first.status_code, again.status_code) == (200, 200)
    assert {key: again.json()[key] for key in ("drafts", "created", "message", "toolCalls")} == {
        key: first.json()[key] for key in ("drafts", "created", "message", "toolCalls")
    }
    assert len((await client.get("/api/ads/ad-1/voices")).json()["versions"]) == 1
    other = await client.post("/api/ai/generate", json={**GENERATE, "brief": "Another"}, headers=keyed)
    assert (other.status_code, other.json()["type"]) == (409, "conflict")


@pytest.mark.parametrize("place", ["ads", "pages"])
async def test_equal_requests_with_different_idempotency_keys_are_different_requests(
    client: httpx.AsyncClient, double: ChatDouble, place: str
) -> None:
    """X9: also while the first runs; without a key, an equal request joins no request that has one."""
    path, body = f"/api/{place}/shop/chat", {"message": "say something new", "provider": "openai"}
    if place == "ads":
        await generate_ad(client, adId="shop")
    double.script(Silence(), Say("Second."), Say("Third."))
    slow = asyncio.create_task(client.post(path, json=body, headers={"Idempotency-Key": "k1"}))
    await eventually(lambda: _true(double.requests), "the slow run reached its model")
    for headers in ({"Idempotency-Key": "k2"}, {}):
        busy = await client.post(path, json=body, headers=headers)
        assert (busy.status_code, busy.json()["type"]) == (409, "busy"), busy.text
    same = asyncio.create_task(client.post(path, json=body, headers={"Idempotency-Key": "k1"}))
    double.closing.set()
    # Both get the end of the one run, whose model has failed.
    assert {(await each).status_code for each in (slow, same)} == {503}
    second = await client.post(path, json=body, headers={"Idempotency-Key": "k2"})
    assert second.json()["message"] == "Second."
    again = await client.post(path, json=body, headers={"Idempotency-Key": "k2"})
    assert again.json()["message"] == "Second."
    third = await client.post(path, json=body, headers={"Idempotency-Key": "k3"})
    assert third.json()["message"] == "Third."


async def test_the_same_request_twice_at_once_is_carried_out_once(client: httpx.AsyncClient) -> None:
    """X9: both get the one answer."""
    first, second = await asyncio.gather(generate_ad(client), generate_ad(client))
    assert first["created"] == second["created"]
    for stream in ("voices", "music", "sfx"):
        assert len((await client.get(f"/api/ads/ad-1/{stream}")).json()["versions"]) == 1


async def test_another_request_meanwhile_is_told_to_wait(
    client: httpx.AsyncClient, double: ChatDouble
) -> None:
    """X8: one run a thread; 409 with Retry-After, and nothing of it is written."""
    await generate_ad(client)
    double.script(Silence())
    slow = asyncio.create_task(
        client.post("/api/ads/ad-1/chat", json={"message": "slowly", "provider": "openai"})
    )
    await eventually(lambda: _true(double.requests), "the slow run reached its model")
    busy = await client.post("/api/ads/ad-1/chat", json={"message": "now", "provider": "offline"})
    assert (busy.status_code, busy.json()["type"]) == (409, "busy")
    assert int(busy.headers["retry-after"]) >= 1
    assert (await client.delete("/api/ads/ad-1/conversation")).status_code == 409
    double.closing.set()
    failed = await slow
    assert (failed.status_code, failed.json()["type"]) == (503, "unavailable")
    messages = (await client.get("/api/ads/ad-1/conversation")).json()["messages"]
    assert "now" not in [message["content"] for message in messages]


async def test_a_run_that_failed_is_taken_up_by_the_same_request(
    client: httpx.AsyncClient, double: ChatDouble
) -> None:
    """A-R10: the message was kept before the model was asked, and is there once."""
    await generate_ad(client)
    body = {"message": "Say something new", "provider": "openai"}
    assert (await client.post("/api/ads/ad-1/chat", json=body)).status_code == 500
    double.script(Say("Here is an idea."))
    reply = await client.post("/api/ads/ad-1/chat", json=body)
    assert (reply.status_code, reply.json()["message"]) == (200, "Here is an idea.")
    assert reply.json()["provider"] == "openai"
    messages = (await client.get("/api/ads/ad-1/conversation")).json()["messages"]
    assert [message["content"] for message in messages].count("Say something new") == 1


async def test_a_stream_tells_steps_then_drafts_then_the_reply(client: httpx.AsyncClient) -> None:
    """A80, A82: drafts come before the result, each right after the step that made it."""
    reply = await client.post("/api/ai/generate", json=GENERATE, headers={"Accept": "text/event-stream"})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-accel-buffering"] == "no"
    assert "no-transform" in reply.headers["cache-control"]
    told = parse_events(reply.text)
    names = [name for name, _ in told]
    assert names[-1] == "result"
    assert names.count("drafts") == 3
    TURN.validate_python(told[-1][1])
    drafts = [data for name, data in told if name == "drafts"]
    assert {stream: version for one in drafts for stream, version in one.items()} == told[-1][1]["drafts"]
    for place, name in enumerate(names):
        if name == "drafts":
            assert told[place - 1][1]["preview"]["versionId"] in told[place][1].values()


async def test_the_words_beside_a_call_come_before_its_step_and_in_pieces(
    client: httpx.AsyncClient, double: ChatDouble
) -> None:
    """A63, A82: over REST, too, the vendor streams."""
    await generate_ad(client)
    look = ("c1", "get_current_state", "{}")
    double.script(Say("First I look.", calls=[look]), Say("All is well."))
    reply = await client.post(
        "/api/ads/ad-1/chat",
        json={"message": "hello", "provider": "openai"},
        headers={"Accept": "text/event-stream"},
    )
    told = parse_events(reply.text)
    texts = [data for name, data in told if name == "text"]
    assert "".join(text["content"] for text in texts) == "First I look.All is well."
    assert len(texts) > 4
    assert len({text["messageId"] for text in texts}) == 2
    names = [name for name, _ in told]
    assert names.index("text") < names.index("step")
    assert told[-1][1]["message"] == "All is well."
    double.script(Say("Again."))
    await client.post("/api/ads/ad-1/chat", json={"message": "again", "provider": "openai"})
    assert [request.body["stream"] for request in double.requests] == [True] * 3


async def test_words_of_an_answer_that_broke_off_have_an_id_of_their_own(
    client: httpx.AsyncClient, double: ChatDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A-R20: the answer that counts is another message, and it alone is stored."""
    await generate_ad(client)
    monkeypatch.setenv("OPENAI_MAX_RETRIES", "1")
    double.script(Say("Half a sentence", break_off="end"), Say("A whole sentence."))
    reply = await client.post(
        "/api/ads/ad-1/chat",
        json={"message": "hello", "provider": "openai"},
        headers={"Accept": "text/event-stream"},
    )
    told = parse_events(reply.text)
    texts = [data for name, data in told if name == "text"]
    whole = [text["content"] for text in texts if text["messageId"] == texts[-1]["messageId"]]
    assert ("".join(whole), told[-1][1]["message"]) == ("A whole sentence.", "A whole sentence.")
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


async def test_bad_input_is_refused_with_its_status_even_where_a_stream_was_asked_for(
    client: httpx.AsyncClient,
) -> None:
    reply = await client.post(
        "/api/ads/ad-1/chat", json={"message": "hello"}, headers={"Accept": "text/event-stream"}
    )
    assert (reply.status_code, reply.headers["content-type"]) == (400, "application/json")


async def test_an_ad_lives_on_when_the_server_is_started_again(valkey_url: str) -> None:
    """X5: another process on the same storage goes on with the conversation."""
    async with started_app(valkey_url) as first, app_client(first) as client:
        await generate_ad(client)
    async with started_app(valkey_url) as second, app_client(second) as client:
        assert (await chat_about_ad(client, "Make the music more upbeat"))["drafts"] == {"music": "v2"}


async def test_everything_stored_is_text_as_people_write_it(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """A-R21: no escapes in what others may read from Redis."""
    await generate_ad(client, brief={**BRIEF, "language": "thai"})
    async with Redis.from_url(valkey_url) as server:
        record = await server.get("ad:{ad-1}:voices:v:v1")
    assert isinstance(record, bytes)
    assert b"\\u" not in record
    assert re.search("[\u0e00-\u0e7f]", record.decode())


async def _true(value: object) -> bool:
    return bool(value)
