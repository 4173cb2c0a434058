"""Views of lessons: the session, its messages, the list of sessions."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from callsheet.providers.speech import local_rate
from callsheet.server.artefacts.service import ArtefactService
from callsheet.server.artefacts.titles import read_cards
from callsheet.server.engine.worker import Worker
from callsheet.server.http.context import AppContext
from callsheet.state import conversation
from callsheet.state.lessons import lesson, proof
from callsheet.state.lessons.lesson import Session
from callsheet.state.lessons.narration import OWN
from callsheet.state.lessons.proof import ProofContext
from callsheet.state.lessons.selection import fact_offer
from callsheet.state.times import iso_time_or_none
from callsheet.state.versions import Version
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

_CHUNK: Final = 100
_RUNS: Final = 1_000
"""Newest runs of a session that give its messages their times."""


@dataclass(frozen=True)
class LessonSnapshot:
    """The current state of a lesson."""

    session: Session
    newest: Mapping[str, Version | None]
    """By stream."""


async def snapshot(artefact: Artefact) -> LessonSnapshot:
    """Return the current state of the lesson, which need not have a version yet."""
    heads, meta = await asyncio.gather(artefact.stream_heads(lesson.STREAMS), artefact.meta())
    newest: dict[str, Version | None] = {name: head.newest for name, head in heads.items()}
    details = {**meta, "createdAt": iso_time_or_none(meta.get("createdMs"))}
    return LessonSnapshot(lesson.session(artefact.id, meta.get("owner", ""), newest, details), newest)


def lesson_view(lesson_snapshot: LessonSnapshot, question: str | None) -> dict[str, Any]:
    """Return the fields of a lesson in every reply; `question` names the pending one."""
    session = lesson_snapshot.session
    step = lesson.step(session.status, question)
    facts, confirmed, student, narration = (
        lesson_snapshot.newest.get(name) for name in ("facts", "confirmed", "student", "narration")
    )
    offer = fact_offer(facts.data if facts else {}, confirmed.data if confirmed else {})
    fields, script = session.model_dump(mode="json"), session.generatedScript
    return {
        "status": session.status,
        "workflowStep": step,
        "waitsFor": question,
        "showFactSelectionPrompt": step == "selection",
        "showNarrationReviewPrompt": step == "review" and session.generatedScript is not None,
        "facts": fields["extractedFacts"],
        "earlierFacts": [one.model_dump() for one in offer.facts[1]],
        "confirmedFacts": fields["confirmedFacts"],
        "narration": fields["generatedScript"],
        "speech": script.length_words(local_rate(script.language)) if script else None,
        "segmentTimes": None,
        "segmentNotes": segment_notes(lesson_snapshot),
        "topic": session.topic,
        "learningObjective": session.learningObjective,
        "childAge": session.childAge,
        "childInterest": session.childInterest,
        "learningStyle": student.data.get("learning_style") if student else None,
        "warnings": [
            *(text for one in (facts, narration) if one for text in one.data.get("warnings", ())),
            *(
                script.untold_warning((one.id, one.concept) for one in session.confirmedFacts)
                if script
                else ()
            ),
        ],
    }


def segment_notes(lesson_snapshot: LessonSnapshot) -> dict[str, list[str]]:
    """Return what the chosen facts do not prove in the segments of a narration that a person wrote."""
    session, newest = lesson_snapshot.session, lesson_snapshot.newest
    script, version, facts = session.generatedScript, newest.get("narration"), newest.get("facts")
    if script is None or version is None:
        return {}
    chosen = tuple(session.confirmedFacts)
    known = (script.topic, session.childAge or "", session.childInterest or "")
    material_language = str(facts.data.get("language") or "") if facts else ""
    background = ProofContext(known, chosen, script.language, script.language == material_language)
    by_id = {fact.id: fact for fact in chosen}
    return proof.segment_notes(script, version.data.get(OWN, ()), by_id, background)


def pending_question(values: Iterable[Any]) -> str | None:
    """Return the name of the pending question, given the interrupts' values; None for none."""
    return next((str(value.get("type")) for value in values if isinstance(value, Mapping)), None)


