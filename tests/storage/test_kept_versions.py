"""Versions beyond the newest ones of their stream are removed, but for those that something needs."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.state.errors import Gone
from callsheet.state.owners import LOCAL
from callsheet.state.versions import number_of
from callsheet.storage import Storage, indexes
from callsheet.storage.artefacts import recordings
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, OldVersions
from callsheet.storage.artefacts.scripts import REMOVE_OLD
from callsheet.storage.redis import keys
from callsheet.storage.redis.scripts import read_time_ms
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from tests.doubles.holding_proxy import HoldingProxy
from tests.doubles.killing import WarmParent
from tests.doubles.served import VOICE, chat_about_ad, generate_ad, served_app
from tests.doubles.waiting import eventually, until
from tests.lessons.lesson_client import NARRATION, LessonClient
from tests.lessons.lesson_material import material
from tests.pages.test_uploads import png
from tests.storage.test_lifetimes import (
    OFFLINE,
    CountingClient,
    make_ad,
    make_lesson,
    make_page,
    make_video,
)

KEPT, MANY = 10, 2_000
OTHER = "bea"


async def add_versions(artefact: Artefact, stream: str, count: int, **changed: Any) -> None:
    """Add versions like the newest one, each by a run of its own, until there are so many numbers."""
    newest = (await artefact.stream_head(stream)).newest
    assert newest
    data = {**newest.data, **changed}
    first = int(newest.id[1:]) + 1
    new = [NewVersion(stream, data, "llm", f"batch-{number}") for number in range(first, count + 1)]
    for at in range(0, len(new), 200):
        await asyncio.gather(*(artefact.create_version(one) for one in new[at : at + 200]))


async def list_ids(client: httpx.AsyncClient, path: str) -> list[str]:
    """The ids of all versions that the pages of the list have, newest first."""
    ids: list[str] = []
    query: dict[str, str] = {"limit": "7"}
    while "before" not in query or query["before"]:
        reply = await client.get(path, params=query)
        assert reply.status_code == 200, reply.text
        ids += reversed([one["id"] for one in reply.json()["versions"]])
        query["before"] = reply.json()["before"]
    return ids


async def wait_until_removed(client: httpx.AsyncClient, path: str) -> None:
    async def is_gone() -> bool:
        return (await client.get(path)).status_code == 410

    await eventually(is_gone, f"{path} is removed", patience_s=40)


def numbers(*versions: str) -> list[str]:
    """The versions, newest first."""
    return sorted(versions, key=number_of, reverse=True)


NEWEST = [f"v{number}" for number in range(MANY - KEPT + 1, MANY + 1)]
MAKERS: Mapping[str, Any] = {"ad": make_ad, "page": make_page, "video": make_video, "lesson": make_lesson}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "stream", "needed"),
    [
        ("ad", "voices", []),
        # What undo restores.
        ("page", "page", ["v50"]),
        # A plan made v2 of v1, and its undo v3.
        ("video", "scene-1", ["v1", "v2"]),
        ("lesson", "narration", []),
    ],
)
async def test_two_thousand_versions_shrink_to_the_newest_the_active_and_the_needed_ones(
    valkey_url: str, storage: Storage, kind: str, stream: str, needed: Sequence[str]
) -> None:
    async with served_app(valkey_url) as client:
        await MAKERS[kind](CountingClient(client), "old")
        [row] = (await client.get(f"/api/artefacts/{kind}")).json()["artefacts"]
    path = f"/api/artefacts/{kind}/{row['id']}/{stream}"
    artefact = Artefact(storage, kind, row["id"], LOCAL)
    await add_versions(artefact, stream, MANY, **({"back": "v50"} if kind == "page" else {}))
    await artefact.activate(stream, "v3")
    async with served_app(valkey_url, kept_versions=str(KEPT)) as client:
        await wait_until_removed(client, f"{path}/v{MANY - KEPT}")
        left = numbers(*NEWEST, "v3", *needed)
        assert await list_ids(client, path) == left
        assert (await client.get(f"{path}/v3")).status_code == 200
        reply = await client.get(f"{path}/v4")
        assert (reply.status_code, reply.json()["type"]) == (410, "gone")
        assert "'v4'" in reply.json()["error"]
        assert "CALLSHEET" not in reply.json()["error"]
        assert reply.json()["details"] == {"setting": "CALLSHEET_KEPT_VERSIONS"}
        assert "list the" in reply.json()["remedy"]
        assert (await client.get(f"{path}/v{MANY + 1}")).status_code == 404
        rest = (await client.get(path, params={"before": "v1000"})).json()
        assert [one["id"] for one in rest["versions"]] == left[: KEPT - 1 : -1]
        with pytest.raises(Gone):
            await artefact.activate(stream, "v5")
        new = NewVersion(stream, (await artefact.version(stream, "v3")).data, "llm", "last")
        assert (await artefact.create_version(new))["versionId"] == f"v{MANY + 1}"


async def new_ad(storage: Storage, name: str, count: int, owner: str = LOCAL) -> Artefact:
    """An ad that is listed, with so many versions of its music."""
    artefact = Artefact(storage, "ad", name, owner)
    await artefact.open(owner=owner, thread=name, facts={})
    music = {"musicPrompt": "warm", "musicProvider": "stock", "duration": 20.0}
    await artefact.create_version(NewVersion("music", music, "llm", "batch-1"))
    await add_versions(artefact, "music", count)
    await indexes.touch(storage, owner, "ad", name)
    return artefact


async def ids_of(artefact: Artefact, stream: str = "music") -> list[str]:
    return [version.id for version in (await artefact.stream(stream)).versions]


async def test_owners_keep_what_the_setting_says_for_them_and_locked_streams_keep_all(
    valkey_url: str, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    one, locked, other = await asyncio.gather(
        new_ad(storage, "one", 30), new_ad(storage, "locked", 30), new_ad(storage, "one", 30, OTHER)
    )
    await locked.lock("music", LOCAL)
    caplog.set_level("INFO", "callsheet")
    async with served_app(valkey_url, kept_versions=f'{{"*": 5, "{OTHER}": 20}}') as client:
        assert 'old versions are removed: CALLSHEET_KEPT_VERSIONS={"*": 5, "bea": 20}' in caplog.messages
        await wait_until_removed(client, "/api/artefacts/ad/one/music/v25")
        assert await ids_of(one) == ["v26", "v27", "v28", "v29", "v30"]

        async def are_twenty() -> bool:
            return len(await ids_of(other)) == 20

        await eventually(are_twenty, "the other owner's ad has its twenty")
        assert len(await ids_of(locked)) == 30


async def test_without_the_setting_every_version_stays(valkey_url: str, storage: Storage) -> None:
    first, last = await new_ad(storage, "first", 30), await new_ad(storage, "last", 30, OTHER)
    async with served_app(valkey_url, kept_versions=f'{{"{OTHER}": 5}}'):

        async def are_five() -> bool:
            return len(await ids_of(last)) == 5

        await eventually(are_five, "the versions of the only owner who keeps five are removed")
    async with served_app(valkey_url) as client:
        assert (await client.get("/api/artefacts/ad/first/music/v1")).status_code == 200
    assert len(await ids_of(first)) == 30


async def test_an_artefact_keeps_all_versions_while_its_import_is_not_finished(
    valkey_url: str, storage: Storage, inspector: Redis
) -> None:
    """A question in a state that the import had yet to write lost the version it named."""
    first, last = await new_ad(storage, "first", 30), await new_ad(storage, "last", 30)
    for name in ("first", "last"):
        await threads.create(storage, NewThread(name, LOCAL, "ad_creation"))
        inspector.hset(keys.artefact_meta("ad", name), "importing", "a:1")
    inspector.hset(keys.thread_meta("first"), "import", "a")
    async with served_app(valkey_url, kept_versions="5"):

        async def are_five() -> bool:
            return len(await ids_of(last)) == 5

        await eventually(are_five, "the versions of an ad are removed whose import ended by a crash")
    assert len(await ids_of(first)) == 30


async def test_versions_that_a_rendered_file_or_a_page_was_made_of_stay(
    valkey_url: str, storage: Storage
) -> None:
    ad = await new_ad(storage, "ad", 3)
    sound = {"versions": {"music": "v2"}}
    await recordings.store(storage, ad, "0" * 64, b"sound", "audio/wav", sound)
    await ad.create_version(NewVersion("voices", {"voiceTracks": []}, "llm", "batch"))
    async with served_app(valkey_url) as client:
        tracks = {"voiceTracks": [{"voiceId": VOICE, "text": "Fresh bread, every morning."}]}
        for _ in range(2):
            assert (await client.post("/api/ads/ad/voices", json=tracks)).status_code == 201
        assert (await client.post("/api/pages", json={"adId": "ad", "pageId": "page"})).status_code == 201
    for stream in ("music", "voices"):
        await add_versions(ad, stream, 30)
    async with served_app(valkey_url, kept_versions="2") as client:
        for stream in ("music", "voices"):
            await wait_until_removed(client, f"/api/artefacts/ad/ad/{stream}/v28")
        assert await ids_of(ad, "music") == ["v2", "v29", "v30"]
        assert await ids_of(ad, "voices") == ["v3", "v29", "v30"]


@pytest.mark.slow
async def test_scenes_that_the_sound_of_a_film_was_made_of_stay(valkey_url: str, storage: Storage) -> None:
    film = Artefact(storage, "video", "film", LOCAL)
    async with served_app(valkey_url) as client:
        await make_video(CountingClient(client), "film")
        await add_versions(film, "scene-1", 10)
        await CountingClient(client).ok(
            "POST", "/api/projects/film/film/render", {"music": "calm", "format": "wav"}
        )
        await add_versions(film, "scene-1", 30)
    async with served_app(valkey_url, kept_versions="2") as client:
        await wait_until_removed(client, "/api/artefacts/video/film/scene-1/v28")
        assert "v10" in await ids_of(film, "scene-1")


async def test_a_run_that_waits_for_its_time_keeps_the_versions_that_its_input_names(
    valkey_url: str, storage: Storage
) -> None:
    async with served_app(valkey_url) as http:
        client = CountingClient(http)
        await make_page(client, "shop")
        message = {"role": "user", "content": "make the headline that of v5"}
        run = {"assistant_id": "page_builder", "input": {"messages": [message]}, "after_seconds": 3600}
        await client.ok("POST", "/threads/shop/runs", run)
    page = Artefact(storage, "page", "shop", LOCAL)
    await add_versions(page, "page", 30, back=None)
    async with served_app(valkey_url, kept_versions="2") as http:
        await wait_until_removed(http, "/api/artefacts/page/shop/page/v28")
        assert await ids_of(page, "page") == ["v5", "v29", "v30"]


async def test_the_words_of_a_person_stay_where_a_narration_says_which_version_has_them(
    valkey_url: str, storage: Storage
) -> None:
    async with served_app(valkey_url) as http:
        lesson = LessonClient(http)
        await lesson.create_narration()
        words = (
            "Why are the leaves of nearly all the trees in every wood of this country so very green, always?"
        )
        edit = {"segments": [{"id": "hook", "narration": words}], "version": "v1"}
        assert (await lesson.request("PATCH", NARRATION, json=edit)).status_code == 200
        warnings = (await lesson.send("make it 40 seconds"))["narration"]["warnings"]
        assert any("v2 has your words" in one for one in warnings)
        # The same choice again changes nothing, and the warning is repeated.
        again = (await lesson.choose_facts(*(await lesson.get_session())["confirmedFacts"]))["narration"]
        assert again["warnings"] == warnings
        name = str(lesson.session_id)
    narration = Artefact(storage, "lesson", name, LOCAL)
    async with served_app(valkey_url, kept_versions="1") as http:
        await wait_until_removed(http, f"/api/artefacts/lesson/{name}/narration/v1")
        assert await ids_of(narration, "narration") == ["v2", "v4"]


async def test_a_question_keeps_the_versions_it_names_and_can_be_answered(
    valkey_url: str, storage: Storage
) -> None:
    async with served_app(valkey_url) as client:
        lesson = LessonClient(client)
        await lesson.send(material("photosynthesis").text)
        name = str(lesson.session_id)
    artefact = Artefact(storage, "lesson", name, LOCAL)
    assert await ids_of(artefact, "facts") == ["v1"]
    await add_versions(artefact, "facts", 30)
    await artefact.activate("facts", "v7")
    async with served_app(valkey_url, kept_versions="2") as client:
        await wait_until_removed(client, f"/api/artefacts/lesson/{name}/facts/v28")
        assert await ids_of(artefact, "facts") == ["v1", "v7", "v29", "v30"]
        lesson = LessonClient(client, name)
        await lesson.choose_facts(1, 2)
        assert (await lesson.get_session())["confirmedFacts"]
    async with served_app(valkey_url, kept_versions="2") as client:
        await wait_until_removed(client, f"/api/artefacts/lesson/{name}/facts/v1")


async def test_an_ad_keeps_what_its_next_undo_restores_and_says_why_the_one_after_ends(
    valkey_url: str, storage: Storage
) -> None:
    async with served_app(valkey_url, kept_versions="1") as client:
        await generate_ad(client)
        for wish in ("louder", "calmer", "more upbeat"):
            await chat_about_ad(client, f"make the music {wish}")
        ad = Artefact(storage, "ad", "ad-1", LOCAL)
        await wait_until_removed(client, "/api/artefacts/ad/ad-1/music/v2")
        assert await ids_of(ad) == ["v3", "v4"]
        reply = await chat_about_ad(client, "undo that")
        assert reply["drafts"] == {"music": "v5"}
        assert (await ad.version("music", "v5")).parent == "v3"
        reply = await chat_about_ad(client, "undo that")
        assert "I changed nothing: undo ends here" in reply["message"]
        assert "removed as an old one" in reply["message"]


async def test_the_entries_of_a_list_stay_although_they_are_numbered(
    valkey_url: str, storage: Storage
) -> None:
    async with served_app(valkey_url) as client:
        for message in (
            "Change the headline to “A”",
            "Change the headline to “B”",
            "Change the headline to “C”",
        ):
            reply = await client.post("/api/pages/shop/chat", json={"message": message, **OFFLINE})
            assert reply.status_code == 200, reply.text
        for name in ("a", "b", "c"):
            upload = await client.post(f"/api/pages/shop/uploads?fileName={name}.png", content=png())
            assert upload.status_code == 201
    async with served_app(valkey_url, kept_versions="1") as client:
        await wait_until_removed(client, "/api/pages/shop/versions/v1")
        assert len((await client.get("/api/pages/shop/uploads")).json()["uploads"]) == 3
        # v2 is what undo restores.
        assert await list_ids(client, "/api/artefacts/page/shop/page") == ["v3", "v2"]
        body = {"message": "undo", **OFFLINE}
        assert (await client.post("/api/pages/shop/chat", json=body)).json()["drafts"] == {"page": "v4"}


async def test_old_versions_and_their_activation_at_the_same_time_leave_an_active_version_that_exists(
    storage: Storage,
) -> None:
    for attempt in range(5):
        ad = await new_ad(storage, f"ad-{attempt}", 60)
        until_ms = await read_time_ms(storage.redis) + 60_000

        async def activate(version: str, ad: Artefact = ad) -> None:
            with contextlib.suppress(Gone):
                await ad.activate("music", version)

        async def remove(ad: Artefact = ad, until_ms: int = until_ms) -> None:
            at: int | None = 0
            while at is not None:
                _, at = await ad.remove_old_versions(OldVersions("music", 5, (), until_ms, "v60"), at, 3)

        await asyncio.gather(remove(), *(activate(f"v{number}") for number in range(1, 40, 3)), remove())
        stream = await ad.stream("music")
        assert stream.active is None or stream.active_version is not None
        assert [version.id for version in stream.versions[-5:]] == [f"v{number}" for number in range(56, 61)]


async def test_what_was_read_long_ago_removes_nothing(storage: Storage) -> None:
    ad = await new_ad(storage, "ad", 30)
    until_ms = await read_time_ms(storage.redis) - 1
    assert await ad.remove_old_versions(OldVersions("music", 5, (), until_ms, "v30"), 0, 100) == (0, None)
    assert len(await ids_of(ad)) == 30


async def test_a_change_during_the_removal_can_be_undone(
    valkey_url: str, storage: Storage, tmp_path: Path
) -> None:
    """The version before the change was removed, since it had been neither the newest nor named."""
    async with served_app(valkey_url) as client:
        await make_page(CountingClient(client), "shop")
    page = Artefact(storage, "page", "shop", LOCAL)
    await add_versions(page, "page", 30, back="v29")
    target = valkey_url.removeprefix("unix://").partition("?")[0]
    async with HoldingProxy(str(tmp_path / "proxy"), target) as proxy:
        proxy.hold(REMOVE_OLD.sha)
        async with served_app(proxy.url, kept_versions="1"), served_app(valkey_url) as http:
            await asyncio.wait_for(proxy.has_held.wait(), 20)
            person = CountingClient(http)
            message = {"message": "Change the headline to “New”", **OFFLINE}
            assert (await person.ok("POST", "/api/pages/shop/chat", message))["drafts"] == {"page": "v31"}
            proxy.release()
            undone = {"message": "undo", **OFFLINE}
            assert (await person.ok("POST", "/api/pages/shop/chat", undone))["drafts"] == {"page": "v32"}


@pytest.mark.long
@pytest.mark.fault
async def test_a_server_that_is_killed_leaves_no_half_version_and_the_next_one_goes_on(
    valkey_url: str, warm_parent: WarmParent, storage: Storage, inspector: Redis
) -> None:
    ads = [await new_ad(storage, f"ad-{number}", 1_000) for number in range(2)]

    def count() -> int:
        return sum(1 for _ in inspector.scan_iter("ad:{ad-*}:music:v:*", count=1_000))

    def are_at_most(most: int) -> bool:
        return count() <= most

    for most in (1_500, 750, 10):
        pid, _ = warm_parent.start(valkey_url, 10.0, kept_versions="5")
        try:
            until(partial(are_at_most, most), f"at most {most} versions are left", patience_s=60)
        finally:
            os.kill(pid, signal.SIGKILL)
        assert sum([len(await ids_of(ad)) for ad in ads]) == count()
    assert count() == 10


async def test_the_rule_for_a_version_below_the_removed_ones_names_both_ends_that_it_may_have_had(
    valkey_url: str, storage: Storage
) -> None:
    ad = await new_ad(storage, "ad", 20)
    music = {"musicPrompt": "warm", "musicProvider": "stock", "duration": 20.0}
    for _ in range(2):
        await ad.create_version(NewVersion("music", music, "llm", "two"))
    await ad.delete_draft("music", "v21")
    await add_versions(ad, "music", 40)
    async with served_app(valkey_url, kept_versions="5") as client:
        await wait_until_removed(client, "/api/artefacts/ad/ad/music/v35")
        reply = await client.get("/api/artefacts/ad/ad/music/v21")
    assert reply.status_code == 410, reply.text
    assert "somebody deleted it, or it was removed as an old one" in reply.json()["error"]
