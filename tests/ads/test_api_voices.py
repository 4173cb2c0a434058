"""The voice catalogue over REST: list, search, one voice."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.ads.voice_routes import VoiceList, VoiceView
from callsheet.tools.ads.voices import bundled_catalogue
from tests.doubles.served import VOICE, generate_ad, served_app


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server; every reply must have a documented status."""
    async with served_app(valkey_url) as http:
        yield http


async def list_voices(client: httpx.AsyncClient, **query: Any) -> Any:
    reply = await client.get("/api/voices", params=query)
    assert reply.status_code == 200, reply.text
    TypeAdapter(VoiceList).validate_python(reply.json())
    return reply.json()


async def test_all_voices_are_listed_page_by_page(client: httpx.AsyncClient):
    ids: list[str] = []
    after: int | None = 0
    while after is not None:
        page = await list_voices(client, after=after, limit=200)
        ids += [voice["id"] for voice in page["voices"]]
        after = page["next"]
    assert ids == [voice.id for voice in bundled_catalogue().voices]
    assert page["total"] == len(ids) == len(set(ids))


async def test_voices_are_searched_by_language_gender_accent_style_and_name(client: httpx.AsyncClient):
    british = await list_voices(client, language="English", gender="female", accent="British", limit=200)
    assert british["total"] > 0
    assert {(voice["language"], voice["gender"], voice["accent"]) for voice in british["voices"]} == {
        ("english", "female", "British")
    }
    same = await list_voices(client, language="en-GB", gender="female", limit=200)
    assert {voice["id"] for voice in british["voices"]} <= {voice["id"] for voice in same["voices"]}
    cheerful = await list_voices(client, style="Cheerful")
    assert all(
        "cheerful" in (one.get("style", "") + one.get("useCase", "")).casefold() for one in cheerful["voices"]
    )
    alloy = await list_voices(client, name="ALLO", language="thai")
    assert "openai/alloy@thai" in {voice["id"] for voice in alloy["voices"]}
    assert all("allo" in voice["name"].casefold() for voice in alloy["voices"])
    assert (await list_voices(client, accent="Brazilian"))["total"] > 0
    assert (await list_voices(client, name="nobody"))["voices"] == []


async def test_a_voice_is_shown_without_what_its_provider_does_not_publish(client: httpx.AsyncClient):
    """No previews are invented."""
    reply = await client.get(f"/api/voices/{quote(VOICE, safe='')}")
    voice = reply.json()
    TypeAdapter(VoiceView).validate_python(voice)
    assert (voice["id"], voice["name"].casefold(), voice["language"]) == (VOICE, "alloy", "english")
    assert all(value != "" for value in voice.values())
    assert not any("preview" in key.casefold() for key in voice)


async def test_unknown_voices_and_languages_are_refused_with_a_remedy(client: httpx.AsyncClient):
    unknown = await client.get("/api/voices/nobody")
    assert (unknown.status_code, unknown.json()["remedy"]) == (404, "list them with GET /api/voices")
    assert (await client.get("/api/voices?colour=red")).status_code == 422
    klingon = await client.get("/api/voices?language=klingon")
    assert (klingon.status_code, klingon.json()["type"]) == (422, "invalid")
    await generate_ad(client)
    body = {"voiceTracks": [{"voiceId": "nobody", "text": "x"}]}
    refused = await client.post("/api/ads/ad-1/voices", json=body)
    assert refused.json()["remedy"] == "use the id of a voice of GET /api/voices"
