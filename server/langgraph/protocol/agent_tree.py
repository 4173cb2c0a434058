"""The graphs that a run went through, one below the other, and how each of them stands."""

from typing import Any, Final

import orjson

from callsheet.server.context import AppContext
from callsheet.state.errors import Missing
from callsheet.storage.runs import events
from callsheet.storage.runs.events import PROTOCOL
from callsheet.storage.runs.records import Run

_STATUSES: Final = {"pending": "started", "running": "running", "success": "completed", "timeout": "failed"}
_LIFECYCLE: Final = f"{PROTOCOL}lifecycle|"


async def agent_tree_of_run(here: AppContext, thread: str, run_id: str | None) -> dict[str, Any]:
    """Return the tree of a run, the thread's newest unless chosen; raises `Missing`."""
    run = await _run(here, thread, run_id)
    nodes: dict[tuple[str, ...], dict[str, Any]] = {(): _node((), "interrupted", run.graph)}
    nodes[()]["status"] = _STATUSES.get(run.status, "failed" if run.status == "error" else "interrupted")
    after = events.BEGINNING
    while found := await events.read_after(here.storage, thread, after):
        after = found[-1].id
        for event in found:
            if event.run != run.id:
                continue
            if event.name.startswith(_LIFECYCLE):
                _add(nodes, orjson.loads(event.data))
            elif event.name == events.END and event.data == b"paused":
                nodes[()]["status"] = "interrupted"
    return nodes[()]


async def _run(here: AppContext, thread: str, run_id: str | None) -> Run:
    if run_id:
        return await here.worker.runs.get(thread, run_id)
    newest = await here.worker.runs.list_runs(thread, 0, 1)
    if not newest:
        raise Missing(f"thread {thread!r} has had no run", remedy="start one")
    return newest[0]


def _add(nodes: dict[tuple[str, ...], dict[str, Any]], told: dict[str, Any]) -> None:
    place, data = tuple(told["namespace"]), told["data"]
    if place not in nodes:
        above = next(nodes[place[:end]] for end in range(len(place) - 1, -1, -1) if place[:end] in nodes)
        nodes[place] = _node(place, data["event"], data["graph_name"])
        above.setdefault("children", []).append(nodes[place])
    nodes[place]["status"] = data["event"]


def _node(place: tuple[str, ...], status: str, graph: str) -> dict[str, Any]:
    return {"namespace": list(place), "status": status, "graph_name": graph}
