"""A saver with a fence: writes of an attempt before the thread's newest one are refused (X8)."""

import asyncio
import operator
from typing import Annotated, Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from callsheet.state.errors import Fenced, Invalid
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


async def set_epoch(storage: Storage, epoch: int) -> None:
    await storage.redis.hset(keys.run_keys(THREAD).thread, "epoch", epoch)


async def test_only_the_newest_attempt_and_callers_outside_of_runs_can_write(
    storage: Storage, saver: RedisSaver
) -> None:
    graph = GRAPHS["counter"].copy(update={"checkpointer": saver})
    await set_epoch(storage, 2)
    graph_input: Any = {"x": 1, "log": []}
    await graph.ainvoke(graph_input, config(__attempt=2), durability="sync")
    before = await graph.aget_state(config())
    await set_epoch(storage, 3)
    with pytest.raises(Fenced, match="'t' was taken over by a later attempt"):
        await graph.ainvoke(graph_input, config(__attempt=2), durability="sync")
    assert await graph.aget_state(config()) == before
    await graph.ainvoke(graph_input, config(__attempt=3), durability="sync")
    await graph.aupdate_state(config(), {"x": 0})
    assert (await graph.aget_state(config())).values["x"] == 0
    await saver.aclose()


async def test_an_earlier_attempt_does_not_delete_the_checkpoints_of_the_newest_one(
    storage: Storage, saver: RedisSaver
) -> None:
    graph = GRAPHS["counter"].copy(update={"checkpointer": saver})
    await set_epoch(storage, 2)
    graph_input: Any = {"x": 1, "log": []}
    await graph.ainvoke(graph_input, config(__attempt=2, run_id="run"), durability="sync")
    await saver.acopy_thread(THREAD, "copy")
    before = await graph.aget_state(config())
    with pytest.raises(Fenced, match="'t' was taken over by a later attempt"):
        await saver.adelete_own_run(config(__attempt=1, run_id="run"))
    assert await graph.aget_state(config()) == before
    await saver.adelete_own_run(config(__attempt=2, run_id="run"))
    assert [one async for one in saver.alist(None)] == []
    await saver.adelete_own_run(config(__attempt=2, run_id="run"))
    await saver.aclose()


async def test_task_writes_of_an_earlier_attempt_are_refused(storage: Storage, saver: RedisSaver) -> None:
    graph = GRAPHS["counter"].copy(update={"checkpointer": saver})
    await set_epoch(storage, 1)
    graph_input: Any = {"x": 1, "log": []}
    await graph.ainvoke(graph_input, config(__attempt=1), durability="sync")
    at = (await graph.aget_state(config())).config["configurable"]
    await set_epoch(storage, 2)
    with pytest.raises(Fenced):
        await saver.aput_writes({"configurable": {**at, "__attempt": 1}}, [("x", 9)], "task")
    saved = await saver.aget_tuple({"configurable": at})
    assert saved is not None
    assert not saved.pending_writes
    await saver.aput_writes({"configurable": {**at, "__attempt": 2}}, [("x", 9)], "task")
    saved = await saver.aget_tuple({"configurable": at})
    assert saved is not None
    assert saved.pending_writes == [("task", "x", 9)]
    await saver.aclose()


async def test_an_attempt_does_not_recreate_a_deleted_thread(storage: Storage, saver: RedisSaver) -> None:
    graph = GRAPHS["counter"].copy(update={"checkpointer": saver})
    graph_input: Any = {"x": 1, "log": []}
    with pytest.raises(Fenced):
        await graph.ainvoke(graph_input, config(__attempt=1), durability="sync")
    assert await saver.aget_tuple(config()) is None
    await saver.aclose()


@pytest.mark.parametrize("ending", ["fails", "is cancelled"])
async def test_a_task_that_fails_or_is_cancelled_before_its_edge_runs_again(
    storage: Storage, saver: RedisSaver, ending: str
) -> None:
    """X8: LangGraph would take it for finished, with nothing to follow, and the run for a success."""
    await set_epoch(storage, 1)
    waiting, may_continue = asyncio.Event(), asyncio.Event()

    async def edge(state: CountState) -> str:
        waiting.set()
        if not may_continue.is_set() and ending == "fails":
            raise ValueError("boom")
        await may_continue.wait()
        return "second" if len(state["log"]) == 1 else END

    async def note(state: CountState) -> dict[str, Any]:
        return {"log": [str(len(state["log"]) + 1)]}

    builder: StateGraph[CountState, None, CountState, CountState] = StateGraph(CountState)
    builder.add_node("first", note)
    builder.add_node("second", note)
    builder.add_edge(START, "first")
    builder.add_conditional_edges("first", edge)
    graph = builder.compile(checkpointer=saver)
    graph_input: Any = {"x": 0, "log": []}
    run = asyncio.create_task(graph.ainvoke(graph_input, config(__attempt=1), durability="sync"))
    await waiting.wait()
    if ending == "is cancelled":
        run.cancel()
    with pytest.raises((ValueError, asyncio.CancelledError)):
        await run
    assert (await graph.aget_state(config())).next == ("first",)
    may_continue.set()
    assert (await graph.ainvoke(None, config(__attempt=1), durability="sync"))["log"] == ["1", "2"]
    await saver.aclose()


