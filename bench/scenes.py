"""Plans of videos: the time of twelve equal scenes, the overhead of a step, and style match.

A tool of a fixed duration replaces the model; everything else is the product's, on an embedded
Valkey. The floor of a plan is its tools alone, three at a time. Style match compares a scene with its
example.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bench import size
from callsheet import storage
from callsheet.nodes.plan_execution import PlanExecution, SharedRecord
from callsheet.providers.offline.video import edit_form
from callsheet.state import live_plan, plan_recovery
from callsheet.state.live_plan import Execution
from callsheet.state.plan import Step
from callsheet.state.video.patch import ScenePatch, apply_patch
from callsheet.state.video.plan import RULES
from callsheet.state.video.scene import starters
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.redis.connection import Storage
from callsheet.tools.call import Call, Scope
from callsheet.tools.guard import guard
from callsheet.tools.guard.outcome import Outcome
from callsheet.tools.registry import tool
from callsheet.tools.video.scenes import OneScene
from evals.scene_style import style_match

ROUNDS: Final = size(5, short=2)
STEP_S: Final = 0.2
PARALLEL: Final = 3


def main() -> int:
    """Print the tables."""
    _style()
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> int:
    async with storage.connect(data_dir=folder) as opened:
        storage.use(opened)
        try:
            await _plan_time(opened)
            await _step_cost(opened)
            return await _events(opened)
        finally:
            storage.use(None)


@tool(schema=OneScene, display="Working", writes=("scene-*",), internal=True)
async def work(args: OneScene, call: Call) -> dict[str, Any]:
    """Write a version after a fixed time."""
    await asyncio.sleep(STEP_S)
    return await call.write(args.sceneId, {"scene": {}}, result={"sceneId": args.sceneId})


@tool(schema=OneScene, display="Writing", writes=("scene-*",), internal=True)
async def write(args: OneScene, call: Call) -> dict[str, Any]:
    """Write a version at once."""
    return await call.write(args.sceneId, {"scene": {}}, result={"sceneId": args.sceneId})


TOOLS: Final = {"work": work, "write": write}


def _steps(count: int, name: str) -> list[Step]:
    return [
        Step(
            id=f"s{number}",
            tool=name,
            display=f"Scene {number}",
            params={"sceneId": f"scene-{number}"},
            dependencies=[],
            reads=[],
            writes=[f"scene-{number}"],
        )
        for number in range(1, count + 1)
    ]


def _scope(name: str) -> Scope:
    return Scope("local", name, "video", name, f"run-{name}", f"task-{name}", 1, plan=name, patient=True)


async def _execute(opened: Storage, name: str, steps: list[Step]) -> tuple[Execution, float]:
    """Execute a plan and return its record and its seconds."""
    executions = Executions(opened, "video", name, "local", RULES)
    await executions.create(_record(name, steps))
    scope = _scope(name)
    held = await executions.change(
        await executions.read(name), lambda record, now: plan_recovery.begin(record, scope.task, 1, now)
    )

    async def execute_step(step: Step) -> Outcome:
        return await guard.call(TOOLS, step, scope)

    execution = PlanExecution(
        SharedRecord(executions, held),
        execute_step,
        rules=RULES,
        parallel=PARALLEL,
        report=lambda _: None,
        stopping=lambda: False,
    )
    start_s = time.perf_counter()
    result = await execution.run()
    return result, time.perf_counter() - start_s


def _record(name: str, steps: list[Step]) -> Execution:
    return Execution(
        id=name,
        thread=name,
        project=name,
        run="",
        kind="plan",
        request="",
        reasoning="",
        feedback="",
        status="planned",
        approved="",
        task="",
        epoch=0,
        estimated_s=0,
        created_ms=0,
        started_ms=0,
        ended_ms=0,
        steps=live_plan.live_steps(steps),
        changes=[],
    )


async def _floor(count: int) -> float:
    """Return the seconds of the tools' waiting alone, with the same parallelism."""
    slots = asyncio.Semaphore(PARALLEL)

    async def wait() -> None:
        async with slots:
            await asyncio.sleep(STEP_S)

    start_s = time.perf_counter()
    await asyncio.gather(*(wait() for _ in range(count)))
    return time.perf_counter() - start_s


async def _plan_time(opened: Storage) -> None:
    await _execute(opened, "warm", _steps(3, "work"))
    ratios = []
    for number in range(ROUNDS):
        floor_s = await _floor(12)
        _, duration_s = await _execute(opened, f"plan-{number}", _steps(12, "work"))
        ratios.append(duration_s / floor_s)
    print(
        f"12 steps of {STEP_S:g} s, 3 at once: {statistics.median(ratios):.3f} × their waiting alone", end=""
    )
    print(f" ({min(ratios):.3f}–{max(ratios):.3f}; target 1.1)")


async def _step_cost(opened: Storage) -> None:
    """Print the overhead of a step: a plan of writes, compared with the guard's calls alone."""
    costs = []
    for number in range(ROUNDS):
        scope = _scope(f"bare-{number}")
        start_s = time.perf_counter()
        for step in _steps(30, "write"):
            await guard.call(TOOLS, step, scope)
        bare_s = (time.perf_counter() - start_s) / 30
        steps = _steps(30, "write")
        for previous, step in pairwise(steps):
            step["dependencies"] = [previous["id"]]
        _, duration_s = await _execute(opened, f"cost-{number}", steps)
        costs.append(duration_s / 30 - bare_s)
    print(f"orchestration per step: p50 {1000 * statistics.median(costs):.2f} ms", end="")
    print(f" ({1000 * min(costs):.2f}–{1000 * max(costs):.2f}; target 5 ms)")


async def _events(opened: Storage) -> int:
    """Print how the progress of a plan of sixty scenes is streamed; return 1 if a status is missing."""
    from callsheet.server.artefacts.execution_progress import progress_events

    steps = _steps(60, "write")
    task = asyncio.create_task(_execute(opened, "sixty", steps))
    executions = Executions(opened, "video", "sixty", "local", RULES)
    while not await executions.first_event("sixty"):  # noqa: ASYNC110 -- the plan is in Redis
        await asyncio.sleep(0.01)
    arrivals: list[float] = []
    text = b""
    async for event in progress_events(executions, "sixty", None, 5.0):
        arrivals.append(time.perf_counter())
        text += event.data if event else b""
    await task
    bursts = 1 + sum(later - earlier > 0.3 for earlier, later in pairwise(arrivals))
    counts = [text.count(b'"stepId":"%s","name"' % step["id"].encode()) for step in steps]
    print(
        f"60 scenes: {len(arrivals)} events in {bursts} collections, {min(counts)}–{max(counts)} a step",
        end="",
    )
    print("; no status is missing" if min(counts) == 2 else "; a status is missing")
    return int(min(counts) != 2)


def _style() -> None:
    after: list[float] = []
    before: list[float] = []
    unlike: list[float] = []
    for scenes in starters().values():
        reference = scenes[2]
        others = [other[0] for other in starters().values() if other is not scenes]
        for scene in scenes:
            if scene is reference:
                continue
            request: Mapping[str, Any] = {
                "request": "like scene-3",
                "scene": scene.data(),
                "examples": {"scene-3": reference.data()},
            }
            changed = apply_patch(scene, ScenePatch.model_validate(edit_form(request)))
            before.append(style_match(scene, reference))
            after.append(style_match(changed, reference))
            unlike += [style_match(other, reference) for other in others]
    print("style match with the example (target 0.85 after):")
    for name, values in (("after “like scene 3”", after), ("before", before), ("other projects", unlike)):
        print(f"  {name:<22} median {statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})")
