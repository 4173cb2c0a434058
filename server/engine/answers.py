"""Answers to questions as they are recorded: who answered, what was shown, and what was answered."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from callsheet.server.engine.encoding import sha256_of
from callsheet.server.telemetry.audit import record_action
from callsheet.server.telemetry.logs import context_fields
from callsheet.state.questions import sentence
from callsheet.storage import questions
from callsheet.storage.questions import AnswerRecord
from callsheet.storage.redis import keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import execute
from callsheet.storage.runs.records import Created, Run, RunAttempt, RunOutcome, RunRequest

_MAX_ANSWER: Final = 500


async def with_answer_records(storage: Storage, request: RunRequest) -> RunRequest:
    """Return a run's request with a record of each answer that it brings, by the caller of this context."""
    answers: Mapping[str, Any] = request.request["answers"] or {}
    if not request.questions or not answers:
        return request
    shown = await _shown(storage, request.thread)
    digests: Mapping[str, str] = request.request["questions"] or {}
    key_id = context_fields().get("key_id", "")
    records = [
        AnswerRecord(
            question=name,
            sentence=sentence(shown[name]) if name in shown else "",
            shown=digests.get(name, ""),
            answer=answer,
            owner=request.owner,
            key_id=key_id,
            run=request.id,
            graph=request.graph,
        ).encode()
        for name, answer in answers.items()
    ]
    await questions.note_answered(storage, request.owner, request.thread)
    return replace(request, answers=records)


async def announce(storage: Storage, request: RunRequest, created: Created) -> None:
    """Tell waiting clients that questions are answered; record new answers in the audit."""
    await questions.announce(storage, request.owner)
    if created.run != request.id:
        return
    await audit(storage, request, request.answers)


async def with_words_recorded(storage: Storage, record: Run, outcome: RunOutcome) -> RunOutcome:
    """Return the outcome with its words as the answer to each question that waited and waits no more.

    Call it before the run ends, while the thread still has the questions of before.
    """
    if not outcome.words:
        return outcome
    waiting = {one["id"] for several in outcome.interrupts.values() for one in several}
    records = [
        AnswerRecord(
            question=name,
            sentence=sentence(value),
            shown=sha256_of(value),
            answer=outcome.words,
            owner=record.owner,
            key_id=str(record.request.get("key_id") or ""),
            run=record.id,
            graph=record.graph,
        ).encode()
        for name, value in (await _shown(storage, record.thread)).items()
        if name not in waiting
    ]
    if records:
        await questions.note_answered(storage, record.owner, record.thread)
    return replace(outcome, answers=records)


async def audit(storage: Storage, request: RunRequest, records: Sequence[str]) -> None:
    """Record stored answers in the audit; it has none whose process died in between."""
    for answer in map(json.loads, records):
        details = {name: answer[name] for name in ("question", "sentence", "graph", "run")}
        details["answer"] = json.dumps(answer["answer"], ensure_ascii=False)[:_MAX_ANSWER]
        await record_action(storage, "answer", request.thread, details, owner=request.owner)


async def _shown(storage: Storage, thread: str) -> dict[str, Any]:
    """Return the values of the thread's questions by id."""
    stored = await execute(storage.redis, "HGET", keys.thread_meta(thread), "interrupts")
    by_task: Mapping[str, Any] = json.loads(stored or "{}")
    return {one["id"]: one["value"] for several in by_task.values() for one in several}


async def update_waiting(storage: Storage, record: Run, attempt: RunAttempt, outcome: RunOutcome) -> bool:
    """Update the owner's list of waiting threads before a run ends; return True if something changes."""
    if record.is_stateless:
        return False
    if outcome.interrupts:
        await questions.note_waiting(storage, record.owner, record.thread)
        return True
    if record.request["questions"]:
        await questions.drop_waiting(storage, record.owner, record.thread, attempt.started_ms)
        return True
    return False
