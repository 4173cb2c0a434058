"""Checkpointers compared: the same conversations, turn by turn, each figure as a ratio to memory.

A conversation has `TURNS` turns of three nodes and about 490 characters. In every round all savers hold it
at once, so that other load of the machine affects all of them. The figure is the median of the rounds,
with the smallest and the largest of them.
"""

import asyncio
import gc
import logging
import operator
import os
import random
import statistics
import tempfile
import time
import uuid
import warnings
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from bench import size
from bench._savers import PEERS, Saver, SaverPeer, valkey

ROUNDS: Final = size(5, short=2)
TURNS: Final = size(100, short=4)
DELTA_TURNS: Final = size(60, short=4)
"""Fewer, because some savers need seconds for each of the later ones."""
LATE: Final = size(15, short=2)
"""The last turns of a conversation, whose median is the figure."""
USERS: Final = size(50, short=2)
USER_TURNS: Final = size(10, short=2)

_CHANCE: Final = random.Random(7)  # noqa: S311 - words, no secrets
_WORDS: Final = [
    "".join(_CHANCE.choices("abcdefghijklmnopqrstuvwxyz", k=_CHANCE.randint(2, 9))) for _ in range(4000)
]
"""Enough words to be realistic: repeated letters would flatter a saver that compresses."""


class Talk(TypedDict, total=False):
    """A conversation, a profile written once, a route, and a count."""

    messages: Annotated[list[Any], add_messages]
    profile: str
    route: str
    n: Annotated[int, operator.add]


