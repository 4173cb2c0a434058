"""What a person may do in a conversation about a page: say, decide, cancel, listen."""

from collections.abc import AsyncGenerator
from dataclasses import replace

from server import chat_stream, page_jobs
from server.api.chat_bodies import ApprovalResponse, UserMessage
from server.chat_events import Frame
from server.chat_stream import Place
from server.page_jobs import PageChat
from server.parts import Parts
from server.requested import Job
from state.errors import Busy, Conflict, Missing
from storage import threads
from storage.run_records import Created
from storage.threads import Thread


async def say(here: Parts, owner: str, said: UserMessage) -> Job:
    """Return what a message asks for; raises `Conflict` in another workflow's conversation."""
    page_id = await _page(here, owner, said.conversationId) or said.pageId or said.conversationId
    asked = PageChat(
        page_id,
        said.content,
        said.conversationId,
        said.selectedElementId,
        context=said.context(),
        owner=owner,
        idempotency_key=said.messageId,
    )
    return await page_jobs.chat_job(here.worker, here.storage, asked)


async def decide(here: Parts, owner: str, said: ApprovalResponse) -> Job:
    """Return what an answer asks for; raises `Missing` for a conversation there is none of."""
    page_id = await _page(here, owner, said.conversationId)
    if page_id is None:
        raise threads.unknown(said.conversationId)
    return await page_jobs.decision_job(here.worker, here.storage, said.decided(page_id, owner))


async def begin(here: Parts, job: Job) -> Created:
    """Have the job carried out, here or elsewhere; raises `Busy` while another has the conversation."""
    await page_jobs.DESK.opened(here.storage, job.thread)
    # Said again it is another message, unless it has an id of its own.
    wanted = replace(job, repeatable=job.idempotency_key is None).wanted()
    return await here.worker.start(job.thread.id, wanted)


async def cancel(here: Parts, owner: str, conversation: str) -> None:
    """End what runs in the owner's conversation; raises `Conflict` where nothing does."""
    thread = await known(here, owner, conversation)
    run = await here.worker.runs.active(thread.id)
    if run is None:
        raise Conflict("nothing runs in this conversation", remedy="it has ended already")
    await here.worker.cancel(thread.id, run)


async def known(here: Parts, owner: str, conversation: str) -> Thread:
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
    here: Parts, owner: str, conversation: str, last: str | None
) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    """Return what the conversation tells from the event `last` on; raises what `known` does."""
    thread = await known(here, owner, conversation)
    since = await chat_stream.place(here.worker, here.storage, thread.id, last)
    return chat_stream.told(here.worker, here.storage, thread, since)


async def until_over(here: Parts, job: Job) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    """Begin a job and return what its run tells, to its end."""
    since = await chat_stream.newest(here.storage, job.thread.id)
    made = await begin(here, job)
    if made.verdict == "replay":
        raise Busy("this very request was carried out already", remedy="read the conversation")
    return _of_run(here, job, since, made.run)


async def _of_run(
    here: Parts, job: Job, since: Place, run: str
) -> AsyncGenerator[tuple[str, Frame] | None, None]:
    async for told in chat_stream.told(here.worker, here.storage, job.thread, since):
        if told is None or told[1]["runId"] == run:
            yield told
        if told and told[1]["runId"] == run and ends(told[1]):
            return


def ends(frame: Frame) -> bool:
    """Return whether a frame is the last of its run."""
    return frame["type"] == "error" or bool(frame.get("isLastChunk"))


async def _page(here: Parts, owner: str, conversation: str) -> str | None:
    try:
        return page_jobs.DESK.subject(await known(here, owner, conversation))
    except Missing:
        return None
