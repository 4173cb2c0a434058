"""Requests about lessons as runs for the worker, and their replies (B24-B37, B-R2, B-R3).

A session is a thread of `fact_narration`; its lesson has the thread's id.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

from langgraph.types import Interrupt

from callsheet.graphs import fact_narration
from callsheet.nodes.lessons import selection
from callsheet.nodes.lessons.selection import QUESTION
from callsheet.nodes.question import decision_plan
from callsheet.server.artefacts.service import CHAT, ArtefactService, RequestOptions, answer_interrupt
from callsheet.server.artefacts.turn_view import turn_fields
from callsheet.server.artefacts.turns import clean_message, human_message, identifier, turn_use
from callsheet.server.lessons import sessions
from callsheet.server.runtime.execution import BuildReply, pending_interrupts
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Worker
from callsheet.state import conversation, pricing
from callsheet.state.errors import Conflict, Invalid
from callsheet.state.lessons import agents
from callsheet.state.lessons import selection as answers
from callsheet.state.lessons.facts import Fact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

GRAPH: Final = "fact_narration"
MAX_PASTED: Final = 200_000
"""Characters of a message: a person may paste a chapter (B24)."""
LESSONS: Final = ArtefactService(GRAPH, "lesson", "sessionId")
_NARRATE: Final = "Write the narration from the facts I have chosen."
"""Message of a turn with facts but no text (B33)."""


class SessionRef(NamedTuple):
    """The session of a request."""

    thread: Thread
    new: bool
    """True if this request creates it (B28)."""


@dataclass(frozen=True)
class TurnRequest(RequestOptions):
    """A message, a choice or an answer in a session."""

    session: SessionRef
    message: str = ""
    facts: Sequence[Any] | None = None
    """The chosen facts, each as an object, an id or a number (B33, B52)."""
    answer: Any = None
    """Answer to the pending question, in any of its forms; None for none."""
    subject: str | None = None
    """New school subject (B-R12)."""
    review: bool | None = None
    """True if narrations need a person's approval from now on (B-R16)."""
    images: bool | None = None
    """True if images are searched and chosen from now on (B62)."""

    @property
    def session_options(self) -> dict[str, Any]:
        """State keys that the request sets for the session."""
        options = {"subject": self.subject or None, "review": self.review, "images": self.images}
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class RewriteRequest(RequestOptions):
    """Segments of a narration to rewrite."""

    thread: Thread
    segments: Sequence[str]
    """Empty for all."""
    guidance: str


async def find_or_create_session(storage: Storage, owner: str, session_id: str | None) -> SessionRef:
    """Return the owner's session of this id; a new one for an unused id or None (B36, B37).

    Raises `Missing` for another owner's, which must not look like a new one (B-R5), and `Conflict` for a
    thread of another workflow.
    """
    if session_id:
        record = await threads.find(storage, identifier(session_id, LESSONS.id_name), owner)
        if record is not None:
            if record.graph not in {"", GRAPH}:
                raise Conflict(
                    f"conversation {session_id!r} runs {record.graph!r}, not {GRAPH!r}",
                    remedy="use the interface of that workflow, or another session",
                )
            return SessionRef(_session_thread(session_id, owner), new=False)
        if await threads.exists(storage, session_id):
            raise threads.missing_thread(session_id)
    return SessionRef(_session_thread(uuid.uuid4().hex, owner), new=True)


async def find_session(storage: Storage, owner: str, session_id: str | None) -> Thread:
    """Return the thread of an existing session; raise `Missing` if there is none."""
    if not session_id:
        raise Invalid("no session is named", remedy="send X-Session-Id, or sessionId")
    session = await find_or_create_session(storage, owner, session_id)
    if session.new:
        raise threads.missing_thread(session_id)
    return session.thread


async def turn_run(worker: Worker, storage: Storage, request: TurnRequest) -> DomainRun:
    """Return the run that continues the session; chosen facts answer a pending choice.

    Without a pending choice they are confirmed, then narrated (B33). Raises `Invalid` for an invalid request,
    and `Conflict` if the question was answered meanwhile.
    """
    thread = request.session.thread
    options = request.session_options
    if request.answer is not None:
        return await answer_interrupt(worker, request, thread, request.answer)
    if request.facts is None:
        text = clean_message(request.message, MAX_PASTED)
        body = {"ask": "chat", "message": text, **options}
        return request.domain_run(
            thread, body, input={**options, "messages": [human_message(text)]}, stream_modes=CHAT
        )
    body = {"ask": "choose", "message": request.message, "selectedFacts": [*request.facts], **options}
    pending = [] if request.session.new else fact_questions(pending_interrupts(await worker.state(thread)))
    if pending:
        answer_run = await answer_interrupt(worker, request, thread, _choice(request), pending[0])
        # A repeated request has the same body, though the question is no longer pending.
        return replace(answer_run, body={**body, "context": request.context})
    calls = selection.selection_calls(await _read_choice(storage, thread, _choice(request)))
    return _decision_run(request, thread, request.message or _NARRATE, body, calls, options)


