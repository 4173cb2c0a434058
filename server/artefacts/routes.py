"""Artefacts of every served workflow over REST: lists, streams and versions, and deletion."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from callsheet.nodes.workflow import WorkflowSpec
from callsheet.server.artefacts import deletion, sources, views
from callsheet.server.artefacts.schemas import (
    ArtefactDeleted,
    ArtefactList,
    ArtefactStream,
    ArtefactVersion,
    ArtefactVersionList,
    ArtefactView,
    ListedArtefact,
    VersionDiff,
)
from callsheet.server.artefacts.views import VersionQuery
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, with_policy
from callsheet.server.http.requests import StrictRoute, identifier
from callsheet.state.errors import Missing
from callsheet.state.times import iso_time, iso_time_or_none
from callsheet.storage import indexes
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.storage.threads.threads import Thread

router = APIRouter(prefix="/api/artefacts", route_class=StrictRoute, tags=["artefacts"])
_READ: Final = (400, 403, 404, 500, 503, 504)


def _responses(reply: type, *statuses: int) -> dict[int | str, dict[str, Any]]:
    return documented_responses(*_READ, *statuses, reply=reply)


@router.get("/{kind}", responses=_responses(ArtefactList, 422))
@with_policy(API_READ)
async def list_artefacts(
    kind: str,
    request: Request,
    after: Annotated[str | None, Query(max_length=255, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> ArtefactList:
    """List the owner's artefacts of one kind, last changed first."""
    spec = _workflow(request, kind)
    storage, owner = app_context(request).storage, current_owner(request)
    page = await indexes.list_owned(storage, owner, spec.artefact.kind, after=after, limit=limit)
    artefacts = [
        ListedArtefact(kind=spec.artefact.kind, id=name, updatedAt=iso_time(changed_ms))
        for name, changed_ms in zip(page.ids, page.times_ms, strict=True)
    ]
    return ArtefactList(artefacts=artefacts, next=page.next)


@router.get("/{kind}/{artefact_id}", responses=_responses(ArtefactView))
@with_policy(API_READ)
async def get_artefact(kind: str, artefact_id: str, request: Request) -> ArtefactView:
    """Show an artefact: its conversation, and the newest and the active version of each stream."""
    spec = _workflow(request, kind)
    artefact, meta = await _find(request, spec, artefact_id)
    streams = await artefact.newest_of(await spec.artefact.all_streams_of(artefact))
    return ArtefactView(
        kind=spec.artefact.kind,
        id=artefact_id,
        conversationId=meta.get("thread"),
        streams={name: _stream_view(stream) for name, stream in streams.items()},
        sources=sources.source_list(meta),
        uses=await sources.use_list(artefact, app_context(request).storage, meta),
    )


@router.delete("/{kind}/{artefact_id}", responses=_responses(ArtefactDeleted, 409))
@with_policy(API_WRITE)
async def delete_artefact(kind: str, artefact_id: str, request: Request) -> ArtefactDeleted:
    """Delete an artefact with everything that belongs to it: versions, files, plans, conversation, runs.

    Refused (409) while a run has it.
    """
    spec = _workflow(request, kind)
    artefact, meta = await _find(request, spec, artefact_id)
    thread = Thread(meta.get("thread") or artefact_id, current_owner(request), spec.name)
    return await deletion.delete_artefact(app_context(request), artefact, thread)


@router.get("/{kind}/{artefact_id}/{stream}", responses=_responses(ArtefactVersionList))
@with_policy(API_READ)
async def list_artefact_versions(
    kind: str, artefact_id: str, stream: str, request: Request, page: VersionQuery
) -> ArtefactVersionList:
    """List the versions of a stream, newest last, and name the active one."""
    spec = _workflow(request, kind)
    artefact = await _find_stream(request, spec, artefact_id, stream)
    shown = await views.version_list(spec.artefact, artefact, stream, page)
    return ArtefactVersionList.model_validate(shown)


@router.get("/{kind}/{artefact_id}/{stream}/{version_id}", responses=_responses(ArtefactVersion, 410))
@with_policy(API_READ)
async def get_artefact_version(
    kind: str, artefact_id: str, stream: str, version_id: str, request: Request
) -> ArtefactVersion:
    """Show a version with its data."""
    spec = _workflow(request, kind)
    artefact = await _find_stream(request, spec, artefact_id, stream)
    version, head = await asyncio.gather(artefact.version(stream, version_id), artefact.stream_head(stream))
    shown = await views.version_view(spec.artefact, artefact, version, head.newest or version)
    return ArtefactVersion(**shown, data=version.data)


@router.get(
    "/{kind}/{artefact_id}/{stream}/{version_id}/diff/{other_id}", responses=_responses(VersionDiff, 410)
)
@with_policy(API_READ)
async def diff_artefact_versions(
    kind: str, artefact_id: str, stream: str, version_id: str, other_id: str, request: Request
) -> dict[str, Any]:
    """Compare two versions of a stream: what another one changed of this one, as data and in words."""
    spec = _workflow(request, kind)
    artefact, _ = await _find(request, spec, artefact_id)
    return await views.diff_view(spec.artefact, artefact, stream, version_id, other_id)


def _workflow(request: Request, kind: str) -> WorkflowSpec[Any]:
    specs = app_context(request).workflows.specs.values()
    for spec in specs:
        if spec.artefact.kind == kind:
            return spec
    kinds = ", ".join(sorted(spec.artefact.kind for spec in specs))
    remedy = f"use one of: {kinds}" if kinds else "add a workflow that makes them to langgraph.json"
    raise Missing(f"no served workflow makes artefacts of kind {kind!r}", remedy=remedy)


async def _find(
    request: Request, spec: WorkflowSpec[Any], artefact_id: str
) -> tuple[Artefact, dict[str, str]]:
    storage, owner = app_context(request).storage, current_owner(request)
    artefact = Artefact(storage, spec.artefact.kind, identifier(artefact_id, "artefact id"), owner)
    meta = await artefact.meta()
    if meta.get("owner") != owner:
        raise Missing(
            f"there is no {spec.artefact.kind} {artefact_id!r}",
            remedy=f"list them with GET /api/artefacts/{spec.artefact.kind}",
        )
    return artefact, meta


async def _find_stream(request: Request, spec: WorkflowSpec[Any], artefact_id: str, name: str) -> Artefact:
    """Return the artefact; raise `Missing` if it has no such stream."""
    artefact, _ = await _find(request, spec, artefact_id)
    names = await spec.artefact.all_streams_of(artefact)
    if name not in names:
        raise Missing(
            f"{spec.artefact.kind} {artefact_id!r} has no stream {name!r}",
            remedy=f"use one of: {', '.join(names)}",
        )
    return artefact


def _stream_view(stream: Stream) -> ArtefactStream:
    newest = stream.newest()
    return ArtefactStream(
        newest=newest.id if newest else None,
        active=stream.active,
        count=stream.count,
        updatedAt=iso_time_or_none(newest.created_ms) if newest else None,
    )
