"""JSON views of a graph: nodes and edges, JSON Schemas, subgraphs."""

from collections.abc import Callable
from typing import Any, Final

from langgraph.channels.base import BaseChannel
from langgraph.pregel import Pregel
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict

from callsheet.server.langgraph.shapes import JsonObject

_NO_SCHEMA: Final = (PydanticUserError, NameError, TypeError, ValueError)
"""Errors raised for a type that JSON Schema cannot describe."""


async def graph_view(graph: Pregel[Any, Any], xray: int) -> JsonObject:
    """Return nodes and edges, with `xray` levels of subgraphs expanded; True expands all."""
    view: JsonObject = (await graph.aget_graph(xray=xray)).to_json()
    return {"nodes": [_node_view(node) for node in view["nodes"]], "edges": view["edges"]}


def schemas_view(graph: Pregel[Any, Any]) -> JsonObject:
    """Return the schemas of input, output, state, config and context; None for one that has no schema."""
    context = _schema(graph.get_context_jsonschema)
    return {
        "input_schema": _schema(graph.get_input_jsonschema),
        "output_schema": _schema(graph.get_output_jsonschema),
        "state_schema": _schema(lambda: _state_schema(graph)),
        # `configurable` is LangGraph's older name for the context.
        "config_schema": context or {},
        "context_schema": context,
    }


async def subgraphs_view(graph: Pregel[Any, Any], namespace: str | None, *, recurse: bool) -> JsonObject:
    """Return the schemas of a graph's subgraphs by namespace."""
    return {
        name: schemas_view(subgraph)
        async for name, subgraph in graph.aget_subgraphs(namespace=namespace, recurse=recurse)
        if isinstance(subgraph, Pregel)
    }


def _state_schema(graph: Pregel[Any, Any]) -> JsonObject:
    names = graph.stream_channels_asis
    channels = {name: graph.channels[name] for name in ([names] if isinstance(names, str) else names)}
    fields = {name: item.UpdateType for name, item in channels.items() if isinstance(item, BaseChannel)}
    # Created at run time, so no type checker can read it.
    shape: Any = TypedDict(f"{graph.name}_state", fields, total=False)  # type: ignore[misc]
    return TypeAdapter(shape).json_schema()


def _schema(describe: Callable[[], JsonObject | None]) -> JsonObject | None:
    try:
        return describe()
    except _NO_SCHEMA:
        return None


def _node_view(node: JsonObject) -> JsonObject:
    data = node.get("data")
    return node | {"data": {"name": data["name"]}} if isinstance(data, dict) and "name" in data else node
