"""What happens between a look and an act: nothing is lost by it, left behind, or done unasked (X8)."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from server.app import create_app
from server.parts import Parts
from server.settings import Settings
from storage import keys, thread_records
from storage.thread_records import New
from tests.served import calling
from tests.waiting import eventually
from tests.wire_graphs import GRAPHS
from tests.wire_served import anew

COUNT: dict[str, Any] = {"assistant_id": "counter", "input": {"x": 1}}


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[FastAPI]:
    made = create_app(Settings(redis_url=valkey_url), GRAPHS)
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture
def here(app: FastAPI) -> Parts:
    found: Parts = app.state.parts
    return found


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(app) as client:
        yield client


async def threaded(here: Parts, **chosen: Any) -> str:
    thread = anew()
    await thread_records.create(here.storage, New(thread, "local", "counter", **chosen))
    return thread


async def left(here: Parts, thread: str) -> list[bytes]:
    return [key async for key in here.storage.redis.scan_iter(f"*{keys.tagged(thread)}*")]


async def test_a_run_waits_for_whoever_holds_its_thread(http: httpx.AsyncClient, here: Parts) -> None:
    """Its state is being changed by hand, or it is being taken away."""
    thread = await threaded(here)
    async with thread_records.held(here.storage, thread, "local"):
        run = (await http.post(f"/threads/{thread}/runs", json=COUNT)).json()["run_id"]
        assert (await here.worker.runs.get(thread, run)).status == "pending"
    assert (await http.get(f"/threads/{thread}/runs/{run}/join")).json()["x"] == 4


async def test_no_run_is_made_on_a_thread_that_went_while_it_was_looked_at(
    http: httpx.AsyncClient, here: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, thread = here.worker.start, await threaded(here, metadata={"graph_id": "counter"})

    async def late(*asked: Any) -> Any:
        await http.delete(f"/threads/{thread}")
        return await start(*asked)

    monkeypatch.setattr(here.worker, "start", late)
    reply = await http.post(f"/threads/{thread}/runs", json=COUNT)
    assert reply.status_code == 404, reply.text
    assert await left(here, thread) == []


async def test_a_run_that_is_recorded_while_its_thread_goes_goes_with_it(
    http: httpx.AsyncClient, here: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, runs, redis = await threaded(here), here.worker.runs, here.storage.redis
    remove, listed = thread_records.remove, redis.zrange
    made: list[str] = []

    async def another() -> None:
        made.append((await http.post(f"/threads/{thread}/runs", json=COUNT)).json()["run_id"])

    async def late(*asked: Any) -> None:
        await another()
        await remove(*asked)

    async def later(name: str, *asked: Any, **more: Any) -> Any:
        found = await listed(name, *asked, **more)
        if name == keys.run_keys(thread).runs:
            await another()
        return found

    monkeypatch.setattr(thread_records, "remove", late)
    monkeypatch.setattr(redis, "zrange", later)
    assert (await http.delete(f"/threads/{thread}")).status_code == 204
    assert await left(here, thread) == []
    for run in made:
        await runs.look_later(thread, run, 0)

    async def forgotten() -> bool:
        return not await runs._all_open()

    await eventually(forgotten, "the end of what was begun for them")
