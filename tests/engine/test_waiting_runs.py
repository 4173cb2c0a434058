"""More runs than can be executed: bounds, turns by owner, a longest wait, and clients that leave (X13)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langgraph.graph import START, StateGraph
from redis import Redis
from typing_extensions import TypedDict

from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from callsheet.storage import Storage
from callsheet.storage.runs.waiting import WaitingLimits, WaitingRuns
from tests.doubles.auth_cases import bearer, create_key
from tests.doubles.chat_double import ChatDouble, Silence
from tests.doubles.served import GENERATE, app_client
from tests.doubles.waiting import eventually


class WordInput(TypedDict):
    word: str


class GateGraph:
    """A graph whose runs wait until the gate opens, and then record their words in order."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.words: list[str] = []
        builder = StateGraph(WordInput).add_node("step", self.step).add_edge(START, "step")
        self.graphs: dict[str, Any] = {"gated": builder.compile(name="gated")}

    async def step(self, state: WordInput) -> WordInput:
        await self.gate.wait()
        self.words.append(state["word"])
        return state

    async def has_run(self, count: int) -> bool:
        return len(self.words) == count


class Owner:
    """Requests of one owner."""

    def __init__(self, http: httpx.AsyncClient, headers: dict[str, str]) -> None:
        self._http = http
        self._headers = headers

    async def run(self, word: str) -> httpx.Response:
        """Start a run in the background, on a thread of its own."""
        body = {"assistant_id": "gated", "input": {"word": word}, "if_not_exists": "create"}
        return await self._http.post(f"/threads/t-{word}/runs", json=body, headers=self._headers)


@pytest.fixture
async def gated() -> GateGraph:
    return GateGraph()


class TwoOwners:
    """A server that executes one run at a time, and two owners."""

    def __init__(self, http: httpx.AsyncClient, ana: Owner, bob: Owner) -> None:
        self.http, self.ana, self.bob = http, ana, bob


