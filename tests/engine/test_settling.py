"""The events of a task reach the engine within the turns of the event loop that it waits for them."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import Pregel
from typing_extensions import TypedDict

from callsheet.nodes.node import EPOCH_KEY
from callsheet.server.engine.encoding import EventTranslator
from callsheet.server.engine.event_publisher import SETTLE_TURNS
from callsheet.storage.checkpoints import RedisSaver
from callsheet.storage.checkpoints.context import STEP_STORE, CheckpointRef
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import ScriptCall

MODES = ["values", "updates", "custom", "messages-tuple", "tasks", "checkpoints", "debug", "events"]


class State(TypedDict):
    """State of both graphs."""

    messages: list[AIMessage]


class CountingStore:
    """A `StepStore` that counts the turns until no more events of the stored task arrive."""

    thread = "t"

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._events = 0
        self._counted = asyncio.Event()
        self._counted.set()
        self.turns: list[int] = []
        """Turns after which the last event arrived, of each task."""

    def arrive(self, count: int) -> None:
        """Note events that arrived."""
        self._events += count

    async def store_writes(self, calls: Sequence[ScriptCall]) -> list[Any]:
        """Store, after many turns."""
        self._counted.clear()
        latest, seen = 0, self._events
        for turn in range(1, 10 * SETTLE_TURNS):
            await asyncio.sleep(0)
            if self._events > seen:
                latest, seen = turn, self._events
        self.turns.append(latest)
        self._counted.set()
        return [*await self._storage.redis.execute_batch(calls)]

    async def store_checkpoint(
        self, ref: CheckpointRef, source: str, values: Mapping[str, Any], calls: Sequence[ScriptCall]
    ) -> list[Any]:
        """Store once the events of the step's tasks have arrived, so that none of the next step do."""
        del ref, source, values
        await self._counted.wait()
        return [*await self._storage.redis.execute_batch(calls)]


async def speak(_: State) -> State:
    get_stream_writer()({"progress": 1})
    return {"messages": [AIMessage("words")]}


def speak_in_thread(_: State) -> State:
    get_stream_writer()({"progress": 1})
    return {"messages": [AIMessage("words")]}


def nested_graph(saver: RedisSaver, depth: int) -> Pregel[Any, Any]:
    """A graph with nodes on the event loop and in a thread, inside as many others."""
    builder: Any = StateGraph(State)
    builder.add_node("speak", speak)
    builder.add_node("thread", speak_in_thread)
    builder.add_edge(START, "speak")
    builder.add_edge("speak", "thread")
    builder.add_edge("thread", END)
    graph: Any = builder.compile()
    for _ in range(depth):
        outer = StateGraph(State)
        outer.add_node("inner", graph)
        outer.add_edge(START, "inner")
        outer.add_edge("inner", END)
        graph = outer.compile()
    copied: Pregel[Any, Any] = graph.copy(update={"checkpointer": saver, "stream_eager": True})
    return copied


@pytest.mark.parametrize("mode", [["updates"], MODES[:-1], MODES])
@pytest.mark.parametrize("depth", [0, 1, 3])
async def test_events_of_a_task_arrive_within_the_turns_that_the_engine_waits(
    storage: Storage, mode: list[str], depth: int
) -> None:
    """With the installed LangGraph; one that needs more turns must not be taken unnoticed."""
    saver, store = RedisSaver(storage.redis, fence=EPOCH_KEY), CountingStore(storage)
    STEP_STORE.set(store)
    config: RunnableConfig = {"configurable": {"thread_id": "t", EPOCH_KEY: 0}}
    await storage.redis.hset("thread:{t}:meta", "epoch", 0)
    translator = EventTranslator(mode, subgraphs=True)
    stream = translator.stream(nested_graph(saver, depth), {"messages": []}, config, durability="sync")
    async with aclosing(stream) as source:
        async for events in source:
            store.arrive(len(events))
    await saver.aclose()
    assert store.turns
    assert max(store.turns) < SETTLE_TURNS
