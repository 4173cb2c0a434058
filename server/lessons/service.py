"""Requests about lessons as runs for the worker, and their replies.

A session is a thread of `fact_narration`; its lesson has the thread's id.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from langgraph.types import Interrupt

from callsheet.graphs import fact_narration
from callsheet.nodes.lessons import questions
from callsheet.nodes.lessons.questions import QUESTION
from callsheet.nodes.question import decision_plan
from callsheet.server.artefacts.service import (
    CHAT,
    ArtefactService,
    RequestContext,
    answer_interrupt,
    budget_answer_run,
    clean_message,
    decision_run,
    fingerprint,
    human_message,
    new_thread_id,
    pending_questions,
    question_type,
    require_not_paused,
    run_request,
)
from callsheet.server.artefacts.views import question_text, turn_fields, turn_use
from callsheet.server.engine.execution import BuildReply
from callsheet.server.engine.worker import Worker
from callsheet.server.http.requests import identifier
from callsheet.server.lessons import sessions
from callsheet.server.lessons.schemas import LessonTurnCreate, NarrationRewrite, QuizCreate
from callsheet.state import conversation, pricing
from callsheet.state.budgets import RAISE_BUDGET
from callsheet.state.entered import UPLOADED, upload_fields
from callsheet.state.errors import Conflict, Invalid
from callsheet.state.lessons import lesson
from callsheet.state.lessons import selection as answers
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run, RunRequest
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

GRAPH: Final = "fact_narration"
MAX_PASTED: Final = 200_000
"""Characters of a message: a person may paste a chapter."""
LESSONS: Final = ArtefactService(GRAPH, "lesson", "sessionId")
_NARRATE: Final = "Write the narration from the facts I have chosen."
"""Message of a turn with facts but no text."""


class SessionRef(NamedTuple):
    """The session of a request."""

    thread: Thread
    new: bool
    """True if this request creates it."""


async def find_or_create_session(
    storage: Storage, owner: str, session_id: str | None, key: str | None = None
) -> SessionRef:
    """Return the owner's session of this id; a new one for an unused id or None.

    The id of a new one follows from `key`, an idempotency key, so that the request can be sent again.

    Raises `Missing` for another owner's, which must not look like a new one, and `Conflict` for a
    thread of another workflow.
    """
    if not session_id:
        return SessionRef(session_thread(await new_thread_id(storage, GRAPH, owner, key), owner), new=True)
    thread = session_thread(session_id, owner)
    existing, meta, in_use = await asyncio.gather(
        threads.find(storage, session_id, owner),
        LESSONS.artefact(storage, thread).meta(),
        threads.exists(storage, session_id),
    )
    if existing is None:
        if in_use:
            raise threads.missing_thread(session_id)
        return SessionRef(session_thread(await new_thread_id(storage, GRAPH, owner, key), owner), new=True)
    if existing.graph not in {"", GRAPH}:
        raise Conflict(
            f"conversation {session_id!r} runs {existing.graph!r}, not {GRAPH!r}",
            remedy="use the interface of that workflow, or another session",
        )
    is_bound = existing.artefact == thread.artefact and (meta.get("owner"), meta.get("thread")) == (
        owner,
        session_id,
    )
    return SessionRef(existing if is_bound else thread, new=False)


async def find_session(storage: Storage, owner: str, session_id: str | None) -> Thread:
    """Return the thread of an existing session; raise `Missing` if there is none."""
    requested = session_thread(session_id, owner)
    session = await find_or_create_session(storage, owner, requested.id)
    if session.new:
        raise threads.missing_thread(requested.id)
    return session.thread


async def turn_run(
    worker: Worker, session: SessionRef, body: LessonTurnCreate, caller: RequestContext
) -> RunRequest:
    """Return the run that continues the session; chosen facts answer a pending choice.

    Without a pending choice they are confirmed, then narrated. Raises `Invalid` for an invalid request,
    and `Conflict` if the question was answered meanwhile.
    """
    thread, message, options = session.thread, body.text, body.session_options
    if body.requires_question:
        return await decision_run(worker, thread, caller, body.given_answer)
    if body.selectedFacts is None:
        text = clean_message(message, MAX_PASTED)
        form = await _upload_form(worker.storage, thread, text)
        graph_input = {**options, "messages": [human_message(text, form)]}
        what = {"ask": "chat", "message": text, **options}
        if answer_run := await budget_answer_run(worker, thread, caller, text, what):
            return answer_run
        await require_not_paused(worker, thread, caller)
        return run_request(thread, caller, what, input=graph_input, stream_mode=[*CHAT])
    facts = body.chosen_facts
    choice = {"facts": facts, **({"message": message} if message.strip() else {})}
    what = {"ask": "choose", "message": message, "selectedFacts": facts, **options}
    pending = [] if session.new else await pending_questions(worker, thread)
    if open_choices := fact_questions(pending):
        answer_run = answer_interrupt(pending, caller, thread, choice, open_choices[0])
        # A repeated request has the same body, though the question is no longer pending.
        return replace(answer_run, fingerprint=fingerprint(thread, caller, what))
    calls = questions.selection_calls(await _read_choice(worker.storage, thread, choice))
    return _decision_run((thread, caller), message or _NARRATE, what, calls, options)


async def _upload_form(storage: Storage, thread: Thread, text: str) -> dict[str, str]:
    """Return the fields of a message about an uploaded file; empty for another message."""
    if UPLOADED not in text:
        return {}
    newest = (await LESSONS.artefact(storage, thread).stream_head("source")).newest
    # A pasted text, which is stored as a source, too, has no address.
    return upload_fields(text, str(newest.data["name"])) if newest and newest.data.get("url") else {}


def rewrite_run(thread: Thread, body: NarrationRewrite, caller: RequestContext) -> RunRequest:
    """Return the run that rewrites segments of a narration, without a model's decision."""
    names = ", ".join(body.segments).replace("_", " ") or "narration"
    message = f"Write the {names} again" + (f": {body.guidance}" if body.guidance else ".")
    params: dict[str, Any] = {"facts": [], "guidance": body.guidance or None}
    if body.segments:
        params["segments"] = [*body.segments]
    what = {"ask": "rewrite", "segments": [*body.segments], "guidance": body.guidance or ""}
    calls = ("", [("generateNarrationTool", params)])
    return _decision_run((thread, caller), message, what, calls, {})


