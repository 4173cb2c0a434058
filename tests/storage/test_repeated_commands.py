"""A command whose answer is lost is sent again: what arrives twice happens once, and is answered alike."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Busy
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage, connect
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.runs.records import RunAttempt, RunOutcome, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread
from callsheet.tools.guard import guard
from tests.doubles.served import app_client
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_served import new_id
from tests.guard.guarded import SCOPE, registry_with_tool, step
from tests.storage.saver_proxy import CountingProxy

COUNT: dict[str, Any] = {"assistant_id": "counter", "input": {"x": 1}}
SLOW: dict[str, Any] = {"assistant_id": "slow", "input": {"x": 100}}
TALK: dict[str, Any] = {"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go"}]}}
# A connection of redis-py that is cut while it connects is left to be collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PROMPT_S = 9.0
"""No lease has run out by then: nothing waits for one."""


@pytest.fixture
async def proxy(tmp_path: Path, valkey_url: str) -> AsyncIterator[CountingProxy]:
    """Loses the answer to all that is asked for the first time; what is sent again is answered."""
    known: set[bytes] = set()

    def losing(asked: bytes) -> bool:
        new = bool(asked) and asked not in known
        known.add(asked)
        return new

    async with CountingProxy(tmp_path, valkey_url) as one:
        one.losing = losing
        yield one


@pytest.fixture
async def storage(proxy: CountingProxy) -> AsyncIterator[Storage]:
    async with connect(f"unix://{proxy.socket}") as opened:
        yield opened


@pytest.fixture
async def app(proxy: CountingProxy) -> AsyncIterator[FastAPI]:
    registry_with_tool = create_app(Settings(redis_url=f"unix://{proxy.socket}"), GRAPHS)
    async with registry_with_tool.router.lifespan_context(registry_with_tool):
        yield registry_with_tool


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app, timeout=PROMPT_S) as one:
        yield one


@pytest.fixture
def runs(storage: Storage) -> Runs:
    return Runs(storage)


async def threaded(http: httpx.AsyncClient) -> str:
    reply = await http.post("/threads", json={})
    assert reply.status_code == 200, reply.text
    return f"/threads/{reply.json()['thread_id']}"


async def shown(http: httpx.AsyncClient, path: str, **body: Any) -> Any:
    reply = await (http.post(path, json=body) if body else http.get(path))
    assert reply.is_success, reply.text
    return reply.json()


def wanted(fingerprint: str = "", strategy: Any = "enqueue") -> RunRequest:
    asked = request_fields(input={"x": 1})
    return RunRequest("t", new_id(), "counter", LOCAL, asked, fingerprint=fingerprint, strategy=strategy)


async def begun(runs: Runs, fingerprint: str = "") -> RunAttempt:
    attempt = await runs.claim("t", (await runs.create(wanted(fingerprint))).run)
    assert isinstance(attempt, RunAttempt)
    return attempt


async def test_a_run_is_carried_out_at_once_and_told_of_once(http: httpx.AsyncClient) -> None:
    """X8: a connection may break after the command and before its answer."""
    thread = await threaded(http)
    async with asyncio.timeout(PROMPT_S):
        assert (await shown(http, f"{thread}/runs/wait", **COUNT))["x"] == 4
        told = await http.post(f"{thread}/runs/stream", json=COUNT | {"stream_mode": ["updates"]})
    assert [told.text.count(f"event: {name}") for name in ("metadata", "updates")] == [1, 3]
    assert len(await shown(http, f"{thread}/runs")) == 2
    assert len(await shown(http, f"{thread}/history")) == 10


async def test_an_answer_goes_on_with_what_it_answers(http: httpx.AsyncClient) -> None:
    thread = await threaded(http)
    async with asyncio.timeout(PROMPT_S):
        assert "__interrupt__" in await shown(http, f"{thread}/runs/wait", **TALK)
        answer = {"assistant_id": "agent", "command": {"resume": {"type": "approve"}}}
        done = await shown(http, f"{thread}/runs/wait", **answer)
    assert (done["steps"], done["decision"]) == (["plan", "review", "finish"], {"type": "approve"})


async def test_runs_that_wait_for_each_other_all_have_their_turn(http: httpx.AsyncClient) -> None:
    thread = await threaded(http)
    async with asyncio.timeout(PROMPT_S):
        asked = [shown(http, f"{thread}/runs/wait", **COUNT) for _ in range(4)]
        await asyncio.gather(*asked)
    assert [run["status"] for run in await shown(http, f"{thread}/runs")] == ["success"] * 4


@pytest.mark.parametrize(("action", "left"), [("interrupt", ["interrupted"]), ("rollback", [])])
async def test_a_run_is_cancelled_once(http: httpx.AsyncClient, action: str, left: list[str]) -> None:
    thread = await threaded(http)
    first = await shown(http, f"{thread}/runs", **SLOW)
    second = await shown(http, f"{thread}/runs", **SLOW)
    async with asyncio.timeout(PROMPT_S):
        for run in (second, first):
            way = {"action": action, "wait": "true"}
            reply = await http.post(f"{thread}/runs/{run['run_id']}/cancel", params=way)
            assert reply.is_success, reply.text
    assert [run["status"] for run in await shown(http, f"{thread}/runs")] == left * 2


async def test_a_run_is_deleted_and_not_missed(http: httpx.AsyncClient) -> None:
    thread = await threaded(http)
    await shown(http, f"{thread}/runs/wait", **COUNT)
    [run] = await shown(http, f"{thread}/runs")
    path = f"{thread}/runs/{run['run_id']}"
    assert (await http.delete(path)).status_code == 204
    assert (await http.delete(path)).status_code == 404


async def test_an_attempt_keeps_its_thread_and_hands_it_on(runs: Runs) -> None:
    first = await begun(runs)
    waiting = await runs.create(wanted())
    assert waiting.verdict == "queued"
    assert await runs.record_crash(first, "c1") == 1, "itself, should it die"
    assert await runs.finish(first, RunOutcome("success")) == waiting.run
    second = await runs.claim("t", waiting.run)
    assert isinstance(second, RunAttempt)
    assert (second.number, second.epoch) == (1, first.epoch + 1)
    assert await runs.finish(second, RunOutcome("success")) == ""


async def test_a_run_that_failed_is_gone_on_with_by_who_asks_again(runs: Runs) -> None:
    same = "f" * 64
    failed = await begun(runs, same)
    await runs.finish(failed, RunOutcome("error"))
    again = await runs.create(wanted(same))
    assert (again.verdict, again.run) == ("start", failed.run)


async def test_a_cancelled_run_hands_its_thread_on(runs: Runs) -> None:
    first, second = wanted(), wanted()
    await runs.create(first)
    await runs.create(second)
    assert await runs.cancel("t", first.id, "rollback") == ("ended", second.id)


async def test_a_thread_that_is_changed_is_held_once(storage: Storage) -> None:
    await threads.create(storage, NewThread("t", LOCAL, "counter"))
    async with threads.hold(storage, "t", LOCAL):
        with pytest.raises(Busy):
            await threads.hold(storage, "t", LOCAL).__aenter__()
    async with threads.hold(storage, "t", LOCAL):
        pass


async def test_an_effect_outside_is_made_and_asks_nobody(opened: Storage) -> None:
    made_so_far = []

    async def send(args: Any, call: Any) -> dict[str, Any]:
        made_so_far.append(args)
        return {"sent": True}

    outcome = await guard.call(registry_with_tool(send, outside=True), step(), SCOPE)
    assert (outcome.ok, len(made_so_far)) == (True, 1)


async def test_a_draft_is_deleted_and_not_missed(storage: Storage) -> None:
    ad = Artefact(storage, "ad", "kopi", LOCAL)
    for text in ("calm", "bright"):
        await ad.create_version(NewVersion("music", {"musicPrompt": text}, "user", "b"))
    await ad.delete_draft("music", "v2")
    assert [version.id for version in (await ad.stream("music")).versions] == ["v1"]


async def test_an_assistant_is_made_and_changed_once(http: httpx.AsyncClient) -> None:
    assistant = await shown(http, "/assistants", graph_id="counter", name="mine")
    path = f"/assistants/{assistant['assistant_id']}"
    changed = (await http.patch(path, json={"name": "ours"})).json()
    assert (changed["version"], changed["name"]) == (2, "ours")
    assert len(await shown(http, f"{path}/versions", limit=10)) == 2


async def test_a_thread_is_brought_back_from_its_file(http: httpx.AsyncClient) -> None:
    thread = await threaded(http)
    await shown(http, f"{thread}/runs/wait", **COUNT)
    file = await http.get(f"/api{thread}/export")
    assert (await http.delete(thread)).status_code == 204
    reply = await http.post("/api/threads/import", content=file.content)
    assert reply.status_code == 201, reply.text
    assert (await shown(http, f"{thread}/state"))["values"]["x"] == 4
