"""An export whose storage fails while it is read: a client can see that it is incomplete."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from callsheet.storage import connect
from callsheet.storage.campaigns.library import own_library
from callsheet.storage.embedded import watchdog
from tests.doubles.campaigns import campaign
from tests.doubles.redis_server import RedisServer
from tests.doubles.redis_server import running_redis as redis_running
from tests.doubles.wire_server import running_server

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(120)]
ROWS = 3_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_running(watchdog.binary(), tmp_path) as one:
        yield one


async def test_a_client_notices_an_export_that_breaks_off(server: RedisServer) -> None:
    """X13: the connection closes without the end of the chunked body, which every HTTP client reports."""
    async with connect(server.url) as storage:
        text = "words " * 1_500
        library = await own_library(storage, "local")
        await library.put([campaign(f"c-{n}", full_campaign_text=text) for n in range(ROWS)])
    with running_server(server.url, None) as url:
        complete = await asyncio.to_thread(httpx.get, f"{url}/api/campaigns/export", timeout=120)
        assert complete.text.count("\r\n") == 1 + ROWS
        async with httpx.AsyncClient(base_url=url, timeout=120) as http:
            await _read_while_storage_fails(http, server)
            # Before it begins, a failure has a status.
            assert (await http.get("/api/campaigns/export")).status_code == 503


async def _read_while_storage_fails(http: httpx.AsyncClient, server: RedisServer) -> None:
    async with http.stream("GET", "/api/campaigns/export") as reply:
        assert reply.status_code == 200
        parts = reply.aiter_bytes()
        assert await anext(parts)
        server.kill()
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            _ = [part async for part in parts]