class GivenAnswers(TypedDict, total=False):
    answers: Annotated[list[list[str]], operator.add]


class ParallelQuestions:
    """A graph of two parallel tasks: one asks a question, the other two, and then fails if `fails`."""

    fails = False

    def graph(self, saver: RedisSaver) -> Pregel[Any, Any]:
        builder = StateGraph(GivenAnswers)
        builder.add_node("one", lambda _state: {"answers": [[interrupt("who?")]]})
        builder.add_node("two", self.two)
        builder.add_edge(START, "one")
        builder.add_edge(START, "two")
        return builder.compile(checkpointer=saver)

    def two(self, state: GivenAnswers) -> GivenAnswers:
        answers = [interrupt("when?"), interrupt("where?")]
        if self.fails:
            raise Invalid("not today")
        return {"answers": [answers]}


async def test_an_answer_that_is_withdrawn_or_rolled_back_leaves_all_earlier_ones(
    storage: Storage, saver: RedisSaver
) -> None:
    """Those to an earlier question of the same task, and those of a task beside it."""
    questions = ParallelQuestions()
    graph = questions.graph(saver)
    await set_epoch(storage, 1)

    async def answer(run: str, **by_question: str) -> Any:
        state = await graph.aget_state(config())
        waiting = {one.value[:-1]: one.id for one in state.interrupts}
        own = config(__attempt=1, run_id=run)
        await saver.akeep_pending(own, state.tasks)
        own["metadata"] = {"run_id": run}
        resume: Any = Command(resume={waiting[name]: text for name, text in by_question.items()})
        await graph.ainvoke(resume, own, durability="sync")
        return (await graph.aget_state(config())).values["answers"]

    graph_input: Any = {"answers": []}
    await graph.ainvoke(graph_input, config(__attempt=1, run_id="first"), durability="sync")
    assert await answer("second", who="Ann", when="today") == [["Ann"]]
    questions.fails = True
    with pytest.raises(Invalid):
        await answer("failing", where="nowhere")
    await saver.awithdraw_answers(config(__attempt=1, run_id="failing"))
    questions.fails = False
    assert await answer("last", where="here") == [["Ann"], ["today", "here"]]
    await saver.adelete_own_run(config(__attempt=1, run_id="last"))
    assert await answer("other", where="there") == [["Ann"], ["today", "there"]]
    with pytest.raises(Fenced):
        await saver.akeep_pending(config(__attempt=0, run_id="late"), ())
    with pytest.raises(Fenced):
        await saver.awithdraw_answers(config(__attempt=0, run_id="late"))
    with pytest.raises(Fenced):
        await saver.arelease_answers(config(__attempt=0, run_id="late"))
    await saver.aclose()


def ask_who(state: GivenAnswers) -> GivenAnswers:
    return {"answers": [[interrupt("Who?")]]}


async def test_an_answer_reads_none_of_the_subgraphs_of_earlier_turns(
    storage: Storage, saver: RedisSaver
) -> None:
    inner = StateGraph(GivenAnswers)
    inner.add_node("ask", ask_who)
    inner.add_edge(START, "ask")
    outer = StateGraph(GivenAnswers)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    graph = outer.compile(checkpointer=saver)
    await set_epoch(storage, 1)

    async def commands() -> dict[str, int]:
        stats = await storage.redis.info("commandstats")
        return {
            name: stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("zrange", "zrevrangebylex")
        }

    graph_input: Any = {"answers": []}
    counts = []
    for turn in ("first", *map(str, range(20)), "last"):
        await graph.ainvoke(graph_input, config(__attempt=1, run_id=turn))
        tasks = (await graph.aget_state(config())).tasks
        before = await commands()
        await saver.akeep_pending(config(__attempt=1, run_id=f"{turn}'s answer"), tasks)
        after = await commands()
        counts.append({name: after[name] - before[name] for name in before})
        await graph.ainvoke(Command(resume="yes"), config(__attempt=1, run_id=f"{turn}'s answer"))
    assert counts == [{"zrange": 0, "zrevrangebylex": 5}] * len(counts)
    await saver.aclose()
