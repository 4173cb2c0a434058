"""A thread's state, changed by hand: by values as a node would have written them, or a past told at once."""

from collections.abc import Sequence
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command, StateUpdate

from callsheet.server.context import AppContext
from callsheet.server.langgraph import shapes
from callsheet.server.langgraph.bodies import Body
from callsheet.server.runtime.encoding import dumps
from callsheet.state.errors import CallsheetError, Refused
from callsheet.storage.runs import events
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord

_Object = dict[str, Any]
_NAMES: Final = ("resume", "update", "goto", "graph")


class NodeUpdate(Body):
    """What a node is to have written."""

    values: Any = None
    command: _Object | None = None
    as_node: str | None = None


class Superstep(Body):
    """What nodes are to have written in one step."""

    updates: list[NodeUpdate]


def graph_of_thread(here: AppContext, record: ThreadRecord) -> Pregel[Any, Any]:
    """Return the graph that runs on a thread; raises `Refused` where that is open, or it is not served."""
    if not record.graph:
        raise Refused(
            f"thread {record.id!r} has no graph yet",
            remedy="run an assistant on it first, or set 'graph_id' in its metadata",
        )
    if record.graph not in here.graphs:
        raise Refused(
            f"thread {record.id!r} is of graph {record.graph!r}, which this server does not have",
            remedy=f"serve it again beside {', '.join(sorted(here.graphs))}",
        )
    return here.graphs[record.graph]


async def apply_update(
    here: AppContext, record: ThreadRecord, at: RunnableConfig, values: Any, as_node: str | None
) -> RunnableConfig:
    """Write `values` at a checkpoint as `as_node` would, and return where that led.

    Raises `Busy` while a run is at the thread, and `Refused` for what the graph does not take.
    """
    graph = graph_of_thread(here, record)
    if isinstance(values, list) and not values:
        values = None
    async with thread_records.hold(here.storage, record.id, record.owner):
        try:
            there = await graph.aupdate_state(_tagged(at, record), values, as_node)
        except CallsheetError:
            raise
        except Exception as error:
            raise _refused(error) from error
        await record_state(here, record, graph)
        # Readers are shown the state as it is kept; told with all it has, each change would be kept twice.
        pointer = {name: there["configurable"][name] for name in ("checkpoint_id", "checkpoint_ns")}
        await events.append(here.storage, record.id, events.STATE, dumps(pointer))
    return there


async def apply_supersteps(here: AppContext, record: ThreadRecord, supersteps: Sequence[Superstep]) -> None:
    """Write a past; raises as `apply_update`."""
    graph = graph_of_thread(here, record)
    steps = [[_step(one) for one in step.updates] for step in supersteps]
    at: RunnableConfig = {"configurable": {"thread_id": record.id}}
    async with thread_records.hold(here.storage, record.id, record.owner):
        try:
            await graph.abulk_update_state(_tagged(at, record), steps)
        except CallsheetError:
            raise
        except Exception as error:
            raise _refused(error) from error
        await record_state(here, record, graph)


async def record_state(
    here: AppContext, record: ThreadRecord, graph: Pregel[Any, Any], *, waits: str = "interrupted"
) -> None:
    """Write down how a thread stands: what it asks, and as `waits` that it is to go on from where it is."""
    snapshot = await graph.aget_state({"configurable": {"thread_id": record.id}})
    status = waits if snapshot.next else "idle"
    asked = shapes.to_json_value(shapes.interrupts_view(snapshot))
    await thread_records.record_edit(here.storage, record, status, asked)


def _step(one: NodeUpdate) -> StateUpdate:
    if one.command is None:
        return StateUpdate(one.values, one.as_node)
    if unknown := sorted(one.command.keys() - set(_NAMES)):
        raise Refused(f"a command has no {unknown[0]!r}", remedy=f"use {', '.join(_NAMES)}")
    # LangGraph takes a command here too; its annotation does not say so.
    return StateUpdate(cast("Any", Command(**one.command)), one.as_node)


def _tagged(at: RunnableConfig, record: ThreadRecord) -> RunnableConfig:
    known = {"graph_id": record.graph, "assistant_id": record.metadata.get("assistant_id")}
    return {**at, "metadata": {name: value for name, value in known.items() if value}}


def _refused(error: Exception) -> Refused:
    """What the graph's own channels and edges raise is about what they were given."""
    told = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return Refused(told, remedy="see the graph's nodes, and the schema of its state")
