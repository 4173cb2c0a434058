"""Commands sent again after a lost reply: each happens once and has the same answer."""

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
"""A lease lives longer, so that no run waits for the end of one."""


@pytest.fixture
async def proxy(tmp_path: Path, valkey_url: str) -> AsyncIterator[CountingProxy]:
    """A proxy that loses the first reply to every request, and delivers the second."""
    answered: set[bytes] = set()

    def loses_first_reply(request: bytes) -> bool:
        new = bool(request) and request not in answered
        answered.add(request)
        return new

    async with CountingProxy(tmp_path, valkey_url) as one:
        one.loses_reply = loses_first_reply
        yield one


@pytest.fixture
async def storage(proxy: CountingProxy) -> AsyncIterator[Storage]:
    async with connect(f"unix://{proxy.socket}") as opened:
        yield opened


@pytest.fixture
async def app(proxy: CountingProxy) -> AsyncIterator[FastAPI]:
    application = create_app(Settings(redis_url=f"unix://{proxy.socket}"), GRAPHS)
    async with application.router.lifespan_context(application):
        yield application


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with app_client(app, timeout=PROMPT_S) as one:
        yield one


@pytest.fixture
def runs(storage: Storage) -> Runs:
    return Runs(storage)


async def create_thread(http: httpx.AsyncClient) -> str:
    reply = await http.post("/threads", json={})
    assert reply.status_code == 200, reply.text
    return f"/threads/{reply.json()['thread_id']}"


async def request(http: httpx.AsyncClient, path: str, **body: Any) -> Any:
    reply = await (http.post(path, json=body) if body else http.get(path))
    assert reply.is_success, reply.text
    return reply.json()


def run_request(fingerprint: str = "", strategy: Any = "enqueue") -> RunRequest:
    fields = request_fields(input={"x": 1})
    return RunRequest("t", new_id(), "counter", LOCAL, fields, fingerprint=fingerprint, strategy=strategy)


async def start_attempt(runs: Runs, fingerprint: str = "") -> RunAttempt:
    attempt = await runs.claim("t", (await runs.create(run_request(fingerprint))).run)
    assert isinstance(attempt, RunAttempt)
    return attempt


async def test_a_run_executes_once_and_its_events_are_streamed_once(http: httpx.AsyncClient) -> None:
    """X8: a connection may break after the command and before its answer."""
    thread = await create_thread(http)
    async with asyncio.timeout(PROMPT_S):
        assert (await request(http, f"{thread}/runs/wait", **COUNT))["x"] == 4
        stream = await http.post(f"{thread}/runs/stream", json=COUNT | {"stream_mode": ["updates"]})
    assert [stream.text.count(f"event: {name}") for name in ("metadata", "updates")] == [1, 3]
    assert len(await request(http, f"{thread}/runs")) == 2
    assert len(await request(http, f"{thread}/history")) == 10


async def test_an_answer_resumes_its_interrupted_run(http: httpx.AsyncClient) -> None:
    thread = await create_thread(http)
    async with asyncio.timeout(PROMPT_S):
        assert "__interrupt__" in await request(http, f"{thread}/runs/wait", **TALK)
        answer = {"assistant_id": "agent", "command": {"resume": {"type": "approve"}}}
        done = await request(http, f"{thread}/runs/wait", **answer)
    assert (done["steps"], done["decision"]) == (["plan", "review", "finish"], {"type": "approve"})


async def test_queued_runs_all_succeed(http: httpx.AsyncClient) -> None:
    thread = await create_thread(http)
    async with asyncio.timeout(PROMPT_S):
        requests = [request(http, f"{thread}/runs/wait", **COUNT) for _ in range(4)]
        await asyncio.gather(*requests)
    assert [run["status"] for run in await request(http, f"{thread}/runs")] == ["success"] * 4


@pytest.mark.parametrize(("action", "statuses"), [("interrupt", ["interrupted"]), ("rollback", [])])
async def test_a_run_is_cancelled_once(http: httpx.AsyncClient, action: str, statuses: list[str]) -> None:
    thread = await create_thread(http)
    first = await request(http, f"{thread}/runs", **SLOW)
    second = await request(http, f"{thread}/runs", **SLOW)
    async with asyncio.timeout(PROMPT_S):
        for run in (second, first):
            options = {"action": action, "wait": "true"}
            reply = await http.post(f"{thread}/runs/{run['run_id']}/cancel", params=options)
            assert reply.is_success, reply.text
    assert [run["status"] for run in await request(http, f"{thread}/runs")] == statuses * 2


