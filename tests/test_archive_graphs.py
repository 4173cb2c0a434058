"""A thread of any graph as a file: questions that are open, values of every kind."""

import json
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from server import archive
from server.archive import Shelf
from state.errors import Conflict, Invalid
from storage import Storage, thread_records
from storage.checkpoints import RedisSaver
from storage.thread_lines import Codec, Lines, read
from storage.thread_records import New


class Asking(TypedDict, total=False):
    messages: list[AnyMessage]
    said: str
    n: float


def _ask(state: Asking) -> Asking:
    answer = interrupt({"question": "really?"})
    return {"said": str(answer), "messages": [*state["messages"], AIMessage("done", id="m2")]}


async def test_a_question_is_still_open_after_the_move_and_can_be_answered(storage: Storage) -> None:
    """Pending writes go along; another graph's own state, too, without any artefact."""
    builder = StateGraph(Asking)
    builder.add_node("ask", _ask)
    builder.add_edge(START, "ask")
    saver = RedisSaver(storage.redis)
    graph = builder.compile(checkpointer=saver, name="asking")
    here: Any = {"configurable": {"thread_id": "t"}}
    record = await thread_records.create(storage, New("t", "local", "asking", {"colour": "red"}))
    await graph.ainvoke({"messages": [HumanMessage("hi ☃", id="m1")], "n": 0.1}, here)
    shelf = Shelf(storage, saver, frozenset({"asking"}), "1")
    content = b"".join([line async for line in await archive.export(shelf, "t", "local")])
    made = await archive.bring(shelf, content, "local", new_id="t2")
    assert (made.metadata, made.graph) == ({"colour": "red"}, record.graph)
    there: Any = {"configurable": {"thread_id": "t2"}}
    before, after = await graph.aget_state(here), await graph.aget_state(there)
    assert (after.values, after.next, after.metadata) == (before.values, before.next, before.metadata)
    assert [task.interrupts for task in after.tasks] == [task.interrupts for task in before.tasks]
    done = await graph.ainvoke(Command(resume="yes"), there)
    assert done["said"] == "yes"
    assert [message.id for message in done["messages"]] == ["m1", "m2"]
    assert (await graph.aget_state(here)).values == before.values
    history = [one.config["configurable"]["checkpoint_id"] async for one in graph.aget_state_history(there)]
    assert len(history) == len(set(history)) == 3
    await saver.aclose()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, b"x", {"a": {3}}, None, 1])
def test_every_value_comes_back_as_what_it_was(value: Any) -> None:
    told = json.loads(json.dumps(Codec().encoded(value)))
    found = Codec().decoded(told)
    assert repr(found) == repr(value)


def test_a_file_is_read_to_its_end() -> None:
    lines = Lines()
    content = lines.header({}) + lines.line("thread", {"a": "ü\u2028"}) + lines.end()
    assert list(read(content)) == [("thread", {"a": "ü\u2028"})]
    with pytest.raises(Invalid, match="not whole"):
        list(read(content.rsplit(b"\n", 2)[0]))


async def test_conflicts_name_the_way_out(storage: Storage) -> None:
    saver = RedisSaver(storage.redis)
    await thread_records.create(storage, New("t", "local"))
    shelf = Shelf(storage, saver, frozenset(), "1")
    content = b"".join([line async for line in await archive.export(shelf, "t", "local")])
    with pytest.raises(Conflict) as refused:
        await archive.bring(shelf, content, "local")
    assert "another id" in refused.value.remedy
    await saver.aclose()
