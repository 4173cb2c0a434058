"""A process takes waiting runs as fast as it has the time for them, and leaves the others to the next one."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from callsheet.server.runtime.admission import CHECK_INTERVAL_S, UNCONDITIONAL_RUNS, LoadAdmission, LoadSample
from callsheet.server.runtime.docket_queue import DocketQueue
from callsheet.storage import Storage
from tests.waiting import eventually

RUNS = 9


def clock(late_s: float = 0, share: float = 0) -> Callable[[], LoadSample]:
    """A clock that shows a loop which is late after every breath, and nodes that need a processor."""
    ticks = itertools.count()

    def shown() -> LoadSample:
        at_s = next(ticks) * (CHECK_INTERVAL_S + late_s)
        return LoadSample(at_s, at_s * share)

    return shown


class Process:
    """A process whose runs last until it is told to end them."""

    def __init__(self) -> None:
        self.under_way: list[str] = []
        self._over = asyncio.Event()

    async def carry(self, thread: str, run: str) -> None:
        self.under_way.append(run)
        await self._over.wait()

    def end(self) -> None:
        self._over.set()


@asynccontextmanager
async def at_work(storage: Storage, pace: LoadAdmission) -> AsyncIterator[Process]:
    async with DocketQueue(storage, lease_s=10, pace=pace) as engine:
        here = Process()
        work = asyncio.create_task(engine.work(here.carry))
        try:
            yield here
        finally:
            here.end()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def submitted(storage: Storage, count: int = RUNS) -> None:
    async with DocketQueue(storage, lease_s=10, pace=LoadAdmission(1)) as engine:
        for number in range(count):
            await engine.submit(f"t{number}", f"r{number}")


@pytest.mark.parametrize("busy", [{"late_s": 0.005}, {"share": 0.5}], ids=["late", "computing"])
async def test_a_process_without_time_leaves_what_waits_to_others(
    storage: Storage, busy: dict[str, float]
) -> None:
    """It asks itself often enough to have taken all of it; then another process takes the rest."""
    shown: list[LoadSample] = []
    moments = clock(**busy)

    def watched() -> LoadSample:
        shown.append(moments())
        return shown[-1]

    await submitted(storage)
    async with at_work(storage, LoadAdmission(64, watched)) as first:
        await eventually(_holds(lambda: len(shown) > 4 * RUNS), "it has asked itself often")
        assert len(first.under_way) == UNCONDITIONAL_RUNS
        async with at_work(storage, LoadAdmission(64, clock())) as second:
            await eventually(
                _holds(lambda: len(second.under_way) == RUNS - UNCONDITIONAL_RUNS), "all are under way"
            )
            assert len(first.under_way) == UNCONDITIONAL_RUNS


def test_a_process_takes_no_more_than_it_may() -> None:
    pace = LoadAdmission(3, clock())
    assert [pace.has_capacity(here) for here in (0, 0, 2, 2, 3, 3, 3, 2)] == [False, True] * 2 + [
        False
    ] * 3 + [True]


def _holds(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def held() -> bool:
        return condition()

    return held
