"""A graph whose one node is work for a processor, and the same work without any graph."""

import sys
import time
from typing import Any, Final

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

TARGET_S: Final = 0.25
"""What one node takes of a processor that has nothing else to do."""


class Load(TypedDict):
    """How much there is to do, and what came of it."""

    turns: int
    found: int


def worked(turns: int) -> int:
    """Return what so many turns of plain Python come to; the processor is busy with nothing else."""
    found = 1
    for _ in range(turns):
        found = (found * 1_103_515_245 + 12_345) & 0x7FFFFFFF
    return found


def turns_for(seconds: float) -> int:
    """Return how many turns take so much of a processor's time on this machine."""
    began = time.process_time()
    worked(1_000_000)
    return int(1_000_000 * seconds / (time.process_time() - began))


def work(state: Load) -> dict[str, Any]:
    return {"found": worked(state["turns"])}


_builder: StateGraph[Load, None, Load, Load] = StateGraph(Load)
_builder.add_node("work", work)
_builder.add_edge(START, "work")
_builder.add_edge("work", END)
busy = _builder.compile(name="busy")


def main() -> None:
    """Do the work as often as the command line says, once a line comes in; print the processor's seconds."""
    turns, often = int(sys.argv[1]), int(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.process_time()
    for _ in range(often):
        worked(turns)
    print(time.process_time() - began)


if __name__ == "__main__":
    main()
