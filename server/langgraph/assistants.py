"""Routes of assistants, their graphs' schemas, and the description of the server."""

import uuid
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, Required

from fastapi import APIRouter, Query, Request
from langgraph.channels.base import BaseChannel
from langgraph.pregel import Pregel
from pydantic import Field, TypeAdapter
from pydantic.errors import PydanticUserError
from starlette.responses import Response
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from callsheet.server.http.auth import current_owner, public_config
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.policy import LANGGRAPH_READ, LANGGRAPH_WRITE, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import Integer, StrictRoute, identifier
from callsheet.server.langgraph import schemas
from callsheet.server.langgraph.reply_schemas import (
    ASSISTANTS,
    AssistantReply,
    AssistantVersionReply,
    GraphReply,
    GraphSchemas,
    InfoReply,
    SubgraphSchemas,
)
from callsheet.server.langgraph.schemas import (
    Body,
    Config,
    JsonObject,
    ListPage,
    contains,
    page_reply,
    read_responses,
    write_responses,
)
from callsheet.server.langgraph.starting import assistants_of
from callsheet.server.langgraph.threads import delete_matching_threads
from callsheet.state.errors import Missing, Refused
from callsheet.storage.assistants import Assistant, Assistants

router = APIRouter(prefix="/assistants", route_class=StrictRoute, tags=["assistants"])


class AssistantFields(Body):
    """Fields of an assistant that a caller may set."""

    graph_id: str | None = Field(None, max_length=255)
    config: Config | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    name: str | None = Field(None, max_length=1_000)
    description: str | None = Field(None, max_length=10_000)


class AssistantCreate(AssistantFields):
    """New assistant."""

    graph_id: str = Field(max_length=255)
    assistant_id: str | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class AssistantCount(Body):
    """Filter for assistants."""

    metadata: JsonObject | None = None
    graph_id: str | None = None
    name: str | None = Field(None, description="Part of the name, in any case")


class AssistantSearch(AssistantCount, ListPage):
    """Filter, order and fields of a search for assistants."""

    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


class AssistantVersionsQuery(ListPage):
    """Filter for an assistant's versions."""

    metadata: JsonObject | None = None


class AssistantSetLatest(Body):
    """Version to make the latest."""

    version: Integer


@router.post("", responses=write_responses(AssistantReply))
@with_policy(LANGGRAPH_WRITE)
async def create_assistant(body: AssistantCreate, request: Request) -> Response:
    """Create an assistant."""
    assistants = _assistants(request)
    _require_graph(assistants, body.graph_id)
    fields = _fields(body)
    new = Assistant(
        identifier(body.assistant_id or str(uuid.uuid4()), "assistant_id"),
        body.graph_id,
        config=fields.get("config", {}),
        context=fields.get("context", {}),
        metadata=body.metadata or {},
        name=body.name or "Untitled",
        description=body.description,
    )
    return JsonReply(schemas.assistant_view(await assistants.create(new, body.if_exists or "raise")))


@router.post("/search", responses=write_responses(ASSISTANTS))
@with_policy(LANGGRAPH_READ)
async def search_assistants(request: Request, body: AssistantSearch | None = None) -> Response:
    """Search assistants, newest first by default."""
    search = body or AssistantSearch()
    matching = await _matching(request, search)
    matching.sort(
        key=lambda assistant: (getattr(assistant, search.sort_by), assistant.name),
        reverse=search.sort_order == "desc",
    )
    views = (schemas.assistant_view(assistant) for assistant in search.cut(matching))
    return page_reply([schemas.select_fields(view, search.select) for view in views], search)


@router.post("/count", responses=write_responses(int))
@with_policy(LANGGRAPH_READ)
async def count_assistants(request: Request, body: AssistantCount | None = None) -> Response:
    """Count assistants."""
    return JsonReply(len(await _matching(request, body or AssistantCount())))


@router.get("/{assistant_id}", responses=read_responses(AssistantReply))
@with_policy(LANGGRAPH_READ)
async def get_assistant(assistant_id: str, request: Request) -> Response:
    """Get an assistant, by its id or its graph's name."""
    return JsonReply(schemas.assistant_view(await _assistants(request).get(assistant_id)))


