"""An ad as a whole over REST: the list, the panel, the conversation, the mixer (A35-A37, X16)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.ads.replies import AdList, AdView, Conversation, Mixer, StreamLocks
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage, indexes
from callsheet.storage.artefacts.artefacts import Artefact
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.served import VOICE, chat_about_ad, generate_ad, served_app


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as one:
        yield one


async def got(client: httpx.AsyncClient, path: str) -> Any:
    reply = await client.get(path)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_an_ad_is_shown_with_its_record_its_streams_and_its_times(client: httpx.AsyncClient) -> None:
    """A35."""
    made = await generate_ad(client)
    found = await got(client, "/api/ads/ad-1")
    TypeAdapter(AdView).validate_python(found)
    assert (found["adId"], found["language"], found["market"], found["spotSeconds"]) == (
        "ad-1",
        "english",
        "US",
        30,
    )
    assert found["brief"]["targetAudience"] == "families in the neighbourhood"
    assert {name: one["newest"]["id"] for name, one in found["streams"].items()} == made["drafts"]
    assert found["streams"]["voices"]["newest"]["data"]["voiceTracks"]
    assert (found["timeline"], found["mixer"]) == (made["timeline"], made["mixer"])
    assert (found["provider"], found["conversationId"]) == ("offline", "ad-1")


async def test_the_list_has_the_newest_change_first_and_comes_in_pages(client: httpx.AsyncClient) -> None:
    for number in range(5):
        await generate_ad(client, adId=f"ad-{number}")
    await chat_about_ad(client, "Make the music more upbeat", "ad-1")
    order = ["ad-1", "ad-4", "ad-3", "ad-2", "ad-0"]
    seen: list[str] = []
    path = "/api/ads?limit=2"
    for _ in range(3):
        page = await got(client, path)
        TypeAdapter(AdList).validate_python(page)
        seen += [ad["adId"] for ad in page["ads"]]
        path = f"/api/ads?limit=2&after={page['next']}"
    assert seen == order
    assert page["next"] is None
    assert [ad["adId"] for ad in (await got(client, "/api/ads"))["ads"]] == order


async def test_entries_of_one_millisecond_are_paged_without_loss_or_repeat(storage: Storage) -> None:
    names = [f"ad-{number:02}" for number in range(7)]
    await storage.redis.zadd("owner:{local}:artefacts:ad", dict.fromkeys(names, 1_700_000_000_000))
    seen: list[str] = []
    after = None
    for _ in range(4):
        page = await indexes.list_owned(storage, "local", "ad", after=after, limit=2)
        seen, after = [*seen, *page.ids], page.next
    assert seen == sorted(names, reverse=True)
    assert after is None


async def test_an_entry_whose_ad_is_not_there_is_not_shown(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """A list is a hint; the record decides."""
    await generate_ad(client)
    await indexes.touch(storage, "local", "ad", "ad-ghost")
    assert [ad["adId"] for ad in (await got(client, "/api/ads"))["ads"]] == ["ad-1"]


async def test_an_ad_of_another_owner_looks_like_none(client: httpx.AsyncClient, storage: Storage) -> None:
    """X16: not found rather than forbidden, for reading and for writing, and in no list."""
    theirs = Artefact(storage, "ad", "ad-7", LOCAL)
    await theirs.claim("step", epoch=1, owner="someone else", thread="ad-7", facts={})
    await indexes.touch(storage, "local", "ad", "ad-7")
    for part in ("", "/conversation", "/timeline", "/mixer", "/voices"):
        reply = await client.get(f"/api/ads/ad-7{part}")
        assert (reply.status_code, reply.json()["error"]) == (404, "there is no ad 'ad-7'")
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "Mine now."}]}
    assert (await client.post("/api/ads/ad-7/voices", json=body)).status_code == 404
    assert (await client.patch("/api/ads/ad-7/mixer", json={})).status_code == 404
    assert (await got(client, "/api/ads"))["ads"] == []
    assert (await theirs.stream("voices")).versions == ()


async def test_the_conversation_is_shown_whole_and_in_order(client: httpx.AsyncClient) -> None:
    """A29, A37, A54: the cached system prompt, every message, every call answered."""
    await generate_ad(client)
    await chat_about_ad(client, "Make the music more upbeat")
    found = await got(client, "/api/ads/ad-1/conversation")
    TypeAdapter(Conversation).validate_python(found)
    messages = found["messages"]
    assert (messages[0]["role"], messages[0]["cached"]) == ("system", True)
    assert messages[1]["content"].startswith("Create an audio ad.\nClient: Miel")
    assert [message["content"] for message in messages if message["role"] == "user"][
        1
    ] == "Make the music more upbeat"
    asked = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert asked == answered
    assert messages[-1]["role"] == "assistant"


async def test_clearing_the_conversation_keeps_the_versions(client: httpx.AsyncClient) -> None:
    """A36: no messages, and a chat is told to begin with a brief; then everything goes on."""
    await generate_ad(client)
    reply = await client.delete("/api/ads/ad-1/conversation")
    assert (reply.status_code, reply.json()) == (200, {"conversationId": "ad-1", "messages": []})
    assert (await got(client, "/api/ads/ad-1/conversation"))["messages"] == []
    chat = await client.post("/api/ads/ad-1/chat", json={"message": "hello"})
    assert (chat.status_code, chat.json()["error"]) == (
        400,
        "No conversation found. Generate initial ad first.",
    )
    assert (await got(client, "/api/ads/ad-1"))["streams"]["voices"]["count"] == 1
    assert (await generate_ad(client))["drafts"] == {"voices": "v2", "music": "v2", "sfx": "v2"}
    assert (
        len(
            [
                message
                for message in (await got(client, "/api/ads/ad-1/conversation"))["messages"]
                if message["role"] == "user"
            ]
        )
        == 1
    )


async def test_clearing_twice_is_clearing_once(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    for _ in range(2):
        assert (await client.delete("/api/ads/ad-1/conversation")).json()["messages"] == []


async def test_what_is_set_at_the_mixer_stays_and_the_rest_follows(client: httpx.AsyncClient) -> None:
    """A35: kept across turns; new tracks come in at 0 dB, tracks that are gone leave."""
    await generate_ad(client)
    before = await got(client, "/api/ads/ad-1/mixer")
    TypeAdapter(Mixer).validate_python(before)
    wanted = {"voices": {"track-0": -4.5}, "music": {"volumeDb": -20, "fadeOutSeconds": 3}}
    reply = await client.patch("/api/ads/ad-1/mixer", json=wanted)
    assert reply.status_code == 200
    assert reply.json()["voices"] == {**before["voices"], "track-0": -4.5}
    assert reply.json()["music"] == {**before["music"], "volumeDb": -20, "fadeOutSeconds": 3}
    assert reply.json()["sfx"] == before["sfx"]
    await client.patch("/api/ads/ad-1/mixer", json={"sfx": {"volumeDb": -6}})
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "One voice."}]}
    after = (await client.post("/api/ads/ad-1/voices", json=body)).json()["mixer"]
    assert after["voices"] == {"track-0": -4.5}
    assert (after["music"]["volumeDb"], after["sfx"]["volumeDb"]) == (-20, -6)
    assert (await got(client, "/api/ads/ad-1"))["mixer"] == after


async def test_two_hands_at_the_mixer_lose_nothing(client: httpx.AsyncClient) -> None:
    tracks = list((await generate_ad(client))["mixer"]["voices"])
    changes = [{"voices": {track: -float(i + 1)}} for i, track in enumerate(tracks)]
    changes += [{"sfx": {"volumeDb": -9}}, {"music": {"duckingDb": -15}}, {"music": {"fadeInSeconds": 2}}]
    replies = await asyncio.gather(*(client.patch("/api/ads/ad-1/mixer", json=change) for change in changes))
    assert {reply.status_code for reply in replies} == {200}
    found = await got(client, "/api/ads/ad-1/mixer")
    assert found["voices"] == {track: -float(i + 1) for i, track in enumerate(tracks)}
    assert (found["sfx"]["volumeDb"], found["music"]["duckingDb"], found["music"]["fadeInSeconds"]) == (
        -9,
        -15,
        2,
    )


MIXER_REFUSALS: list[tuple[dict[str, Any], int, str]] = [
    ({"voices": {"track-99": 0}}, 400, "no voice track 'track-99'"),
    ({"voices": {"track-0": "loud"}}, 422, "'voices.track-0'"),
    ({"voices": {"track-0": 13}}, 400, "'voices.track-0'"),
    ({"music": {"volumeDb": 13}}, 400, "'music.volumeDb'"),
    ({"music": {"fadeInSeconds": -1}}, 400, "'music.fadeInSeconds'"),
    ({"reverb": 1}, 400, "'reverb' is not a field"),
]


async def test_a_setting_the_mixer_does_not_have_is_refused(client: httpx.AsyncClient) -> None:
    before = (await generate_ad(client))["mixer"]
    for body, status, words in MIXER_REFUSALS:
        reply = await client.patch("/api/ads/ad-1/mixer", json=body)
        assert (reply.status_code, words in reply.json()["error"]) == (status, True), reply.text
    assert await got(client, "/api/ads/ad-1/mixer") == before


async def test_a_conversation_that_made_nothing_yet_is_an_ad_all_the_same(client: httpx.AsyncClient) -> None:
    """A54: the brief is kept before the model answers, so a failed first turn is no lost ad."""
    failed = await client.post(
        "/api/ai/generate", json={"adId": "ad-1", "brief": "A bakery", "provider": "offline/no-such-model"}
    )
    assert failed.status_code == 400
    found = await got(client, "/api/ads/ad-1")
    assert (found["brief"]["clientDescription"], found["streams"]["voices"]["count"]) == ("A bakery", 0)
    TypeAdapter(AdView).validate_python(found)
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "By hand."}]}
    assert (await client.post("/api/ads/ad-1/voices", json=body)).json()["versionId"] == "v1"
    assert [ad["adId"] for ad in (await got(client, "/api/ads"))["ads"]] == ["ad-1"]


async def test_a_locked_stream_is_left_alone_to_the_byte_until_it_is_unlocked(
    client: httpx.AsyncClient, model: ChatDouble
) -> None:
    """C34: "leave the voices alone" holds for the model and for people, and what is beside goes on."""
    await generate_ad(client)
    reply = await client.put("/api/ads/ad-1/locks/voices")
    locked = TypeAdapter(StreamLocks).validate_python(reply.json())
    assert [(one["stream"], one["by"]) for one in locked["locks"]] == [("voices", "local")]
    assert (await got(client, "/api/ads/ad-1"))["locks"] == locked["locks"]
    before = (await client.get("/api/ads/ad-1/voices")).content
    told = (await chat_about_ad(client, "Make the script shorter", provider="offline"))["message"]
    assert "locked" in told
    assert "shorter now" not in told, "what could not be written has not happened"
    track = {"voiceId": VOICE, "text": "Mine now."}
    voices = Say(calls=[("v", "create_voice_draft", json.dumps({"adId": "ad-1", "tracks": [track]}))])
    music = Say(calls=[("m", "create_music_draft", json.dumps({"adId": "ad-1", "prompt": "calm"}))])
    model.script(voices, music, Say("The voices are locked; the music is calm now."))
    turn = await chat_about_ad(client, "Change the voices and the music", provider="openai")
    assert turn["drafts"] == {"music": "v2"}
    assert "locked" in turn["toolCalls"][0]["result"]["error"]
    body = {"voiceTracks": [track]}
    assert (await client.post("/api/ads/ad-1/voices", json=body)).status_code == 403
    assert (await client.get("/api/ads/ad-1/voices")).content == before
    assert (await client.put("/api/ads/ad-1/locks/timeline")).status_code == 404
    for _ in range(2):
        assert (await client.delete("/api/ads/ad-1/locks/voices")).json() == {"locks": []}
    assert (await client.post("/api/ads/ad-1/voices", json=body)).status_code == 201
