"""Updates of a thread's state by a client: values written as a node would, or a whole history."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command, StateUpdate

from callsheet.server.engine.json_values import dumps
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph import shapes
from callsheet.server.langgraph.bodies import Body
from callsheet.server.langgraph.inputs import check_update
from callsheet.server.langgraph.shapes import JsonObject
from callsheet.server.langgraph.thread_search import find_state
from callsheet.state.errors import CallsheetError, Refused
from callsheet.storage.runs import events
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

_COMMAND_FIELDS: Final = ("resume", "update", "goto", "graph")


class NodeUpdate(Body):
    """Values or a command, written as by a node."""

    values: Any = None
    command: JsonObject | None = None
    as_node: str | None = None

    def to_state_update(self) -> StateUpdate:
        """Return the update for LangGraph; raises `Refused` for an unknown field of the command."""
        if self.command is None:
            return StateUpdate(self.values, self.as_node)
        if unknown := sorted(self.command.keys() - set(_COMMAND_FIELDS)):
            raise Refused(
                f"a command has no field {unknown[0]!r}", remedy=f"use {', '.join(_COMMAND_FIELDS)}"
            )
        # LangGraph accepts a command here although its annotation does not.
        return StateUpdate(cast("Any", Command(**self.command)), self.as_node)


class Superstep(Body):
    """Updates written in one step."""

    updates: list[NodeUpdate]


def graph_of_thread(ctx: AppContext, record: Thread) -> Pregel[Any, Any]:
    """Return a thread's graph; raises `Refused` if the thread has none yet or the graph is not served."""
    if not record.graph:
        raise Refused(
            f"thread {record.id!r} has no graph yet",
            remedy="run an assistant on it first, or set 'graph_id' in its metadata",
        )
    if record.graph not in ctx.graphs:
        raise Refused(
            f"thread {record.id!r} uses graph {record.graph!r}, which this server does not serve",
            remedy=f"serve it again beside {', '.join(sorted(ctx.graphs))}",
        )
    return ctx.graphs[record.graph]


async def apply_update(
    ctx: AppContext, record: Thread, at: RunnableConfig, values: Any, as_node: str | None
) -> RunnableConfig:
    """Write `values` at a checkpoint as `as_node` would, and return the config of the new checkpoint.

    Raises `Busy` while a run holds the thread, and `Refused` or `Invalid` for values that the graph refuses.
    """
    graph = graph_of_thread(ctx, record)
    if isinstance(values, list) and not values:
        values = None
    check_update(graph, values)
    async with threads.hold(ctx.storage, record.id, record.owner):
        with _graph_errors():
            written = await graph.aupdate_state(_with_metadata(at, record), values, as_node)
        await record_state(ctx, record, graph)
        # The event holds only the checkpoint's id: with the values, each update would be stored twice.
        pointer = {name: written["configurable"][name] for name in ("checkpoint_id", "checkpoint_ns")}
        await events.append(ctx.storage, record.id, events.STATE_UPDATED, dumps(pointer))
    return written


async def apply_supersteps(ctx: AppContext, record: Thread, supersteps: Sequence[Superstep]) -> None:
    """Write a history; raises as `apply_update`."""
    graph = graph_of_thread(ctx, record)
    steps = [[update.to_state_update() for update in step.updates] for step in supersteps]
    for step in supersteps:
        for update in step.updates:
            check_update(graph, update.values)
    at: RunnableConfig = {"configurable": {"thread_id": record.id}}
    async with threads.hold(ctx.storage, record.id, record.owner):
        with _graph_errors():
            await graph.abulk_update_state(_with_metadata(at, record), steps)
        await record_state(ctx, record, graph)


async def record_state(
    ctx: AppContext, record: Thread, graph: Pregel[Any, Any], *, pending_status: str = "interrupted"
) -> None:
    """Store a thread's interrupts and status: `pending_status` if its state has next nodes, else idle."""
    if snapshot := await find_state(graph, record.id):
        status = pending_status if snapshot.next else "idle"
        interrupts = shapes.to_json_value(shapes.interrupts_view(snapshot))
    else:
        status, interrupts = "error", {}
    await threads.record_edit(ctx.storage, record, status, interrupts)


def _with_metadata(at: RunnableConfig, record: Thread) -> RunnableConfig:
    metadata = {"graph_id": record.graph, "assistant_id": record.metadata.get("assistant_id")}
    return {**at, "metadata": {name: value for name, value in metadata.items() if value}}


@contextmanager
def _graph_errors() -> Iterator[None]:
    """Raise `Refused` for any error of the graph's channels and edges: the values do not fit."""
    try:
        yield
    except CallsheetError:
        raise
    except Exception as error:
        message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise Refused(message, remedy="see the graph's nodes, and the schema of its state") from error
