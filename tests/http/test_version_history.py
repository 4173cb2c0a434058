"""Version lists and differences of every stream over REST: the author, the request and the change."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.ads.schemas import VersionList
from callsheet.server.artefacts.schemas import ArtefactVersionList, VersionDiff
from callsheet.state.differences import MAX_LINE, compare, one_line
from callsheet.state.pages import edits, history
from callsheet.state.pages.history import STARTER
from callsheet.state.versions import MAX_REQUEST, Version, origin, version_fields
from callsheet.storage import Storage
from callsheet.storage.redis import keys
from tests.doubles.served import chat_about_ad, generate_ad, served_app
from tests.lessons.lesson_client import user
from tests.lessons.lesson_material import material
from tests.pages.test_uploads import png

OFFLINE = {"provider": "offline"}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server; every reply must have a documented status."""
    async with served_app(valkey_url) as http:
        yield http


async def request_ok(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Any:
    reply = await client.request(method, path, **options)
    assert reply.is_success, (method, path, reply.text)
    return reply.json()


async def read_versions(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    reply = await request_ok(client, "GET", path)
    TypeAdapter(VersionList).validate_python(reply)
    return list(reply["versions"])


async def read_diff(client: httpx.AsyncClient, path: str) -> Any:
    reply = await request_ok(client, "GET", path)
    TypeAdapter(VersionDiff).validate_python(reply)
    assert reply["text"].splitlines() == [change["text"] for change in reply["changes"]]
    return reply


async def test_versions_of_an_ad_name_their_author_request_and_change(client: httpx.AsyncClient):
    await generate_ad(client)
    await chat_about_ad(client, "make the music louder, and change it to jazz piano")
    await request_ok(client, "PATCH", "/api/ads/ad-1/music/v1", json={"musicPrompt": "solo cello"})
    await request_ok(client, "POST", "/api/ads/ad-1/music/v1/clone")
    first, *_, by_hand, clone = await read_versions(client, "/api/ads/ad-1/music")
    assert (first["by"], first["change"], first["createdBy"]) == ("model", None, "llm")
    assert first["model"].startswith("offline")
    assert "Miel" in first["request"]
    assert (by_hand["by"], by_hand["model"]) == ("person", "")
    assert by_hand["request"] == "a change of v1 by hand"
    assert by_hand["change"].endswith('→ "solo cello"')
    assert (clone["by"], clone["request"], clone["change"]) == ("undo", "restore v1", "the same as v1")
    shown = await request_ok(client, "GET", f"/api/ads/ad-1/music/{by_hand['id']}")
    assert shown["change"] == by_hand["change"]
    diff = await read_diff(client, f"/api/ads/ad-1/music/v1/diff/{by_hand['id']}")
    assert [change["path"] for change in diff["changes"]] == ["musicPrompt"]
    assert diff["changes"][0]["after"] == "solo cello"
    same = await read_diff(client, f"/api/artefacts/ad/ad-1/music/v1/diff/{clone['id']}")
    assert (same["changes"], same["text"]) == ([], "")


async def test_a_refinement_in_words_is_the_request_of_the_versions_that_it_made(client: httpx.AsyncClient):
    await generate_ad(client)
    turn = await chat_about_ad(client, "Make the music more upbeat")
    newest = (await read_versions(client, "/api/ads/ad-1/music"))[-1]
    assert newest["id"] == turn["drafts"]["music"]
    assert (newest["by"], newest["request"]) == ("model", "Make the music more upbeat")
    assert newest["change"].startswith("musicPrompt: ")


async def test_versions_of_a_page_name_undo_restore_and_their_change(client: httpx.AsyncClient):
    for message in ("change the headline to 'Bread'", "make the headline teal", "undo"):
        await request_ok(client, "POST", "/api/pages/p/chat", json={"message": message, **OFFLINE})
    await request_ok(client, "POST", "/api/pages/p/versions/v2/restore")
    await request_ok(client, "POST", "/api/pages/p/uploads?fileName=a.png", content=png())
    first, second, undo, restored = await read_versions(client, "/api/pages/p/versions")
    assert [one["by"] for one in (first, second, undo, restored)] == ["model", "model", "undo", "undo"]
    assert [one["request"] for one in (second, undo, restored)] == [
        "make the headline teal",
        "undo",
        "restore v2",
    ]
    assert "teal" in second["change"]
    assert (first["change"], undo["change"], restored["change"]) == (None, "the same as v1", "the same as v2")
    diff = await read_diff(client, "/api/pages/p/versions/v1/diff/v4")
    assert [(one["kind"], one["path"]) for one in diff["changes"]] == [("changed", "heading-1.style.color")]
    everything = await request_ok(client, "GET", "/api/artefacts/page/p/uploads")
    ArtefactVersionList.model_validate(everything)
    assert everything["versions"][0]["by"] == "person"


async def test_versions_of_a_scene_name_starter_message_and_change(client: httpx.AsyncClient):
    await request_ok(client, "POST", "/api/projects", json={"id": "film", "starter": "product-launch"})
    started = await request_ok(
        client, "POST", "/api/projects/film/executions", json={"message": "make scene 1 faster", **OFFLINE}
    )
    async with client.stream("GET", f"/api/execution-progress/{started['executionId']}") as reply:
        await reply.aread()
    first, second = await read_versions(client, "/api/projects/film/scenes/scene-1/versions")
    assert (first["by"], first["request"]) == ("person", "starter product-launch")
    assert (second["by"], second["request"]) == ("model", "make scene 1 faster")
    assert "durationInFrames" in second["change"]
    diff = await read_diff(client, "/api/projects/film/scenes/scene-1/versions/v1/diff/v2")
    assert "durationInFrames" in {change["path"] for change in diff["changes"]}
    unknown = await client.get("/api/projects/film/scenes/scene-1/versions/v1/diff/v9")
    assert unknown.status_code == 404


@pytest.mark.slow
async def test_versions_of_all_streams_of_a_lesson_can_be_listed_and_compared(client: httpx.AsyncClient):
    tools, narration = "/api/agent-create/tools", "/api/agent-create/session/narration"
    text = {"text": "Leaves are green and make sugar from light.", "name": "notes"}
    reply = await client.post("/api/agent-create/session/source", json=text)
    client.headers["X-Session-Id"] = session = reply.headers["X-Session-Id"]
    body = {"messages": user(material("photosynthesis").text), **OFFLINE}
    reply = await client.post(tools, json=body)
    chosen = {"messages": [], "selectedFacts": reply.json()["facts"][:3], **OFFLINE}
    turn = await request_ok(client, "POST", tools, json=chosen)
    segment = turn["narration"]["segments"][0]
    edit = {"segments": [{"id": segment["id"], "narration": segment["narration"] + " Look!"}]}
    await request_ok(client, "PATCH", narration, json=edit)
    await request_ok(client, "POST", narration, json={"action": "restore", "version": "v1"})
    first, by_hand, restored = await read_versions(client, f"{narration}/versions")
    assert [one["by"] for one in (first, by_hand, restored)] == ["model", "person", "undo"]
    assert (by_hand["request"], restored["request"]) == ("edited by hand", "restore v1")
    changes = (await read_diff(client, f"{narration}/versions/v1/diff/v2"))["changes"]
    assert any("Look!" in str(one["after"]) for one in changes)
    for stream in ("source", "facts"):
        listed = await request_ok(client, "GET", f"/api/artefacts/lesson/{session}/{stream}")
        assert listed["versions"][0]["by"] in {"model", "person"}
        same = await read_diff(client, f"/api/artefacts/lesson/{session}/{stream}/v1/diff/v1")
        assert same["changes"] == []


async def test_versions_of_an_earlier_release_are_still_listed(client: httpx.AsyncClient, storage: Storage):
    await generate_ad(client)
    name = keys.version("ad", "ad-1", "music", "v1")
    record = json.loads(await storage.redis.get(name) or b"")
    del record["origin"]
    await storage.redis.set(name, json.dumps(record))
    (version,) = await read_versions(client, "/api/ads/ad-1/music")
    assert (version["by"], version["model"], version["request"], version["change"]) == ("model", "", "", None)


async def test_an_imported_version_keeps_its_origin_or_is_an_import(client: httpx.AsyncClient):
    ad = await generate_ad(client)
    before = await read_versions(client, "/api/ads/ad-1/music")
    lines = (await client.get(f"/api/threads/{ad['conversationId']}/export")).content
    await request_ok(client, "POST", "/api/threads/import?as=copy", content=lines)
    (after,) = await read_versions(client, "/api/ads/copy/music")
    assert after == before[0]


def test_differences_name_added_removed_moved_and_changed_parts():
    before = {"tracks": [{"id": "a", "text": "One"}, {"id": "b", "speed": 1}], "old": ["x"], "on": True}
    after = {
        "tracks": [{"id": "b", "speed": 2}, {"id": "a", "text": "One"}, {"id": "c"}],
        "on": 1,
        "new": None,
    }
    changes = {change["path"]: (change["kind"], change["text"]) for change in compare(before, after)}
    assert changes == {
        "old": ("removed", "old removed: 1 entry"),
        "tracks.b.speed": ("changed", "tracks.b.speed: 1 → 2"),
        "tracks.c": ("added", "tracks.c added: 1 field"),
        "tracks": ("moved", "tracks in another order: b, a"),
        "on": ("changed", "on: yes → 1"),
        "new": ("added", "new added: none"),
    }


def test_differences_of_values_are_shortened_in_words_but_not_as_data():
    change, *others = compare({"text": "a " * 100}, {"text": {"name": "b", "more": []}})
    assert others == []
    assert change["before"] == "a " * 100
    assert change["text"] == f'text: "{("a " * 100)[:59].rstrip()}…" → "b"'
    assert compare([{"id": 1}, {"id": 1}], [{"id": 1}])[0]["path"] == "1"
    assert compare("a", "b")[0]["text"] == 'value: "a" → "b"'
    long = "bright acoustic folk guitar, friendly, 96 BPM, instrumental, "
    assert compare(f"{long}warm", f"{long}more upbeat")[0]["text"] == (
        'value: "…96 BPM, instrumental, warm" → "…96 BPM, instrumental, more upbeat"'
    )
    assert compare([], {})[0]["text"] == "value: 0 entries → 0 fields"
    assert (
        compare([{"id": 1}, {"id": 2}], [{"id": 2}, {"id": 1}])[0]["text"] == "value in another order: 2, 1"
    )


def test_a_one_line_difference_has_a_limited_length():
    assert one_line(["a", "b", "c", "d", "e"]) == "a; b; c; and 2 more"
    long = one_line(["x" * 300, "b", "c", "d"])
    assert len(long) == MAX_LINE
    assert long.endswith("…; and 1 more")


def test_the_request_of_a_version_is_one_line_and_shortened():
    assert origin("person", " a\n b ") == {"by": "person", "model": "", "request": "a b"}
    assert len(origin("model", "x" * 1000)["request"]) == MAX_REQUEST
    version = Version("v1", "music", {}, 0, "alice", None, "b")
    assert version_fields(version, version)["by"] == "person"


def test_differences_of_pages_name_elements_fields_and_the_theme():
    page, new_id = edits.create(STARTER, "page", {"type": "divider"})
    changes = history.differences(STARTER, edits.apply_theme(page, "dark", {}))
    assert [(change["kind"], change["path"]) for change in changes[:1]] == [("added", new_id)]
    themes = [change for change in changes if change["path"].startswith("page.")]
    assert {change["kind"] for change in themes} == {"changed"}
    assert all("after" in change for change in themes)
