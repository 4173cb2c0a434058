"""A graph whose only step takes as long as its input says, as a call of a model does."""

import asyncio
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class Pause(TypedDict):
    pause_s: float


async def rest(state: Pause) -> dict[str, Any]:
    get_stream_writer()({"rests": state["pause_s"]})
    await asyncio.sleep(state["pause_s"])
    return {"pause_s": state["pause_s"]}


resting = StateGraph(Pause).add_node("rest", rest).add_edge(START, "rest")
