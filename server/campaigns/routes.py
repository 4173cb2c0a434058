"""Questions, campaigns, imports and saved searches over REST."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Query, Request
from starlette.responses import Response, StreamingResponse

from callsheet.server.artefacts.conversation_routes import RESUMABLE, turn_reply
from callsheet.server.artefacts.event_schemas import turn_events
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.service import RequestContext, run_and_ack
from callsheet.server.campaigns import service
from callsheet.server.campaigns.schemas import (
    CampaignAnswer,
    CampaignChat,
    CampaignPage,
    CampaignQuery,
    Deleted,
    ExportQuery,
    ImportQuery,
    ImportReport,
    SavedSearches,
    SearchWrite,
)
from callsheet.server.campaigns.service import import_campaigns
from callsheet.server.http.auth import current_owner
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_RUN, API_WRITE, BodyLimit, with_policy
from callsheet.server.http.requests import (
    UPLOAD_BODY,
    IdempotencyKey,
    api_router,
    identifier,
    receive_upload,
)
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import Filters
from callsheet.state.campaigns.importing import to_csv
from callsheet.state.campaigns.reading import LooseFilters, Resolved, active_filters
from callsheet.state.errors import Missing
from callsheet.state.uploads import MAX_IMPORT
from callsheet.storage.campaigns import searches
from callsheet.storage.campaigns.index import CampaignIndex
from callsheet.tools.campaigns import libraries
from callsheet.tools.campaigns.file_reading import FileRequest
from callsheet.tools.campaigns.results import campaign_data
from callsheet.tools.campaigns.tables import kind_of

router = api_router("/api", "campaigns")
_LISTS: Final = (400, 403, 409, 413, 422, 500, 503, 504)
_ERRORS: Final = (*_LISTS, 404)
_ANSWER: Final = documented_responses(*_ERRORS, 402, 429, reply=CampaignAnswer)
_ANSWER[200] |= turn_events(CampaignAnswer)
_CSV: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(*_ERRORS, reply=None),
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "The campaigns"},
}
_IMPORT_POLICY: Final = replace(API_WRITE, body=BodyLimit(MAX_IMPORT, "divide the file", spooled=True))


@router.post("/chat", responses=_ANSWER, openapi_extra=RESUMABLE)
@with_policy(API_RUN)
async def ask_about_campaigns(
    body: CampaignChat, request: Request, idempotency_key: IdempotencyKey = None
) -> Response:
    """Answer a question about the library, with the campaigns that prove the answer.

    With `Accept: text/event-stream` the reply is a stream: `step`, `text` (words beside a call), then
    `result` or `error`. The answer comes whole, because it is checked before it is sent. `Last-Event-ID`
    resumes the stream of an equal request; send an `Idempotency-Key`, since a question without one is always
    another.

    A turn that could exceed a budget waits with a `question`, which `response` says in words. The message yes
    or no with the `conversationId` answers it.
    """
    ctx, owner = app_context(request), current_owner(request)
    caller = RequestContext(owner, idempotency_key, body.context())
    question = await service.question_run(ctx.worker, body, caller)
    return await turn_reply(request, question)


@router.get("/campaigns", responses=documented_responses(*_LISTS, reply=CampaignPage))
@with_policy(API_READ)
async def list_campaigns(request: Request, query: Annotated[CampaignQuery, Query()]) -> dict[str, Any]:
    """List campaigns that meet all filters; a parameter may be repeated."""
    index, resolved = await _resolve(request, query.filters())
    matches = await index.filter(resolved.filters, sort=query.sort, offset=query.offset, limit=query.limit)
    indexed_at = await index.indexed_at()
    return {
        "campaigns": [campaign_data(match.campaign) for match in matches.matches],
        "total": matches.total,
        "offset": query.offset,
        "detectedFilters": active_filters(resolved.filters),
        "notes": [*await _sample_notes(request), *resolved.notes, *resolved.absent],
        "indexedAt": indexed_at and indexed_at.isoformat(),
    }


@router.get("/campaigns/export", responses=_CSV, response_class=Response)
@with_policy(API_READ)
async def export_campaigns(request: Request, query: Annotated[ExportQuery, Query()]) -> Response:
    """Export the library, or the last result of a conversation, as CSV: all of it, however much it is.

    `X-Total-Count` and `X-Left-Out` are of a result: campaigns that match, and how many the file leaves out.
    """
    ctx, owner = app_context(request), current_owner(request)
    index = await libraries.library(ctx.storage, owner)
    headers = {"Content-Disposition": 'attachment; filename="campaigns.csv"'}
    pages = index.export(Filters())
    if query.conversationId:
        thread = await service.find_thread(ctx.storage, owner, query.conversationId)
        state = await ctx.worker.state(thread)
        pages, counts = await service.result_pages(index, state.values.get("result"))
        headers |= counts
    # The first page is read now, while an error can still set the status.
    first: list[Campaign] = await anext(pages, [])
    return StreamingResponse(_csv(first, pages), media_type="text/csv", headers=headers)


async def _csv(first: list[Campaign], following: AsyncIterator[list[Campaign]]) -> AsyncIterator[str]:
    """Yield CSV. An error while it is read ends the connection without an end of the body."""
    yield to_csv(first)
    async for campaigns in following:
        yield to_csv(campaigns, heading=False)


@router.get("/campaigns/{campaign_id}", responses=documented_responses(*_ERRORS, reply=Campaign))
@with_policy(API_READ)
async def get_campaign(campaign_id: str, request: Request) -> dict[str, Any]:
    """Show a campaign."""
    index = await libraries.library(app_context(request).storage, current_owner(request))
    campaigns = await index.get([identifier(campaign_id, "campaign id")])
    if not campaigns:
        raise service.missing_campaign(campaign_id)
    return campaign_data(campaigns[0])


@router.post(
    "/campaigns/import",
    responses=documented_responses(*_LISTS, reply=ImportReport),
    openapi_extra=UPLOAD_BODY,
)
@with_policy(_IMPORT_POLICY)
async def import_campaign_file(request: Request, query: Annotated[ImportQuery, Query()]) -> dict[str, Any]:
    """Import campaigns from the body, or from the file of a form; known ids are updated.

    CSV with any separator, JSON, JSON Lines or an Excel sheet. The usual headings of ad libraries are
    recognized; `columns` and `ignoredColumns` say which. Nothing is changed silently: a row with a value that
    has two readings is refused with both, and a cell that cannot be read is left out with a warning.
    """
    storage, owner = app_context(request).storage, current_owner(request)
    options = query.options()
    with await asyncio.to_thread(tempfile.TemporaryFile) as file:
        upload = await receive_upload(request, file)
        kind = kind_of(query.fileName or upload.name, upload.media_type)
        index = await libraries.own_library(storage, owner)
        reading = FileRequest(kind, options, query.encoding, owner)
        is_first = await index.count() == 0
        report = await import_campaigns(index, file, reading, all_or_nothing=query.allOrNothing)
    return {**report, "notes": [_OWN, *report["notes"]]} if is_first and report["imported"] else report


_OWN: Final = "your own campaigns are searched from now on, and the sample library no longer"


@router.delete("/campaigns/{campaign_id}", responses=documented_responses(*_ERRORS, reply=Deleted))
@with_policy(API_WRITE)
async def delete_campaign(campaign_id: str, request: Request) -> dict[str, Any]:
    """Delete a campaign of the owner's own library."""
    storage, owner = app_context(request).storage, current_owner(request)
    index = await libraries.own_library(storage, owner)
    if not await index.delete([identifier(campaign_id, "campaign id")]):
        # The library that is searched is the sample library for an owner without campaigns.
        searched = await libraries.library(storage, owner)
        raise service.undeletable_campaign(campaign_id, in_sample=bool(await searched.get([campaign_id])))
    return {"deleted": 1}


