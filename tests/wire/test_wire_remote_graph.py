"""LangGraph's `RemoteGraph` against our server (X7)."""

from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk.client import LangGraphClient

from tests.doubles.wire_graphs import QUESTION, ChatState
from tests.doubles.wire_served import APPROVED, HELLO, create_thread, graph_input, running_server_on_own_redis


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis() as server_url:
        yield server_url


async def thread_config(client: LangGraphClient) -> Any:
    return {"configurable": {"thread_id": await create_thread(client)}}


async def test_a_remote_graph_is_run_interrupted_resumed_and_updated(client: LangGraphClient) -> None:
    graph, config = RemoteGraph("agent", client=client), await thread_config(client)
    assert {"plan", "review", "finish"} <= set((await graph.aget_graph()).nodes)
    interrupted = await graph.ainvoke(HELLO, config)
    assert interrupted["__interrupt__"][0]["value"].items() >= QUESTION.items()
    assert (await graph.aget_state(config)).next == ("review",)
    resumed = await graph.ainvoke(Command(resume=APPROVED), config)
    assert resumed["decision"] == APPROVED
    assert len([state async for state in graph.aget_state_history(config)]) == 5
    await graph.aupdate_state(config, {"steps": ["by hand"]})
    assert (await graph.aget_state(config)).values["steps"][-1] == "by hand"


async def test_a_remote_graph_runs_without_a_thread(client: LangGraphClient) -> None:
    values = await RemoteGraph("counter", client=client).ainvoke(graph_input(x=1, log=[]))
    assert values == {"x": 4, "log": ["a", "b", "c"]}


async def test_a_remote_graph_as_a_node_interrupts_the_local_graph(client: LangGraphClient) -> None:
    """The interrupt of the remote graph becomes one of the local graph."""
    builder = StateGraph(ChatState)
    builder.add_node("far", RemoteGraph("agent", client=client))
    builder.add_edge(START, "far")
    builder.add_edge("far", END)
    result = await builder.compile().ainvoke(HELLO, await thread_config(client))
    assert result["__interrupt__"][0].value.items() >= QUESTION.items()


async def test_the_updates_of_a_remote_graph_are_streamed(client: LangGraphClient) -> None:
    graph = RemoteGraph("counter", client=client)
    updates = [update async for update in graph.astream(graph_input(x=1, log=[]), stream_mode="updates")]
    assert [list(update) for update in updates] == [["a"], ["b"], ["c"]]
