"""An ad as a whole over REST: list, view, conversation, mixer, locks (A35-A37, X16)."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.ads.schemas import AdList, AdView, Conversation, Mixer, StreamLocks
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage, indexes
from callsheet.storage.artefacts.artefacts import Artefact
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.served import VOICE, chat_about_ad, generate_ad, served_app


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as http:
        yield http


async def get_json(client: httpx.AsyncClient, path: str) -> Any:
    reply = await client.get(path)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_an_ad_is_shown_with_its_brief_streams_timeline_and_mixer(client: httpx.AsyncClient) -> None:
    """A35."""
    generated = await generate_ad(client)
    ad = await get_json(client, "/api/ads/ad-1")
    TypeAdapter(AdView).validate_python(ad)
    assert (ad["adId"], ad["language"], ad["market"], ad["spotSeconds"]) == (
        "ad-1",
        "english",
        "US",
        30,
    )
    assert ad["brief"]["targetAudience"] == "families in the neighbourhood"
    assert {name: stream["newest"]["id"] for name, stream in ad["streams"].items()} == generated["drafts"]
    assert ad["streams"]["voices"]["newest"]["data"]["voiceTracks"]
    assert (ad["timeline"], ad["mixer"]) == (generated["timeline"], generated["mixer"])
    assert (ad["provider"], ad["conversationId"]) == ("offline", "ad-1")


async def test_the_list_of_ads_is_paged_by_newest_change_first(client: httpx.AsyncClient) -> None:
    for number in range(5):
        await generate_ad(client, adId=f"ad-{number}")
    await chat_about_ad(client, "Make the music more upbeat", "ad-1")
    expected = ["ad-1", "ad-4", "ad-3", "ad-2", "ad-0"]
    listed: list[str] = []
    path = "/api/ads?limit=2"
    for _ in range(3):
        page = await get_json(client, path)
        TypeAdapter(AdList).validate_python(page)
        listed += [ad["adId"] for ad in page["ads"]]
        path = f"/api/ads?limit=2&after={page['next']}"
    assert listed == expected
    assert page["next"] is None
    assert [ad["adId"] for ad in (await get_json(client, "/api/ads"))["ads"]] == expected


async def test_ads_changed_in_one_millisecond_are_each_on_one_page(storage: Storage) -> None:
    ids = [f"ad-{number:02}" for number in range(7)]
    await storage.redis.zadd("owner:{local}:artefacts:ad", dict.fromkeys(ids, 1_700_000_000_000))
    listed: list[str] = []
    after = None
    for _ in range(4):
        page = await indexes.list_owned(storage, "local", "ad", after=after, limit=2)
        listed, after = [*listed, *page.ids], page.next
    assert listed == sorted(ids, reverse=True)
    assert after is None


async def test_an_index_entry_without_an_ad_is_not_listed(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """The index is only a hint; the ad's record decides."""
    await generate_ad(client)
    await indexes.touch(storage, "local", "ad", "ad-ghost")
    assert [ad["adId"] for ad in (await get_json(client, "/api/ads"))["ads"]] == ["ad-1"]


async def test_an_ad_of_another_owner_is_404_and_not_listed(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    """X16: for reads and writes."""
    other_ad = Artefact(storage, "ad", "ad-7", LOCAL)
    await other_ad.claim("step", epoch=1, owner="someone else", thread="ad-7", facts={})
    await indexes.touch(storage, "local", "ad", "ad-7")
    for part in ("", "/conversation", "/timeline", "/mixer", "/voices"):
        reply = await client.get(f"/api/ads/ad-7{part}")
        assert (reply.status_code, reply.json()["error"]) == (404, "there is no ad 'ad-7'")
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "Mine now."}]}
    assert (await client.post("/api/ads/ad-7/voices", json=body)).status_code == 404
    assert (await client.patch("/api/ads/ad-7/mixer", json={})).status_code == 404
    assert (await get_json(client, "/api/ads"))["ads"] == []
    assert (await other_ad.stream("voices")).versions == ()


