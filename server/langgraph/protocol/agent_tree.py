"""Tree of the graphs that a run executes, each with its status."""

from typing import Final

import orjson

from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.state.errors import Missing
from callsheet.storage.runs import events
from callsheet.storage.runs.events import PROTOCOL_PREFIX
from callsheet.storage.runs.records import Run

_STATUSES: Final = {
    "pending": "started",
    "running": "running",
    "success": "completed",
    "timeout": "failed",
    "error": "failed",
}
_LIFECYCLE: Final = f"{PROTOCOL_PREFIX}lifecycle|"


async def agent_tree_of_run(ctx: AppContext, thread: str, run_id: str | None) -> JsonObject:
    """Return the tree of a run, by default the thread's newest; raises `Missing`."""
    run = await _run(ctx, thread, run_id)
    root = _node((), _STATUSES.get(run.status, "interrupted"), run.graph)
    nodes: dict[tuple[str, ...], JsonObject] = {(): root}
    after = events.START_ID
    while batch := await events.read_after(ctx.storage, thread, after):
        after = batch[-1].id
        for event in batch:
            if event.run != run.id:
                continue
            if event.name.startswith(_LIFECYCLE):
                _apply_lifecycle(nodes, orjson.loads(event.data))
            elif event.name == events.END and event.data == b"paused":
                root["status"] = "interrupted"
    return root


async def _run(ctx: AppContext, thread: str, run_id: str | None) -> Run:
    if run_id:
        return await ctx.worker.runs.get(thread, run_id)
    newest = await ctx.worker.runs.list_runs(thread, 0, 1)
    if not newest:
        raise Missing(f"thread {thread!r} has had no run", remedy="start one")
    return newest[0]


def _apply_lifecycle(nodes: dict[tuple[str, ...], JsonObject], params: JsonObject) -> None:
    namespace, data = tuple(params["namespace"]), params["data"]
    if namespace not in nodes:
        ancestors = (namespace[:end] for end in range(len(namespace) - 1, -1, -1))
        parent = next(nodes[ancestor] for ancestor in ancestors if ancestor in nodes)
        nodes[namespace] = _node(namespace, data["event"], data["graph_name"])
        parent.setdefault("children", []).append(nodes[namespace])
    nodes[namespace]["status"] = data["event"]


def _node(namespace: tuple[str, ...], status: str, graph: str) -> JsonObject:
    return {"namespace": list(namespace), "status": status, "graph_name": graph}