async def test_a_run_is_deleted_once_and_is_404_after_that(http: httpx.AsyncClient) -> None:
    thread = await create_thread(http)
    await request(http, f"{thread}/runs/wait", **COUNT)
    [run] = await request(http, f"{thread}/runs")
    path = f"{thread}/runs/{run['run_id']}"
    assert (await http.delete(path)).status_code == 204
    assert (await http.delete(path)).status_code == 404


async def test_a_finished_attempt_hands_its_thread_to_the_next_run(runs: Runs) -> None:
    first = await start_attempt(runs)
    waiting = await runs.create(run_request())
    assert waiting.verdict == "queued"
    assert await runs.record_crash(first, "c1") == 1, "itself, should it die"
    assert await runs.finish(first, RunOutcome("success")) == waiting.run
    second = await runs.claim("t", waiting.run)
    assert isinstance(second, RunAttempt)
    assert (second.number, second.epoch) == (1, first.epoch + 1)
    assert await runs.finish(second, RunOutcome("success")) == ""


async def test_a_failed_run_is_continued_by_an_equal_request(runs: Runs) -> None:
    same = "f" * 64
    failed = await start_attempt(runs, same)
    await runs.finish(failed, RunOutcome("error"))
    again = await runs.create(run_request(same))
    assert (again.verdict, again.run) == ("start", failed.run)


async def test_a_cancelled_run_hands_its_thread_to_the_next_run(runs: Runs) -> None:
    first, second = run_request(), run_request()
    await runs.create(first)
    await runs.create(second)
    assert await runs.cancel("t", first.id, "interrupt") == ("ended", second.id)


async def test_a_thread_is_held_by_one_change_at_a_time(storage: Storage) -> None:
    await threads.create(storage, NewThread("t", LOCAL, "counter"))
    async with threads.hold(storage, "t", LOCAL):
        with pytest.raises(Busy):
            await threads.hold(storage, "t", LOCAL).__aenter__()
    async with threads.hold(storage, "t", LOCAL):
        pass


async def test_an_external_effect_happens_once_and_its_outcome_is_certain(opened: Storage) -> None:
    effects = []

    async def send(args: Any, call: Any) -> dict[str, Any]:
        effects.append(args)
        return {"sent": True}

    outcome = await guard.call(registry_with_tool(send, outside=True), step(), SCOPE)
    assert (outcome.ok, len(effects)) == (True, 1)


async def test_a_draft_is_deleted_without_an_error(storage: Storage) -> None:
    ad = Artefact(storage, "ad", "kopi", LOCAL)
    await ad.open(owner=LOCAL, thread="t", facts={})
    for text in ("calm", "bright"):
        await ad.create_version(NewVersion("music", {"musicPrompt": text}, "user", "b"))
    await ad.delete_draft("music", "v2")
    assert [version.id for version in (await ad.stream("music")).versions] == ["v1"]


async def test_an_assistant_is_created_and_changed_once(http: httpx.AsyncClient) -> None:
    assistant = await request(http, "/assistants", graph_id="counter", name="mine")
    path = f"/assistants/{assistant['assistant_id']}"
    changed = (await http.patch(path, json={"name": "ours"})).json()
    assert (changed["version"], changed["name"]) == (2, "ours")
    assert len(await request(http, f"{path}/versions", limit=10)) == 2


async def test_a_deleted_thread_is_imported_from_its_file(http: httpx.AsyncClient) -> None:
    thread = await create_thread(http)
    await request(http, f"{thread}/runs/wait", **COUNT)
    file = await http.get(f"/api{thread}/export")
    assert (await http.delete(thread)).status_code == 204
    reply = await http.post("/api/threads/import", content=file.content)
    assert reply.status_code == 201, reply.text
    assert (await request(http, f"{thread}/state"))["values"]["x"] == 4
