"""Events of graphs of several kinds in the Agent Streaming Protocol, through LangGraph's own client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import MessagesState
from langgraph.prebuilt import ToolNode
from langgraph_sdk.client import LangGraphClient

from tests.doubles.waiting import PATIENCE_S
from tests.doubles.wire_served import HELLO, running_server_on_own_redis

VOICES = ("alto", "bass")


async def alto(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await FakeListChatModel(responses=["high"], sleep=0.01).ainvoke("")]}


async def bass(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await FakeListChatModel(responses=["low!"], sleep=0.01).ainvoke("")]}


async def complete_message(state: MessagesState) -> dict[str, Any]:
    """Return a message without a model."""
    return {"messages": [AIMessage("All at once", id="said-1")]}


@tool
async def double(number: int) -> int:
    """Double a number."""
    return number * 2


async def call(state: MessagesState) -> dict[str, Any]:
    call: Any = {"name": "double", "args": {"number": 4}, "id": "call-1", "type": "tool_call"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def _chain(*nodes: tuple[str, Any]) -> Any:
    builder = StateGraph(MessagesState)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder.compile()


def _choir() -> Any:
    builder = StateGraph(MessagesState)
    for name, voice in zip(VOICES, (alto, bass), strict=True):
        builder.add_node(name, voice)
        builder.add_edge(START, name)
    return builder.compile()


GRAPHS = {
    "choir": _choir(),
    "whole": _chain(("whole", complete_message)),
    "tools": _chain(("call", call), ("tools", ToolNode([double]))),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(GRAPHS) as server_url:
        yield server_url


@asynccontextmanager
async def start_run(client: LangGraphClient, graph: str) -> AsyncIterator[Any]:
    async with client.threads.stream(assistant_id=graph) as thread, asyncio.timeout(PATIENCE_S):
        await thread.run.start(input=HELLO)
        yield thread


async def test_messages_of_parallel_nodes_are_separate(client: LangGraphClient) -> None:
    async with start_run(client, "choir") as thread:
        messages = [message async for message in thread.messages]
        texts = sorted([await message.text for message in messages])
        assert texts == ["high", "low!"]


async def test_a_message_that_no_model_streamed_is_sent_complete(client: LangGraphClient) -> None:
    async with start_run(client, "whole") as thread:
        [message] = [message async for message in thread.messages]
        assert await message.text == "All at once"
        [start, *_, finish] = [event async for event in _events(thread, "messages")]
    assert start["params"]["data"] == {"event": "message-start", "role": "ai", "id": "said-1"}
    assert start["params"]["node"] == "whole"
    assert finish["params"]["data"]["event"] == "message-finish"


async def test_tool_calls_are_streamed_with_their_output(client: LangGraphClient) -> None:
    async with start_run(client, "tools") as thread:
        [tool_call] = [call async for call in thread.tool_calls]
        assert tool_call.name == "double"
        assert tool_call.input == {"number": 4}
        output = await tool_call.output
    assert output["content"] == "8"
    assert output["tool_call_id"] == "call-1"


async def _events(thread: Any, method: str) -> AsyncIterator[Any]:
    async for event in thread.events:
        if event["method"] == method:
            yield event
        if event["method"] == "lifecycle" and event["params"]["data"]["event"] == "completed":
            return
