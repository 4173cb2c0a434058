"""Campaign libraries: records in Redis, and an index in every process that follows them (E31)."""

import asyncio
import contextlib
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callsheet.state.campaigns.filters import Filters
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.errors import Forbidden, Invalid, TooLarge, Unavailable
from callsheet.storage import Storage, connect
from callsheet.storage.campaigns.embedded import EmbeddedIndex
from callsheet.storage.campaigns.embeddings import OfflineEmbeddings
from callsheet.storage.campaigns.index import CampaignIndex
from callsheet.storage.campaigns.index_file import IndexFile
from callsheet.storage.campaigns.library import delete_library, library, own_library
from callsheet.storage.campaigns.records import Changes, RedisRecords
from callsheet.storage.campaigns.sample import SampleRecords, read_vectors, write_vectors
from callsheet.storage.campaigns.vectors import unpack
from callsheet.storage.campaigns.words import embedding_texts
from callsheet.storage.embedded import watchdog
from callsheet.storage.redis import keys
from tests.campaigns.writer_process import BATCH_SIZE
from tests.doubles.campaigns import LIBRARY, CountingEmbeddings, campaign
from tests.doubles.redis_server import one_node_cluster

ALL = Filters()
ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The data folder of this machine."""
    monkeypatch.setenv("CALLSHEET_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
async def other(folder: Path, valkey_url: str) -> AsyncIterator[Storage]:
    """The storage of another process on the same data folder."""
    async with connect(valkey_url) as opened:
        yield opened


def ids(result) -> list[str]:
    return [match.campaign.id for match in result.matches]


def index_files(folder: Path) -> list[Path]:
    return list(folder.glob("campaigns/*/*.sqlite"))


async def test_an_owner_without_campaigns_gets_the_sample_library(storage, folder):
    """E31."""
    sample = await library(storage, "ana")
    total = await sample.count()
    assert total >= 300
    assert (await sample.filter(ALL)).total == total
    assert (await sample.similar("travel benefits", ALL)).matches
    index = await own_library(storage, "ana")
    await index.put(LIBRARY)
    assert await (await library(storage, "ana")).count() == 6
    assert await (await library(storage, "bob")).count() == total
    await index.delete([each.id for each in LIBRARY])
    assert await (await library(storage, "ana")).count() == total


@pytest.mark.slow
async def test_the_sample_library_cannot_be_changed():
    sample = EmbeddedIndex(SampleRecords(lambda: LIBRARY), OfflineEmbeddings())
    assert ids(await sample.full_text("cash back", ALL)) == ["birch-cash"]
    assert ids(await sample.similar("fraud", ALL))[0] == "cedar-security"
    assert await sample.get(["birch-cash", "none"]) == [LIBRARY[1]]
    assert await sample.has_campaigns()
    for change in (sample.put(LIBRARY), sample.delete(["x"]), sample.delete_all()):
        with pytest.raises(Forbidden, match="sample library"):
            await change


def test_precomputed_vectors_exist_for_the_sample_library():
    campaigns = sample_campaigns()
    texts = {each.id: list(embedding_texts(each).values()) for each in campaigns}
    model = OfflineEmbeddings().suited_to(len(campaigns)).model
    ready = unpack(model, texts, read_vectors())
    assert set(ready) == set(texts), "run: python -m callsheet.storage.campaigns.sample"


@pytest.mark.slow
async def test_precomputed_vectors_are_used_unless_the_text_changed(tmp_path):
    file = tmp_path / "vectors.npz"
    assert read_vectors(file) == {}
    read_vectors.cache_clear()
    await asyncio.to_thread(write_vectors, LIBRARY, file)
    stored = read_vectors(file)
    embeddings = CountingEmbeddings(model=OfflineEmbeddings().suited_to(6).model, dimensions=768)
    sample = EmbeddedIndex(SampleRecords(lambda: LIBRARY, lambda: stored), embeddings)
    await sample.similar("fraud", ALL)
    assert embeddings.texts == ["fraud"]
    changed = (*LIBRARY[1:], LIBRARY[0].model_copy(update={"offer": "Another"}))
    sample = EmbeddedIndex(SampleRecords(lambda: changed, lambda: stored), embeddings)
    await sample.similar("fraud", ALL)
    assert any("Another" in text for text in embeddings.texts)
    assert len(embeddings.texts) < 6


async def test_every_process_sees_writes_of_the_others(storage, other):
    one, two = await own_library(storage, "ana"), await own_library(other, "ana")
    await one.put(LIBRARY[:3])
    assert await two.count() == 3
    await two.put([*LIBRARY[3:], campaign("birch-cash", campaign_text="Changed by the other")])
    assert ids(await one.full_text("other", ALL)) == ["birch-cash"]
    await one.delete(["alder-travel"])
    assert "alder-travel" not in ids(await two.similar("travel", ALL))
    assert ids(await one.filter(ALL)) == ids(await two.filter(ALL))
    assert [match.score for match in (await one.similar("fraud", ALL)).matches] == [
        match.score for match in (await two.similar("fraud", ALL)).matches
    ]


@pytest.mark.slow
async def test_concurrent_writes_of_two_processes_are_all_kept(storage, other):
    one, two = await own_library(storage, "ana"), await own_library(other, "ana")

    async def put(target: CampaignIndex, name: str) -> None:
        for i in range(10):
            await target.put([campaign(f"{name}-{i}-{j}", campaign_text=f"{name} words") for j in range(5)])

    await asyncio.gather(put(one, "elm"), put(two, "fir"), put(one, "ash"))
    for index in (one, two):
        assert await index.count() == 150
        for name in ("elm", "fir", "ash"):
            assert (await index.full_text(name, ALL)).total == 50
        assert len((await index.similar("words", ALL, field="copy", limit=500)).matches) == 150


async def test_the_index_is_one_file_that_is_reused(storage, other, folder):
    embeddings = CountingEmbeddings()
    await (await own_library(storage, "ana", embeddings)).put(LIBRARY)
    assert len(index_files(folder)) == 1
    embeddings.texts.clear()
    reopened = await own_library(other, "ana", embeddings)
    assert len((await reopened.similar("x", ALL)).matches) == 6
    assert embeddings.texts == ["x"]
    assert len(index_files(folder)) == 1


def index_folder(folder: Path) -> Path:
    """The folder of Ana's index."""
    return folder / "campaigns" / hashlib.sha256(b"ana").hexdigest()[:32]


