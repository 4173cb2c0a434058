"""The cost of the guard: a tool without an effect, called through the guard with all checks, and directly.

Both take turns, on the bench's own embedded Valkey and in the server's kind of event loop; a test
counts the round trips.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from bench import size
from callsheet import storage
from callsheet.server.engine import process
from callsheet.state.plan import Step
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools.call import Call, Scope
from callsheet.tools.guard import guard
from callsheet.tools.policy import ToolOptions
from callsheet.tools.registry import index, tool

CALLS: Final = size(2_000, short=20)
_WARM: Final = size(100, short=2)
_TERMS: Final = ToolOptions(calls=100_000)
"""Otherwise the rate limit would be measured."""


class NoOpArguments(BaseModel):
    """Arguments of the tools."""

    n: int


@tool(schema=NoOpArguments, display="Doing nothing", permissions=("nothing",), options=_TERMS)
async def look(args: NoOpArguments, call: Call) -> dict[str, Any]:
    """Return the argument."""
    del call
    return {"n": args.n}


@tool(
    schema=NoOpArguments, display="Doing nothing", permissions=("nothing",), writes=("music",), options=_TERMS
)
async def change(args: NoOpArguments, call: Call) -> dict[str, Any]:
    """Return the argument; may write a stream, but writes nothing."""
    del call
    return {"n": args.n}


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
        return process.run_event_loop(_measure(Path(folder)))


async def _measure(folder: Path) -> int:
    print(f"{'':<30}{'p50':>9}{'p95':>9}{'p99':>9}{'CPU':>9}   bare p50    ratio")
    async with storage.connect(data_dir=folder) as opened:
        storage.use(opened)
        process.tune_garbage_collection()
        for name, item in (("look-up, remembered after", look), ("tool with an effect", change)):
            guarded, bare, spent_s = await _compare(item, opened)
            cuts = [cut * 1000 for cut in statistics.quantiles(guarded, n=100)]
            floor = statistics.median(bare) * 1000
            row = f"{cuts[49]:>6.2f} ms{cuts[94]:>6.2f} ms{cuts[98]:>6.2f} ms{spent_s * 1000:>6.2f} ms"
            print(f"{name:<30}{row}{floor:>8.4f} ms{cuts[49] / floor:>8.0f}x")
        print(f"{'two empty round trips':<30}{await _floor_ms(opened):>6.2f} ms")
        storage.use(None)
    print(f"{CALLS} calls each, one after the other; CPU is this process's own time for a guarded call")
    return 0


async def _floor_ms(opened: storage.Storage) -> float:
    """Return the time of the round trips alone: the floor of the guard."""
    durations_s = []
    for _ in range(CALLS):
        start_s = time.perf_counter()
        for _ in range(2):
            await opened.redis.ping()
        durations_s.append(time.perf_counter() - start_s)
    return statistics.median(durations_s) * 1000


async def _compare(item: Any, opened: storage.Storage) -> tuple[list[float], list[float], float]:
    tools = index(bench=[item])
    guarded, bare, spent = [], [], []
    scope = Scope("local", "t", "ad", "ad-1", run="r", task=item.name, epoch=1, plan="p")
    call = Call(scope, Artefact(opened, "ad", "ad-1", "local"), "c", item.writes, None)
    for i in range(_WARM + CALLS):
        step = Step(
            id=f"c{i}",
            tool=item.name,
            display="",
            params={"n": i},
            dependencies=[],
            reads=[],
            writes=sorted(item.writes),
        )
        idle, start_s = time.process_time(), time.perf_counter()
        outcome = await guard.call(tools, step, scope)
        between, busy = time.perf_counter(), time.process_time()
        await item.run(NoOpArguments.model_validate({"n": i}), call)
        ended = time.perf_counter()
        assert outcome.ok, outcome.output
        if i >= _WARM:
            guarded.append(between - start_s)
            bare.append(ended - between)
            spent.append(busy - idle)
    return guarded, bare, statistics.median(spent)


if __name__ == "__main__":
    sys.exit(main())
