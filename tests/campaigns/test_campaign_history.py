"""Campaigns after Redis went back in time, as after a crash, a failover or from an older backup."""

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

SLOW = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that starts with its last snapshot, and keeps nothing else."""
    (tmp_path / "redis").mkdir()
    with redis_running(watchdog.binary(), tmp_path / "redis", "--dbfilename", "dump.rdb") as one:
        yield one


@pytest.fixture(params=["embedded", pytest.param("postgresql", marks=pytest.mark.slow)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where campaigns are. Only the embedded index goes back in time with Redis."""
    if request.param == "embedded":
        yield "embedded"
        return
    with postgres() as url:
        monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", url)
        yield "postgresql"


class Machines:
    """Callsheet servers, each with a data folder of its own, on one Redis."""

    def __init__(self, server: RedisServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._stack = AsyncExitStack()
        self.clients: list[httpx.AsyncClient] = []

    async def start(self, count: int = 2) -> None:
        """Start the servers, which find the indexes of earlier ones."""
        for number in range(count):
            self._monkeypatch.setenv("CALLSHEET_DATA_DIR", str(self.folder / str(number)))
            opened = served_app(self.server.url, storage_patience_s=20)
            self.clients.append(await self._stack.enter_async_context(opened))
            await self.shown(self.clients[-1])

    async def stop(self) -> None:
        await self._stack.aclose()
        self.clients.clear()

    async def put(self, ids: Sequence[str]) -> None:
        """Import campaigns by the first server; the reply acknowledges them."""
        rows = "\n".join(f"{each},Alder Bank,email,2026-03-01,copy of {each}" for each in ids)
        content = f"id,company,channel,capture_date,campaign_text\n{rows}\n"
        report = await self.clients[0].post("/api/campaigns/import?fileName=x.csv", content=content)
        assert (report.status_code, report.json()["imported"]) == (200, len(ids)), report.text

    async def shown(self, client: httpx.AsyncClient) -> set[str]:
        reply = await client.get("/api/campaigns?limit=200")
        assert reply.status_code == 200, reply.text
        listed = reply.json()
        assert listed["total"] == len(listed["campaigns"]) or listed["total"] > 200
        return {one["id"] for one in listed["campaigns"]}

    async def back_in_time(self) -> None:
        """Kill Redis and start it with what it had stored at its last snapshot."""
        self.server.kill()
        self.server.start()
        for client in self.clients:

            async def well(client: httpx.AsyncClient = client) -> bool:
                return (await client.get("/health")).status_code == 200

            await eventually(well, "the server reaches Redis again")


@pytest.fixture
async def machines(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Machines]:
    one = Machines(server, tmp_path, monkeypatch)
    yield one
    await one.stop()


def names(stem: str, count: int) -> list[str]:
    return [f"{stem}-{number}" for number in range(count)]


@pytest.mark.parametrize("restart", ["", pytest.param("restart", marks=SLOW)])
@pytest.mark.parametrize("later", [pytest.param(0, marks=SLOW), 3, 10, pytest.param(15, marks=SLOW)])
async def test_what_is_imported_after_redis_went_back_in_time_is_shown_by_every_server(
    machines: Machines, kind: str, later: int, restart: str
) -> None:
    """E31: fewer changes than were lost, as many, and more; the indexes on disk are ahead of Redis."""
    await machines.start()
    await machines.put(names("kept", 10))
    with Redis.from_url(machines.server.url) as redis:
        redis.save()
    await machines.put(names("lost", 10))
    for client in machines.clients:
        assert await machines.shown(client) == {*names("kept", 10), *names("lost", 10)}
    await machines.back_in_time()
    if restart:
        await machines.stop()
        await machines.start()
    if later:
        await machines.put(names("later", later))
    right = {*names("kept", 10), *names("later", later), *(names("lost", 10) if kind == "postgresql" else [])}
    for client in machines.clients:
        assert await machines.shown(client) == right
        question = {"message": 'find campaigns mentioning "copy"', "provider": "offline"}
        words = await client.post("/api/chat", json=question)
        assert words.json()["total"] == len(right), words.text
    await machines.put(names("last", 1))
    for client in machines.clients:
        assert await machines.shown(client) == {*right, "last-0"}


async def test_campaigns_deleted_again_after_redis_went_back_in_time_are_gone(
    machines: Machines, kind: str
) -> None:
    """E31: one that was deleted before is there again, and is deleted for good then."""
    await machines.start()
    await machines.put(names("kept", 10))
    with Redis.from_url(machines.server.url) as redis:
        redis.save()
    for name in names("kept", 4):
        assert (await machines.clients[0].delete(f"/api/campaigns/{name}")).status_code == 200
    assert len(await machines.shown(machines.clients[1])) == 6
    await machines.back_in_time()
    if kind == "embedded":
        assert len(await machines.shown(machines.clients[1])) == 10
    for name in names("kept", 6)[4:]:
        assert (await machines.clients[1].delete(f"/api/campaigns/{name}")).status_code == 200
    right = {*names("kept", 10)} - {"kept-4", "kept-5", *(names("kept", 4) if kind == "postgresql" else [])}
    for client in machines.clients:
        assert await machines.shown(client) == right
