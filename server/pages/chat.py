"""Operations on a conversation about a page: send, decide, cancel."""

from dataclasses import replace

from callsheet.server.artefacts import service as artefacts
from callsheet.server.artefacts.service import RequestContext
from callsheet.server.http.context import AppContext
from callsheet.server.http.requests import identifier
from callsheet.server.pages import service
from callsheet.server.pages.chat_bodies import ApprovalResponse, UserMessage
from callsheet.server.pages.chat_events import CLIENT_ID
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.storage.runs.records import Created, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


async def chat_run(ctx: AppContext, owner: str, message: UserMessage) -> RunRequest:
    """Return the run for a message, which keeps the client's id of it for the frames.

    Raises `Conflict` in another workflow's conversation, and `Invalid` in another page's.
    """
    if message.messageId is not None:
        identifier(message.messageId, "messageId")
    stored = await _page(ctx, owner, message.conversationId)
    if stored and message.pageId not in {None, stored}:
        raise Invalid(
            f"conversation {message.conversationId!r} is about the page {stored!r}, not {message.pageId!r}",
            remedy="leave pageId out, or send the message in another conversation",
        )
    page_id = stored or message.pageId or message.conversationId
    caller = RequestContext(owner, message.messageId, message.context())
    request = await service.chat_run(ctx.worker, page_id, message.to_chat(), caller)
    named = {CLIENT_ID: message.messageId} if message.messageId else {}
    return replace(request, request={**request.request, **named})


async def decision_run(ctx: AppContext, owner: str, message: ApprovalResponse) -> RunRequest:
    """Return the run for an answer; raise `Missing` for an unknown conversation."""
    page_id = await _page(ctx, owner, message.conversationId)
    if page_id is None:
        raise threads.missing_thread(message.conversationId)
    caller = RequestContext(owner, context=message.context())
    return await service.decision_run(ctx.worker, page_id, message, caller)


async def submit(ctx: AppContext, request: RunRequest) -> Created:
    """Submit the run to this or another process; raise `Busy` while another run has the conversation."""
    # The same text again is another message, unless it has an id.
    fingerprint = request.fingerprint if request.idempotency_key else ""
    return await artefacts.submit(ctx.worker, replace(request, fingerprint=fingerprint))


async def cancel(ctx: AppContext, owner: str, conversation: str) -> None:
    """Cancel the running turn of the owner's conversation; raise `Conflict` if nothing runs."""
    thread = await find_conversation(ctx, owner, conversation)
    run = await ctx.worker.runs.active(thread.id)
    if run is None:
        raise Conflict("nothing runs in this conversation", remedy="it has ended already")
    await ctx.worker.cancel(thread.id, run)


async def find_conversation(ctx: AppContext, owner: str, conversation: str) -> Thread:
    """Return the owner's conversation about a page.

    Raises `Missing` if there is none, or it is another owner's, and `Conflict` for another workflow's.
    """
    thread = await threads.get(ctx.storage, conversation, owner)
    if thread.graph != service.GRAPH:
        raise Conflict(
            f"conversation {conversation!r} runs {thread.graph!r}, not {service.GRAPH!r}",
            remedy="use the interface of that workflow",
        )
    return thread


async def _page(ctx: AppContext, owner: str, conversation: str) -> str | None:
    try:
        return service.PAGES.artefact_id(await find_conversation(ctx, owner, conversation))
    except Missing:
        return None