@router.patch("/{assistant_id}", responses=write_responses(AssistantReply))
@with_policy(LANGGRAPH_WRITE)
async def update_assistant(assistant_id: str, body: AssistantFields, request: Request) -> Response:
    """Update an assistant by creating a new version. `metadata` is merged into the existing metadata."""
    assistants = _assistants(request)
    fields = _fields(body)
    if body.graph_id is not None:
        _require_graph(assistants, body.graph_id)
    return JsonReply(schemas.assistant_view(await assistants.update(assistant_id, fields)))


@router.delete("/{assistant_id}", status_code=204, responses=write_responses(None))
@with_policy(LANGGRAPH_WRITE)
async def delete_assistant(
    assistant_id: str,
    request: Request,
    delete_threads: Annotated[bool, Query()] = False,  # noqa: FBT002
) -> Response:
    """Delete an assistant. With `delete_threads`, delete its threads too."""
    assistants = _assistants(request)
    assistant = await assistants.get_custom(assistant_id)
    if delete_threads:
        # Threads first: if one is busy, the request fails and can be repeated.
        metadata = {"assistant_id": assistant.assistant_id}
        await delete_matching_threads(app_context(request), current_owner(request), metadata)
    await assistants.delete(assistant_id)
    return Response(status_code=204)


@router.post("/{assistant_id}/versions", responses=write_responses(list[AssistantVersionReply]))
@with_policy(LANGGRAPH_READ)
async def list_assistant_versions(
    assistant_id: str, request: Request, body: AssistantVersionsQuery | None = None
) -> Response:
    """List an assistant's versions, newest first."""
    query = body or AssistantVersionsQuery()
    versions = await _assistants(request).versions(assistant_id)
    matching = [version for version in versions if contains(version.metadata, query.metadata)]
    return page_reply([_version_view(version) for version in query.cut(matching)], query)


@router.post("/{assistant_id}/latest", responses=write_responses(AssistantReply))
@with_policy(LANGGRAPH_WRITE)
async def set_latest_assistant_version(
    assistant_id: str, body: AssistantSetLatest, request: Request
) -> Response:
    """Set an assistant's latest version to an earlier one."""
    assistant = await _assistants(request).set_latest(assistant_id, body.version)
    return JsonReply(schemas.assistant_view(assistant))


@router.get("/{assistant_id}/graph", responses=read_responses(GraphReply))
@with_policy(LANGGRAPH_READ)
async def get_assistant_graph(
    assistant_id: str,
    request: Request,
    xray: Annotated[
        str, Query(pattern=r"^(?i:true|false|\d{1,2})$", description="Levels of subgraphs to expand")
    ] = "false",
) -> Response:
    """Get the nodes and edges of an assistant's graph."""
    levels = int(xray) if xray.isdecimal() else xray.casefold() == "true"
    _, graph = await _assistant_graph(request, assistant_id)
    return JsonReply(await graph_view(graph, levels))


@router.get("/{assistant_id}/schemas", responses=read_responses(GraphSchemas))
@with_policy(LANGGRAPH_READ)
async def get_assistant_schemas(assistant_id: str, request: Request) -> Response:
    """Get the JSON Schemas of an assistant's graph: input, output, state, config and context."""
    assistant, graph = await _assistant_graph(request, assistant_id)
    return JsonReply({"graph_id": assistant.graph_id} | schemas_view(graph))


@router.get("/{assistant_id}/subgraphs", responses=read_responses(dict[str, SubgraphSchemas]))
@with_policy(LANGGRAPH_READ)
async def get_assistant_subgraphs(
    assistant_id: str,
    request: Request,
    recurse: Annotated[bool, Query()] = False,  # noqa: FBT002
) -> Response:
    """Get the schemas of an assistant's subgraphs, by namespace."""
    _, graph = await _assistant_graph(request, assistant_id)
    return JsonReply(await subgraphs_view(graph, None, recurse=recurse))


@router.get("/{assistant_id}/subgraphs/{namespace}", responses=read_responses(dict[str, SubgraphSchemas]))
@with_policy(LANGGRAPH_READ)
async def get_assistant_subgraph(
    assistant_id: str,
    namespace: str,
    request: Request,
    recurse: Annotated[bool, Query()] = False,  # noqa: FBT002
) -> Response:
    """Get the schemas of one subgraph. With `recurse`, include the subgraphs inside it."""
    _, graph = await _assistant_graph(request, assistant_id)
    return JsonReply(await subgraphs_view(graph, namespace, recurse=recurse))


