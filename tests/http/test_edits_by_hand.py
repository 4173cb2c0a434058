"""Edits by hand over REST: one track of an ad, one element of a page."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.doubles.served import VOICE, generate_ad, served_app

OFFLINE = {"provider": "offline"}
TRACKS = [{"voiceId": VOICE, "text": "Fresh bread."}, {"voiceId": VOICE, "text": "Every morning."}]


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server with an ad of two tracks (v2), and a page of one version."""
    async with served_app(valkey_url) as http:
        await generate_ad(http)
        await http.post("/api/ads/ad-1/voices", json={"voiceTracks": TRACKS})
        await http.post("/api/pages/p/chat", json={"message": "make the headline teal", **OFFLINE})
        yield http


async def edit(client: httpx.AsyncClient, path: str, body: Any, status: int, **headers: str) -> Any:
    reply = await client.patch(path, json=body, headers=headers)
    assert reply.status_code == status, reply.text
    return reply.json()


async def test_one_track_is_edited_and_the_others_stay(client: httpx.AsyncClient):
    path = "/api/ads/ad-1/voices/tracks/track-1"
    written = await edit(client, path, {"text": "Each day.", "speed": 1.1, "version": "v2"}, 200)
    assert (written["stream"], written["versionId"], written["status"]) == ("voices", "v3", "draft")
    before, after = [(await client.get(f"/api/ads/ad-1/voices/{name}")).json() for name in ("v2", "v3")]
    assert after["voiceTracks"][0] == before["voiceTracks"][0]
    assert (after["voiceTracks"][1]["text"], after["voiceTracks"][1]["speed"]) == ("Each day.", 1.1)
    assert (after["by"], after["parent"], after["request"]) == ("person", "v2", "track-1 edited by hand")
    assert '"Every morning." → "Each day."' in after["change"]
    [listed] = (await client.get("/api/artefacts/ad")).json()["artefacts"]
    assert listed["updatedAt"] >= after["createdAt"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"text": "x"}, 422, "does not name one version"),
        ({"text": "x", "version": "v1"}, 409, "the newest version of voices is v2"),
        ({"version": "v2"}, 422, "nothing to change"),
        ({"text": "", "version": "v2"}, 422, "at least 1 character"),
        ({"speed": 9, "version": "v2"}, 422, "less than or equal to 2"),
        ({"volume": 9, "version": "v2"}, 422, "'volume' is not a field"),
        ({"voiceId": "nobody", "version": "v2"}, 422, "not in the catalogue"),
    ],
)
async def test_an_edit_of_a_track_that_breaks_a_rule_changes_nothing(
    client: httpx.AsyncClient, body: Any, status: int, words: str
):
    refused = await edit(client, "/api/ads/ad-1/voices/tracks/track-0", body, status)
    assert words in refused["error"]
    assert (refused.get("details") == {"newest": "v2"}) == (status == 409)
    assert len((await client.get("/api/ads/ad-1/voices")).json()["versions"]) == 2


async def test_an_unknown_track_is_missing_and_a_locked_stream_is_forbidden(client: httpx.AsyncClient):
    body = {"text": "x", "version": "v2"}
    await edit(client, "/api/ads/ad-1/voices/tracks/track-9", body, 404)
    await client.put("/api/ads/ad-1/locks/voices")
    await edit(client, "/api/ads/ad-1/voices/tracks/track-0", body, 403)


async def test_one_element_is_edited_and_the_others_stay(client: httpx.AsyncClient):
    changes = {"content": "Bread", "style": {"color": None, "padding": "8px"}, "label": "Claim"}
    edited = await edit(client, "/api/pages/p/elements/heading-1", changes, 200, **{"If-Match": '"v1"'})
    assert (edited["id"], edited["by"], edited["parent"]) == ("v2", "person", "v1")
    assert edited["request"] == "heading-1 edited by hand"
    assert {change["id"] for change in edited["changes"]} == {"heading-1"}
    assert "Bread" in (await client.get("/api/pages/p/export")).text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"content": "x"}, 422),
        ({"content": "x", "version": "start"}, 409),
        ({"version": "v1"}, 422),
        ({"attributes": {"onclick": "x()"}, "version": "v1"}, 422),
        ({"style": {"background": "url(https://e.org)"}, "version": "v1"}, 422),
        ({"type": "form", "version": "v1"}, 422),
    ],
)
async def test_an_edit_of_an_element_that_breaks_a_rule_changes_nothing(
    client: httpx.AsyncClient, body: Any, status: int
):
    """The rules are those of the tools."""
    await edit(client, "/api/pages/p/elements/heading-1", body, status)
    assert len((await client.get("/api/pages/p/versions")).json()["versions"]) == 1


async def test_an_unknown_element_is_missing_and_a_locked_one_is_forbidden(client: httpx.AsyncClient):
    body = {"content": "x", "version": "v1"}
    await edit(client, "/api/pages/p/elements/heading-9", body, 404)
    await client.put("/api/pages/p/locks/heading-1")
    await edit(client, "/api/pages/p/elements/heading-1", body, 403)


async def test_a_header_and_a_body_that_name_two_versions_are_refused(client: httpx.AsyncClient):
    body = {"content": "x", "version": "v1"}
    refused = await edit(client, "/api/pages/p/elements/heading-1", body, 422, **{"If-Match": '"v2"'})
    assert "one version" in refused["error"]
