"""A lesson as people see and keep it: its session, what was said in it, its list, its end (B38-B49)."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from callsheet.server.artefacts.service import ArtefactService
from callsheet.server.runtime.worker import Worker
from callsheet.state import conversation
from callsheet.state.lessons import lesson
from callsheet.state.lessons.lesson import Session
from callsheet.state.versions import Version
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.records import ThreadRecord
from callsheet.storage.threads.threads import Thread

_CHUNK: Final = 100
_RUNS: Final = 1_000
"""Runs of a session whose times its messages are given."""


@dataclass(frozen=True)
class LessonSnapshot:
    """A lesson as it is now."""

    session: Session
    newest: Mapping[str, Version | None]
    """By stream."""


async def snapshot(artefact: Artefact) -> LessonSnapshot:
    """Return the lesson as it is now; one that nothing was made of yet is empty."""
    tips, meta = await asyncio.gather(
        asyncio.gather(*(artefact.stream_head(name) for name in lesson.STREAMS)), artefact.meta()
    )
    newest: dict[str, Version | None] = {
        name: tip.newest for name, tip in zip(lesson.STREAMS, tips, strict=True)
    }
    about = {**meta, "createdAt": iso_time(meta.get("createdMs"))}
    return LessonSnapshot(lesson.session(artefact.id, meta.get("owner", ""), newest, about), newest)


def lesson_view(found: LessonSnapshot, waits: str | None) -> dict[str, Any]:
    """Return what every reply says of a lesson, flat; `waits` is the question that does (B-R3, B45-B49)."""
    one = found.session
    step = lesson.step(one.status, waits)
    facts, student = found.newest.get("facts"), found.newest.get("student")
    told = one.model_dump(mode="json")
    return {
        "status": one.status,
        "workflowStep": step,
        "waitsFor": waits,
        "showFactSelectionPrompt": step == "selection",
        "showNarrationReviewPrompt": step == "review" and one.generatedScript is not None,
        "facts": told["extractedFacts"],
        "confirmedFacts": told["confirmedFacts"],
        "narration": told["generatedScript"],
        "topic": one.topic,
        "learningObjective": one.learningObjective,
        "childAge": one.childAge,
        "childInterest": one.childInterest,
        "learningStyle": student.data.get("learning_style") if student else None,
        "warnings": [*(facts.data.get("warnings", ()) if facts else ())],
    }


def pending_question(asked: Iterable[Any]) -> str | None:
    """Return the name of the question that waits, of the values of those that do; None for none."""
    return next((str(one.get("type")) for one in asked if isinstance(one, Mapping)), None)


async def messages_view(worker: Worker, thread: Thread, said: list[AnyMessage]) -> list[dict[str, Any]]:
    """Return what was said, as callers are told it; a call's result is a part of the message that made it.

    A message has the time of its run, which is when a person sent it and when the answer was complete (B39).
    """
    times = await _times(worker, thread)
    results = {one.tool_call_id: one for one in said if isinstance(one, ToolMessage)}
    told: list[dict[str, Any]] = []
    run = ("", "")
    for one in said:
        if isinstance(one, ToolMessage):
            continue
        run = times.get(str(one.id), run)
        told.append(_message(one, thread.id, results, run[0 if isinstance(one, HumanMessage) else 1]))
    return told


async def _times(worker: Worker, thread: Thread) -> dict[str, tuple[str, str]]:
    """Return when each run that brought a message was made and last changed, by the message's id."""
    runs = await worker.runs.list_runs(thread.id, count=_RUNS)
    return {
        str(given.get("id")): (str(iso_time(str(run.created_ms))), str(iso_time(str(run.updated_ms))))
        for run in runs
        for given in (run.request.get("input") or {}).get("messages", ())
        if isinstance(given, Mapping)
    }


def _message(one: AnyMessage, session: str, results: Mapping[str, ToolMessage], at: str) -> dict[str, Any]:
    calls = conversation.calls_of(one) if isinstance(one, AIMessage) else []
    parts: list[dict[str, Any]] = [{"type": "text", "text": one.text}] if one.text else []
    for call in calls:
        result = results.get(str(call["id"]))
        done = (
            {"state": "output-available", "output": result.text} if result else {"state": "input-available"}
        )
        name = {"type": f"tool-{call['name']}", "toolCallId": call["id"], "input": call.get("args")}
        parts.append({**name, **done})
    return {
        "id": one.id,
        "sessionId": session,
        "role": {"human": "user", "ai": "assistant"}.get(one.type, "system"),
        "content": str(one.text),
        "parts": parts if calls else None,
        "metadata": None,
        "createdAt": at or None,
    }


async def list_sessions(
    storage: Storage, desk: ArtefactService, owner: str, start: int, limit: int
) -> dict[str, Any]:
    """Return up to `limit` of the owner's sessions, newest change first, and where the next page begins.

    `start` and `next` are places in the list of all the owner's threads; 0 is the end.
    """
    found, after = await _records(storage, owner, desk.graph, start, limit)
    artefacts = [Artefact(storage, desk.kind, one.id, owner) for one in found]
    shown = await asyncio.gather(*(snapshot(one) for one in artefacts))
    return {"sessions": [_line(*pair) for pair in zip(found, shown, strict=True)], "next": after}


async def _records(
    storage: Storage, owner: str, graph: str, start: int, limit: int
) -> tuple[list[ThreadRecord], int]:
    found: list[ThreadRecord] = []
    async for at, record in _threads(storage, owner, start):
        if record.graph != graph:
            continue
        if len(found) == limit:
            return found, at
        found.append(record)
    return found, 0


async def _threads(storage: Storage, owner: str, start: int) -> AsyncIterator[tuple[int, ThreadRecord]]:
    """Yield the owner's threads from number `start` on, each with its number."""
    at = start
    while page := await thread_records.list_newest(storage, owner, at, _CHUNK):
        for record in page:
            yield at, record
            at += 1


def _line(record: ThreadRecord, found: LessonSnapshot) -> dict[str, Any]:
    one = found.session
    waits = pending_question([value["value"] for asked in record.interrupts.values() for value in asked])
    return {
        "id": record.id,
        "status": one.status,
        "workflowStep": lesson.step(one.status, waits),
        "waitsFor": waits,
        "topic": one.topic,
        "childAge": one.childAge,
        "childInterest": one.childInterest,
        "createdAt": iso_time(str(record.created_ms)),
        "updatedAt": iso_time(str(record.updated_ms)),
    }


def iso_time(ms: str | None) -> str | None:
    """Return milliseconds of the epoch as ISO-8601."""
    return datetime.fromtimestamp(int(ms) / 1000, UTC).isoformat(timespec="milliseconds") if ms else None