def add_writes(messages: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """Add the messages of a step's writes."""
    return [*messages, *chain.from_iterable(writes)]


class DeltaTalk(Talk, total=False):
    """A conversation whose messages are stored as writes."""

    messages: Annotated[list[Any], DeltaChannel(add_writes)]


@dataclass
class Column:
    """One saver and its figures."""

    peer: SaverPeer
    saver: Saver
    folder: Path
    figures: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: dict[str, str] = field(default_factory=dict)


def main() -> int:
    """Print the table; 1 if a saver gave a wrong conversation."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with valkey() as url, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        return asyncio.run(_measure(url, Path(folder)))


async def _measure(url: str, folder: Path) -> int:
    for peer in PEERS:
        if peer.missing:
            print(f"{peer.name} is not installed and is left out")
    async with AsyncExitStack() as stack:
        columns = []
        for number, peer in enumerate(each for each in PEERS if not each.missing):
            own_folder = folder / str(number)
            own_folder.mkdir()
            columns.append(
                Column(peer, await stack.enter_async_context(peer.open(url, own_folder)), own_folder)
            )
        for number in range(ROUNDS):
            await _round(columns, number, url)
        failed = [column.peer.name for column in columns if not await _is_complete(column)]
    _print(columns)
    if failed:
        print(f"wrong conversations: {', '.join(failed)}")
    return 1 if failed else 0


async def _round(columns: Sequence[Column], number: int, url: str) -> None:
    await _converse(columns, f"Talk-{number}", Talk, TURNS, "late turn")
    await _each(columns, number, "history", lambda graph: _history(graph, f"Talk-{number}"))
    await _each(columns, number, "flood", lambda graph: _flood(graph, number))
    await _converse(columns, f"DeltaTalk-{number}", DeltaTalk, DELTA_TURNS, "late delta turn")
    if number == 0:
        for column in columns:
            column.figures["bytes a turn"].append(await _stored_turn(column, url))


async def _converse(columns: Sequence[Column], name: str, state: type, turns: int, figure: str) -> None:
    """Run one conversation on every saver, each turn on all of them before the next."""
    graphs = [_graph(column.saver, state) for column in columns]
    times: list[list[float]] = [[] for _ in columns]
    gc.collect()
    for turn in range(turns):
        values = _turn_input(turn)
        order = list(range(len(columns)))
        random.Random(turn).shuffle(order)  # noqa: S311 - no secret
        for index in order:
            start_s = time.perf_counter()
            await graphs[index].ainvoke(values, _thread(name))
            times[index].append(time.perf_counter() - start_s)
    for column, durations in zip(columns, times, strict=True):
        column.figures[figure].append(statistics.median(durations[-LATE:]))


async def _each(
    columns: Sequence[Column], number: int, figure: str, work: Callable[[Any], Awaitable[None]]
) -> None:
    """Measure `work` on every saver, in another order each round; store the error of one that fails."""
    for column in (*columns[number % len(columns) :], *columns[: number % len(columns)]):
        gc.collect()
        start_s = time.perf_counter()
        (failure,) = await asyncio.gather(work(_graph(column.saver, Talk)), return_exceptions=True)
        column.figures[figure].append(time.perf_counter() - start_s)
        if failure:
            column.failures[figure] = f"{type(failure).__name__}: {failure}"


async def _history(graph: Any, name: str) -> None:
    count = 0
    async for _ in graph.aget_state_history(_thread(name)):
        count += 1
    assert count == 5 * TURNS, f"{count} checkpoints of {5 * TURNS}"


async def _flood(graph: Any, number: int) -> None:
    async def user(name: str) -> None:
        for turn in range(USER_TURNS):
            await graph.ainvoke(_turn_input(turn), _thread(name))

    await asyncio.gather(*(user(f"flood-{number}-{each}") for each in range(USERS)))


async def _stored_turn(column: Column, url: str) -> float:
    """Return the bytes that a conversation adds per turn."""
    before = await column.peer.stored_bytes(url, column.folder, column.saver)
    graph = _graph(column.saver, Talk)
    for turn in range(TURNS):
        await graph.ainvoke(_turn_input(turn), _thread("stored"))
    return (await column.peer.stored_bytes(url, column.folder, column.saver) - before) / TURNS


async def _is_complete(column: Column) -> bool:
    """Return True if the last conversation holds every message in order."""
    state = await _graph(column.saver, Talk).aget_state(_thread(f"Talk-{ROUNDS - 1}"))
    numbers = [message.content.partition(" ")[0] for message in state.values["messages"]]
    return numbers == [str(each) for turn in range(TURNS) for each in (turn, 2 * turn + 1)]


def _graph(saver: Saver, schema: type) -> Any:
    async def plan(state: Any) -> dict[str, Any]:
        return {"route": f"r{state['n']}"}

    async def work(state: Any) -> dict[str, Any]:
        count = len(state["messages"])
        return {"messages": [AIMessage(f"{count} {_text(340)}", id=f"ai-{count}-{uuid.uuid4().hex}")]}

    async def finish(_state: Any) -> dict[str, Any]:
        return {"n": 1}

    graph: Any = StateGraph(schema)
    for node in (plan, work, finish):
        graph.add_node(node.__name__, node)
    for source, target in ((START, "plan"), ("plan", "work"), ("work", "finish"), ("finish", END)):
        graph.add_edge(source, target)
    return graph.compile(checkpointer=saver)


def _turn_input(turn: int) -> dict[str, Any]:
    values: dict[str, Any] = {"messages": [HumanMessage(f"{turn} {_text(150)}", id=uuid.uuid4().hex)]}
    return values if turn else values | {"profile": _text(2000), "n": 0}


def _text(length: int) -> str:
    words: list[str] = []
    while sum(map(len, words)) + len(words) < length:
        words.append(_CHANCE.choice(_WORDS))
    return " ".join(words)


def _thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def _print(columns: Sequence[Column]) -> None:
    floor = columns[0]
    load = os.getloadavg()[0]
    print(f"{ROUNDS} rounds of {TURNS} turns; {USERS} threads × {USER_TURNS} turns; load {load:.1f}")
    print(f"{'':20}" + "".join(f"{figure:>26}" for figure in floor.figures))
    for column in columns:
        cells = [_cell(figure, column, floor) for figure in floor.figures]
        print(f"{column.peer.name:20}" + "".join(f"{cell:>26}" for cell in cells))
    for column in columns:
        for figure, reason in column.failures.items():
            print(f"{column.peer.name} failed at {figure}: {reason[:160]}")


def _cell(figure: str, column: Column, floor: Column) -> str:
    values = column.figures[figure]
    if figure in column.failures:
        return "failed"
    if figure == "bytes a turn":
        return f"{values[0]:,.0f}"
    if column is floor:
        return (
            f"{statistics.median(values) * 1000:.1f} ms ({min(values) * 1000:.1f}–{max(values) * 1000:.1f})"
        )
    ratios = [value / base for value, base in zip(values, floor.figures[figure], strict=True)]
    return f"{statistics.median(ratios):.2f}× ({min(ratios):.2f}–{max(ratios):.2f})"
