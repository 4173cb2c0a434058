"""Operations on a conversation about a page: send, decide, cancel."""

from dataclasses import replace

from callsheet.server.context import AppContext
from callsheet.server.pages import service
from callsheet.server.pages.chat_bodies import ApprovalResponse, UserMessage
from callsheet.server.pages.service import ChatRequest
from callsheet.server.runtime.run_request import DomainRun
from callsheet.state.errors import Conflict, Missing
from callsheet.storage.runs.records import Created
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


async def chat_run(ctx: AppContext, owner: str, message: UserMessage) -> DomainRun:
    """Return the run for a message; raise `Conflict` in another workflow's conversation."""
    page_id = await _page(ctx, owner, message.conversationId) or message.pageId or message.conversationId
    request = ChatRequest(
        page_id,
        message.content,
        message.conversationId,
        message.selectedElementId,
        context=message.context(),
        owner=owner,
        idempotency_key=message.messageId,
    )
    return await service.chat_run(ctx.worker, ctx.storage, request)


async def decision_run(ctx: AppContext, owner: str, message: ApprovalResponse) -> DomainRun:
    """Return the run for an answer; raise `Missing` for an unknown conversation."""
    page_id = await _page(ctx, owner, message.conversationId)
    if page_id is None:
        raise threads.missing_thread(message.conversationId)
    return await service.decision_run(ctx.worker, ctx.storage, message.to_decision(page_id, owner))


async def submit(ctx: AppContext, domain_run: DomainRun) -> Created:
    """Submit the run to this or another process; raise `Busy` while another run has the conversation."""
    await service.PAGES.claim(ctx.storage, domain_run.thread)
    # The same text again is another message, unless it has an id.
    request = replace(domain_run, repeatable=domain_run.idempotency_key is None).to_run_request()
    return await ctx.worker.submit(domain_run.thread.id, request)


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
