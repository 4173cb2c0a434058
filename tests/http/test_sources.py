"""The chain: campaigns become an ad, an ad a page, a lesson a video; both sides record it, once."""

import re
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import httpx
import pytest

from callsheet.providers.offline.ads.first_draft import DraftBasis, script
from callsheet.server.artefacts import sources
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.offers import campaign_brief, offer_of
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.errors import Invalid
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from tests.doubles.auth_cases import bearer, create_key
from tests.doubles.documented import assert_documented
from tests.doubles.served import GENERATE, app_client, started_app
from tests.lessons.lesson_client import LessonClient

OFFLINE = {"provider": "offline"}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server; every reply must be as documented."""
    async with (
        started_app(valkey_url) as app,
        app_client(app, event_hooks={"response": [assert_documented]}) as one,
    ):
        yield one


async def post(client: httpx.AsyncClient, path: str, body: dict[str, Any], key: str = "") -> httpx.Response:
    return await client.post(path, json=body, headers={"Idempotency-Key": key} if key else {})


def assert_reused(reply: httpx.Response, key: str) -> None:
    """The key of a request that made something was sent with another body."""
    expected = (409, f"idempotency key {key!r} is already used for another request")
    assert (reply.status_code, reply.json()["error"]) == expected


async def links(client: httpx.AsyncClient, kind: str, name: str) -> tuple[list[Any], list[Any]]:
    view = (await client.get(f"/api/artefacts/{kind}/{name}")).json()
    return view["sources"], view["uses"]


async def test_campaigns_become_an_ad_whose_record_names_them(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/api/campaigns?limit=30")).json()["campaigns"]
    first = next(one for one in listed if one["offer"])
    other = next(one for one in listed if one["offer"] and one["company"] != first["company"])
    body = {"campaignIds": [first["id"]], "duration": 30, **OFFLINE}
    reply = await post(client, "/api/ads", body, "ad-of-campaigns")
    assert reply.status_code == 200, reply.text
    ad_id = reply.json()["adId"]
    assert reply.json()["drafts"].keys() == {"voices", "music", "sfx"}
    sources, _ = await links(client, "ad", ad_id)
    assert sources == [{"kind": "campaign", "id": first["id"], "text": first["offer"]}]
    brief = (await client.get(f"/api/ads/{ad_id}")).json()["brief"]
    assert first["company"] in brief["clientDescription"]
    assert first["offer"] in brief["clientDescription"]
    again = await post(client, "/api/ads", body, "ad-of-campaigns")
    assert again.json()["adId"] == ad_id
    assert (await client.get(f"/api/ads/{ad_id}/voices")).json()["versions"][-1]["id"] == "v1"
    taken = await post(client, "/api/ads", {**body, "adId": ad_id})
    assert (taken.status_code, taken.json()["error"]) == (409, f"ad {ad_id!r} exists already")
    changed = await post(client, "/api/ads", {**body, "campaignIds": [other["id"]]}, "ad-of-campaigns")
    assert_reused(changed, "ad-of-campaigns")
    both = {"campaignIds": [first["id"], other["id"]], **OFFLINE}
    refusal = await post(client, "/api/ads", both)
    assert (refusal.status_code, "send `client`" in refusal.json()["remedy"]) == (422, True)
    unknown = await post(client, "/api/ads", {"campaignIds": ["c-none"], **OFFLINE})
    assert unknown.status_code == 404


def test_a_brief_needs_an_offer_and_says_no_more_than_the_campaigns() -> None:
    day = date(2026, 3, 1)
    bare = Campaign(id="c1", company="Miel", channel="email", capture_date=day)
    with pytest.raises(Invalid, match="none of the campaigns offers anything"):
        campaign_brief([bare], "", "")
    full = bare.model_copy(update={"id": "c2", "offer": "Bread at four", "incentives": ["a free loaf"]})
    brief = campaign_brief([bare, full], "Miel in Lyon", "Make it calm.")
    assert brief["clientDescription"] == "Miel in Lyon\nMust say: “Bread at four”\nIncentive: a free loaf"
    assert brief["additionalContext"] == "Make it calm."


def test_a_brief_has_the_own_texts_of_its_campaigns_with_their_languages() -> None:
    """One line each, so that no sentence of it reads as a wish."""
    own = {"offer": "15% für Studierende", "campaign_text": "Platten?\n Zwölf „Minuten“."}
    plain = Campaign(id="c1", company="Rille", channel="email", capture_date=date(2026, 3, 1), **own)
    german = plain.model_copy(
        update={"campaign_text": "Wir sind die beste Bäckerei der Stadt und backen jeden Tag für Sie."}
    )
    brief = campaign_brief([plain, german], "", "Make it calm.")
    assert (brief["language"], "language" in campaign_brief([plain], "", "")) == ("german", False)
    context = brief["additionalContext"].split("\n")
    assert context == [
        "Text of the campaign: “Platten? Zwölf 'Minuten'.”",
        f"Text of the campaign in German: “{german.campaign_text}”",
        "Make it calm.",
    ]


async def test_the_offline_model_names_what_of_a_campaign_it_does_not_use(client: httpx.AsyncClient) -> None:
    """An English script that has an offer in another language says so."""
    head = "id,company,channel,date,offer,text"
    row = "r,Rille,email,2026-03-01,15% für Studierende,Platten? Zwölf Minuten."
    report = await client.post("/api/campaigns/import?fileName=own.csv", content=f"{head}\n{row}\n".encode())
    assert report.json()["imported"] == 1, report.text
    reply = (await post(client, "/api/ads", {"campaignIds": ["r"], "duration": 30, **OFFLINE})).json()
    assert "“Text of the campaign: “Platten? Zwölf Minuten.””" in reply["message"]
    assert "quote the brief in its own language: “15% für Studierende”" in reply["message"]


async def test_a_record_of_a_source_does_not_grow_with_what_is_gone(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    assert (await client.post("/api/ai/generate", json=GENERATE)).status_code == 200
    ad = Artefact(storage, "ad", "ad-1", "local")
    await ad.set_facts({f"use:page:gone-{number}": "1" for number in range(sources.MAX_USES)})
    page = (await post(client, "/api/pages", {"adId": "ad-1"})).json()["pageId"]
    assert [name for name in await ad.meta() if name.startswith("use:")] == [f"use:page:{page}"]
    assert (await links(client, "ad", "ad-1"))[1] == [{"kind": "page", "id": page}]


async def test_an_ad_becomes_a_page_once_and_both_records_say_so(client: httpx.AsyncClient) -> None:
    early = await post(client, "/api/pages", {"adId": "ad-1"})
    assert early.status_code == 404
    script = [
        {"voiceId": "openai/alloy@english", "text": "Bread at four, every day. The first loaf is free."},
        {"voiceId": "openai/alloy@english", "text": "bakery.example. Come and taste."},
    ]
    assert (await client.post("/api/ai/generate", json=GENERATE)).status_code == 200
    await client.post("/api/ads/ad-1/voices", json={"voiceTracks": script})
    reply = await post(client, "/api/pages", {"adId": "ad-1"}, "page-of-ad")
    assert reply.status_code == 201, reply.text
    view = reply.json()
    [nav, hero, *_, footer] = view["page"]["root"]["children"]
    assert (nav["children"][0]["content"], footer["children"][0]["content"]) == ("Miel", "© Miel")
    shown = {one["type"]: one for one in hero["children"]}
    assert shown["heading"]["content"] == "Bread at four, every day"
    assert shown["text"]["content"] == "The first loaf is free."
    assert shown["button"]["content"] == "Come and taste"
    assert shown["button"]["attributes"]["href"] == "https://bakery.example"
    assert not {"Features", "Why people choose us", "First reason"} & {*re.findall(r'"([^"]*)"', reply.text)}
    assert [part["type"] for part in view["page"]["root"]["children"]] == ["nav", "section", "footer"]
    again = (await post(client, "/api/pages", {"adId": "ad-1"}, "page-of-ad")).json()
    assert (again["pageId"], again["versionId"]) == (view["pageId"], "v1")
    assert (await client.post("/api/ai/generate", json={**GENERATE, "adId": "ad-2"})).status_code == 200
    assert_reused(await post(client, "/api/pages", {"adId": "ad-2"}, "page-of-ad"), "page-of-ad")
    voices = (await client.get("/api/ads/ad-1/voices")).json()["versions"][-1]["id"]
    assert (await links(client, "page", view["pageId"]))[0] == [
        {"kind": "ad", "id": "ad-1", "versions": {"voices": voices}}
    ]
    assert (await links(client, "ad", "ad-1"))[1] == [{"kind": "page", "id": view["pageId"]}]
    taken = await post(client, "/api/pages", {"adId": "ad-1", "pageId": view["pageId"]})
    assert taken.status_code == 409
    await client.delete(f"/api/pages/{view['pageId']}")
    assert (await links(client, "ad", "ad-1"))[1] == []


async def test_a_page_of_an_ad_says_that_another_script_is_active_and_can_have_that_one(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.post("/api/ai/generate", json=GENERATE)).status_code == 200
    none = await post(client, "/api/pages", {"adId": "ad-1", "version": "active"})
    assert (none.status_code, none.json()["error"]) == (409, "ad 'ad-1' has no active script")
    for text in ("Bread at four.", "Bread at five."):
        script = {"voiceTracks": [{"voiceId": "openai/alloy@english", "text": text}]}
        await client.post("/api/ads/ad-1/voices", json=script)
    [*_, old, new] = [one["id"] for one in (await client.get("/api/ads/ad-1/voices")).json()["versions"]]
    assert (await post(client, "/api/pages", {"adId": "ad-1"})).json()["notices"] == []
    await client.post(f"/api/ads/ad-1/voices/{old}/activate")
    newest = (await post(client, "/api/pages", {"adId": "ad-1"})).json()
    assert newest["notices"] == [f"The page has the words of {new} of the script; {old} is active."]
    active = (await post(client, "/api/pages", {"adId": "ad-1", "version": "active"})).json()
    assert (active["notices"], "Bread at four" in str(active["page"])) == ([], True)
    assert (await post(client, "/api/pages", {"adId": "ad-1", "version": "v99"})).status_code == 404


async def test_a_lesson_becomes_scenes_that_last_as_long_as_its_narration(client: httpx.AsyncClient) -> None:
    lesson = LessonClient(client)
    narrated = await lesson.create_narration()
    body = {"lessonId": lesson.session_id, "id": "film"}
    reply = await post(client, "/api/projects", body, "film-of-lesson")
    assert reply.status_code == 201, reply.text
    view = reply.json()
    narration = narrated["narration"]
    assert sum(one["durationSeconds"] for one in view["scenes"]) == narration["total_duration"]
    assert view["name"] == narration["topic"]
    scenes = (await client.get("/api/projects/film/export")).json()["scenes"]
    shown = " ".join(one["text"] for scene in scenes for one in scene["elements"] if one["id"] != "title")
    assert shown == " ".join(
        sentence["text"] for segment in narration["segments"] for sentence in segment["sentences"]
    )
    assert narration["segments"][0]["visual_guidance"][:40] in scenes[0]["name"]
    again = (await post(client, "/api/projects", body, "film-of-lesson")).json()
    assert [one["versionId"] for one in again["scenes"]] == [one["versionId"] for one in view["scenes"]]
    assert (await post(client, "/api/projects", body)).status_code == 409
    assert_reused(
        await post(client, "/api/projects", {**body, "name": "B"}, "film-of-lesson"), "film-of-lesson"
    )
    assert (await links(client, "lesson", str(lesson.session_id)))[1] == [{"kind": "video", "id": "film"}]
    assert (await links(client, "video", "film"))[0] == [
        {"kind": "lesson", "id": lesson.session_id, "versions": {"narration": "v1"}}
    ]
    empty = LessonClient(client)
    await empty.start_session()
    assert (await post(client, "/api/projects", {"lessonId": empty.session_id})).status_code == 409


async def test_nothing_is_made_from_what_another_owner_has(valkey_url: str, storage: Storage) -> None:
    keys = {name: bearer(await create_key(storage, name)) for name in ("alice", "bob")}
    async with started_app(valkey_url, auth="keys") as app, app_client(app) as client:
        client.headers.update(keys["alice"])
        await client.post("/api/ai/generate", json=GENERATE)
        lesson = LessonClient(client)
        await lesson.create_narration()
        client.headers.update(keys["bob"])
        for path, body in (
            ("/api/pages", {"adId": "ad-1"}),
            ("/api/projects", {"lessonId": lesson.session_id}),
        ):
            assert (await post(client, path, body)).status_code == 404
        assert (await client.get("/api/pages")).json()["pages"] == []
        assert (await client.get("/api/projects")).json()["projects"] == []


def test_the_offline_model_speaks_the_offer_of_every_campaign_of_the_sample() -> None:
    offering = [one for one in sample_campaigns() if offer_of(one)]
    assert offering
    for one in offering:
        texts = script(DraftBasis("\n".join(campaign_brief([one], "", "").values()), "english", 30))[0]
        assert offer_of(one).rstrip(".") in " ".join(texts), one.id
