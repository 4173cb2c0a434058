"""Runs that undo and redo executions."""

from collections.abc import Sequence
from typing import Any

from callsheet.server.artefacts.executions import require_no_question
from callsheet.server.artefacts.service import RequestContext, is_recorded, run_request, with_fingerprint
from callsheet.server.engine.worker import Worker
from callsheet.server.video import service
from callsheet.server.video.executions import MAX_LISTED
from callsheet.server.video.service import VIDEOS
from callsheet.state import live_plan
from callsheet.state.errors import Conflict
from callsheet.state.live_plan import Execution
from callsheet.state.video import undo
from callsheet.state.video.plan import RULES
from callsheet.state.video.project import ORDER, order_of
from callsheet.state.video.undo import History
from callsheet.storage.artefacts.artefacts import Artefact, Stream
from callsheet.storage.plans import Executions
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads.threads import Thread
from callsheet.storage.video import settings


async def undo_run(
    worker: Worker, caller: RequestContext, thread: Thread, execution_id: str | None, steps: Sequence[str]
) -> RunRequest:
    """Return the run that undoes an execution, by default the newest, or some of its steps.

    A request that is sent again with its idempotency key is the recorded one, whatever was done since. Raises
    `Conflict` for an execution that has not ended, unless steps are named, and while a question waits.
    """
    body = {"ask": undo.UNDO, "execution": execution_id, "steps": [*steps]}
    if await is_recorded(worker, thread, caller):
        return run_request(thread, caller, body)
    await require_no_question(worker, thread)
    storage = worker.storage
    executions = Executions(storage, "video", VIDEOS.artefact_id(thread), thread.owner, RULES)
    if execution_id:
        record = await executions.settle(execution_id)
    else:
        record = undo.undone_execution(await executions.newest(MAX_LISTED))
    if not (steps or live_plan.is_over(record)):
        raise Conflict(
            f"execution {record['id']!r} has not ended",
            remedy="cancel it first, or name the steps that are to be undone",
        )
    wanted = undo.undo_steps(record, steps, await _history(VIDEOS.artefact(storage, thread), record))
    prompts = [live_plan.find(record, name)["step"]["display"] for name in steps]
    about = ", ".join(prompts) or record["request"]
    if record["kind"] == "plan":
        text = f"the person undid {about!r}"
        await settings.add_preference(storage, thread.owner, text, record["ended_ms"])
    run = service.decided_run(caller, thread, service.decided_plan(wanted, undo.UNDO), f"Undo: {about}")
    return with_fingerprint(run, thread, caller, body)


async def redo_run(worker: Worker, caller: RequestContext, thread: Thread) -> RunRequest:
    """Return the run that takes the newest undo back; repeated and refused as that of `undo_run`."""
    body = {"ask": undo.REDO}
    if await is_recorded(worker, thread, caller):
        return run_request(thread, caller, body)
    await require_no_question(worker, thread)
    executions = Executions(worker.storage, "video", VIDEOS.artefact_id(thread), thread.owner, RULES)
    record = undo.redone_execution(await executions.newest(MAX_LISTED))
    wanted = undo.undo_steps(record, [], await _history(VIDEOS.artefact(worker.storage, thread), record))
    text = f"Redo: {record['request'].removeprefix('Undo: ')}"
    run = service.decided_run(caller, thread, service.decided_plan(wanted, undo.REDO), text)
    return with_fingerprint(run, thread, caller, body)


async def _history(artefact: Artefact, record: Execution) -> History:
    """Return the versions of the streams that an execution wrote."""
    names = [*dict.fromkeys(name for one in record["steps"] for name in one["step"]["writes"]), ORDER]
    streams: dict[str, Stream] = await artefact.streams([*dict.fromkeys(names)])
    newest = {name: one.id for name, stream in streams.items() if (one := stream.newest())}
    order = order_of(current.data if (current := streams[ORDER].newest()) else None)

    def earlier(stream: str, version_id: str) -> str | None:
        ids = [version.id for version in streams[stream].versions]
        place = ids.index(version_id) if version_id in ids else 0
        return ids[place - 1] if place else None

    def content(stream: str, version_id: str) -> Any:
        version = streams[stream].find(version_id)
        return version.data if version else None

    def earlier_order(version_id: str) -> list[str]:
        before = streams[ORDER].find(earlier(ORDER, version_id) or "")
        ids = [name for name in order_of(before.data if before else None).scenes if name in order.scenes]
        return [*ids, *(name for name in order.scenes if name not in ids)]

    return History(order, newest, content, earlier, earlier_order)
