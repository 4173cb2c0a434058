"""A turn about an ad costs the same however many versions the ad has, and lists are read by pages."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from tests.doubles.served import chat_about_ad, generate_ad, served_app

FEW, MANY = 30, 600


@pytest.fixture
async def ads(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as http:
        yield http


async def add_versions(storage: Storage, count: int) -> None:
    """Add versions to each stream of the ad, until it has this many."""
    ad = Artefact(storage, "ad", "ad-1", LOCAL)
    for name, stream in (await ad.newest_of(["voices", "music", "sfx"])).items():
        newest = stream.newest()
        assert newest
        for number in range(stream.count, count):
            data = {**newest.data, "note": number}
            await ad.create_version(NewVersion(name, data, "llm", f"batch-{number}"))


async def commands(storage: Storage) -> int:
    """The commands that Redis has executed, those inside scripts too."""
    stats: Any = await storage.redis.info("commandstats")
    return sum(entry["calls"] for entry in stats.values())


async def test_a_turn_and_the_views_of_an_ad_need_as_many_commands_with_many_versions_as_with_few(
    ads: httpx.AsyncClient, storage: Storage
) -> None:
    await generate_ad(ads)
    counts: dict[str, list[int]] = {}
    for versions in (FEW, MANY):
        await add_versions(storage, versions)
        for name, path in {
            "turn": "",
            "ad": "/api/ads/ad-1",
            "list": "/api/ads/ad-1/music",
            "version": "/api/ads/ad-1/music/v3",
            "artefact": "/api/artefacts/ad/ad-1",
            "mixer": "/api/ads/ad-1/mixer",
            "timeline": "/api/ads/ad-1/timeline",
        }.items():
            before = await commands(storage)
            if path:
                assert (await ads.get(path)).status_code == 200
            else:
                assert (await chat_about_ad(ads, "Make the music more upbeat"))["drafts"]
            counts.setdefault(name, []).append(await commands(storage) - before)
    # Commands in the background make up for the constant.
    assert {name: pair for name, pair in counts.items() if pair[1] > 1.3 * pair[0] + 60} == {}


async def test_versions_are_listed_by_pages(ads: httpx.AsyncClient, storage: Storage) -> None:
    await generate_ad(ads)
    await add_versions(storage, 130)
    ids: list[str] = []
    before = ""
    for size in (50, 50, 30):
        page = (await ads.get(f"/api/ads/ad-1/music{before}")).json()
        assert len(page["versions"]) == size
        ids = [one["id"] for one in page["versions"]] + ids
        before = f"?before={page['before']}"
        assert page["versions"][-1]["change"], "also where the parent is on another page"
    assert ids == [f"v{number}" for number in range(1, 131)]
    assert [one.id for one in (await Artefact(storage, "ad", "ad-1", LOCAL).stream("music")).versions] == ids
    assert page["before"] is None
    assert page["versions"][0]["status"] == "frozen"
    assert (await ads.get("/api/ads/ad-1/music?before=v999")).status_code == 404
    assert len((await ads.get("/api/artefacts/ad/ad-1/music?limit=7")).json()["versions"]) == 7
    assert (await ads.post("/api/ads/ad-1/music/v2/activate")).status_code == 200
    assert (await ads.get("/api/ads/ad-1")).json()["streams"]["music"]["active"]["id"] == "v2"
    assert (await ads.post("/api/ads/ad-1/music/v999/activate")).status_code == 404
