"""A process carries out no more runs at once than it may, whichever way they come to it (X13)."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from callsheet.server.assembly import Runtime, assemble
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
"""More than the threads that asyncio takes by itself, on any machine."""
WORK_S = 0.02


class Word(TypedDict):
    word: str


class Crowd:
    """A graph that knows how many are in it."""

    def __init__(self) -> None:
        self.inside = self.most = self.done = 0

    def graphs(self) -> dict[str, Any]:
        builder = StateGraph(Word)
        builder.add_node("step", self.node())
        builder.add_edge(START, "step")
        builder.add_edge("step", END)
        return {"crowd": builder.compile(name="crowd")}

    def node(self) -> Any:
        return self.step

    async def step(self, state: Word) -> Word:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(WORK_S)
        self.inside -= 1
        self.done += 1
        return state


class Blocking(Crowd):
    """A graph that nobody leaves before all are in it."""

    def __init__(self) -> None:
        super().__init__()
        self._all = threading.Barrier(MANY)

    def blocking(self, state: Word) -> Word:
        self._all.wait(10)
        self.done += 1
        return state

    def node(self) -> Any:
        return self.blocking


@pytest.fixture
async def crowd() -> Crowd:
    return Crowd()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as held:
        yield held


async def process(storage: Storage, stack: AsyncExitStack, crowd: Crowd, **chosen: Any) -> Runtime:
    """What a server and `callsheet worker` are made of."""
    return await assemble(storage, Settings(**chosen), crowd.graphs(), stack, Telemetry())


async def recorded(here: Runtime, storage: Storage, count: int = RUNS) -> None:
    """Record runs on threads of their own, all at the same moment."""

    async def one(number: int) -> None:
        thread = Thread(f"t{number}", "local", "crowd", "")
        await threads.bind(storage, thread)
        asked = request_fields(input={"word": "hello"})
        await here.worker.submit(RunRequest(thread.id, f"r{number}", "crowd", "local", asked))

    await asyncio.gather(*(one(number) for number in range(count)))


@pytest.mark.parametrize("most", [1, 3])
async def test_a_server_keeps_to_its_number_of_runs(
    opened: Storage, stack: AsyncExitStack, crowd: Crowd, most: int
) -> None:
    """What it records itself and what is brought to it count together."""
    here = await process(opened, stack, crowd, runs_at_once=most)
    await recorded(here, opened)
    await eventually(lambda: _done(crowd), "all have run")
    assert crowd.most <= most


async def test_a_worker_keeps_to_its_number_of_runs(
    opened: Storage, stack: AsyncExitStack, crowd: Crowd
) -> None:
    server = await process(opened, stack, crowd, carry_runs=False, runs_at_once=64)
    await recorded(server, opened)
    assert crowd.done == 0
    await process(opened, stack, crowd, runs_at_once=2)
    await eventually(lambda: _done(crowd), "all have run")
    assert crowd.most <= 2


async def test_nodes_that_block_run_beside_each_other(opened: Storage, stack: AsyncExitStack) -> None:
    """As many as runs may, whatever number of threads asyncio chooses for this machine."""
    crowd = Blocking()
    here = await assemble(opened, Settings(runs_at_once=2 * MANY), crowd.graphs(), stack, Telemetry())
    await recorded(here, opened, MANY)
    await eventually(lambda: _done(crowd, MANY), "all have met")


@pytest.mark.slow
async def test_runs_that_wait_all_go_at_once_in_one_worker(opened: Storage, stack: AsyncExitStack) -> None:
    """However gradually it takes them, none that only waits keeps it from the next."""
    crowd = Blocking()
    server = await process(opened, stack, crowd, carry_runs=False)
    await recorded(server, opened, MANY)
    await process(opened, stack, crowd)
    await eventually(lambda: _done(crowd, MANY), "all have met")


class Waiting(Crowd):
    """A graph that nobody leaves before it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = asyncio.Event()

    async def step(self, state: Word) -> Word:
        self.inside += 1
        await self.opened.wait()
        self.done += 1
        return state


async def test_a_run_without_a_free_slot_goes_to_another_process(
    opened: Storage, stack: AsyncExitStack
) -> None:
    crowd = Waiting()
    here = await process(opened, stack, crowd, runs_at_once=1)
    await recorded(here, opened, 1)

    async def has_begun() -> bool:
        return crowd.inside == 1

    await eventually(has_begun, "the first run")
    await here.worker.runs.create(
        RunRequest("t9", "r9", "crowd", "local", request_fields(input={"word": ""}))
    )
    with pytest.raises(Redeliver, match="no slot is free"):
        await here.worker.execute("t9", "r9")
    assert await here.worker.runs.execution_state("t9", "r9") == "free", "it was not claimed"
    crowd.opened.set()
    await here.worker.execute("t9", "r9")
    assert crowd.done == 2


async def _done(crowd: Crowd, count: int = RUNS) -> bool:
    return crowd.done == count
