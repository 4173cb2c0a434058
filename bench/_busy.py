"""A graph whose one node only uses processor time, and the same work without a graph."""

import sys
import time
from typing import Any, Final

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

TARGET_S: Final = 0.25
"""Processor time of one node."""


class Load(TypedDict):
    """Amount of work, and its result."""

    turns: int
    result: int


def compute(turns: int) -> int:
    """Return the result of this many iterations of plain Python."""
    value = 1
    for _ in range(turns):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFFFFFF
    return value


def turns_for(seconds: float) -> int:
    """Return the number of iterations that use this much processor time on this machine."""
    start_s = time.process_time()
    compute(1_000_000)
    return int(1_000_000 * seconds / (time.process_time() - start_s))


def work(state: Load) -> dict[str, Any]:
    return {"result": compute(state["turns"])}


_builder: StateGraph[Load, None, Load, Load] = StateGraph(Load)
_builder.add_node("work", work)
_builder.add_edge(START, "work")
_builder.add_edge("work", END)
busy = _builder.compile(name="busy")


def main() -> None:
    """Wait for a line, compute as often as the command line says, and print the processor seconds."""
    turns, repeats = int(sys.argv[1]), int(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    start_s = time.process_time()
    for _ in range(repeats):
        compute(turns)
    print(time.process_time() - start_s)


if __name__ == "__main__":
    main()