@router.delete("/campaigns", responses=documented_responses(*_LISTS, reply=Deleted))
@with_policy(API_WRITE)
async def delete_campaigns(request: Request) -> dict[str, Any]:
    """Delete the owner's own library; the sample library is searched again."""
    storage, owner = app_context(request).storage, current_owner(request)
    count = await (await libraries.own_library(storage, owner)).count()
    await libraries.delete_library(storage, owner)
    return {"deleted": count}


@router.get("/searches", responses=documented_responses(500, 503, 504, reply=SavedSearches))
@with_policy(API_READ)
async def list_searches(request: Request) -> dict[str, Any]:
    """List saved searches by name."""
    return {"searches": await searches.list_all(app_context(request).storage, current_owner(request))}


@router.put("/searches/{name}", responses=documented_responses(*_ERRORS, reply=SavedSearches))
@with_policy(API_WRITE)
async def save_search(name: str, body: SearchWrite, request: Request) -> dict[str, Any]:
    """Save a question with its filters under a name."""
    storage, owner = app_context(request).storage, current_owner(request)
    if body.activeFilters:
        await _resolve(request, body.activeFilters)
    await searches.save(storage, owner, identifier(name, "name"), body.as_json())
    return {"searches": await searches.list_all(storage, owner)}


@router.post("/searches/{name}/run", responses=documented_responses(*_ERRORS, 402, 429, reply=CampaignAnswer))
@with_policy(API_WRITE)
async def repeat_search(name: str, request: Request) -> dict[str, Any]:
    """Repeat a saved search in a new conversation."""
    ctx, owner = app_context(request), current_owner(request)
    known = await searches.list_all(ctx.storage, owner)
    if name not in known:
        raise Missing(f"there is no saved search {name!r}", remedy="list them with GET /api/searches")
    question = CampaignChat.model_validate(known[name])
    caller = RequestContext(owner, context=question.context())
    return await run_and_ack(ctx.worker, await service.question_run(ctx.worker, question, caller))


@router.delete("/searches", responses=documented_responses(500, 503, 504, reply=SavedSearches))
@with_policy(API_WRITE)
async def delete_searches(request: Request) -> dict[str, Any]:
    """Delete all saved searches."""
    await searches.delete_all(app_context(request).storage, current_owner(request))
    return {"searches": {}}


@router.delete("/searches/{name}", responses=documented_responses(*_ERRORS, reply=SavedSearches))
@with_policy(API_WRITE)
async def delete_search(name: str, request: Request) -> dict[str, Any]:
    """Delete a saved search."""
    storage, owner = app_context(request).storage, current_owner(request)
    await searches.delete(storage, owner, name)
    return {"searches": await searches.list_all(storage, owner)}


async def _sample_notes(request: Request) -> list[str]:
    return await libraries.sample_notes(app_context(request).storage, current_owner(request))


async def _resolve(request: Request, loose: LooseFilters) -> tuple[CampaignIndex, Resolved]:
    index = await libraries.library(app_context(request).storage, current_owner(request))
    return index, await libraries.resolve(index, loose)


API: Final = FeatureApi(
    routers=(router,),
    reply_builder=service.reply_builder,
    tags={"campaigns": "An ad library: questions answered with the campaigns that prove the answer"},
)
