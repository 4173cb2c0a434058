"""X3: graphs whose threads the saver keeps."""

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
async def other_saver(valkey_url: str) -> AsyncIterator[RedisSaver]:
    """The saver of another process: it shares no memory with the first."""
    async with RedisSaver.from_url(valkey_url) as opened:
        yield opened


async def contents_by_checkpoint(graph, name):
    """The message contents of each checkpoint of the thread, by its id."""
    return {
        state.config["configurable"]["checkpoint_id"]: message_contents(state.values)
        async for state in graph.aget_state_history(thread_config(name))
    }


async def test_a_conversation_continues_in_another_process(saver, other_saver):
    for turn, current in enumerate([saver, other_saver, other_saver, saver]):
        await talk_graph(current).ainvoke(user_message(str(turn)), thread_config("t"))

    for current in (saver, other_saver):
        state = await talk_graph(current).aget_state(thread_config("t"))
        assert message_contents(state.values) == ["0", "re:0", "1", "re:1", "2", "re:2", "3", "re:3"]
        assert state.values["n"] == 4


async def test_a_run_from_an_old_checkpoint_leaves_the_other_branch_unchanged(saver):
    graph = talk_graph(saver)
    for turn in range(3):
        await graph.ainvoke(user_message(str(turn)), thread_config("t"))
    before = await contents_by_checkpoint(graph, "t")
    old = [state async for state in graph.aget_state_history(thread_config("t"))][-4]

    await graph.ainvoke(user_message("branch"), old.config)

    after = await contents_by_checkpoint(graph, "t")
    assert {identity: after[identity] for identity in before} == before
    assert len(after) > len(before)


async def test_two_processes_never_choose_the_same_channel_version(saver, other_saver):
    first, second = (
        current.get_next_version(saver.get_next_version(None, None), None) for current in (saver, other_saver)
    )

    assert first != second
    assert max(first, second) < 2**53


def test_channel_versions_rise_from_those_of_another_saver(saver):
    chain = [None, 3, "00000000000000000000000000000007.0123"]
    for current in chain:
        first = saver.get_next_version(current, None)
        second = saver.get_next_version(first, None)
        assert 0 < first < second


async def test_an_interrupted_graph_is_resumed_in_another_process(saver, other_saver):
    class Answer(TypedDict):
        text: str

    def graph(checkpointer):
        builder = StateGraph(Answer)
        builder.add_node("ask", lambda _: {"text": "got " + interrupt("which?")})
        builder.add_edge(START, "ask")
        return builder.compile(checkpointer=checkpointer)

    await graph(saver).ainvoke({"text": ""}, thread_config("t"))
    assert [each.value for each in (await graph(other_saver).aget_state(thread_config("t"))).interrupts] == [
        "which?"
    ]

    result = await graph(other_saver).ainvoke(Command(resume="yes"), thread_config("t"))

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
                # The others end first, so that their writes are kept.
                await asyncio.sleep(0)
            raise RuntimeError("boom")
        return {"out": [task["i"]]}

    builder = StateGraph(Gathered)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, lambda _: [Send("work", {"i": i}) for i in range(100)], ["work"])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        await graph.ainvoke({"out": []}, thread_config("t"))
    fails = False
    ran.clear()

    result = await graph.ainvoke(None, thread_config("t"))

    assert ran == [50]
    assert sorted(result["out"]) == list(range(100))


async def test_pending_writes_are_in_the_order_of_their_tasks_paths(saver):
    config = await saver.aput(thread_config("t", checkpoint_ns=""), empty_checkpoint(), {}, {})
    await saver.aput_writes(config, [("c", "second"), ("d", "third")], "aaaa", "~__pregel_pull, 2")
    await saver.aput_writes(config, [("c", "first")], "zzzz", "~__pregel_pull, 1")

    saved = await saver.aget_tuple(config)

    assert [write[2] for write in saved.pending_writes] == ["first", "second", "third"]


async def test_a_repeated_write_keeps_its_first_value_except_errors_and_resume_values(saver):
    config = await saver.aput(thread_config("t", checkpoint_ns=""), empty_checkpoint(), {}, {})
    for number in (1, 2):
        await saver.aput_writes(
            config, [("c", number), ("__resume__", number), ("__error__", number)], "task", "path"
        )

    saved = await saver.aget_tuple(config)

    assert {channel: value for _, channel, value in saved.pending_writes} == {
        "c": 1,
        "__resume__": 2,
        "__error__": 2,
    }


async def test_a_delta_channel_is_complete_after_many_turns(saver, other_saver):
    for turn in range(13):
        await talk_graph(saver, DeltaTalkState).ainvoke(user_message(str(turn)), thread_config("t"))

    state = await talk_graph(other_saver, DeltaTalkState).aget_state(thread_config("t"))

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


async def test_a_message_that_a_node_changed_in_place_is_stored_as_changed(saver, other_saver):
    class Both(TypedDict):
        messages: list[Any]

    def stamp(state):
        state["messages"][0].content += "!"
        state["messages"][0].additional_kwargs["score"] = True
        return {"messages": [*state["messages"], AIMessage("seen")]}

    builder = StateGraph(Both)
    builder.add_node("stamp", stamp)
    builder.add_edge(START, "stamp")
    builder.add_edge("stamp", END)
    first = HumanMessage("hello", additional_kwargs={"score": 1})
    await builder.compile(checkpointer=saver).ainvoke({"messages": [first]}, thread_config("t"))

    state = await builder.compile(checkpointer=other_saver).aget_state(thread_config("t"))

    assert message_contents(state.values) == ["hello!", "seen"]
    assert state.values["messages"][0].additional_kwargs["score"] is True


async def test_changing_a_returned_state_does_not_change_the_stored_one(saver):
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
async def test_a_value_is_read_back_unchanged_and_with_its_type(saver, other_saver, value):
    """A38, X18. Tuples alone come back as lists: LangGraph's serialiser knows only those."""

    class AnyState(TypedDict):
        v: Any

    builder = StateGraph(AnyState)
    builder.add_node("keep", lambda _: {})
    builder.add_edge(START, "keep")
    await builder.compile(checkpointer=saver).ainvoke({"v": value}, thread_config("t"))

    for current in (saver, other_saver):
        stored_value = (await current.aget_tuple(thread_config("t"))).checkpoint["channel_values"]["v"]
        assert repr(stored_value) == repr(value)


async def test_a_value_that_cannot_be_stored_is_named_by_its_channel(saver):
    class Held(TypedDict):
        v: Any
        connection: Any

    builder = StateGraph(Held)
    builder.add_node("connect", lambda _: {"v": 1, "connection": lambda: None})
    builder.add_edge(START, "connect")
    with pytest.raises(
        TypeError, match=r"value of 'connection' cannot be stored: .* function\. Keep plain data"
    ):
        await builder.compile(checkpointer=saver).ainvoke({"v": 0, "connection": None}, thread_config("t"))


async def test_the_blocking_methods_continue_a_thread_of_the_asynchronous_ones(saver):
    await talk_graph(saver).ainvoke(user_message("a"), thread_config("t"))

    def run_blocking() -> list[str]:
        graph = talk_graph(saver)
        graph.invoke(user_message("b"), thread_config("t"))
        assert len(list(graph.get_state_history(thread_config("t"), limit=3))) == 3
        return message_contents(graph.get_state(thread_config("t")).values)

    assert await asyncio.to_thread(run_blocking) == ["a", "re:a", "b", "re:b"]