async def test_a_conversation_shows_every_message_and_tool_result_in_order(client: httpx.AsyncClient) -> None:
    """A29, A37, A54: with the cached system prompt."""
    await generate_ad(client)
    await chat_about_ad(client, "Make the music more upbeat")
    conversation = await get_json(client, "/api/ads/ad-1/conversation")
    TypeAdapter(Conversation).validate_python(conversation)
    messages = conversation["messages"]
    assert (messages[0]["role"], messages[0]["cached"]) == ("system", True)
    assert messages[1]["content"].startswith("Create an audio ad.\nClient: Miel")
    user_texts = [message["content"] for message in messages if message["role"] == "user"]
    assert user_texts[1] == "Make the music more upbeat"
    call_ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    result_ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert call_ids == result_ids
    assert messages[-1]["role"] == "assistant"


async def test_deleting_a_conversation_keeps_the_versions(client: httpx.AsyncClient) -> None:
    """A36: a chat is refused until a new brief is sent; then version numbers go on."""
    await generate_ad(client)
    reply = await client.delete("/api/ads/ad-1/conversation")
    assert (reply.status_code, reply.json()) == (200, {"conversationId": "ad-1", "messages": []})
    assert (await get_json(client, "/api/ads/ad-1/conversation"))["messages"] == []
    chat = await client.post("/api/ads/ad-1/chat", json={"message": "hello"})
    assert (chat.status_code, chat.json()["error"]) == (
        400,
        "No conversation found. Generate initial ad first.",
    )
    assert (await get_json(client, "/api/ads/ad-1"))["streams"]["voices"]["count"] == 1
    assert (await generate_ad(client))["drafts"] == {"voices": "v2", "music": "v2", "sfx": "v2"}
    messages = (await get_json(client, "/api/ads/ad-1/conversation"))["messages"]
    assert [message["role"] for message in messages].count("user") == 1


async def test_a_second_deletion_of_a_conversation_succeeds(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    for _ in range(2):
        assert (await client.delete("/api/ads/ad-1/conversation")).json()["messages"] == []


async def test_mixer_settings_stay_while_tracks_are_added_and_removed(client: httpx.AsyncClient) -> None:
    """A35: across turns; a new track starts at 0 dB, a removed one has no gain."""
    await generate_ad(client)
    before = await get_json(client, "/api/ads/ad-1/mixer")
    TypeAdapter(Mixer).validate_python(before)
    settings = {"voices": {"track-0": -4.5}, "music": {"volumeDb": -20, "fadeOutSeconds": 3}}
    reply = await client.patch("/api/ads/ad-1/mixer", json=settings)
    assert reply.status_code == 200
    assert reply.json()["voices"] == {**before["voices"], "track-0": -4.5}
    assert reply.json()["music"] == {**before["music"], "volumeDb": -20, "fadeOutSeconds": 3}
    assert reply.json()["sfx"] == before["sfx"]
    await client.patch("/api/ads/ad-1/mixer", json={"sfx": {"volumeDb": -6}})
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "One voice."}]}
    after = (await client.post("/api/ads/ad-1/voices", json=body)).json()["mixer"]
    assert after["voices"] == {"track-0": -4.5}
    assert (after["music"]["volumeDb"], after["sfx"]["volumeDb"]) == (-20, -6)
    assert (await get_json(client, "/api/ads/ad-1"))["mixer"] == after


async def test_concurrent_mixer_changes_are_all_kept(client: httpx.AsyncClient) -> None:
    tracks = list((await generate_ad(client))["mixer"]["voices"])
    changes = [{"voices": {track: -float(i + 1)}} for i, track in enumerate(tracks)]
    changes += [{"sfx": {"volumeDb": -9}}, {"music": {"duckingDb": -15}}, {"music": {"fadeInSeconds": 2}}]
    replies = await asyncio.gather(*(client.patch("/api/ads/ad-1/mixer", json=change) for change in changes))
    assert {reply.status_code for reply in replies} == {200}
    mixer = await get_json(client, "/api/ads/ad-1/mixer")
    assert mixer["voices"] == {track: -float(i + 1) for i, track in enumerate(tracks)}
    assert (mixer["sfx"]["volumeDb"], mixer["music"]["duckingDb"], mixer["music"]["fadeInSeconds"]) == (
        -9,
        -15,
        2,
    )


