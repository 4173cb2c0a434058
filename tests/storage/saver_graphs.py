"""Small graphs for tests of the saver, with their configs and inputs."""

import operator
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict


class TalkState(TypedDict, total=False):
    """A conversation, a value that is written once, and a count of turns."""

    messages: Annotated[list[Any], add_messages]
    profile: str
    n: Annotated[int, operator.add]


def add_writes(messages: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """Add the messages of a step's writes."""
    return [*messages, *chain.from_iterable(writes)]


class DeltaTalkState(TypedDict, total=False):
    """A conversation stored as writes, with a complete snapshot at times."""

    messages: Annotated[list[Any], DeltaChannel(add_writes, snapshot_frequency=5)]


def talk_graph(saver: BaseCheckpointSaver[Any], state: type = TalkState) -> CompiledStateGraph[Any, Any]:
    """A graph that answers `re:` and the message."""

    def answer(values: Any) -> dict[str, Any]:
        text = values["messages"][-1].content
        return {"messages": [AIMessage(f"re:{text}", id=f"re-{len(values['messages'])}")]} | (
            {"n": 1} if state is TalkState else {}
        )

    graph: Any = StateGraph(state)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    compiled: CompiledStateGraph[Any, Any] = graph.compile(checkpointer=saver)
    return compiled


def user_message(text: str, **more: Any) -> dict[str, Any]:
    """The input of a turn."""
    return {"messages": [HumanMessage(text, id=f"said-{text}")], **more}


def thread_config(name: str, **more: Any) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": name, **more}}


async def newest_checkpoint(saver: BaseCheckpointSaver[Any], name: str) -> Any:
    """The newest checkpoint of the thread, or None."""
    return await saver.aget_tuple(thread_config(name))


def message_contents(values: Any) -> list[str]:
    """The contents of all messages, oldest first."""
    return [message.content for message in values.get("messages", [])]
