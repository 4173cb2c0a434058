"""X3: what graphs rely on when the saver keeps their threads."""

import asyncio
import datetime as dt
import operator
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from callsheet.storage.checkpoints import RedisSaver
from tests.storage.saver_graphs import (
    DeltaTalkState,
    message_contents,
    talk_graph,
    thread_config,
    user_message,
)


@pytest.fixture
async def saver(valkey_url: str) -> AsyncIterator[RedisSaver]:
    async with RedisSaver.from_url(valkey_url) as opened:
        yield opened


@pytest.fixture
async def elsewhere(valkey_url: str) -> AsyncIterator[RedisSaver]:
    """The saver of another process: it shares no memory with the first."""
    async with RedisSaver.from_url(valkey_url) as opened:
        yield opened


async def histories(graph, name):
    """What each checkpoint of the thread says, by its id."""
    return {
        state.config["configurable"]["checkpoint_id"]: message_contents(state.values)
        async for state in graph.aget_state_history(thread_config(name))
    }


async def test_a_conversation_goes_on_in_another_process(saver, elsewhere):
    for turn, at in enumerate([saver, elsewhere, elsewhere, saver]):
        await talk_graph(at).ainvoke(user_message(str(turn)), thread_config("t"))

    for at in (saver, elsewhere):
        state = await talk_graph(at).aget_state(thread_config("t"))
        assert message_contents(state.values) == ["0", "re:0", "1", "re:1", "2", "re:2", "3", "re:3"]
        assert state.values["n"] == 4


async def test_going_on_from_an_old_checkpoint_changes_nothing_of_the_branch_it_leaves(saver):
    graph = talk_graph(saver)
    for turn in range(3):
        await graph.ainvoke(user_message(str(turn)), thread_config("t"))
    before = await histories(graph, "t")
    old = [state async for state in graph.aget_state_history(thread_config("t"))][-4]

    await graph.ainvoke(user_message("branch"), old.config)

    after = await histories(graph, "t")
    assert {identity: after[identity] for identity in before} == before
    assert len(after) > len(before)


async def test_two_processes_that_go_on_from_one_checkpoint_never_choose_one_version(saver, elsewhere):
    first, second = (
        at.get_next_version(saver.get_next_version(None, None), None) for at in (saver, elsewhere)
    )

    assert first != second
    assert max(first, second) < 2**53


def test_versions_rise_from_whatever_another_saver_left(saver):
    chain = [None, 3, "00000000000000000000000000000007.0123"]
    for current in chain:
        first = saver.get_next_version(current, None)
        second = saver.get_next_version(first, None)
        assert 0 < first < second


async def test_an_interrupted_graph_is_resumed_in_another_process(saver, elsewhere):
    class Answer(TypedDict):
        text: str

    def graph(at):
        built = StateGraph(Answer)
        built.add_node("ask", lambda _: {"text": "got " + interrupt("which?")})
        built.add_edge(START, "ask")
        return built.compile(checkpointer=at)

    await graph(saver).ainvoke({"text": ""}, thread_config("t"))
    assert [each.value for each in (await graph(elsewhere).aget_state(thread_config("t"))).interrupts] == [
        "which?"
    ]

    result = await graph(elsewhere).ainvoke(Command(resume="yes"), thread_config("t"))

    assert result["text"] == "got yes"


async def test_of_a_hundred_parallel_tasks_only_the_failed_one_runs_again(saver):
    class Gathered(TypedDict):
        out: Annotated[list[int], operator.add]

    ran: list[int] = []
    others_done = asyncio.Event()
    fails = True

    async def work(task):
        ran.append(task["i"])
        if len(ran) == 100:
            others_done.set()
        if task["i"] == 50 and fails:
            await others_done.wait()
            for _ in range(100):
                # The others end first: their writes are what is to be kept.
                await asyncio.sleep(0)
            raise RuntimeError("boom")
        return {"out": [task["i"]]}

    built = StateGraph(Gathered)
    built.add_node("work", work)
    built.add_conditional_edges(START, lambda _: [Send("work", {"i": i}) for i in range(100)], ["work"])
    graph = built.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"out": []}, thread_config("t"))
    fails = False
    ran.clear()

    result = await graph.ainvoke(None, thread_config("t"))

    assert ran == [50]
    assert sorted(result["out"]) == list(range(100))


async def test_pending_writes_come_in_the_order_of_their_tasks_paths(saver):
    config = await saver.aput(thread_config("t", checkpoint_ns=""), empty_checkpoint(), {}, {})
    await saver.aput_writes(config, [("c", "second"), ("d", "third")], "aaaa", "~__pregel_pull, 2")
    await saver.aput_writes(config, [("c", "first")], "zzzz", "~__pregel_pull, 1")

    found = await saver.aget_tuple(config)

    assert [write[2] for write in found.pending_writes] == ["first", "second", "third"]