MIXER_REFUSALS: list[tuple[dict[str, Any], int, str]] = [
    ({"voices": {"track-99": 0}}, 422, "no voice track 'track-99'"),
    ({"voices": {"track-0": "loud"}}, 422, "'voices.track-0'"),
    ({"voices": {"track-0": 13}}, 422, "'voices.track-0'"),
    ({"music": {"volumeDb": 13}}, 422, "'music.volumeDb'"),
    ({"music": {"fadeInSeconds": -1}}, 422, "'music.fadeInSeconds'"),
    ({"reverb": 1}, 422, "'reverb' is not a field"),
]


async def test_an_invalid_mixer_setting_is_refused_and_changes_nothing(client: httpx.AsyncClient) -> None:
    before = (await generate_ad(client))["mixer"]
    for body, status, words in MIXER_REFUSALS:
        reply = await client.patch("/api/ads/ad-1/mixer", json=body)
        assert (reply.status_code, words in reply.json()["error"]) == (status, True), reply.text
    assert await get_json(client, "/api/ads/ad-1/mixer") == before


async def test_an_ad_exists_after_a_failed_first_turn_without_versions(client: httpx.AsyncClient) -> None:
    """A54: the brief is stored before the model is called."""
    failure = await client.post(
        "/api/ai/generate", json={"adId": "ad-1", "brief": "A bakery", "provider": "offline/no-such-model"}
    )
    assert failure.status_code == 422
    ad = await get_json(client, "/api/ads/ad-1")
    assert (ad["brief"]["clientDescription"], ad["streams"]["voices"]["count"]) == ("A bakery", 0)
    TypeAdapter(AdView).validate_python(ad)
    body = {"voiceTracks": [{"voiceId": VOICE, "text": "By hand."}]}
    assert (await client.post("/api/ads/ad-1/voices", json=body)).json()["versionId"] == "v1"
    assert [ad["adId"] for ad in (await get_json(client, "/api/ads"))["ads"]] == ["ad-1"]


async def test_a_locked_stream_is_not_changed_by_a_byte_until_it_is_unlocked(
    client: httpx.AsyncClient, model: ChatDouble
) -> None:
    """C34: neither by a model nor by people; other streams can change."""
    await generate_ad(client)
    reply = await client.put("/api/ads/ad-1/locks/voices")
    locked = TypeAdapter(StreamLocks).validate_python(reply.json())
    assert [(lock["stream"], lock["by"]) for lock in locked["locks"]] == [("voices", "local")]
    assert (await get_json(client, "/api/ads/ad-1"))["locks"] == locked["locks"]
    before = (await client.get("/api/ads/ad-1/voices")).content
    message = (await chat_about_ad(client, "Make the script shorter", provider="offline"))["message"]
    assert "locked" in message
    assert "shorter now" not in message, "the reply claims no change that was refused"
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


async def test_a_briefs_message_carries_what_the_person_entered(client: httpx.AsyncClient) -> None:
    """The model reads the brief in one form; the page shows the person's words or fields."""
    words = "20 seconds for Harbour Bikes, e-bikes by the hour in Porto."
    form = {
        "client": "Miel",
        "product": "honey cake",
        "channels": ["radio", "web"],
        "duration": 20,
        "notes": "",
    }
    cases: dict[str, tuple[dict[str, Any], Any]] = {
        "ad-1": ({"brief": words}, words),
        "ad-2": ({"brief": words, "market": "PT"}, {"brief": words, "market": "PT"}),
        "ad-3": (
            {"brief": form},
            {"client": "Miel", "product": "honey cake", "channels": "radio, web", "duration": "20"},
        ),
    }
    for ad_id, (body, entered) in cases.items():
        reply = await client.post("/api/ai/generate", json={"adId": ad_id, "provider": "offline", **body})
        assert reply.status_code == 200, reply.text
        message = (await get_json(client, f"/threads/{ad_id}/state"))["values"]["messages"][0]
        assert message["content"].startswith("Create an audio ad.\nClient: ")
        assert message["additional_kwargs"] == {"entered": entered}
        newest = (await get_json(client, f"/api/ads/{ad_id}/voices"))["versions"][0]
        assert newest["request"].startswith(
            entered if isinstance(entered, str) else "brief: " if "brief" in entered else "client: Miel"
        )
