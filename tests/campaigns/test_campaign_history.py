"""Campaigns after Redis lost its newest writes, as after a crash, a failover or an older backup."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from redis import Redis

from callsheet.storage.embedded import watchdog
from tests.doubles.postgres_server import postgres
from tests.doubles.redis_server import RedisServer
from tests.doubles.redis_server import running_redis as redis_running
from tests.doubles.served import served_app
from tests.doubles.waiting import eventually

pytestmark = pytest.mark.timeout(180)
SLOW = pytest.mark.slow
LONG = pytest.mark.long


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that keeps only its last snapshot when it is killed."""
    (tmp_path / "redis").mkdir()
    with redis_running(watchdog.binary(), tmp_path / "redis", "--dbfilename", "dump.rdb") as one:
        yield one


@pytest.fixture(params=["embedded", pytest.param("postgresql", marks=pytest.mark.slow)])
def index_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The index of campaigns: only the embedded one depends on the data in Redis."""
    if request.param == "embedded":
        yield "embedded"
        return
    with postgres() as url:
        monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", url)
        yield "postgresql"


class CallsheetServers:
    """Callsheet servers, each with a data folder of its own, on one Redis."""

    def __init__(self, server: RedisServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._stack = AsyncExitStack()
        self.clients: list[httpx.AsyncClient] = []

    async def start(self, count: int = 2) -> None:
        """Start the servers on the data folders of earlier ones."""
        for number in range(count):
            self._monkeypatch.setenv("CALLSHEET_DATA_DIR", str(self.folder / str(number)))
            app = served_app(self.server.url, storage_patience_s=20)
            self.clients.append(await self._stack.enter_async_context(app))
            await self.campaign_ids(self.clients[-1])

    async def stop(self) -> None:
        await self._stack.aclose()
        self.clients.clear()

    async def import_campaigns(self, ids: Sequence[str]) -> None:
        """Import campaigns through the first server."""
        rows = "\n".join(f"{each},Alder Bank,email,2026-03-01,copy of {each}" for each in ids)
        content = f"id,company,channel,capture_date,campaign_text\n{rows}\n"
        report = await self.clients[0].post("/api/campaigns/import?fileName=x.csv", content=content)
        assert (report.status_code, report.json()["imported"]) == (200, len(ids)), report.text

    async def campaign_ids(self, client: httpx.AsyncClient) -> set[str]:
        reply = await client.get("/api/campaigns?limit=200")
        assert reply.status_code == 200, reply.text
        listed = reply.json()
        assert listed["total"] == len(listed["campaigns"]) or listed["total"] > 200
        return {one["id"] for one in listed["campaigns"]}

    async def restart_redis_from_snapshot(self) -> None:
        """Kill Redis and start it with its last snapshot."""
        self.server.kill()
        self.server.start()
        for client in self.clients:

            async def is_healthy(client: httpx.AsyncClient = client) -> bool:
                return (await client.get("/health")).status_code == 200

            await eventually(is_healthy, "the server reaches Redis again")


@pytest.fixture
async def servers(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[CallsheetServers]:
    one = CallsheetServers(server, tmp_path, monkeypatch)
    yield one
    await one.stop()


def ids_of(stem: str, count: int) -> list[str]:
    return [f"{stem}-{number}" for number in range(count)]


@pytest.mark.parametrize(
    ("later", "restart"),
    [
        *((3, ""), (10, "")),
        *(pytest.param(later, "restart", marks=SLOW) for later in (0, 15)),
        *(pytest.param(later, "", marks=LONG) for later in (0, 15)),
        *(pytest.param(later, "restart", marks=LONG) for later in (3, 10)),
    ],
)
async def test_campaigns_imported_after_a_restore_of_redis_are_listed_by_every_server(
    servers: CallsheetServers, index_kind: str, later: int, restart: str
) -> None:
    """E31: with fewer new changes than lost ones, as many, and more; the indexes are ahead of Redis."""
    await servers.start()
    await servers.import_campaigns(ids_of("kept", 10))
    with Redis.from_url(servers.server.url) as redis:
        redis.save()
    await servers.import_campaigns(ids_of("lost", 10))
    for client in servers.clients:
        assert await servers.campaign_ids(client) == {*ids_of("kept", 10), *ids_of("lost", 10)}
    await servers.restart_redis_from_snapshot()
    if restart:
        await servers.stop()
        await servers.start()
    if later:
        await servers.import_campaigns(ids_of("later", later))
    expected = {
        *ids_of("kept", 10),
        *ids_of("later", later),
        *(ids_of("lost", 10) if index_kind == "postgresql" else []),
    }
    for client in servers.clients:
        assert await servers.campaign_ids(client) == expected
        question = {"message": 'find campaigns mentioning "copy"', "provider": "offline"}
        reply = await client.post("/api/chat", json=question)
        assert reply.json()["total"] == len(expected), reply.text
    await servers.import_campaigns(ids_of("last", 1))
    for client in servers.clients:
        assert await servers.campaign_ids(client) == {*expected, "last-0"}


async def test_campaigns_deleted_after_a_restore_of_redis_are_not_listed(
    servers: CallsheetServers, index_kind: str
) -> None:
    """E31: a lost deletion is undone by the restore and can be repeated."""
    await servers.start()
    await servers.import_campaigns(ids_of("kept", 10))
    with Redis.from_url(servers.server.url) as redis:
        redis.save()
    for name in ids_of("kept", 4):
        assert (await servers.clients[0].delete(f"/api/campaigns/{name}")).status_code == 200
    assert len(await servers.campaign_ids(servers.clients[1])) == 6
    await servers.restart_redis_from_snapshot()
    if index_kind == "embedded":
        assert len(await servers.campaign_ids(servers.clients[1])) == 10
    for name in ids_of("kept", 6)[4:]:
        assert (await servers.clients[1].delete(f"/api/campaigns/{name}")).status_code == 200
    expected = {*ids_of("kept", 10)} - {
        "kept-4",
        "kept-5",
        *(ids_of("kept", 4) if index_kind == "postgresql" else []),
    }
    for client in servers.clients:
        assert await servers.campaign_ids(client) == expected
