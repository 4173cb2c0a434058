"""Export and import of threads of any graph: open questions, values of every kind."""

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


class AskingState(TypedDict, total=False):
    messages: list[AnyMessage]
    answer: str
    n: float


def _ask(state: AskingState) -> AskingState:
    answer = interrupt({"question": "really?"})
    return {"answer": str(answer), "messages": [*state["messages"], AIMessage("done", id="m2")]}


async def test_an_open_question_is_imported_and_can_be_answered(storage: Storage) -> None:
    """Pending writes are imported; a graph without artefacts keeps its own state."""
    builder = StateGraph(AskingState)
    builder.add_node("ask", _ask)
    builder.add_edge(START, "ask")
    saver = RedisSaver(storage.redis)
    graph = builder.compile(checkpointer=saver, name="asking")
    source: Any = {"configurable": {"thread_id": "t"}}
    record = await threads.create(storage, NewThread("t", "local", "asking", {"colour": "red"}))
    await graph.ainvoke({"messages": [HumanMessage("hi ☃", id="m1")], "n": 0.1}, source)
    thread_archive = ThreadArchive(storage, saver, Workflows({"asking": graph}), "1", {})
    content = b"".join([line async for line in await archive.export_file(thread_archive, "t", "local")])
    imported = await archive.import_file(thread_archive, content, "local", new_id="t2")
    assert (imported.metadata, imported.graph) == ({"colour": "red"}, record.graph)
    target: Any = {"configurable": {"thread_id": "t2"}}
    before, after = await graph.aget_state(source), await graph.aget_state(target)
    assert (after.values, after.next, after.metadata) == (before.values, before.next, before.metadata)
    assert [task.interrupts for task in after.tasks] == [task.interrupts for task in before.tasks]
    done = await graph.ainvoke(Command(resume="yes"), target)
    assert done["answer"] == "yes"
    assert [message.id for message in done["messages"]] == ["m1", "m2"]
    assert (await graph.aget_state(source)).values == before.values
    history = [one.config["configurable"]["checkpoint_id"] async for one in graph.aget_state_history(target)]
    assert len(history) == len(set(history)) == 3
    await saver.aclose()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, b"x", {"a": {3}}, None, 1])
def test_every_value_is_decoded_as_it_was_encoded(value: Any) -> None:
    encoded = json.loads(json.dumps(ValueCodec().encode(value)))
    decoded = ValueCodec().decode(encoded)
    assert repr(decoded) == repr(value)


def test_a_file_without_its_last_line_is_incomplete() -> None:
    lines = LineWriter()
    content = lines.header({}) + lines.line("thread", {"a": "ü\u2028"}) + lines.end()
    assert list(read_lines(content)) == [("thread", {"a": "ü\u2028"})]
    with pytest.raises(Invalid, match="incomplete"):
        list(read_lines(content.rsplit(b"\n", 2)[0]))


async def test_a_conflict_of_an_import_suggests_another_id(storage: Storage) -> None:
    saver = RedisSaver(storage.redis)
    await threads.create(storage, NewThread("t", "local"))
    thread_archive = ThreadArchive(storage, saver, Workflows({}), "1", {})
    content = b"".join([line async for line in await archive.export_file(thread_archive, "t", "local")])
    with pytest.raises(Conflict) as refused:
        await archive.import_file(thread_archive, content, "local")
    assert "another id" in refused.value.remedy
    await saver.aclose()


async def move_thread(storage: Storage, graph: Any, thread: Thread, *texts: str) -> dict[str, Any]:
    """Send messages on a thread, move it to an empty server, and send a last message there."""
    saver = RedisSaver(storage.redis)
    source_graph = graph.copy(update={"checkpointer": saver})
    thread_archive = ThreadArchive(storage, saver, Workflows({thread.graph: graph}), "1", {})
    await threads.bind(storage, thread)
    use(storage)
    try:
        for text in texts:
            await source_graph.ainvoke(messages(text), config(thread.id), context={"provider": "offline"})
        content = b"".join(
            [line async for line in await archive.export_file(thread_archive, thread.id, "local")]
        )
        await storage.redis.flushall()
        target_graph = graph.copy(update={"checkpointer": RedisSaver(storage.redis)})
        await archive.import_file(
            ThreadArchive(storage, target_graph.checkpointer, thread_archive.workflows, "1", {}),
            content,
            "local",
        )
        state: dict[str, Any] = await target_graph.ainvoke(
            messages(_LAST_MESSAGE[thread.graph]), config(thread.id), context={"provider": "offline"}
        )
    finally:
        use(None)
    return state


_LAST_MESSAGE = {"fact_narration": "1, 2, 4, 5, 6 and 7", "page_builder": "undo that"}


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.slow
async def test_a_lesson_that_waits_for_an_answer_is_answered_on_another_server(storage: Storage) -> None:
    """B40, B43, B50: with its facts, and with its images."""
    thread = Thread("l-1", "local", "fact_narration", "lesson:l-1")
    lesson = Artefact(storage, "lesson", "l-1", "local")
    await lesson.open(owner="local", thread="l-1", facts={})
    image = {"id": "a-1", "assetType": "image", "url": "https://e.org/leaf.png", "metadata": None}
    await lesson.create_version(NewVersion("assets", image, "local", "by-hand"))
    state = await move_thread(storage, fact_narration.graph, thread, material("photosynthesis").text)
    assert state["drafts"] == {"confirmed": "v1", "narration": "v1"}
    assert "6 facts" in state["messages"][-1].text
    assert [one.data for one in (await lesson.stream("assets")).versions] == [image]


async def test_a_page_is_edited_further_on_another_server(storage: Storage) -> None:
    thread = Thread("p-1", "local", "page_builder", "page:p-1")
    state = await move_thread(storage, page_builder.graph, thread, "make the headline teal")
    assert state["drafts"] == {"page": "v2"}