def overwrite_middle(content: bytes) -> bytes:
    """Leave the first page, so that the file opens, and the last one."""
    return content[:4096] + b"\x00nonsense" * ((len(content) - 8192) // 9) + content[-4096:]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda _: b"\x00nonsense" * 500, id="nonsense"),
        pytest.param(lambda content: content[: len(content) // 2], id="half"),
        pytest.param(overwrite_middle, id="nonsense inside"),
    ],
)
async def test_a_damaged_index_is_rebuilt(valkey_url, folder, storage, damage, caplog):
    async with connect(valkey_url) as first:
        await (await own_library(first, "ana")).put(LIBRARY)
    (file,) = index_files(folder)
    # Closed with its storage, so all of it is in the file.
    assert not file.with_name(f"{file.name}-wal").exists()
    content = damage(file.read_bytes())
    file.write_bytes(content)
    reopened = await own_library(storage, "ana")
    assert ids(await reopened.full_text("cash back", ALL)) == ["birch-cash"]
    assert ids(await reopened.similar("fraud", ALL))[0] == "cedar-security"
    assert await reopened.count() == 6
    assert not content or "built again" in caplog.text
    assert len(index_files(folder)) == 1


async def test_a_damaged_index_in_use_is_rebuilt_in_another_file(storage, other, folder):
    one, two = (
        await own_library(storage, "ana"),
        EmbeddedIndex(RedisRecords(other, "ana"), OfflineEmbeddings(), index_folder(folder)),
    )
    await one.put(LIBRARY)
    await two.put([campaign("seven", campaign_text="The seventh")])
    (file,) = index_files(folder)
    await two.aclose()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("r+b") as damaged:
        damaged.write(b"nonsense" * 100)
    assert await two.count() == 7
    assert ids(await two.full_text("seventh", ALL)) == ["seven"]
    assert len(index_files(folder)) == 2
    assert await one.count() == 7


async def test_an_index_of_an_earlier_release_is_removed(storage, folder):
    earlier = index_folder(folder) / "0123456789abcdef-0"
    (earlier / "words").mkdir(parents=True)
    (earlier / "rows.sqlite").touch()
    earlier.with_name(f"{earlier.name}.used").touch()
    for part in (folder / "campaigns", earlier.parent):
        part.chmod(0o700)
    index = await own_library(storage, "ana")
    assert await index.put(LIBRARY) == 6
    assert not earlier.exists()


@pytest.mark.fault
@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 3])
async def test_the_index_is_consistent_after_its_writers_are_killed(storage, valkey_url, folder, after):
    index = await own_library(storage, "ana")
    command = [sys.executable, "-m", "tests.campaigns.writer_process", valkey_url]
    writers = [
        await asyncio.create_subprocess_exec(*command, name, cwd=ROOT, stdout=subprocess.PIPE)
        for name in ("one", "two")
    ]
    try:
        for writer in (*writers, *writers[:1] * after):
            assert writer.stdout
            assert await writer.stdout.readline()
    finally:
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            await writer.wait()
    stored = await storage.redis.hlen(keys.library("ana").records)
    assert stored >= (after + 2) * BATCH_SIZE
    assert await index.count() == stored
    assert (await index.full_text("offer many", ALL)).total == stored
    assert len((await index.similar("offer", ALL, field="copy", limit=10_000)).matches) == stored
    await index.put([campaign("last", campaign_text="The last offer of many")])
    assert (await index.full_text("offer many", ALL)).total == stored + 1


