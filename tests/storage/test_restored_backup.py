"""Data that went back in time: how a server notices it, and a restore that starts nothing by itself."""

import asyncio
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.storage.redis import keys
from tests.doubles.served import served_app
from tests.doubles.waiting import eventually
from tests.storage.recorded_data import restore


async def read(client: httpx.AsyncClient, path: str, **options: Any) -> Any:
    reply = await client.get(path, **options)
    assert reply.is_success, reply.text
    return reply.json()


async def test_a_server_says_that_its_data_went_back_in_time(
    valkey_url: str, inspector: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As after a crash that lost the newest writes, a failover, or a restored backup."""
    async with served_app(valkey_url) as client:
        healths = await asyncio.gather(*(read(client, "/health") for _ in range(20)))
        assert {one["status"] for one in healths} == {"ok"}
        checks = int(inspector.get(keys.DATA_CHECKS))
        await read(client, "/health")
        inspector.set(keys.DATA_CHECKS, checks)
        health = await read(client, "/health")
        assert (health["status"], health["degraded"]) == ("degraded", ["persistence"])
        assert "went back in time since this server started" in health["error"]
        assert (await read(client, "/health"))["degraded"] == ["persistence"], "it is not forgotten"
    assert len([line for line in caplog.messages if "went back in time" in line]) == 1


async def has_fired(inspector: Redis) -> bool:
    return bool(inspector.zcount(keys.CRONS_DUE, 1, "+inf"))


async def statuses(client: httpx.AsyncClient, thread: str) -> list[str]:
    return [run["status"] for run in await read(client, f"/threads/{thread}/runs")]


@pytest.mark.slow
async def test_a_backup_restored_without_execution_starts_nothing_until_a_person_has_chosen(
    valkey_url: str, inspector: Redis
) -> None:
    """As docs/runbook.md says: look at what waits, cancel it, delete crons, then let runs be executed."""
    restore(valkey_url, "format_1.json.gz")
    async with served_app(valkey_url, carry_runs=False, max_wait_s=0) as client:
        await eventually(lambda: has_fired(inspector), "the cron has fired")
        assert await statuses(client, "waiting") == ["pending", "pending"]
        assert await statuses(client, "handed-over") == ["pending"]
        [(cron_run, *_)] = [one for one in members(inspector) if one[1] not in {"waiting", "handed-over"}]
        assert (await read(client, f"/runs/{cron_run}"))["status"] == "pending"
        assert (await client.post("/runs/cancel", json={"status": "all"})).status_code == 204
        for cron in (await client.post("/runs/crons/search", json={})).json():
            assert (await client.delete(f"/runs/crons/{cron['cron_id']}")).status_code in {200, 204}
    async with served_app(valkey_url, max_wait_s=0) as client:
        assert await statuses(client, "waiting") == ["interrupted", "interrupted"]
        assert await statuses(client, "handed-over") == ["interrupted"]
        assert len((await read(client, "/api/questions"))["questions"]) == 3, "questions start nothing"


def members(inspector: Any) -> list[tuple[str, str]]:
    """Run and thread of each unfinished run."""
    pairs = [member.decode().partition("\0") for member in inspector.zrange(keys.open_runs(), 0, -1)]
    return [(run, thread) for run, _, thread in pairs]
