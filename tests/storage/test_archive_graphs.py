"""A thread of any graph as a file: questions that are open, values of every kind."""

import json
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from callsheet.graphs import fact_narration, page_builder
from callsheet.server.artefacts import archive
from callsheet.server.artefacts.archive import ThreadArchive
from callsheet.server.engine.workflows import Workflows
from callsheet.state.errors import Conflict, Invalid
from callsheet.storage import Storage, use
from callsheet.storage.archive.lines import LineWriter, ValueCodec, read_lines
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import NewThread, Thread
from tests.lessons.lesson_material import material


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
    record = await threads.create(storage, NewThread("t", "local", "asking", {"colour": "red"}))
    await graph.ainvoke({"messages": [HumanMessage("hi ☃", id="m1")], "n": 0.1}, here)
    shelf = ThreadArchive(storage, saver, Workflows({"asking": graph}), "1", {})
    content = b"".join([line async for line in await archive.export_thread(shelf, "t", "local")])
    made = await archive.import_thread(shelf, content, "local", new_id="t2")
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
    told = json.loads(json.dumps(ValueCodec().encode(value)))
    found = ValueCodec().decode(told)
    assert repr(found) == repr(value)


def test_a_file_is_read_to_its_end() -> None:
    lines = LineWriter()
    content = lines.header({}) + lines.line("thread", {"a": "ü\u2028"}) + lines.end()
    assert list(read_lines(content)) == [("thread", {"a": "ü\u2028"})]
    with pytest.raises(Invalid, match="incomplete"):
        list(read_lines(content.rsplit(b"\n", 2)[0]))


async def test_conflicts_name_the_way_out(storage: Storage) -> None:
    saver = RedisSaver(storage.redis)
    await threads.create(storage, NewThread("t", "local"))
    shelf = ThreadArchive(storage, saver, Workflows({}), "1", {})
    content = b"".join([line async for line in await archive.export_thread(shelf, "t", "local")])
    with pytest.raises(Conflict) as refused:
        await archive.import_thread(shelf, content, "local")
    assert "another id" in refused.value.remedy
    await saver.aclose()


async def moved(storage: Storage, graph: Any, thread: Thread, *said: str) -> dict[str, Any]:
    """Say something on a thread, carry it to an empty server, and go on there."""
    saver = RedisSaver(storage.redis)
    running = graph.copy(update={"checkpointer": saver})
    shelf = ThreadArchive(storage, saver, Workflows({thread.graph: graph}), "1", {})
    await threads.bind(storage, thread)
    use(storage)
    try:
        for text in said:
            await running.ainvoke(messages(text), config(thread.id), context={"provider": "offline"})
        content = b"".join([line async for line in await archive.export_thread(shelf, thread.id, "local")])
        await storage.redis.flushall()
        again = graph.copy(update={"checkpointer": RedisSaver(storage.redis)})
        await archive.import_thread(
            ThreadArchive(storage, again.checkpointer, shelf.workflows, "1", {}), content, "local"
        )
        state: dict[str, Any] = await again.ainvoke(
            messages(_LAST[thread.graph]), config(thread.id), context={"provider": "offline"}
        )
    finally:
        use(None)
    return state


_LAST = {"fact_narration": "1, 2, 4, 5, 6 and 7", "page_builder": "undo that"}


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.slow
async def test_a_lesson_that_waits_is_answered_where_it_was_carried_to(storage: Storage) -> None:
    """B40, B43, B50: with its facts, and with what is shown beside them."""
    thread = Thread("l-1", "local", "fact_narration", "lesson:l-1")
    lesson = Artefact(storage, "lesson", "l-1", "local")
    shown = {"id": "a-1", "assetType": "image", "url": "https://e.org/leaf.png", "metadata": None}
    await lesson.create_version(NewVersion("assets", shown, "local", "by-hand"))
    state = await moved(storage, fact_narration.graph, thread, material("photosynthesis").text)
    assert state["drafts"] == {"confirmed": "v1", "narration": "v1"}
    assert "6 facts" in state["messages"][-1].text
    assert [one.data for one in (await lesson.stream("assets")).versions] == [shown]


async def test_a_page_is_edited_on_where_it_was_carried_to(storage: Storage) -> None:
    thread = Thread("p-1", "local", "page_builder", "page:p-1")
    state = await moved(storage, page_builder.graph, thread, "make the headline teal")
    assert state["drafts"] == {"page": "v2"}