async def test_a_writer_waits_for_another_until_its_timeout(tmp_path):
    changes = await SampleRecords(lambda: LIBRARY).changes(0, 0)
    one, two = (IndexFile(tmp_path / "index", wait_s=0.05) for _ in range(2))
    (file,) = (tmp_path / "index").glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="another process"):
            two.apply(two.progress, changes)
    two.apply(two.progress, changes)
    one.refresh()
    assert (one.count(), one.progress) == (6, two.progress)
    for index in (one, two):
        index.close()


async def test_a_deleted_library_leaves_no_keys_and_no_files(storage, other, folder):
    index = await own_library(storage, "ana")
    await index.put(LIBRARY)
    assert index_files(folder)
    await delete_library(storage, "ana")
    await delete_library(storage, "ana")
    assert index_files(folder) == []
    assert await index.count() == 0
    assert await storage.redis.exists(*keys.library("ana")) == 0
    await index.put(LIBRARY[:1])
    assert ids(await (await own_library(other, "ana")).filter(ALL)) == ["alder-travel"]


async def test_a_library_replaced_during_a_read_is_read_again(storage, tmp_path):
    class ReplacedRecords(RedisRecords):
        """Records that are deleted and imported again between two reads."""

        readings = 0

        async def changes(self, after: int, mark: int) -> Changes:
            self.readings += 1
            if self.readings == 1:
                await self.delete_all()
                await self.put(LIBRARY[:2], 0)
            return await super().changes(after, mark)

    records = ReplacedRecords(storage, "ana")
    await records.put(LIBRARY, 0)
    index = EmbeddedIndex(records, OfflineEmbeddings(), tmp_path / "index")
    assert sorted(ids(await index.filter(ALL))) == ["alder-travel", "birch-cash"]
    assert records.readings == 2


