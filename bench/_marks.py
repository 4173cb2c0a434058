"""A graph whose only step appends the time to a file."""

import time
from pathlib import Path

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class MarkInput(TypedDict):
    """Input of the graph."""

    file: str


def append_time(state: MarkInput) -> MarkInput:
    """Append the time, in one write."""
    with Path(state["file"]).open("a") as marks:
        marks.write(f"{time.time()}\n")
    return state


mark = StateGraph(MarkInput).add_node("append_time", append_time).add_edge(START, "append_time")
