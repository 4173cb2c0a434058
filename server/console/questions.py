"""The inbox: everything that waits for a person, answers to it, and a record of who decided what."""

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from callsheet.server.engine.worker import Worker
from callsheet.server.http.context import AppContext
from callsheet.server.langgraph.inputs import check_answer
from callsheet.server.langgraph.schemas import RunCommand, RunCreate
from callsheet.server.langgraph.starting import StartedRun, start_run
from callsheet.state import questions as words
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.times import iso_time_or_none
from callsheet.storage import questions
from callsheet.storage.indexes import IndexPage, cursor_at
from callsheet.storage.questions import AnswerRecord
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.events import wait_for_signal
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

_SEPARATOR: Final = ":"
_CHUNK: Final = 100
"""Threads that are read at once."""
_MOST_READ: Final = 500
"""Threads that one request looks at; a page that is short has a cursor."""
_SKIPPED: Final = "~"
"""In a cursor, between the number of a thread's answers that were shown and the thread's entry."""
_MAX_DIGITS: Final = 9
_POLL_S: Final = 5.0
"""Seconds until a reader looks without an announcement, whose sender may have died."""


@dataclass(frozen=True)
class WaitingQuestion:
    """A question that waits for a person."""

    thread: Thread
    interrupt: str
    value: Any

    @property
    def id(self) -> str:
        """Id over all threads; a copied thread has the interrupts of the original."""
        return f"{self.interrupt}{_SEPARATOR}{self.thread.id}"

    @property
    def view(self) -> dict[str, Any]:
        """The question as the API shows it."""
        age_ms = max(0, time.time() * 1000 - self.thread.state_updated_ms)
        return {
            **thread_fields(self.thread),
            "id": self.id,
            "kind": words.kind(self.value),
            "title": words.sentence(self.value),
            "wouldChange": words.changes(self.value),
            "responseSchema": words.response_schema(self.value),
            "choices": words.choices(self.value),
            "value": self.value,
            "createdAt": iso_time_or_none(self.thread.state_updated_ms),
            "ageSeconds": round(age_ms / 1000, 1),
            "dueAt": iso_time_or_none(_due_ms(self.thread)),
        }


def _due_ms(thread: Thread) -> int | None:
    """Return the time at which a thread is deleted with its questions; None for one that stays."""
    return None if thread.keeps_latest else thread.expires_ms


def thread_fields(thread: Thread) -> dict[str, Any]:
    """Return the fields of a view that name a thread."""
    kind, _, name = thread.artefact.partition(":")
    return {
        "thread": thread.id,
        "workflow": thread.graph,
        "artefact": {"kind": kind, "id": name, "title": name} if name else None,
        "link": f"/c/{quote(thread.id, safe='')}",
    }


def questions_of(thread: Thread) -> list[WaitingQuestion]:
    """Return the questions that a thread waits with; none while a run is on it."""
    if thread.status != "interrupted":
        return []
    return [
        WaitingQuestion(thread, one["id"], one["value"])
        for several in thread.interrupts.values()
        for one in several
    ]


