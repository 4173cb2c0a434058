"""A process executes no more runs at once than its limit, whether submitted or delivered to it (X13)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from callsheet.server.app import Runtime, assemble
from callsheet.server.engine.execution import Redeliver
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.storage import Storage
from callsheet.storage.runs.records import RunRequest, request_fields
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from tests.doubles.waiting import eventually

RUNS = 7
MANY = 40
"""Runs, more than the default number of threads of asyncio on any machine."""
WORK_S = 0.02


class WordState(TypedDict):
    word: str


class CountingGraph:
    """A graph that counts its active runs, their highest number, and the finished runs."""

    def __init__(self) -> None:
        self.active = self.highest = self.done = 0

    def graphs(self) -> dict[str, Any]:
        builder = StateGraph(WordState)
        builder.add_node("step", self.node())
        builder.add_edge(START, "step")
        builder.add_edge("step", END)
        return {"crowd": builder.compile(name="crowd")}

    def node(self) -> Any:
        return self.step

    async def step(self, state: WordState) -> WordState:
        self.active += 1
        self.highest = max(self.highest, self.active)
        await asyncio.sleep(WORK_S)
        self.active -= 1
        self.done += 1
        return state


class BarrierGraph(CountingGraph):
    """A graph whose blocking runs end only once all of them have started."""

    def __init__(self) -> None:
        super().__init__()
        self._barrier = threading.Barrier(MANY)

    def blocking(self, state: WordState) -> WordState:
        self._barrier.wait(10)
        self.done += 1
        return state

    def node(self) -> Any:
        return self.blocking


@pytest.fixture
async def graph() -> CountingGraph:
    return CountingGraph()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as exit_stack:
        yield exit_stack


async def start_runtime(
    storage: Storage, stack: AsyncExitStack, graph: CountingGraph, **chosen: Any
) -> Runtime:
    """Start the runtime that a server and `callsheet worker` have."""
    return await assemble(storage, Settings(**chosen), graph.graphs(), stack, Telemetry())


async def submit_runs(runtime: Runtime, storage: Storage, count: int = RUNS) -> None:
    """Submit runs on threads of their own, all at once."""

    async def submit(number: int) -> None:
        thread = Thread(f"t{number}", "local", "crowd", "")
        await threads.bind(storage, thread)
        fields = request_fields(input={"word": "hello"})
        await runtime.worker.submit(RunRequest(thread.id, f"r{number}", "crowd", "local", fields))

    await asyncio.gather(*(submit(number) for number in range(count)))


async def all_done(graph: CountingGraph, count: int = RUNS) -> bool:
    return graph.done == count


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_server_executes_no_more_runs_at_once_than_its_limit(
    opened: Storage, stack: AsyncExitStack, graph: CountingGraph, limit: int
) -> None:
    """Submitted runs and runs that the queue delivers share the limit."""
    runtime = await start_runtime(opened, stack, graph, runs_at_once=limit)
    await submit_runs(runtime, opened)
    await eventually(lambda: all_done(graph), "the end of all runs")
    assert graph.highest <= limit


async def test_a_worker_executes_no_more_runs_at_once_than_its_limit(
    opened: Storage, stack: AsyncExitStack, graph: CountingGraph
) -> None:
    server = await start_runtime(opened, stack, graph, carry_runs=False, runs_at_once=64)
    await submit_runs(server, opened)
    assert graph.done == 0
    await start_runtime(opened, stack, graph, runs_at_once=2)
    await eventually(lambda: all_done(graph), "the end of all runs")
    assert graph.highest <= 2


async def test_blocking_nodes_run_in_parallel_up_to_the_limit_of_runs(
    opened: Storage, stack: AsyncExitStack
) -> None:
    """They are more than the default number of threads of asyncio."""
    graph = BarrierGraph()
    runtime = await assemble(opened, Settings(runs_at_once=2 * MANY), graph.graphs(), stack, Telemetry())
    await submit_runs(runtime, opened, MANY)
    await eventually(lambda: all_done(graph, MANY), "the end of all runs")


@pytest.mark.slow
async def test_one_worker_executes_all_queued_blocking_runs_in_parallel(
    opened: Storage, stack: AsyncExitStack
) -> None:
    """The worker takes runs from the queue one by one; a run that only waits does not delay the next."""
    graph = BarrierGraph()
    server = await start_runtime(opened, stack, graph, carry_runs=False)
    await submit_runs(server, opened, MANY)
    await start_runtime(opened, stack, graph)
    await eventually(lambda: all_done(graph, MANY), "the end of all runs")


class GatedGraph(CountingGraph):
    """A graph whose runs wait at their step until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def step(self, state: WordState) -> WordState:
        self.active += 1
        await self.gate.wait()
        self.done += 1
        return state


async def test_a_run_is_redelivered_and_not_claimed_if_no_slot_is_free(
    opened: Storage, stack: AsyncExitStack
) -> None:
    graph = GatedGraph()
    runtime = await start_runtime(opened, stack, graph, runs_at_once=1)
    await submit_runs(runtime, opened, 1)

    async def first_run_has_started() -> bool:
        return graph.active == 1

    await eventually(first_run_has_started, "the first run")
    await runtime.worker.runs.create(
        RunRequest("t9", "r9", "crowd", "local", request_fields(input={"word": ""}))
    )
    with pytest.raises(Redeliver, match="no slot is free"):
        await runtime.worker.execute("t9", "r9")
    assert await runtime.worker.runs.execution_state("t9", "r9") == "free"
    graph.gate.set()
    await runtime.worker.execute("t9", "r9")
    assert graph.done == 2
