"""What a graph looks like from outside: nodes and edges, JSON Schemas, the graphs in it."""

from collections.abc import Callable
from typing import Any, Final

from langgraph.channels.base import BaseChannel
from langgraph.pregel import Pregel
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict

_UNSPEAKABLE: Final = (PydanticUserError, NameError, TypeError, ValueError)
"""What describing a type as JSON Schema raises where there is no such description."""


async def graph_view(graph: Pregel[Any, Any], xray: int) -> dict[str, Any]:
    """Return nodes and edges, with `xray` levels of subgraphs drawn out; True is all of them."""
    told: dict[str, Any] = (await graph.aget_graph(xray=xray)).to_json()
    return {"nodes": [_node(one) for one in told["nodes"]], "edges": told["edges"]}


def schemas_view(graph: Pregel[Any, Any]) -> dict[str, Any]:
    """Return the schemas of input, output, state, config and context; None for what has none."""
    context = _schema(graph.get_context_jsonschema)
    return {
        "input_schema": _schema(graph.get_input_jsonschema),
        "output_schema": _schema(graph.get_output_jsonschema),
        "state_schema": _schema(lambda: _state(graph)),
        # `configurable` is the older name of what the context is now.
        "config_schema": context or {},
        "context_schema": context,
    }


async def subgraphs_view(graph: Pregel[Any, Any], namespace: str | None, *, recurse: bool) -> dict[str, Any]:
    """Return the schemas of the graphs in a graph, by where they are."""
    return {
        name: schemas_view(inner)
        async for name, inner in graph.aget_subgraphs(namespace=namespace, recurse=recurse)
        if isinstance(inner, Pregel)
    }


def _state(graph: Pregel[Any, Any]) -> dict[str, Any]:
    names = graph.stream_channels_asis
    kept = [names] if isinstance(names, str) else list(names)
    channels = {name: graph.channels[name] for name in kept}
    fields = {name: one.UpdateType for name, one in channels.items() if isinstance(one, BaseChannel)}
    # Made while the program runs, so that no type checker can read it.
    shape: Any = TypedDict(f"{graph.name}_state", fields, total=False)  # type: ignore[misc]
    return TypeAdapter(shape).json_schema()


def _schema(describe: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    try:
        return describe()
    except _UNSPEAKABLE:
        return None


def _node(told: dict[str, Any]) -> dict[str, Any]:
    data = told.get("data")
    return told | {"data": {"name": data["name"]}} if isinstance(data, dict) and "name" in data else told
