"""`on_disconnect: cancel`: a run is cancelled when its client leaves, and for no other reason (X13)."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from callsheet.storage.embedded import watchdog
from tests.doubles.redis_server import RedisServer
from tests.doubles.waiting import eventually
from tests.doubles.wire_graphs import GRAPHS, PACE_S
from tests.doubles.wire_server import running_server

LEASE_S = 1.0
STEPS = int(3 / PACE_S)
"""Ticks of a run that takes three seconds."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Valkey that keeps its data over a restart."""
    one = RedisServer(watchdog.binary(), tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    one.start()
    yield one
    one.kill()


async def has_status(http: httpx.AsyncClient, place: str, status: str) -> bool:
    with suppress(httpx.TransportError):
        reply = await http.get(place)
        return bool(reply.status_code == 200 and reply.json()["status"] == status)
    return False


async def start_run(http: httpx.AsyncClient, way: str, url: str = "") -> tuple[httpx.Response, str]:
    """Start a run and follow it in one of the ways; return the open reply and the run's path."""
    thread = (await http.post(f"{url}/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "slow", "input": {"x": STEPS}, "on_disconnect": "cancel"}
    path = f"{url}/threads/{thread}/runs/{way}"
    reply = await http.send(http.build_request("POST", path, json=body), stream=True)
    assert reply.status_code == 200
    place = reply.headers["content-location"]
    await eventually(lambda: has_status(http, url + place, "running"), "the run is executed")
    return reply, place


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_an_outage_of_redis_is_not_the_clients_departure(server: RedisServer) -> None:
    """The server loses a stream and a wait; both runs go on to their ends in the other process."""
    with (
        running_server(server.url, GRAPHS, lease_s=LEASE_S),
        running_server(server.url, GRAPHS, lease_s=LEASE_S, carry_runs=False) as url,
    ):
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            both = await asyncio.gather(*(start_run(http, way) for way in ("stream", "wait")))
            server.kill()
            await asyncio.gather(*(reply.aread() for reply, _ in both), return_exceptions=True)
            server.start()
            for _, place in both:
                await eventually(partial(has_status, http, place, "success"), "its end", patience_s=30)


@pytest.mark.slow
async def test_a_server_that_stops_is_not_the_clients_departure(valkey_url: str) -> None:
    """It ends its streams; the client is there until then."""
    stopping = ExitStack()
    with running_server(valkey_url, GRAPHS) as other, stopping:
        url = stopping.enter_context(running_server(valkey_url, GRAPHS, carry_runs=False))
        async with httpx.AsyncClient(timeout=30) as http:
            reply, place = await start_run(http, "stream", url)
            reading = asyncio.create_task(reply.aread())
            await asyncio.to_thread(stopping.close)
            await asyncio.wait([reading])
            assert isinstance(reading.exception(), httpx.TransportError | None)
            await eventually(lambda: has_status(http, other + place, "success"), "the run ends well")


@pytest.mark.parametrize("way", ["stream", "wait"])
async def test_a_client_that_leaves_cancels_the_run(valkey_url: str, way: str) -> None:
    with running_server(valkey_url, GRAPHS) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            reply, place = await start_run(http, way)
            await reply.aclose()
            await eventually(lambda: has_status(http, place, "interrupted"), "the run is cancelled")


@pytest.mark.parametrize("way", ["stream", "join"])
async def test_a_client_that_joined_and_leaves_cancels_the_run_where_wanted(
    valkey_url: str, way: str
) -> None:
    with running_server(valkey_url, GRAPHS) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            thread = (await http.post("/threads", json={})).json()["thread_id"]
            body = {"assistant_id": "slow", "input": {"x": STEPS}}
            run = (await http.post(f"/threads/{thread}/runs", json=body)).json()["run_id"]
            place = f"/threads/{thread}/runs/{run}"
            path = f"{place}/{way}?cancel_on_disconnect=true"
            reply = await http.send(http.build_request("GET", path), stream=True)
            assert reply.status_code == 200
            await reply.aclose()
            await eventually(lambda: has_status(http, place, "interrupted"), "the run is cancelled")