async def test_a_rebuild_goes_on_where_a_killed_process_left_it(storage, folder):
    class RecordedReads(RedisRecords):
        """Records that note after which change each reading began."""

        def __init__(self, opened: Storage, most: int) -> None:
            super().__init__(opened, "ana")
            self.after: list[int] = []
            self._most = most

        async def changes(self, after: int, mark: int) -> Changes:
            self.after.append(after)
            if len(self.after) > self._most:
                raise ConnectionError("the process ends here")
            return await super().changes(after, mark)

    many = [campaign(f"c-{n}", campaign_text="Many") for n in range(4_500)]
    await RedisRecords(storage, "ana").put(many, 0)
    killed = RecordedReads(storage, most=1)
    with pytest.raises(ConnectionError):
        await EmbeddedIndex(killed, OfflineEmbeddings(), folder / "index").count()
    following = RecordedReads(storage, most=10)
    index = EmbeddedIndex(following, OfflineEmbeddings(), folder / "index")
    assert await index.count() == 4_500
    assert (await index.full_text("many", ALL)).total == 4_500
    assert following.after[0] == 2_000
    await index.aclose()


async def test_the_age_of_the_index_is_known(storage, other, folder):
    one, two = await own_library(storage, "ana"), await own_library(other, "ana")
    assert await one.indexed_at() is None
    before = datetime.now(UTC)
    await one.put(LIBRARY)
    assert before <= (await two.indexed_at() or before) <= datetime.now(UTC)
    assert await two.indexed_at() == await one.indexed_at()


async def test_a_library_without_marks_is_still_followed(storage, other, folder):
    """As an older release left it."""
    one, two = await own_library(storage, "ana"), await own_library(other, "ana")
    await one.put(LIBRARY[:3])
    await storage.redis.delete(keys.library("ana").marks)
    with contextlib.closing(sqlite3.connect(index_files(folder)[0])) as file, file:
        file.execute("UPDATE state SET value = 0 WHERE name = 'mark'")
    before = await storage.redis.hget(keys.library("ana").meta, "generation")
    assert await two.count() == 3
    await two.put(LIBRARY[3:])
    for index in (two, await own_library(other, "ana")):
        assert (await index.count(), len(ids(await index.filter(ALL)))) == (6, 6)
    assert await storage.redis.hget(keys.library("ana").meta, "generation") == before


async def test_an_index_older_than_the_kept_marks_is_rebuilt(storage, other, folder, tmp_path):
    one = await own_library(storage, "ana")
    await one.put(LIBRARY[:2])
    behind = EmbeddedIndex(RedisRecords(other, "ana"), OfflineEmbeddings(), tmp_path / "another machine")
    assert await behind.count() == 2
    await one.put(LIBRARY[2:])
    await storage.redis.zremrangebyrank(keys.library("ana").marks, 0, -2)
    assert await behind.count() == 6
    assert await one.count() == 6


@pytest.mark.slow
async def test_many_deletions_start_a_new_generation(storage, other):
    one, two = await own_library(storage, "ana"), await own_library(other, "ana")
    await one.put([campaign(f"c{i}") for i in range(10_100)])
    assert await two.count() == 10_100
    await one.delete([f"c{i}" for i in range(10_050)])
    assert await storage.redis.zcard(keys.library("ana").deletions) < 10_000
    for index in (one, two):
        assert (await index.count(), len(ids(await index.filter(ALL, limit=100)))) == (50, 50)


@pytest.mark.slow
async def test_the_number_of_campaigns_in_a_library_is_limited(storage, monkeypatch):
    monkeypatch.setenv("CALLSHEET_MAX_CAMPAIGNS", "6")
    index = await own_library(storage, "ana")
    await index.put(LIBRARY)
    await index.put(LIBRARY)
    with pytest.raises(TooLarge, match="more than 6 campaigns") as refused:
        await index.put([campaign("seven"), *LIBRARY])
    assert "CALLSHEET_MAX_CAMPAIGNS" in refused.value.remedy
    assert await index.count() == 6
    await index.delete(["birch-cash"])
    assert await index.put([campaign("seven")]) == 1