async def list_waiting(
    storage: Storage, owner: str, workflow: str | None, cursor: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the questions that wait, longest first, and the cursor of the next page."""
    views: list[dict[str, Any]] = []
    count = min(limit, _CHUNK)
    for _ in range(_MOST_READ // count):
        waiting, cursor, _ = await _read_waiting(storage, owner, cursor, count)
        views += [one.view for one in waiting if workflow in {None, one.thread.graph}]
        if cursor is None or len(views) >= limit:
            break
    return views, cursor


async def _read_waiting(
    storage: Storage, owner: str, cursor: str | None, count: int
) -> tuple[list[WaitingQuestion], str | None, bool]:
    """Return the questions of `count` threads, the next cursor, and whether all of the threads wait."""
    page = await questions.list_waiting(storage, owner, cursor, count)
    records = await threads.get_many(storage, page.ids, owner)
    waiting: list[WaitingQuestion] = []
    all_wait = True
    for name, record in zip(page.ids, records, strict=True):
        own = questions_of(record) if record else []
        all_wait = all_wait and bool(own)
        if not own and (record is None or record.status != "busy"):
            await questions.drop_stale(storage, owner, name)
        waiting += own
    return waiting, page.next, all_wait


async def list_answered(
    storage: Storage, owner: str, workflow: str | None, cursor: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the answers that were given, by thread, the last answer first."""
    views: list[dict[str, Any]] = []
    skip, cursor = _parse_answered(cursor)
    count = min(limit, _CHUNK)
    for _ in range(_MOST_READ // count):
        page: IndexPage = await questions.list_answered(storage, owner, cursor, count)
        records = await threads.get_many(storage, page.ids, owner)
        for ms, record in zip(page.times_ms, records, strict=True):
            if record is None or workflow not in {None, record.graph}:
                continue
            # One more than fits shows whether the thread has more.
            room = limit - len(views) + 1
            skipped = skip[1] if skip[0] == record.id else 0
            given = await questions.answers_of(storage, record.id, skipped, room)
            views += [_answered_view(record, one) for one in reversed(given)]
            if len(views) > limit:
                return views[:limit], f"{skipped + room - 1}{_SKIPPED}{ms}-{record.id}"
        cursor = page.next
        if cursor is None:
            break
    return views, cursor


def _parse_answered(cursor: str | None) -> tuple[tuple[str, int], str | None]:
    """Return the thread of a cursor with the number of its answers that were shown, and a list's cursor."""
    count, separator, entry = (cursor or "").partition(_SKIPPED)
    ms, _, thread = entry.partition("-")
    if not (separator and len(count) <= _MAX_DIGITS and count.isascii() and count.isdecimal()):
        return ("", 0), cursor
    if not (ms.isascii() and ms.isdecimal()):
        raise Invalid(
            f"cursor {cursor!r} is not a page's `next`", remedy="send the `next` of the previous page"
        )
    return (thread, int(count)), cursor_at(int(ms), thread)


def _answered_view(thread: Thread, given: AnswerRecord) -> dict[str, Any]:
    return {
        **thread_fields(thread),
        "id": f"{given.question}{_SEPARATOR}{thread.id}",
        "title": given.sentence,
        "shown": given.shown,
        "answer": given.answer,
        **_decision(given),
    }


def _decision(given: AnswerRecord) -> dict[str, Any]:
    return {
        "answeredBy": given.actor,
        "owner": given.owner,
        "keyId": given.key_id or None,
        "answeredAt": iso_time_or_none(given.answered_ms),
        "run": given.run,
    }


async def answer(ctx: AppContext, owner: str, question_id: str, given: Any) -> StartedRun:
    """Start the run that answers a question; of several answers one wins.

    Raises `Missing` for a question that never was the owner's, `Conflict` for one that was answered, and
    `InvalidArguments` for an answer of another shape than the question wants.
    """
    interrupt, _, thread_id = question_id.partition(_SEPARATOR)
    record = await threads.find(ctx.storage, thread_id, owner) if thread_id else None
    if record is None:
        raise _missing(question_id)
    waiting = next((one for one in questions_of(record) if one.interrupt == interrupt), None)
    if waiting is None:
        raise await _gone(ctx.storage, record, interrupt)
    check_answer(waiting.value, given)
    body = RunCreate(
        assistant_id=str(record.metadata.get("assistant_id") or record.graph),
        command=RunCommand(resume={interrupt: given}),
        stream_mode=["messages-tuple", "custom", "updates"],
        stream_resumable=True,
        multitask_strategy="reject",
    )
    try:
        return await start_run(ctx, owner, record.id, body)
    except Conflict as error:
        gone = await _gone(ctx.storage, record, interrupt)
        # Somebody else may have answered meanwhile; any other conflict has its own reason.
        raise (gone if isinstance(gone, Conflict) else error) from None


async def _gone(storage: Storage, record: Thread, interrupt: str) -> Missing | Conflict:
    """Return the error for a question that does not wait any more, with who answered it."""
    given = [one for one in await questions.answers_of(storage, record.id) if one.question == interrupt]
    if given:
        last = given[-1]
        at = iso_time_or_none(last.answered_ms)
        return Conflict(
            f"the question was answered by {last.actor} at {at}",
            remedy="read the thread to see what came of it",
            details=_decision(last),
        )
    if record.status == "busy":
        return Conflict("a run is on the question's thread", remedy="wait until it ends, and read again")
    return _missing(f"{interrupt}{_SEPARATOR}{record.id}")


def _missing(question_id: str) -> Missing:
    return Missing(f"there is no question {question_id[:255]!r}", remedy="list them with GET /api/questions")


async def follow_waiting(
    worker: Worker, owner: str, is_allowed: Callable[[], Any], heartbeat_s: float
) -> AsyncGenerator[list[str] | None, None]:
    """Yield the ids of the questions that wait, first as they are and then at each change; None if silent."""
    ids: list[str] = []
    known: list[str] | None = None
    read: tuple[object, ...] | None = None
    async with worker.events.announcements.subscribe_to(keys.waiting_threads(owner)) as bell:
        silent_s = 0.0
        is_announced = True
        while True:
            bell.clear()
            await is_allowed()
            revision = await questions.waiting_revision(worker.storage, owner)
            if is_announced or revision != read:
                ids, is_settled = await _waiting_ids(worker.storage, owner)
                # A thread that is listed begins to wait later, and that changes no list.
                read = revision if is_settled else None
            if ids != known:
                known, silent_s = ids, 0.0
                yield ids
            wait_s = min(_POLL_S, heartbeat_s)
            is_announced = await wait_for_signal(bell, wait_s)
            if not is_announced:
                silent_s += wait_s
            if silent_s >= heartbeat_s:
                silent_s = 0.0
                yield None


async def _waiting_ids(storage: Storage, owner: str) -> tuple[list[str], bool]:
    """Return the ids of the questions that wait, and whether all listed threads do."""
    ids: list[str] = []
    cursor, all_wait = None, True
    while len(ids) < _MOST:
        waiting, cursor, page_waits = await _read_waiting(storage, owner, cursor, _CHUNK)
        ids += [one.id for one in waiting]
        all_wait = all_wait and page_waits
        if cursor is None:
            break
    return ids, all_wait


_MOST: Final = 1_000
"""Most questions that a stream of changes names."""
