"""Values of a run are stored once, in its checkpoints, and streamed from there to every reader."""

from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from typing_extensions import TypedDict

from callsheet.storage import Storage
from callsheet.storage.redis import keys
from tests.doubles.wire_graphs import GRAPHS
from tests.doubles.wire_served import collect, create_thread
from tests.doubles.wire_server import running_server
from tests.wire.protocol_reader import ProtocolThread, run_ended

WORDS = "words " * 200


class GrowingState(TypedDict):
    """A conversation, its last answer, and a number that grows."""

    messages: Annotated[list[AnyMessage], add_messages]
    turns: int
    asks: bool


async def answer(state: GrowingState) -> dict[str, Any]:
    turns = state.get("turns", 0) + 1
    return {"messages": [AIMessage(f"{turns} {WORDS}", id=f"answer-{turns}")], "turns": turns}


async def ask(state: GrowingState) -> dict[str, Any]:
    return {"asks": False, "messages": [AIMessage(interrupt("go on?"))]} if state.get("asks") else {}


def _builder() -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(GrowingState)


def _graphs() -> dict[str, Any]:
    inner = _builder().add_node("answer", answer).add_edge(START, "answer").compile()
    outer = _builder().add_node("answer", answer).add_node("ask", ask)
    outer.add_edge(START, "answer").add_edge("answer", "ask").add_edge("ask", END)
    nested = _builder().add_node("inner", inner).add_edge(START, "inner").add_edge("inner", END)
    return {**GRAPHS, "chatter": outer.compile(name="chatter"), "nested": nested.compile(name="nested")}


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, _graphs()) as server_url:
        yield server_url


def _input(number: int, *, asks: bool = False) -> Any:
    return {"messages": [{"role": "user", "content": f"{number} {WORDS}", "id": f"q-{number}"}], "asks": asks}


async def _take_turns(
    client: LangGraphClient, thread: str, turns: range, graph: str = "chatter"
) -> list[Any]:
    """Take turns, and return the events of the last one as they were streamed."""
    options: Any = {"stream_mode": ["values", "updates"], "stream_resumable": True, "stream_subgraphs": True}
    events: list[Any] = []
    for number in turns:
        events = await collect(client.runs.stream(thread, graph, input=_input(number), **options))
    return events


async def _event_bytes(storage: Storage, thread: str) -> int:
    return int(await storage.redis.memory_usage(keys.run_keys(thread).events, samples=0) or 0)


async def test_the_events_of_a_conversation_grow_with_its_length_and_not_with_its_square(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    await _take_turns(client, thread, range(10))
    early = await _event_bytes(storage, thread)
    await _take_turns(client, thread, range(10, 40))
    assert await _event_bytes(storage, thread) < 5 * early


@pytest.mark.parametrize("graph", ["chatter", "nested"])
async def test_values_are_read_again_from_any_server_as_they_were_streamed(
    client: LangGraphClient, valkey_url: str, storage: Storage, graph: str
) -> None:
    thread = await create_thread(client)
    streamed = await _take_turns(client, thread, range(3), graph)
    run = streamed[0].data["run_id"]
    last = [one.data for one in streamed if one.event == "values"][-1]
    assert len(last["messages"]) == 6
    stored = await storage.redis.xrange(keys.run_keys(thread).events)
    assert any(b"names" in fields for _, fields in stored), "values are left to their checkpoints"
    with running_server(valkey_url, _graphs()) as other_url:
        other = get_client(url=other_url)
        again = await collect(other.runs.join_stream(thread, run, last_event_id="-1"))
        assert await other.runs.join(thread, run) == last
        await other.http.client.aclose()
    assert [(one.event, one.data) for one in again] == [(one.event, one.data) for one in streamed]


async def test_values_with_a_question_are_read_again_with_it(
    client: LangGraphClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    await _take_turns(client, thread, range(2))
    options: Any = {"stream_mode": ["values"], "stream_resumable": True}
    streamed = await collect(client.runs.stream(thread, "chatter", input=_input(3, asks=True), **options))
    assert [each["value"] for each in streamed[-1].data["__interrupt__"]] == ["go on?"]
    assert len(streamed[-1].data["messages"]) == 6
    again = await collect(client.runs.join_stream(thread, streamed[0].data["run_id"], last_event_id="-1"))
    assert again == streamed
    stored = [fields for _, fields in await storage.redis.xrange(keys.run_keys(thread).events)]
    assert max(len(fields[b"data"]) for fields in stored if b"__interrupt__" in fields[b"data"]) < 1_000


async def test_values_whose_checkpoint_is_gone_are_a_gap(client: LangGraphClient, valkey_url: str) -> None:
    thread = await create_thread(client)
    streamed = await _take_turns(client, thread, range(2))
    run = streamed[0].data["run_id"]
    await client.threads.prune([thread], strategy="keep_latest")
    with running_server(valkey_url, _graphs()) as other_url:
        other = get_client(url=other_url)
        again = await collect(other.runs.join_stream(thread, run, last_event_id="-1"))
        result = await other.runs.join(thread, run)
        await other.http.client.aclose()
    names = [one.event for one in again]
    assert names[:2] == ["metadata", "gap"]
    assert again[1].data == {"first": streamed[1].id}
    assert [one.data for one in again if one.event == "updates"] == [
        one.data for one in streamed if one.event == "updates"
    ]
    assert result == [one.data for one in streamed if one.event == "values"][-1], "that of the newest state"


async def test_the_second_protocol_reads_values_from_checkpoints_too(
    client: LangGraphClient, http: httpx.AsyncClient, storage: Storage
) -> None:
    thread = await create_thread(client)
    protocol = ProtocolThread(http, thread)
    sizes = []
    for number in range(16):
        run = await protocol.start("chatter", _input(number))
        await protocol.read_until(run_ended(run))
        sizes.append(await _event_bytes(storage, thread))
    assert sizes[15] - sizes[14] < 2 * (sizes[1] - sizes[0])
