"""Deletion of an artefact with everything that belongs to it, its conversation included."""

from callsheet.server.artefacts.schemas import ArtefactDeleted
from callsheet.server.http.context import AppContext
from callsheet.state.errors import Missing
from callsheet.storage import tool_calls
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


async def delete_artefact(ctx: AppContext, artefact: Artefact, thread: Thread) -> ArtefactDeleted:
    """Delete the artefact, and its conversation `thread` unless that is about another artefact.

    Both are marked first, and refuse every change from then on. The artefact's record goes last: while it
    exists, a deletion that was cut short can be repeated. An id that is used again begins a new artefact.
    Raises `Missing` if there is neither an artefact nor a conversation about it, and `Busy` while a run has
    the conversation.
    """
    meta = await artefact.meta()
    record = await threads.find(ctx.storage, thread.id, thread.owner)
    is_own = record is not None and _is_about(record, artefact, thread.graph)
    if not (meta or is_own) or meta.get("owner", thread.owner) != thread.owner:
        raise Missing(
            f"there is no {artefact.kind} {artefact.id!r}",
            remedy=f"list them with GET /api/artefacts/{artefact.kind}",
        )
    if record is None:
        await artefact.begin_deletion(thread.owner, thread.id)
        await _finish_deletion(ctx, artefact, thread)
    else:
        async with threads.hold(ctx.storage, record.id, record.owner, deletes=is_own):
            await artefact.begin_deletion(record.owner, record.id)
            await artefact.erase(record.owner)
            await _delete_conversation(ctx, artefact, record, is_own=is_own)
    await artefact.erase_record(thread.owner)
    return ArtefactDeleted(deleted=artefact.id)


def _is_about(record: Thread, artefact: Artefact, graph: str) -> bool:
    if record.artefact:
        return record.artefact == f"{artefact.kind}:{artefact.id}"
    return record.graph == graph


async def _finish_deletion(ctx: AppContext, artefact: Artefact, thread: Thread) -> None:
    await artefact.erase(thread.owner)
    # It may be another owner's by now.
    if not await threads.exists(ctx.storage, thread.id):
        await threads.erase(ctx.storage, thread)


async def _delete_conversation(ctx: AppContext, artefact: Artefact, record: Thread, *, is_own: bool) -> None:
    if not is_own:
        await threads.unlink_artefact(ctx.storage, record.id, f"{artefact.kind}:{artefact.id}")
        return
    await ctx.saver.adelete_thread(record.id)
    await tool_calls.forget_thread(ctx.storage, record.owner, record.id)
    await threads.erase(ctx.storage, record)