@pytest.fixture
async def served(valkey_url: str, opened: Storage, gated: GateGraph) -> AsyncIterator[TwoOwners]:
    settings = Settings(
        redis_url=valkey_url,
        auth=("keys",),
        runs_at_once=1,
        max_waiting_of_owner=4,
        max_waiting_runs=6,
    )
    app = create_app(settings, gated.graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        owners = [Owner(http, bearer(await create_key(opened, name))) for name in ("ana", "bob")]
        yield TwoOwners(http, *owners)
        gated.gate.set()


async def test_runs_beyond_the_bounds_are_refused_with_429_before_they_are_stored(
    served: TwoOwners, gated: GateGraph
) -> None:
    for number in range(5):
        assert (await served.ana.run(f"a{number}")).status_code == 200
    refused = await served.ana.run("a5")
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) >= 1
    assert "CALLSHEET_MAX_WAITING_OF_OWNER" in refused.json()["detail"]
    replies = [await served.bob.run(f"b{number}") for number in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert "CALLSHEET_MAX_WAITING_RUNS" in replies[-1].json()["detail"]
    gated.gate.set()
    await eventually(lambda: gated.has_run(7), "the end of the runs that were stored")
    assert (await served.ana.run("a6")).status_code == 200, "there is room again"
    await eventually(lambda: gated.has_run(8), "the end of the last run")
    assert {"a5", "b2"}.isdisjoint(gated.words)


async def test_owners_take_turns_so_that_a_flood_of_one_delays_no_other(
    served: TwoOwners, gated: GateGraph
) -> None:
    for number in range(5):
        await served.ana.run(f"a{number}")
    for number in range(2):
        await served.bob.run(f"b{number}")
    gated.gate.set()
    await eventually(lambda: gated.has_run(7), "the end of all runs")
    assert max(gated.words.index("b0"), gated.words.index("b1")) <= 4, gated.words


async def test_a_run_that_is_cancelled_while_it_waits_makes_room(served: TwoOwners, gated: GateGraph) -> None:
    for number in range(5):
        created = (await served.ana.run(f"a{number}")).json()
    headers = served.ana._headers
    path = f"/threads/{created['thread_id']}/runs/{created['run_id']}/cancel"
    assert (await served.http.post(path, json={}, headers=headers)).status_code == 202

    async def has_room() -> bool:
        return (await served.ana.run("next")).status_code == 200

    await eventually(has_room, "room for another run")
    gated.gate.set()
    await eventually(lambda: gated.has_run(5), "the end of the others")


async def test_a_run_that_waits_for_too_long_ends_with_an_error(valkey_url: str, gated: GateGraph) -> None:
    app = create_app(Settings(redis_url=valkey_url, runs_at_once=1, max_wait_s=0.5), gated.graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        owner = Owner(http, {})
        await owner.run("first")
        late = (await owner.run("late")).json()

        async def error() -> Any:
            path = f"/threads/{late['thread_id']}/runs/{late['run_id']}/join"
            return (await http.get(path)).json()

        result = await error()
        assert result["__error__"]["error"] == "TimedOut"
        assert "waited for a process for longer than 0.5 s" in result["__error__"]["message"]
        gated.gate.set()
        await eventually(lambda: gated.has_run(1), "the end of the first")


async def test_a_result_that_no_process_would_make_is_refused_with_503(
    valkey_url: str, gated: GateGraph
) -> None:
    settings = Settings(redis_url=valkey_url, carry_runs=False, executor_patience_s=0.3)
    app = create_app(settings, gated.graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        body = {"assistant_id": "gated", "input": {"word": "x"}}
        for path in ("/runs/wait", "/runs/stream"):
            refused = await http.post(path, json=body)
            assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
            assert "callsheet worker" in refused.json()["detail"]
        accepted = await http.post("/runs", json=body)
        assert accepted.status_code == 200, "a run in the background may wait for a worker"


async def test_a_waiting_request_whose_client_has_left_is_not_started(
    valkey_url: str, model: ChatDouble, inspector: "Redis"
) -> None:
    model.script(Silence(), Silence())
    app = create_app(Settings(redis_url=valkey_url, runs_at_once=1, stop_grace_s=0))
    async with app.router.lifespan_context(app), app_client(app) as http:
        worker = app.state.context.worker
        body = {**GENERATE, "provider": "openai"}
        first = asyncio.create_task(http.post("/api/ai/generate", json=body))

        async def is_busy() -> bool:
            return bool(worker.executions)

        await eventually(is_busy, "the first run has begun")
        scope_left = asyncio.Event()
        second = asyncio.create_task(_post_and_leave(app, {**body, "adId": "ad-2"}, scope_left))

        async def waits() -> bool:
            return bool(await worker.turns.waiting.count())

        await eventually(waits, "the second run waits")
        scope_left.set()
        await asyncio.wait_for(second, 20)
        [run] = await worker.runs.list_runs("ad-2")
        assert run.status == "interrupted"
        assert not await waits()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def _post_and_leave(app: Any, body: Any, left: asyncio.Event) -> None:
    """Send a request to the application, whose client leaves on the event."""
    transport = httpx.ASGITransport(app=_Leaving(app, left), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:2024", timeout=30) as http:
        await http.post("/api/ai/generate", json=body)


class _Leaving:
    """An application whose client leaves on the event, once its request was read."""

    def __init__(self, app: Any, left: asyncio.Event) -> None:
        self._app, self._left = app, left

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_read = False

        async def receive_until_left() -> Any:
            nonlocal is_read
            if not is_read:
                message = await receive()
                is_read = not message.get("more_body")
                return message
            await self._left.wait()
            return {"type": "http.disconnect"}

        await self._app(scope, receive_until_left, send)


async def test_owners_are_served_in_turn_also_when_one_comes_later(opened: Storage) -> None:
    waiting = WaitingRuns(opened, WaitingLimits())
    for name in ("a1", "a2", "a3"):
        await waiting.add(name, name, "ana", "g")
    await waiting.add("b1", "b1", "bob", "g")
    turns = [await waiting.take_turn(name, name, ["g"]) for name in ("a1", "a2", "a3", "b1")]
    assert [turn.run for turn in turns] == [("a1", "a1"), ("b1", "b1"), ("a2", "a2"), ("a3", "a3")]
    assert [turn.was_taken for turn in turns] == [False, False, False, True]
    assert await waiting.count() == 0


async def test_a_process_takes_no_turn_for_a_graph_that_it_does_not_serve(opened: Storage) -> None:
    waiting = WaitingRuns(opened, WaitingLimits())
    await waiting.add("a1", "a1", "ana", "other")
    await waiting.add("b1", "b1", "bob", "g")
    assert (await waiting.take_turn("b1", "b1", ["g"])).run == ("b1", "b1")
    assert await waiting.count() == 1


async def test_metrics_show_how_many_runs_wait_and_were_refused_and_why_runs_failed(
    valkey_url: str, gated: GateGraph
) -> None:
    settings = Settings(redis_url=valkey_url, runs_at_once=1, max_waiting_of_owner=1, max_wait_s=0.5)
    app = create_app(settings, gated.graphs)
    async with app.router.lifespan_context(app), app_client(app) as http:
        owner = Owner(http, {})
        for word in ("runs", "waits", "refused"):
            await owner.run(word)

        async def figures() -> dict[str, float]:
            lines = [line for line in (await http.get("/metrics")).text.splitlines() if line[0] != "#"]
            return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

        assert (await figures())["callsheet_runs_waiting"] == 1
        assert (await figures())["callsheet_runs_oldest_wait_seconds"] > 0
        assert (await figures())['callsheet_runs_refused_total{bound="owner"}'] == 1
        failed = 'callsheet_run_failures_total{graph="gated",kind="TimedOut"}'

        async def has_failed() -> bool:
            return (await figures()).get(failed) == 1

        await eventually(has_failed, "the end of the run that waited for too long")
        assert (await figures())["callsheet_runs_waiting"] == 0
        gated.gate.set()
        await eventually(lambda: gated.has_run(1), "the end of the first run")
        assert (await figures())['callsheet_run_wait_seconds_count{graph="gated"}'] == 1
