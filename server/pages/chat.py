"""What a person may do in a conversation about a page: say, decide, cancel, listen."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from callsheet.server.context import AppContext
from callsheet.server.pages import chat_stream
from callsheet.server.pages import service as page_jobs
from callsheet.server.pages.chat_bodies import ApprovalResponse, UserMessage
from callsheet.server.pages.chat_events import Frame
from callsheet.server.pages.chat_stream import StreamPosition
from callsheet.server.pages.service import ChatRequest
from callsheet.server.runtime.run_request import DomainRun
from callsheet.state.errors import Busy, Conflict, Missing
from callsheet.storage.runs.records import Created
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


async def chat_run(here: AppContext, owner: str, said: UserMessage) -> DomainRun:
    """Return what a message asks for; raises `Conflict` in another workflow's conversation."""
    page_id = await _page(here, owner, said.conversationId) or said.pageId or said.conversationId
    asked = ChatRequest(
        page_id,
        said.content,
        said.conversationId,
        said.selectedElementId,
        context=said.context(),
        owner=owner,
        idempotency_key=said.messageId,
    )
    return await page_jobs.chat_run(here.worker, here.storage, asked)


async def decision_run(here: AppContext, owner: str, said: ApprovalResponse) -> DomainRun:
    """Return what an answer asks for; raises `Missing` for a conversation there is none of."""
    page_id = await _page(here, owner, said.conversationId)
    if page_id is None:
        raise threads.missing_thread(said.conversationId)
    return await page_jobs.decision_run(here.worker, here.storage, said.decided(page_id, owner))


async def submit(here: AppContext, job: DomainRun) -> Created:
    """Have the job carried out, here or elsewhere; raises `Busy` while another has the conversation."""
    await page_jobs.PAGES.claim(here.storage, job.thread)
    # Said again it is another message, unless it has an id of its own.
    wanted = replace(job, repeatable=job.idempotency_key is None).to_run_request()
    return await here.worker.submit(job.thread.id, wanted)


async def cancel(here: AppContext, owner: str, conversation: str) -> None:
    """End what runs in the owner's conversation; raises `Conflict` where nothing does."""
    thread = await find_conversation(here, owner, conversation)
    run = await here.worker.runs.active(thread.id)
    if run is None:
        raise Conflict("nothing runs in this conversation", remedy="it has ended already")
    await here.worker.cancel(thread.id, run)


async def find_conversation(here: AppContext, owner: str, conversation: str) -> Thread:
    """Return the owner's conversation about a page.

    Raises `Missing` for none, or another's, and `Conflict` for a conversation about something else.
    """
    found = await threads.get(here.storage, conversation, owner)
    if found.graph != page_jobs.GRAPH:
        raise Conflict(
            f"conversation {conversation!r} runs {found.graph!r}, not {page_jobs.GRAPH!r}",
            remedy="use the interface of that workflow",
        )
    return found


async def listen(
    here: AppContext, owner: str, conversation: str, last: str | None
) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    """Return what the conversation tells from the event `last` on; raises what `known` does."""
    thread = await find_conversation(here, owner, conversation)
    since = await chat_stream.position_after(here.worker, here.storage, thread.id, last)
    return chat_stream.follow_frames(here.worker, here.storage, thread, since)


async def submit_and_follow(
    here: AppContext, job: DomainRun
) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    """Begin a job and return what its run tells, to its end."""
    since = await chat_stream.newest_position(here.storage, job.thread.id)
    made = await submit(here, job)
    if made.verdict == "replay":
        raise Busy("this very request was carried out already", remedy="read the conversation")
    return _of_run(here, job, since, made.run)


async def _of_run(
    here: AppContext, job: DomainRun, since: StreamPosition, run: str
) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    async for told in chat_stream.follow_frames(here.worker, here.storage, job.thread, since):
        if told is None or told[1]["runId"] == run:
            yield told
        if told and told[1]["runId"] == run and is_last(told[1]):
            return


def is_last(frame: Frame) -> bool:
    """Return whether a frame is the last of its run."""
    return frame["type"] == "error" or bool(frame.get("isLastChunk"))


async def _page(here: AppContext, owner: str, conversation: str) -> str | None:
    try:
        return page_jobs.PAGES.artefact_id(await find_conversation(here, owner, conversation))
    except Missing:
        return None
