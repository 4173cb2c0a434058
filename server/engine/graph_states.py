"""The states of threads, as their graphs build them: the one place that calls LangGraph for it.

A graph builds a state from a checkpoint and the writes of tasks after it, with its own reducers and schemas.
Their code may raise anything, also for a checkpoint that was written before the project changed.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot
from pydantic import ValidationError

from callsheet.state.errors import Missing, Unavailable, UnbuildableState

_MAX_REASON: Final = 300
_NEXT: Final = "branch:to:"
"""Beginning of the channel that starts a node; it has a value while the node is next."""

PastState = tuple[StateSnapshot, str]
"""A state of a history, and the reason why it cannot be built, else empty. Without tasks and next nodes if it
cannot be built; the values and the rest are what was stored."""


async def build_state(
    graph: Pregel[Any, Any], config: RunnableConfig, *, subgraphs: bool = False
) -> StateSnapshot:
    """Return the state at a checkpoint, by default the newest.

    Raises `UnbuildableState`, `Missing` for an unknown subgraph and for values that storage has evicted, and
    `Unavailable` as storage does.
    """
    with _graph_errors(config):
        return await graph.aget_state(config, subgraphs=subgraphs)


async def missing_nodes(graph: Pregel[Any, Any], config: RunnableConfig) -> list[str]:
    """Return the nodes at which a checkpoint, by default the newest, waits and which the graph lacks.

    Raises as storage does.
    """
    saver = graph.checkpointer
    assert isinstance(saver, BaseCheckpointSaver)  # noqa: S101 -- the server attaches one to every graph
    stored = await saver.aget_tuple(config)
    channels = stored.checkpoint["channel_values"] if stored else ()
    waiting = [name.removeprefix(_NEXT) for name in channels if name.startswith(_NEXT)]
    return sorted(name for name in waiting if name not in graph.nodes)


async def write_state(
    graph: Pregel[Any, Any], config: RunnableConfig, values: Any, as_node: str | None
) -> RunnableConfig:
    """Write `values` at a checkpoint as `as_node` would, and return the config of the new checkpoint.

    A stored state that the graph's schema refuses is taken as it is, so that an update can repair it.
    """
    try:
        return await graph.aupdate_state(config, values, as_node)
    except ValidationError:
        nodes = {name: node.copy({"mapper": None}) for name, node in graph.nodes.items()}
        return await graph.copy(update={"nodes": nodes}).aupdate_state(config, values, as_node)


async def build_history(
    graph: Pregel[Any, Any],
    config: RunnableConfig,
    *,
    metadata: Mapping[str, Any] | None = None,
    before: RunnableConfig | None = None,
    limit: int,
) -> AsyncGenerator[PastState, None]:
    """Yield up to `limit` states, newest first; raises as `build_state` if the checkpoints cannot be read."""
    criteria = dict(metadata) if metadata else None
    try:
        with _graph_errors(config):
            async for state in graph.aget_state_history(config, filter=criteria, before=before, limit=limit):
                yield state, ""
                before, limit = state.config, limit - 1
    except UnbuildableState:
        # LangGraph's history ends at the first such state; the others are built one by one.
        saver = graph.checkpointer
        assert isinstance(saver, BaseCheckpointSaver)  # noqa: S101 -- the server attaches one to every graph
        with _graph_errors(config):
            checkpoints = [c async for c in saver.alist(config, filter=criteria, before=before, limit=limit)]
        for checkpoint in checkpoints:
            yield await _build_past_state(graph, checkpoint)


async def _build_past_state(graph: Pregel[Any, Any], checkpoint: CheckpointTuple) -> PastState:
    try:
        return await build_state(graph, checkpoint.config), ""
    except UnbuildableState as error:
        created_at, parent = checkpoint.checkpoint["ts"], checkpoint.parent_config
        stored = (checkpoint.config, checkpoint.metadata, created_at, parent)
        known = checkpoint.checkpoint["channel_values"]
        values = {name: known[name] for name in graph.stream_channels_list if name in known}
        return StateSnapshot(values, (), *stored, (), ()), error.message


def describe_error(error: Exception) -> str:
    """Return what an error of a graph's own code says, in one line."""
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
    text = f"it lacks {error}" if isinstance(error, LookupError) else str(error)
    return text.partition("\n")[0][:_MAX_REASON] or type(error).__name__


@contextmanager
def _graph_errors(config: RunnableConfig) -> Iterator[None]:
    """Raise `UnbuildableState` for any error of a graph's own code; those of storage pass as they are."""
    try:
        yield
    except (Unavailable, Missing):
        raise
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith("Subgraph "):
            raise Missing(
                str(error), remedy="see the tasks of the thread's state for its subgraphs"
            ) from error
        raise UnbuildableState(
            f"the state of thread {config['configurable']['thread_id']!r} cannot be built: "
            f"{describe_error(error)}",
            remedy="continue from a checkpoint in its history, or update the state",
        ) from error
