"""A complete message has the parts that LangGraph streams of it in the Agent Streaming Protocol."""

import warnings
from typing import Any, Final

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from callsheet.server.langgraph.protocol.encoding import message_parts

_USAGE: Final[Any] = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
MESSAGES: Final[list[BaseMessage]] = [
    AIMessage("Said at once", id="a", usage_metadata=_USAGE),
    AIMessage(
        [
            {"type": "text", "text": "cited", "annotations": [{"type": "citation", "url": "https://a.test"}]},
            {"type": "reasoning", "reasoning": "because"},
            {"type": "text", "text": ""},
            {"type": "image", "base64": "QQ==", "mime_type": "image/png"},
            {"type": "file", "data": "QQ==", "mime_type": "a/b", "encoding": "base64"},
            {"type": "unheard of", "x": 1},
        ],
        id="b",
        response_metadata={"model_name": "m", "model_provider": "p", "finish_reason": "stop"},
    ),
    AIMessage(
        "",
        id="c",
        tool_calls=[{"name": "f", "args": {"x": 1}, "id": "1"}],
        invalid_tool_calls=[{"name": "g", "args": "{", "id": "2", "error": None}],
    ),
    AIMessage(
        [{"type": "server_tool_call", "name": "w", "args": {"q": 1}, "id": "3"}],
        id="d",
        response_metadata={"output_version": "v1"},
    ),
]


async def langgraph_parts(message: BaseMessage) -> list[Any]:
    """Return the parts that LangGraph streams of a message that a node returns."""
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda _: {"messages": [message]})
    builder.add_edge(START, "say")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The v3 streaming protocol")
        run = await builder.compile().astream_events({"messages": [HumanMessage("go")]}, version="v3")
    async with run:
        [parts] = [[part async for part in stream] async for stream in run.messages]
    return parts


def without_block_index(part: Any) -> Any:
    """Return a part without the index in its content block, which LangGraph's stream adds."""
    content = part.get("content")
    return {**part, "content": {**content, "index": None}} if content else part


@pytest.mark.parametrize("message", MESSAGES, ids=[str(message.id) for message in MESSAGES])
async def test_a_complete_message_has_the_parts_that_langgraph_streams(message: BaseMessage) -> None:
    assert [*map(without_block_index, message_parts(message))] == [
        *map(without_block_index, await langgraph_parts(message))
    ]
