"""A graph of a user's own that asks a person."""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


class BakeryOrder(TypedDict, total=False):
    item: str
    count: int


async def ask(state: BakeryOrder) -> BakeryOrder:
    answer = interrupt(
        {
            "message": f"How many {state['item']}?",
            "effect": "They are ordered at once",
            "response_schema": SCHEMA,
            "choices": [1, 2, 3],
        }
    )
    return {"count": answer["count"]}


def ordering() -> Any:
    builder = StateGraph(BakeryOrder)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(name="ordering")


graph = ordering()