def quiz_run(thread: Thread, body: QuizCreate, caller: RequestContext) -> RunRequest:
    """Return the run that writes a quiz about the chosen facts, without a model's decision."""
    params = {"count": body.count} if body.count else {}
    calls = ("", [("writeQuizTool", params)])
    return _decision_run(
        (thread, caller), "Write a quiz about the chosen facts.", {"ask": "quiz", **params}, calls, {}
    )


def _decision_run(
    place: tuple[Thread, RequestContext],
    message: str,
    body: Mapping[str, Any],
    calls: tuple[str, Sequence[tuple[str, dict[str, Any]]]],
    options: Mapping[str, Any],
) -> RunRequest:
    """Return the run that executes a person's decision, without asking a model."""
    decision = decision_plan(fact_narration.WORKFLOW, uuid.uuid4().hex, *calls)
    messages = [human_message(clean_message(message)), {"role": "assistant", **decision["messages"][0]}]
    graph_input = {**options, **decision, "messages": messages}
    return run_request(*place, body, input=graph_input, stream_mode=[*CHAT])


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread, used = await asyncio.gather(
            threads.get(storage, run.thread, run.owner), turn_use(storage, run.owner, run.thread, state)
        )
        reply: dict[str, Any] = await turn_view(storage, thread, state) | used
        return reply

    return build


async def turn_view(storage: Storage, thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's reply: flat, with the last tool's output as JSON text."""
    snapshot = await sessions.snapshot(LESSONS.artefact(storage, session_thread(thread.id, thread.owner)))
    interrupts = state.get("__interrupt__") or ()
    results = state.get("results", ())
    last_output = results[-1]["output"] if results else None
    failure = _failure(results)
    question = interrupts[0].value if interrupts else None
    words = _turn_message(state, results)
    if failure and failure in words:
        # The model's words have the remedy, too.
        failure = words[words.index(failure) :]
    problem = str(question.get("problem") or "") if isinstance(question, Mapping) else ""
    budget = question_text(question) if question_type(question) == RAISE_BUDGET else ""
    return {
        "type": "tool-result" if results else "text",
        "output": json.dumps(last_output, ensure_ascii=False) if results else None,
        "success": not failure and not problem,
        "message": budget or (f"Failed: {failure}" if failure else words) or problem,
        "sessionId": thread.id,
        **sessions.lesson_view(
            snapshot, sessions.pending_question(interrupt.value for interrupt in interrupts)
        ),
        "interrupt": {"id": interrupts[0].id, "value": interrupts[0].value} if interrupts else None,
        **turn_fields(state, _shorten),
        "agents": lesson.agent_results(results),
        "cost": pricing.total(entry["output"].get("cost", 0) for entry in results),
        "duration": round(sum(float(entry["duration_s"]) for entry in results), 3),
    }


def fact_questions(interrupts: Sequence[Interrupt]) -> list[str]:
    """Return the ids of the interrupts that ask for a choice of facts."""
    return [
        interrupt.id
        for interrupt in interrupts
        if isinstance(interrupt.value, Mapping) and interrupt.value.get("type") == answers.REQUEST
    ]


async def _read_choice(storage: Storage, thread: Thread, choice: Mapping[str, Any]) -> answers.ChosenFacts:
    """Return facts chosen without a pending question; raise `Invalid` for none and for unknown ones."""
    heads = await LESSONS.artefact(storage, thread).stream_heads(("facts", "confirmed"))
    proposed, confirmed = (head.newest.data if head.newest else {} for head in heads.values())
    return cast("answers.ChosenFacts", answers.read(choice, *answers.fact_offer(proposed, confirmed).facts))


def session_thread(session: str | None, owner: str) -> Thread:
    """Return the thread of a session, which need not exist; raise `Invalid` if none is named."""
    if not session:
        raise Invalid("no session is named", remedy="send X-Session-Id, or sessionId")
    identifier(session, LESSONS.id_name)
    return Thread(session, owner, GRAPH, f"{LESSONS.kind}:{session}")


def _failure(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the error of the last failed tool whose newest call failed; empty for none."""
    newest = {entry["tool"]: entry for entry in results}
    failures = [entry["output"] for entry in newest.values() if entry["status"] != "completed"]
    return str(failures[-1].get("error", "it was not carried out")) if failures else ""


def _turn_message(state: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    """Return the turn's last message: the model's, else a tool's; the reply lists the facts itself."""
    for entry in reversed(state.get("messages", ())):
        if entry.type == "human":
            break
        if str(entry.id).endswith(QUESTION):
            continue
        if entry.type == "ai" and entry.text and not conversation.calls_of(entry):
            return str(entry.text)
    messages = [str(entry["output"]["message"]) for entry in results if entry["output"].get("message")]
    return messages[-1] if messages else ""


def _shorten(output: Mapping[str, Any]) -> dict[str, Any]:
    fields = (
        "success",
        "message",
        "versionId",
        "changedSegments",
        "status",
        "cost",
        "duration",
        "cached",
        "warnings",
        "error",
        "suggestion",
        "type",
    )
    return {name: output[name] for name in fields if name in output}