def _assistants(request: Request) -> Assistants:
    """Return the caller's assistants."""
    return assistants_of(app_context(request), current_owner(request))


def _require_graph(assistants: Assistants, graph_id: str) -> None:
    if graph_id not in assistants.graphs:
        names = ", ".join(sorted(assistants.graphs))
        raise Missing(f"there is no graph {graph_id!r}", remedy=f"use one of {names}")


async def _matching(request: Request, query: AssistantCount) -> list[Assistant]:
    name = (query.name or "").casefold()
    return [
        assistant
        for assistant in await _assistants(request).list_all()
        if query.graph_id in {None, assistant.graph_id}
        and name in assistant.name.casefold()
        and contains(assistant.metadata, query.metadata)
    ]


async def _assistant_graph(request: Request, assistant_id: str) -> tuple[Assistant, Pregel[Any, Any]]:
    assistant = await _assistants(request).get(assistant_id)
    return assistant, app_context(request).graphs[assistant.graph_id]


def _fields(body: AssistantFields) -> JsonObject:
    """Return the fields that are set; `context` and `config.configurable` are kept equal.

    Raises `Refused` if both are set and differ, and `Invalid` for a config that a run would refuse.
    """
    fields = body.model_dump(exclude_none=True, exclude={"assistant_id", "if_exists"})
    config = body.config or {}
    public_config(config)
    configurable = config.get("configurable")
    if configurable and body.context and configurable != body.context:
        raise Refused(
            "'context' and 'config.configurable' differ, but are two names of one thing",
            remedy="send one of them",
        )
    if body.context is not None:
        fields["config"] = {**config, **({"configurable": body.context} if body.context else {})}
    elif body.config is not None:
        fields["context"] = configurable or {}
    return fields


def _version_view(version: Assistant) -> JsonObject:
    view = schemas.assistant_view(version)
    updated_at = view.pop("updated_at")
    return view | {"created_at": updated_at}


info_router = APIRouter(route_class=StrictRoute, tags=["info"])
COMPATIBLE_VERSION: Final = "0.16.7"
"""Version of LangGraph's own server whose API this one offers; Studio reads it."""
_FLAGS: Final = {
    "assistants": True,
    "crons": True,
    "langsmith": False,
    "langsmith_tracing_replicas": False,
    "langsmith_tracing_session_on_runs": False,
}
_HOST: Final = {
    "kind": "self-hosted",
    "project_id": None,
    "host_revision_id": None,
    "revision_id": None,
    "tenant_id": None,
}


@info_router.get("/info", responses=documented_wire_responses(403, 500, reply=InfoReply))
@with_policy(LANGGRAPH_READ)
async def show_info(request: Request) -> JsonReply:
    """Get the versions and features of the server."""
    return JsonReply(
        {
            "version": COMPATIBLE_VERSION,
            "langgraph_py_version": version("langgraph"),
            "flags": _FLAGS,
            "host": _HOST,
            "server": {"name": "callsheet", "version": request.app.version},
        }
    )


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
        "input_schema": _schema(graph.get_input_jsonschema)
        or _schema(lambda: _typed_dict_schema(graph, "input_schema")),
        "output_schema": _schema(graph.get_output_jsonschema)
        or _schema(lambda: _typed_dict_schema(graph, "output_schema")),
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


def _typed_dict_schema(
    graph: Pregel[Any, Any], part: Literal["input_schema", "output_schema"]
) -> JsonObject | None:
    """Return the schema of a `typing.TypedDict`, which pydantic refuses below Python 3.12; None for others.

    A field whose type it refuses, too, may be anything.
    """
    shape: Any = getattr(getattr(graph, "builder", None), part, None)
    if shape is None or not is_typeddict(shape):
        return None
    fields = {name: _field_type(hint) for name, hint in get_type_hints(shape, include_extras=True).items()}
    needed = {name: Required[hint] for name, hint in fields.items() if name in shape.__required_keys__}
    complete: Any = TypedDict(shape.__name__, fields | needed, total=False)  # type: ignore[misc]
    return TypeAdapter(complete).json_schema()


def _field_type(hint: Any) -> Any:
    return Any if _schema(lambda: TypeAdapter(hint).json_schema()) is None else hint


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
