"""A saver that is told of attempts: what an earlier one writes than the thread's newest is refused (X8)."""

import asyncio
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph

from callsheet.state.errors import Fenced
from callsheet.storage import Storage
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.redis import keys
from tests.doubles.wire_graphs import GRAPHS, CountState

THREAD = "t"


@pytest.fixture
def saver(storage: Storage) -> RedisSaver:
    return RedisSaver(storage.redis, fence="__attempt")


def config(**chosen: Any) -> Any:
    return {"configurable": {"thread_id": THREAD, **chosen}}


async def attempt(storage: Storage, epoch: int) -> None:
    await storage.redis.hset(keys.run_keys(THREAD).thread, "epoch", epoch)


async def test_only_the_newest_attempt_writes_and_whoever_is_none(
    storage: Storage, saver: RedisSaver
) -> None:
    graph = GRAPHS["counter"].copy(update={"checkpointer": saver})
    await attempt(storage, 2)
    said: Any = {"x": 1, "log": []}
    await graph.ainvoke(said, config(__attempt=2), durability="sync")
    before = await graph.aget_state(config())
    await attempt(storage, 3)
    with pytest.raises(Fenced, match="'t' was taken over by a later attempt"):
        await graph.ainvoke(said, config(__attempt=2), durability="sync")
    assert await graph.aget_state(config()) == before
    await graph.ainvoke(said, config(__attempt=3), durability="sync")
    await graph.aupdate_state(config(), {"x": 0})
    assert (await graph.aget_state(config())).values["x"] == 0
    await saver.aclose()


async def test_what_its_tasks_wrote_is_refused_too(storage: Storage, saver: RedisSaver) -> None:
    graph = GRAPHS["counter"].copy(update={"checkpointer": saver})
    await attempt(storage, 1)
    said: Any = {"x": 1, "log": []}
    await graph.ainvoke(said, config(__attempt=1), durability="sync")
    at = (await graph.aget_state(config())).config["configurable"]
    await attempt(storage, 2)
    with pytest.raises(Fenced):
        await saver.aput_writes({"configurable": {**at, "__attempt": 1}}, [("x", 9)], "task")
    found = await saver.aget_tuple({"configurable": at})
    assert found is not None
    assert not found.pending_writes
    await saver.aput_writes({"configurable": {**at, "__attempt": 2}}, [("x", 9)], "task")
    found = await saver.aget_tuple({"configurable": at})
    assert found is not None
    assert found.pending_writes == [("task", "x", 9)]
    await saver.aclose()


async def test_an_attempt_does_not_bring_a_deleted_thread_back(storage: Storage, saver: RedisSaver) -> None:
    graph = GRAPHS["counter"].copy(update={"checkpointer": saver})
    said: Any = {"x": 1, "log": []}
    with pytest.raises(Fenced):
        await graph.ainvoke(said, config(__attempt=1), durability="sync")
    assert await saver.aget_tuple(config()) is None
    await saver.aclose()


@pytest.mark.parametrize("ending", ["fails", "is cancelled"])
async def test_a_task_that_ends_between_its_result_and_its_edge_runs_again(
    storage: Storage, saver: RedisSaver, ending: str
) -> None:
    """X8: LangGraph would take it for finished, with nothing to follow, and the run for a success."""
    await attempt(storage, 1)
    waiting, goes = asyncio.Event(), asyncio.Event()

    async def edge(state: CountState) -> str:
        waiting.set()
        if not goes.is_set() and ending == "fails":
            raise ValueError("boom")
        await goes.wait()
        return "second" if len(state["log"]) == 1 else END

    async def note(state: CountState) -> dict[str, Any]:
        return {"log": [str(len(state["log"]) + 1)]}

    builder: StateGraph[CountState, None, CountState, CountState] = StateGraph(CountState)
    builder.add_node("first", note)
    builder.add_node("second", note)
    builder.add_edge(START, "first")
    builder.add_conditional_edges("first", edge)
    graph = builder.compile(checkpointer=saver)
    said: Any = {"x": 0, "log": []}
    run = asyncio.create_task(graph.ainvoke(said, config(__attempt=1), durability="sync"))
    await waiting.wait()
    if ending == "is cancelled":
        run.cancel()
    with pytest.raises((ValueError, asyncio.CancelledError)):
        await run
    assert (await graph.aget_state(config())).next == ("first",)
    goes.set()
    assert (await graph.ainvoke(None, config(__attempt=1), durability="sync"))["log"] == ["1", "2"]
    await saver.aclose()
