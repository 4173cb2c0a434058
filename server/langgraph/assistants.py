"""Assistants: looked up, made, changed in versions; and what their graphs look like."""

import uuid
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.requests import HTTPConnection
from starlette.responses import Response

from callsheet.server.ads.bodies import StrictRoute, Whole
from callsheet.server.artefacts.turns import identifier
from callsheet.server.context import app_context
from callsheet.server.http.auth import public_config
from callsheet.server.http.errors import documented_wire_responses
from callsheet.server.http.origins import current_owner
from callsheet.server.langgraph import graph_views, shapes
from callsheet.server.langgraph.bodies import Body, Page, contains, page_reply
from callsheet.server.langgraph.shapes import WireJsonReply
from callsheet.server.langgraph.threads import delete_matching_threads
from callsheet.state.errors import Missing, Refused
from callsheet.storage.assistants import Assistant, Assistants

router = APIRouter(prefix="/assistants", route_class=StrictRoute, tags=["assistants"])
_READ: Final = (403, 404, 422, 500, 503, 504)
_WRITE: Final = (400, 403, 404, 409, 413, 422, 500, 503, 504)
_Object = dict[str, Any]


class AssistantFields(Body):
    """What an assistant may be given."""

    graph_id: str | None = Field(None, max_length=255)
    config: _Object | None = None
    context: _Object | None = None
    metadata: _Object | None = None
    name: str | None = Field(None, max_length=1_000)
    description: str | None = Field(None, max_length=10_000)


class AssistantCreate(AssistantFields):
    """A new assistant."""

    graph_id: str = Field(max_length=255)
    assistant_id: str | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class AssistantCount(Body):
    """Which assistants are meant."""

    metadata: _Object | None = None
    graph_id: str | None = None
    name: str | None = Field(None, description="Part of the name, in any case")


class AssistantSearch(AssistantCount, Page):
    """Which assistants, in which order, and what of them."""

    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


class AssistantVersionsQuery(Page):
    """Which versions."""

    metadata: _Object | None = None


class AssistantSetLatest(Body):
    """The version that is to be in force."""

    version: Whole


@router.post("", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None)
async def create_assistant(body: AssistantCreate, request: Request) -> Response:
    """Make an assistant."""
    known = owned_assistants(request)
    if body.graph_id not in known.graphs:
        raise Missing(
            f"there is no graph {body.graph_id!r}", remedy=f"use one of {', '.join(sorted(known.graphs))}"
        )
    given = _given(body)
    new = Assistant(
        identifier(body.assistant_id or str(uuid.uuid4()), "assistant_id"),
        body.graph_id,
        config=given.get("config", {}),
        context=given.get("context", {}),
        metadata=body.metadata or {},
        name=body.name or "Untitled",
        description=body.description,
    )
    return WireJsonReply(shapes.assistant_view(await known.create(new, body.if_exists or "raise")))


@router.post(
    "/search", responses=documented_wire_responses(*_WRITE, reply=list[_Object]), response_model=None
)
async def search_assistants(request: Request, body: AssistantSearch | None = None) -> Response:
    """List assistants, newest first unless told otherwise."""
    wanted = body or AssistantSearch()
    found = await _found(request, wanted)
    found.sort(key=lambda one: (getattr(one, wanted.sort_by), one.name), reverse=wanted.sort_order == "desc")
    shown = found[wanted.offset : wanted.offset + wanted.limit + 1]
    return page_reply(
        [shapes.select_fields(shapes.assistant_view(one), wanted.select) for one in shown], wanted
    )


@router.post("/count", responses=documented_wire_responses(*_WRITE, reply=int), response_model=None)
async def count_assistants(request: Request, body: AssistantCount | None = None) -> Response:
    """Count assistants."""
    return WireJsonReply(len(await _found(request, body or AssistantCount())))


@router.get(
    "/{assistant_id}", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None
)
async def get_assistant(assistant_id: str, request: Request) -> Response:
    """Show an assistant, by its id or its graph's name."""
    return WireJsonReply(shapes.assistant_view(await owned_assistants(request).get(assistant_id)))


@router.patch(
    "/{assistant_id}", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None
)
async def update_assistant(assistant_id: str, body: AssistantFields, request: Request) -> Response:
    """Make a new version of an assistant; `metadata` is added to what there is."""
    known = owned_assistants(request)
    changes = _given(body)
    if changes.get("graph_id", next(iter(known.graphs))) not in known.graphs:
        raise Missing(f"there is no graph {body.graph_id!r}", remedy=f"use one of {sorted(known.graphs)}")
    return WireJsonReply(shapes.assistant_view(await known.update(assistant_id, changes)))


@router.delete(
    "/{assistant_id}", status_code=204, responses=documented_wire_responses(*_WRITE, reply=None, status=204)
)
async def delete_assistant(
    assistant_id: str,
    request: Request,
    delete_threads: Annotated[bool, Query()] = False,  # noqa: FBT002
) -> Response:
    """Take an assistant away, and with `delete_threads` all that it talked on."""
    known = owned_assistants(request)
    going = await known.get_created(assistant_id)
    if delete_threads:
        # Before the assistant: one that a run is at ends this, and it can be asked for again.
        await delete_matching_threads(
            app_context(request), current_owner(request), {"assistant_id": going.assistant_id}
        )
    await known.delete(assistant_id)
    return Response(status_code=204)