def rewrite_run(request: RewriteRequest) -> DomainRun:
    """Return the run that rewrites segments, without a model's decision."""
    names = ", ".join(request.segments).replace("_", " ") or "narration"
    message = f"Write the {names} again" + (f": {request.guidance}" if request.guidance else ".")
    params: dict[str, Any] = {"facts": [], "guidance": request.guidance or None}
    if request.segments:
        params["segments"] = [*request.segments]
    body = {"ask": "rewrite", "segments": [*request.segments], "guidance": request.guidance}
    return _decision_run(
        request, request.thread, message, body, ("", [("generateNarrationTool", params)]), {}
    )


def _decision_run(
    request: RequestOptions,
    thread: Thread,
    message: str,
    body: Mapping[str, Any],
    calls: tuple[str, Sequence[tuple[str, dict[str, Any]]]],
    options: Mapping[str, Any],
) -> DomainRun:
    """Return the run that executes a person's decision, without asking a model."""
    decision = decision_plan(fact_narration.WORKFLOW, uuid.uuid4().hex, *calls)
    messages = [human_message(clean_message(message)), {"role": "assistant", **decision["messages"][0]}]
    options = {**options, **decision, "messages": messages}
    return request.domain_run(thread, body, input=options, stream_modes=CHAT)


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread = await threads.get(storage, run.thread, run.owner)
        view = await turn_view(storage, thread, state)
        return view | await turn_use(storage, run.owner, run.thread, state)

    return build


async def turn_view(storage: Storage, thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's reply: flat, with the last tool's output as JSON text (B27, B-R3)."""
    snapshot = await sessions.snapshot(LESSONS.artefact(storage, _session_thread(thread.id, thread.owner)))
    interrupts = state.get("__interrupt__") or ()
    results = state.get("results", ())
    last_output = results[-1]["output"] if results else None
    failure = _failure(results)
    question = interrupts[0].value if interrupts else None
    problem = str(question.get("problem") or "") if isinstance(question, Mapping) else ""
    return {
        "type": "tool-result" if results else "text",
        "output": json.dumps(last_output, ensure_ascii=False) if results else None,
        "success": not failure and not problem,
        "message": failure or _turn_message(state, results) or problem,
        "sessionId": thread.id,
        **sessions.lesson_view(
            snapshot, sessions.pending_question(interrupt.value for interrupt in interrupts)
        ),
        "interrupt": {"id": interrupts[0].id, "value": interrupts[0].value} if interrupts else None,
        **turn_fields(state, _shorten),
        "agents": agents.results(results),
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


def _choice(request: TurnRequest) -> dict[str, Any]:
    """Return the chosen facts and the message about the narration."""
    message = {"message": request.message} if request.message.strip() else {}
    return {"facts": [*(request.facts or ())], **message}


async def _read_choice(storage: Storage, thread: Thread, choice: Mapping[str, Any]) -> answers.Chosen:
    """Return facts chosen without a pending question; raise `Invalid` for none and for unknown ones."""
    proposed = (await LESSONS.artefact(storage, thread).stream_head("facts")).newest
    data: Mapping[str, Any] = proposed.data if proposed else {}
    offered, earlier = [
        [Fact.model_validate(entry) for entry in data.get(name, ())] for name in ("facts", "earlier")
    ]
    return cast("answers.Chosen", answers.read(choice, offered, earlier))


def _session_thread(session: str, owner: str) -> Thread:
    return Thread(session, owner, GRAPH, f"{LESSONS.kind}:{session}")


def _failure(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the error of the last failed tool whose newest call failed; empty for none (B32)."""
    newest = {entry["tool"]: entry for entry in results}
    failures = [entry["output"] for entry in newest.values() if entry["status"] != "completed"]
    return f"Failed: {failures[-1].get('error', 'it was not carried out')}" if failures else ""


def _turn_message(state: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    """Return the turn's last message: the model's, else a tool's (B69); the reply lists the facts itself."""
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