async def test_a_limit_that_is_not_a_number_is_refused(storage, monkeypatch):
    monkeypatch.setenv("CALLSHEET_MAX_CAMPAIGNS", "many")
    with pytest.raises(Invalid, match="'many'"):
        await own_library(storage, "ana")


async def test_vectors_are_computed_once_for_all_processes(valkey_url, storage, monkeypatch, tmp_path):
    embeddings = CountingEmbeddings()
    index = await own_library(storage, "ana", embeddings)
    await index.put(LIBRARY)
    computed = len(embeddings.texts)
    assert computed > 6
    async with connect(valkey_url) as opened:
        # Another machine: nothing on its disk.
        other_machine = await own_library(opened, "ana", embeddings)
        assert len((await other_machine.similar("x", ALL)).matches) == 6
        assert len(embeddings.texts) == computed + 1
        await other_machine.put([campaign("birch-cash", campaign_text="Changed")])
        assert len(embeddings.texts) > computed + 1
    await index.delete(["birch-cash"])
    assert await storage.redis.hexists(keys.library("ana").vectors, "birch-cash") is False


async def test_a_change_of_the_embedding_model_recomputes_all_vectors(storage, folder):
    first, second = CountingEmbeddings("one"), CountingEmbeddings("two", dimensions=5)
    await (await own_library(storage, "ana", first)).put(LIBRARY)
    index = await own_library(storage, "ana", second)
    assert len((await index.similar("x", ALL)).matches) == 6
    assert len(second.texts) == len(first.texts) + 1


async def test_a_model_with_a_changed_vector_length_is_refused(storage, other, folder):
    await (await own_library(storage, "ana", CountingEmbeddings(dimensions=3))).put(LIBRARY)
    index = await own_library(other, "ana", CountingEmbeddings(dimensions=4))
    with pytest.raises(Invalid, match="4 numbers"):
        await index.similar("x", ALL)


async def test_campaigns_are_stored_while_the_embedding_service_is_unavailable(storage, folder):
    embeddings = CountingEmbeddings()
    embeddings.error = Unavailable("the embeddings service is away")
    index = await own_library(storage, "ana", embeddings)
    assert await index.put(LIBRARY) == 6
    assert ids(await index.full_text("cash back", ALL)) == ["birch-cash"]
    with pytest.raises(Unavailable, match="away"):
        await index.similar("cash", ALL)
    embeddings.error = None
    assert len((await index.similar("cash", ALL)).matches) == 6


async def test_without_a_data_folder_the_index_is_temporary(valkey_url, monkeypatch, tmp_path):
    monkeypatch.delenv("CALLSHEET_DATA_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with connect(valkey_url) as opened:
        index = await own_library(opened, "ana")
        await index.put(LIBRARY)
        assert list(tmp_path.glob("callsheet-campaigns-*/*/*.sqlite"))


@pytest.mark.slow
async def test_many_libraries_can_be_used_with_few_open_at_a_time(storage, folder):
    for i in range(40):
        await (await own_library(storage, f"owner-{i}")).put(LIBRARY[:1])
    for i in range(40):
        assert await (await own_library(storage, f"owner-{i}")).count() == 1


async def test_a_library_uses_one_slot_of_a_redis_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("CALLSHEET_DATA_DIR", str(tmp_path))
    with one_node_cluster(watchdog.binary(), tmp_path) as server:
        async with connect(f"redis+cluster://{server.address}") as opened:
            index = await own_library(opened, "ana {1}")
            assert await index.put(LIBRARY) == 6
            assert ids(await index.full_text("cash back", ALL)) == ["birch-cash"]
            assert await index.delete(["birch-cash"]) == 1
            await delete_library(opened, "ana {1}")
            assert await index.count() == 0
