"""LangGraph's own stand-in for a graph elsewhere, `RemoteGraph`, against our server (X7)."""

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
    with running_server_on_own_redis() as found:
        yield found


async def on_a_thread(client: LangGraphClient) -> Any:
    return {"configurable": {"thread_id": await create_thread(client)}}


async def test_a_graph_elsewhere_is_run_asked_answered_and_read(client: LangGraphClient) -> None:
    graph, config = RemoteGraph("agent", client=client), await on_a_thread(client)
    assert {"plan", "review", "finish"} <= set((await graph.aget_graph()).nodes)
    asked = await graph.ainvoke(HELLO, config)
    assert asked["__interrupt__"][0]["value"].items() >= QUESTION.items()
    assert (await graph.aget_state(config)).next == ("review",)
    done = await graph.ainvoke(Command(resume=APPROVED), config)
    assert done["decision"] == APPROVED
    assert len([one async for one in graph.aget_state_history(config)]) == 5
    await graph.aupdate_state(config, {"steps": ["by hand"]})
    assert (await graph.aget_state(config)).values["steps"][-1] == "by hand"


async def test_a_graph_elsewhere_needs_no_thread(client: LangGraphClient) -> None:
    values = await RemoteGraph("counter", client=client).ainvoke(graph_input(x=1, log=[]))
    assert values == {"x": 4, "log": ["a", "b", "c"]}


async def test_a_graph_elsewhere_is_a_node_of_one_here(client: LangGraphClient) -> None:
    """Its question is that of the graph here, which stops for it."""
    builder = StateGraph(ChatState)
    builder.add_node("far", RemoteGraph("agent", client=client))
    builder.add_edge(START, "far")
    builder.add_edge("far", END)
    told = await builder.compile().ainvoke(HELLO, await on_a_thread(client))
    assert told["__interrupt__"][0].value.items() >= QUESTION.items()


async def test_what_a_graph_elsewhere_tells_is_streamed(client: LangGraphClient) -> None:
    graph = RemoteGraph("counter", client=client)
    told = [one async for one in graph.astream(graph_input(x=1, log=[]), stream_mode="updates")]
    assert [list(one) for one in told] == [["a"], ["b"], ["c"]]