async def messages_view(worker: Worker, thread: Thread, messages: list[AnyMessage]) -> list[dict[str, Any]]:
    """Return the messages in their REST form; a call's result is a part of the calling message.

    A user's message has the time its run was created, an answer the time its run last changed.
    """
    times = await _times(worker, thread)
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    views: list[dict[str, Any]] = []
    run = ("", "")
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        run = times.get(str(message.id), run)
        views.append(
            _message(message, thread.id, results, run[0 if isinstance(message, HumanMessage) else 1])
        )
    return views


async def _times(worker: Worker, thread: Thread) -> dict[str, tuple[str, str]]:
    """Return the creation and update times of the runs, by the id of their input message."""
    runs = await worker.runs.list_runs(thread.id, 0, _RUNS)
    return {
        str(message.get("id")): (str(iso_time_or_none(run.created_ms)), str(iso_time_or_none(run.updated_ms)))
        for run in runs
        for message in (run.request.get("input") or {}).get("messages", ())
        if isinstance(message, Mapping)
    }


def _message(
    message: AnyMessage, session_id: str, results: Mapping[str, ToolMessage], created_at: str
) -> dict[str, Any]:
    calls = conversation.calls_of(message) if isinstance(message, AIMessage) else []
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    for call in calls:
        result = results.get(str(call["id"]))
        done = (
            {"state": "output-available", "output": result.text} if result else {"state": "input-available"}
        )
        name = {"type": f"tool-{call['name']}", "toolCallId": call["id"], "input": call.get("args")}
        parts.append({**name, **done})
    return {
        "id": message.id,
        "sessionId": session_id,
        "role": {"human": "user", "ai": "assistant"}.get(message.type, "system"),
        "content": str(message.text),
        "parts": parts if calls else None,
        "metadata": None,
        "createdAt": created_at or None,
    }


async def list_sessions(
    ctx: AppContext, service: ArtefactService, owner: str, start: int, limit: int
) -> dict[str, Any]:
    """Return up to `limit` of the owner's sessions, last changed first.

    `start` and `next` are indexes in the list of all the owner's threads; a `next` of 0 is the end.
    """
    records, next_start = await _records(ctx.storage, owner, service.graph, start, limit)
    artefacts = [Artefact(ctx.storage, service.kind, record.id, owner) for record in records]
    snapshots, cards = await asyncio.gather(
        asyncio.gather(*(snapshot(artefact) for artefact in artefacts)),
        read_cards(ctx, records, with_words=False),
    )
    return {
        "sessions": [
            _session_summary(record, shown) | {"title": card.title}
            for record, shown, card in zip(records, snapshots, cards, strict=True)
        ],
        "next": next_start,
    }


async def _records(
    storage: Storage, owner: str, graph: str, start: int, limit: int
) -> tuple[list[Thread], int]:
    records: list[Thread] = []
    async for index, record in _threads(storage, owner, start):
        if record.graph != graph:
            continue
        if len(records) == limit:
            return records, index
        records.append(record)
    return records, 0


async def _threads(storage: Storage, owner: str, start: int) -> AsyncIterator[tuple[int, Thread]]:
    """Yield the owner's threads from index `start` on, each with its index."""
    index = start
    while page := await threads.list_newest(storage, owner, index, _CHUNK):
        for record in page:
            yield index, record
            index += 1


def _session_summary(record: Thread, lesson_snapshot: LessonSnapshot) -> dict[str, Any]:
    session = lesson_snapshot.session
    question = pending_question([value["value"] for group in record.interrupts.values() for value in group])
    return {
        "id": record.id,
        "status": session.status,
        "workflowStep": lesson.step(session.status, question),
        "waitsFor": question,
        "topic": session.topic,
        "childAge": session.childAge,
        "childInterest": session.childInterest,
        "createdAt": iso_time_or_none(record.created_ms),
        "updatedAt": iso_time_or_none(record.updated_ms),
    }
