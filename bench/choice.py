"""The cost of an interrupt: a lesson that stops for a choice, against the same steps without it.

Both find the facts of one text, confirm all of them and narrate them, offline, on an embedded Valkey of the
bench's own, with our checkpointer. One stops and is resumed by thread id; the other chooses in
the graph. They take turns, each on a thread of its own.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.runtime import Runtime
from langgraph.types import Command

from bench import size
from callsheet import storage
from callsheet.graphs import fact_narration
from callsheet.nodes.lessons.selection import selection_calls
from callsheet.nodes.question import decision_plan
from callsheet.state.context import Context
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.selection import ChosenFacts
from callsheet.state.lessons.workflow import LessonState
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.checkpoints import RedisSaver
from tests.lessons.lesson_material import material

ROUNDS: Final = size(40, short=2)
_WARM: Final = size(3, short=1)
_OFFLINE: Final = Context(provider="offline")
_TEXT: Final = material("photosynthesis").text


async def choose_all(state: LessonState, *, runtime: Runtime[Context]) -> dict[str, Any]:
    """Take all the facts there are, without asking anybody."""
    del state
    scope = fact_narration.WORKFLOW.scope(LessonState(messages=[]), runtime)
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    newest = (await artefact.stream_head("facts")).newest
    facts = [Fact.model_validate(one) for one in (newest.data["facts"] if newest else ())]
    made = decision_plan(fact_narration.WORKFLOW, scope.task, *selection_calls(ChosenFacts(tuple(facts))))
    return {**made, "messages": [AIMessage(**made["messages"][0])]}


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> int:
    async with storage.connect(data_dir=folder) as opened:
        storage.use(opened)
        try:
            saver = RedisSaver(opened.redis)
            asks = fact_narration.graph.copy(update={"checkpointer": saver})
            unasked = (
                fact_narration.WORKFLOW.build(choose_all)
                .compile(name="whole")
                .copy(update={"checkpointer": saver})
            )
            rounds = [await _round(asks, unasked, number) for number in range(ROUNDS + _WARM)][_WARM:]
        finally:
            storage.use(None)
    ratios = sorted(resumed / direct for direct, resumed in rounds)
    direct, resumed = (statistics.median(column) * 1000 for column in zip(*rounds, strict=True))
    print(f"without question {direct:>7.1f} ms   asked and resumed {resumed:>7.1f} ms", end="")
    low, high = ratios[len(ratios) // 10], ratios[-len(ratios) // 10]
    print(f"{statistics.median(ratios):>7.2f}x   {low:.2f} … {high:.2f}")
    print(f"{ROUNDS} lessons each, in turns; medians, and the middle eight tenths of the ratios")
    return 0


async def _round(asks: Pregel[Any, Any], unasked: Pregel[Any, Any], number: int) -> tuple[float, float]:
    given = {"messages": [{"role": "user", "content": _TEXT}]}
    never = await _time(unasked, f"never-{number}", given)
    return never, await _time(asks, f"asked-{number}", given, Command(resume="all"))


async def _time(graph: Pregel[Any, Any], thread: str, *given: Any) -> float:
    config: RunnableConfig = {"configurable": {"thread_id": thread}}
    began = time.perf_counter()
    for one in given:
        state = await graph.ainvoke(one, config, context=_OFFLINE, durability="sync")
    took = time.perf_counter() - began
    assert state["drafts"] == {"confirmed": "v1", "narration": "v1"}
    return took
