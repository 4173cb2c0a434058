"""A graph that publishes a text after a person's answer, and counts publications in the store."""

import operator
from typing import Annotated, Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict

PUBLISHED = ("published",)
"""Namespace of the counts in the store, by thread."""


class Post(TypedDict, total=False):
    """A text, and the answers to the question whether to publish it."""

    text: str
    texts: Annotated[list[str], operator.add]
    answers: Annotated[list[str], operator.add]


async def draft(state: Post) -> dict[str, Any]:
    return {"texts": [state["text"]]}


async def ask(state: Post) -> dict[str, Any]:
    return {"answers": [interrupt({"publish": state["text"]})]}


async def publish(state: Post, config: RunnableConfig, *, runtime: Runtime[None]) -> None:
    assert runtime.store is not None
    thread = config["configurable"]["thread_id"]
    before = await runtime.store.aget(PUBLISHED, thread)
    await runtime.store.aput(PUBLISHED, thread, {"times": 1 + (before.value["times"] if before else 0)})


_builder: Any = StateGraph(Post)
for _step in (draft, ask, publish):
    _builder.add_node(_step)
_builder.add_edge(START, "draft")
_builder.add_edge("draft", "ask")
_builder.add_edge("ask", "publish")
_builder.add_edge("publish", END)
post = _builder.compile(name="post")
