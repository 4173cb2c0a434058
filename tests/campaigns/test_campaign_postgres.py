"""Campaigns in PostgreSQL: behaviour beyond that of every index (E22, E30)."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from callsheet.state.campaigns.filters import Filters
from callsheet.state.errors import Broken, Invalid, StorageDown, TooLarge, Unavailable
from callsheet.storage import Storage, connect
from callsheet.storage.campaigns.library import delete_library, library, own_library
from callsheet.storage.redis import keys
from tests.doubles.campaigns import LIBRARY, CountingEmbeddings, campaign
from tests.doubles.postgres_server import postgres
from tests.doubles.served import served_app
from tests.doubles.tcp_proxy import TcpProxy
from tests.doubles.waiting import eventually

ALL = Filters()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres() as running:
        yield running


@pytest.fixture
async def database(url: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Storage]:
    """A storage with its campaigns in PostgreSQL."""
    monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", url)
    yield storage
    await delete_library(storage, "ana")


def ids(result) -> list[str]:
    return [match.campaign.id for match in result.matches]


async def test_processes_that_create_the_schema_at_the_same_time_share_it(url, valkey_url, monkeypatch):
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE DATABASE fresh")
    await connection.close()
    monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", url.replace("/postgres?", "/fresh?"))

    async def put(number: int) -> None:
        async with connect(valkey_url) as opened:
            index = await own_library(opened, "ana")
            await index.put([campaign(f"c{number}", campaign_text="Many")])

    await asyncio.gather(*(put(number) for number in range(4)))
    async with connect(valkey_url) as opened:
        index = await own_library(opened, "ana")
        assert (await index.full_text("many", ALL)).total == 4
        assert await (await library(opened, "ana")).count() == 4
        assert await opened.redis.exists(*keys.library("ana")) == 0


@pytest.mark.slow
async def test_an_import_over_the_limit_is_refused_and_changes_nothing(database, monkeypatch):
    monkeypatch.setenv("CALLSHEET_MAX_CAMPAIGNS", "6")
    index = await own_library(database, "ana")
    await index.put(LIBRARY)
    await index.put(LIBRARY)
    with pytest.raises(TooLarge, match="more than 6"):
        await index.put([campaign("seven"), campaign("birch-cash", campaign_text="Changed")])
    assert await index.count() == 6
    assert await index.get(["birch-cash"]) == [LIBRARY[1]]


async def test_a_change_of_the_embedding_model_recomputes_all_vectors(database):
    first, second = CountingEmbeddings("one"), CountingEmbeddings("two", dimensions=5)
    await (await own_library(database, "ana", first)).put(LIBRARY)
    computed = len(first.texts)
    await (await own_library(database, "ana", first)).put(LIBRARY)
    assert len(first.texts) == computed
    index = await own_library(database, "ana", second)
    assert len((await index.similar("x", ALL)).matches) == 6
    assert len(second.texts) == computed + 1


async def test_campaigns_are_stored_while_the_embedding_service_is_unavailable(database):
    embeddings = CountingEmbeddings()
    embeddings.error = Unavailable("the embeddings service is away")
    index = await own_library(database, "ana", embeddings)
    assert await index.put(LIBRARY) == 6
    assert ids(await index.full_text("cash back", ALL)) == ["birch-cash"]
    with pytest.raises(Unavailable, match="away"):
        await index.similar("cash", ALL)
    embeddings.error = None
    assert len((await index.similar("cash", ALL)).matches) == 6


async def test_campaigns_of_an_earlier_release_are_searched_by_the_words_of_this_one(database, url):
    index = await own_library(database, "ana")
    await index.put([campaign("one", campaign_text="申请信用卡", offer="5% back")])
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE callsheet_campaigns SET words = '', offer_words = NULL")
    await connection.close()
    assert ids(await index.full_text("信用卡", ALL)) == ["one"]
    assert ids(await index.full_text("5%", ALL, field="offer")) == ["one"]


async def test_null_characters_are_kept_in_a_campaign(database):
    odd = campaign("odd", company="A\0B", campaign_text="one\0two", brand="\\u0000")
    index = await own_library(database, "ana")
    await index.put([odd])
    assert await index.get(["odd"]) == [odd]
    assert ids(await index.full_text("two", ALL)) == ["odd"]
    assert ids(await index.filter(Filters(company=("a\0b",)))) == ["odd"]


async def test_an_unreachable_server_raises_storage_down_without_the_password(storage, monkeypatch):
    monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", "postgresql://ana:secret@127.0.0.1:9/campaigns")
    index = await own_library(storage, "ana")
    for question in (index.count(), index.put(LIBRARY), index.similar("x", ALL)):
        with pytest.raises(StorageDown, match=r"127\.0\.0\.1") as refused:
            await question
        assert "secret" not in str(refused.value)
        assert "CALLSHEET_CAMPAIGNS_URL" in refused.value.remedy


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_silent_server_is_an_outage_within_seconds_and_leaves_the_pool_free(
    url: str, valkey_url: str, monkeypatch: pytest.MonkeyPatch
):
    """E22: every request ends with the reason, health is degraded, and all works once it answers."""
    socket = f"{url.partition('host=')[2]}/.s.PGSQL.5432"
    async with TcpProxy(socket) as proxy:
        through = f"postgresql://callsheet@127.0.0.1:{proxy.port}/postgres?sslmode=disable"
        monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", through)
        async with served_app(valkey_url) as http:
            assert (await http.get("/api/campaigns")).status_code == 200
            assert (await http.get("/health")).json()["status"] == "ok"
            for half in (True, False):
                proxy.cut(half=half)
                began_s = time.monotonic()
                replies = await asyncio.gather(*(http.get("/api/campaigns") for _ in range(24)))
                assert time.monotonic() - began_s < 25
                assert {reply.status_code for reply in replies} == {503}
                assert all("gives no answer" in reply.text for reply in replies)
                health = (await http.get("/health")).json()
                assert (health["status"], health["degraded"]) == ("degraded", ["campaigns"])
                proxy.heal()

                async def answers_again() -> bool:
                    return (await http.get("/api/campaigns")).status_code == 200

                await eventually(answers_again, "PostgreSQL answers again")
                assert (await http.get("/health")).json()["status"] == "ok"


async def test_a_url_with_another_scheme_is_refused(storage, monkeypatch):
    monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", "mysql://localhost/campaigns")
    with pytest.raises(Invalid, match="'mysql'"):
        await own_library(storage, "ana")


async def test_the_error_without_asyncpg_names_the_extra_to_install(storage, monkeypatch):
    monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", "postgresql://localhost/campaigns")
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.delitem(sys.modules, "callsheet.storage.campaigns.postgres", raising=False)
    with pytest.raises(Broken, match="'asyncpg'") as refused:
        await own_library(storage, "ana")
    assert "callsheet[postgresql]" in refused.value.remedy