@router.post(
    "/{assistant_id}/versions",
    responses=documented_wire_responses(*_WRITE, reply=list[_Object]),
    response_model=None,
)
async def list_assistant_versions(
    assistant_id: str, request: Request, body: AssistantVersionsQuery | None = None
) -> Response:
    """List the versions of an assistant, newest first."""
    wanted = body or AssistantVersionsQuery()
    found = await owned_assistants(request).versions(assistant_id)
    fitting = [one for one in found if contains(one.metadata, wanted.metadata)]
    shown = fitting[wanted.offset : wanted.offset + wanted.limit + 1]
    return page_reply([_version(one) for one in shown], wanted)


@router.post(
    "/{assistant_id}/latest", responses=documented_wire_responses(*_WRITE, reply=_Object), response_model=None
)
async def set_latest_assistant_version(
    assistant_id: str, body: AssistantSetLatest, request: Request
) -> Response:
    """Make an earlier version the one in force."""
    return WireJsonReply(
        shapes.assistant_view(await owned_assistants(request).set_latest(assistant_id, body.version))
    )


@router.get(
    "/{assistant_id}/graph", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None
)
async def get_assistant_graph(
    assistant_id: str,
    request: Request,
    xray: Annotated[
        str, Query(pattern=r"^(?i:true|false|\d{1,2})$", description="Levels of subgraphs that are drawn out")
    ] = "false",
) -> Response:
    """Show the nodes and edges of the assistant's graph."""
    found = await owned_assistants(request).get(assistant_id)
    levels = int(xray) if xray.isdecimal() else xray.casefold() == "true"
    return WireJsonReply(await graph_views.graph_view(app_context(request).graphs[found.graph_id], levels))


@router.get(
    "/{assistant_id}/schemas", responses=documented_wire_responses(*_READ, reply=_Object), response_model=None
)
async def get_assistant_schemas(assistant_id: str, request: Request) -> Response:
    """Show the JSON Schemas of what the assistant's graph takes, remembers and returns."""
    found = await owned_assistants(request).get(assistant_id)
    told = graph_views.schemas_view(app_context(request).graphs[found.graph_id])
    return WireJsonReply({"graph_id": found.graph_id} | told)


@router.get(
    "/{assistant_id}/subgraphs",
    responses=documented_wire_responses(*_READ, reply=_Object),
    response_model=None,
)
async def get_assistant_subgraphs(
    assistant_id: str,
    request: Request,
    recurse: Annotated[bool, Query()] = False,  # noqa: FBT002
) -> Response:
    """Show the schemas of the subgraphs, by where they are."""
    return WireJsonReply(await _subgraphs(request, assistant_id, None, recurse=recurse))


@router.get(
    "/{assistant_id}/subgraphs/{namespace}",
    responses=documented_wire_responses(*_READ, reply=_Object),
    response_model=None,
)
async def get_assistant_subgraph(
    assistant_id: str,
    namespace: str,
    request: Request,
    recurse: Annotated[bool, Query()] = False,  # noqa: FBT002
) -> Response:
    """Show the schemas of one subgraph, and with `recurse` of those in it."""
    return WireJsonReply(await _subgraphs(request, assistant_id, namespace, recurse=recurse))


async def _found(request: Request, wanted: AssistantCount) -> list[Assistant]:
    name = (wanted.name or "").casefold()
    return [
        one
        for one in await owned_assistants(request).all()
        if wanted.graph_id in {None, one.graph_id}
        and name in one.name.casefold()
        and contains(one.metadata, wanted.metadata)
    ]


async def _subgraphs(request: Request, named: str, namespace: str | None, *, recurse: bool) -> _Object:
    found = await owned_assistants(request).get(named)
    return await graph_views.subgraphs_view(
        app_context(request).graphs[found.graph_id], namespace, recurse=recurse
    )


def _given(body: AssistantFields) -> _Object:
    """What was chosen; the context and what `config` calls `configurable` are two names of one thing.

    Raises `Refused` where they differ, and `Invalid` for a config that no run could have.
    """
    given = body.model_dump(exclude_none=True, exclude={"assistant_id", "if_exists"})
    public_config(body.config or {})
    configurable = (body.config or {}).get("configurable")
    if configurable and body.context and configurable != body.context:
        raise Refused(
            "'context' and 'config.configurable' differ, and are two names of one thing",
            remedy="send one of them",
        )
    if body.context is not None:
        given["config"] = {**(body.config or {}), **({"configurable": body.context} if body.context else {})}
    elif body.config is not None:
        given["context"] = configurable or {}
    return given


def _version(one: Assistant) -> _Object:
    told = shapes.assistant_view(one)
    del told["updated_at"]
    return told | {"created_at": one.updated_at}


def owned_assistants(request: HTTPConnection) -> Assistants:
    """Return the assistants of whoever asks."""
    here = app_context(request)
    return Assistants(here.storage, current_owner(request), here.graphs, here.started_at)
