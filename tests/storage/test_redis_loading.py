"""A Redis that reads its file after a start: a server that starts meanwhile waits for it."""

import asyncio
import logging
import secrets
from pathlib import Path

import pytest
from redis import Redis

from callsheet.storage import connect
from callsheet.storage.embedded import watchdog
from tests.doubles.redis_server import RedisServer

KEYS = 400
SLOWLY = (
    *("--key-load-delay", "5000"),
    *("--loading-process-events-interval-bytes", "1024"),
    *("--dbfilename", "dump.rdb"),
)


async def test_a_start_waits_while_redis_loads_its_data(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It had ended with an error, and whoever started it had to do so again."""
    caplog.set_level(logging.INFO)
    first = RedisServer(watchdog.binary(), tmp_path, "--dbfilename", "dump.rdb")
    first.start()
    with Redis(port=first.port) as client:
        client.mset({f"key-{number}": secrets.token_bytes(2_000) for number in range(KEYS)})
        client.save()
    first.kill()
    second = RedisServer(watchdog.binary(), tmp_path, *SLOWLY)
    await asyncio.to_thread(second.start)
    try:
        with Redis(port=second.port) as client:
            assert client.info("persistence")["loading"] == 1
        async with connect(second.url) as storage:
            assert len(await storage.redis.get("key-7")) == 2_000
            assert await storage.redis.dbsize() == KEYS
        lines = [one for one in caplog.messages if "is loading its data" in one]
        assert len(lines) == 1
    finally:
        second.kill()