async def test_writes_stored_twice_stay_as_they_were_but_an_error_or_answer_is_replaced(saver):
    config = await saver.aput(thread_config("t", checkpoint_ns=""), empty_checkpoint(), {}, {})
    for number in (1, 2):
        await saver.aput_writes(
            config, [("c", number), ("__resume__", number), ("__error__", number)], "task", "path"
        )

    found = await saver.aget_tuple(config)

    assert {channel: value for _, channel, value in found.pending_writes} == {
        "c": 1,
        "__resume__": 2,
        "__error__": 2,
    }


async def test_a_channel_of_writes_is_the_same_after_any_number_of_turns(saver, elsewhere):
    for turn in range(13):
        await talk_graph(saver, DeltaTalkState).ainvoke(user_message(str(turn)), thread_config("t"))

    state = await talk_graph(elsewhere, DeltaTalkState).aget_state(thread_config("t"))

    assert message_contents(state.values) == [
        text for turn in range(13) for text in (f"{turn}", f"re:{turn}")
    ]


async def test_removed_and_edited_messages_change_the_newest_checkpoint_alone(saver):
    graph = talk_graph(saver)
    for turn in range(4):
        await graph.ainvoke(user_message(str(turn)), thread_config("t"))
    edit = {"messages": [RemoveMessage("said-1"), HumanMessage("edited", id="said-2")]}

    await graph.aupdate_state(thread_config("t"), edit)

    newest, before, *_ = [state async for state in graph.aget_state_history(thread_config("t"))]
    assert message_contents(newest.values) == ["0", "re:0", "re:1", "edited", "re:2", "3", "re:3"]
    assert message_contents(before.values) == ["0", "re:0", "1", "re:1", "2", "re:2", "3", "re:3"]


async def test_a_message_a_node_changed_in_place_is_stored_as_it_is_now(saver, elsewhere):
    class Both(TypedDict):
        messages: list[Any]

    def stamp(state):
        state["messages"][0].content += "!"
        state["messages"][0].additional_kwargs["score"] = True
        return {"messages": [*state["messages"], AIMessage("seen")]}

    built = StateGraph(Both)
    built.add_node("stamp", stamp)
    built.add_edge(START, "stamp")
    built.add_edge("stamp", END)
    first = HumanMessage("hello", additional_kwargs={"score": 1})
    await built.compile(checkpointer=saver).ainvoke({"messages": [first]}, thread_config("t"))

    state = await built.compile(checkpointer=elsewhere).aget_state(thread_config("t"))

    assert message_contents(state.values) == ["hello!", "seen"]
    assert state.values["messages"][0].additional_kwargs["score"] is True


async def test_what_a_caller_changes_in_a_state_it_was_given_changes_no_other(saver):
    graph = talk_graph(saver)
    await graph.ainvoke(user_message("a"), thread_config("t"))
    state = await graph.aget_state(thread_config("t"))
    state.values["messages"][0].content = "spoilt"
    state.values["messages"][1].additional_kwargs["spoilt"] = True

    again = await graph.aget_state(thread_config("t"))

    assert message_contents(again.values) == ["a", "re:a"]
    assert again.values["messages"][1].additional_kwargs == {}


@pytest.mark.parametrize(
    "value",
    [
        b"\x00\xff",
        None,
        {"a": [1, 2.5, None]},
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        Decimal("1.10"),
        {1, 2},
        uuid.UUID(int=5),
        "naïve 😀 \x00 สวัสดี 你好",
        2**60,
        True,
        {"__type__": "x", "lc": 1},
        [1.0, 1, True],
        [["nested"], {"n": None}],
        ["text", "more"],
        [{"a": {1, 2}}],
        [],
    ],
    ids=repr,
)
async def test_a_value_comes_back_as_it_was_and_of_its_type(saver, elsewhere, value):
    """A38, X18. Tuples alone come back as lists: LangGraph's serialiser knows only those."""

    class Any1(TypedDict):
        v: Any

    built = StateGraph(Any1)
    built.add_node("keep", lambda _: {})
    built.add_edge(START, "keep")
    await built.compile(checkpointer=saver).ainvoke({"v": value}, thread_config("t"))

    for at in (saver, elsewhere):
        found = (await at.aget_tuple(thread_config("t"))).checkpoint["channel_values"]["v"]
        assert repr(found) == repr(value)


async def test_the_blocking_methods_see_what_the_others_stored(saver):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))

    def go_on() -> list[str]:
        graph = talk_graph(saver)
        graph.invoke(user_message("b"), thread_config("t"))
        assert len(list(graph.get_state_history(thread_config("t"), limit=3))) == 3
        return message_contents(graph.get_state(thread_config("t")).values)

    assert await asyncio.to_thread(go_on) == ["a", "re:a", "b", "re:b"]
