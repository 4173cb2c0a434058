"""Requests about lessons as jobs for the worker, and what came of them as replies (B24-B37, B-R2, B-R3).

A session is a thread of `fact_narration`, and the lesson has the thread's id: whoever has the one has all.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, cast

from langgraph.types import Interrupt

from callsheet.graphs import fact_narration
from callsheet.nodes.lessons import selection
from callsheet.nodes.question import decision_plan
from callsheet.server.artefacts.service import CHAT, ArtefactService, RequestOptions, answer_interrupt
from callsheet.server.artefacts.turns import clean_message, human_message, identifier, tool_calls, usage
from callsheet.server.lessons import sessions
from callsheet.server.runtime.execution import BuildReply, pending_interrupts
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Worker
from callsheet.state import conversation
from callsheet.state.errors import Conflict, Invalid
from callsheet.state.lessons import agents
from callsheet.state.lessons import selection as answers
from callsheet.state.lessons.facts import Fact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

GRAPH: Final = "fact_narration"
LESSONS: Final = ArtefactService(GRAPH, "lesson", "sessionId")
_NARRATE: Final = "Write the narration from the facts I have chosen."
"""What is said for a person who sends facts and no words (B33)."""


class SessionRef(NamedTuple):
    """The session that a request is about."""

    thread: Thread
    new: bool
    """Whether it begins with this request (B28)."""


@dataclass(frozen=True)
class TurnRequest(RequestOptions):
    """What a person says in a session, or chooses."""

    place: SessionRef
    message: str = ""
    chosen: Sequence[Any] | None = None
    """The facts the lesson is to tell, each whole, its id or its number (B33, B52)."""
    answer: Any = None
    """The answer to whatever waits, in any of its forms; None for no answer."""
    subject: str | None = None
    """The school subject from now on (B-R12)."""
    review: bool | None = None
    """Whether a person is asked for every narration's approval from now on (B-R16)."""
    images: bool | None = None
    """Whether images are looked for and chosen from now on (B62)."""

    @property
    def session_options(self) -> dict[str, Any]:
        """What is said of the session from now on."""
        said = {"subject": self.subject or None, "review": self.review, "images": self.images}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class RewriteRequest(RequestOptions):
    """Segments of a narration that the model is to write again."""

    thread: Thread
    segments: Sequence[str]
    """All where none is named."""
    guidance: str


async def find_or_create_session(storage: Storage, owner: str, asked: str | None) -> SessionRef:
    """Return the owner's session of this id, or a new one where nobody has it, or none is named (B36, B37).

    Raises `Missing` for another's, which must not look like a new one (B-R5), and `Conflict` for a
    conversation about something else.
    """
    if asked:
        found = await thread_records.find(storage, identifier(asked, LESSONS.id_name), owner)
        if found is not None:
            if found.graph not in {"", GRAPH}:
                raise Conflict(
                    f"conversation {asked!r} runs {found.graph!r}, not {GRAPH!r}",
                    remedy="use the interface of that workflow, or another session",
                )
            return SessionRef(_thread(asked, owner), new=False)
        if await threads.exists(storage, asked):
            raise threads.missing_thread(asked)
    return SessionRef(_thread(uuid.uuid4().hex, owner), new=True)


async def find_session(storage: Storage, owner: str, asked: str | None) -> Thread:
    """Return the owner's session of this id; raises `Missing` where there is none, and as `place` does."""
    if not asked:
        raise Invalid("no session is named", remedy="send X-Session-Id, or sessionId")
    found = await find_or_create_session(storage, owner, asked)
    if found.new:
        raise threads.missing_thread(asked)
    return found.thread


async def turn_run(worker: Worker, storage: Storage, asked: TurnRequest) -> DomainRun:
    """Return the job that carries the session on; facts that are chosen answer the question that waits.

    Where none waits they are confirmed first of all, then narrated (B33). Raises `Invalid` for what breaks a
    rule, and `Conflict` for a question that was answered meanwhile.
    """
    thread = asked.place.thread
    given = asked.session_options
    if asked.answer is not None:
        return await answer_interrupt(worker, asked, thread, asked.answer)
    if asked.chosen is None:
        text = clean_message(asked.message)
        told = {"ask": "chat", "message": text, **given}
        return asked.domain_run(
            thread, told, input={**given, "messages": [human_message(text)]}, stream_modes=CHAT
        )
    body = {"ask": "choose", "message": asked.message, "selectedFacts": [*asked.chosen], **given}
    waiting = [] if asked.place.new else fact_questions(pending_interrupts(await worker.state(thread)))
    if waiting:
        bound = await answer_interrupt(worker, asked, thread, _choice(asked), waiting[0])
        # Sent again, it is the same request, though the question waits no more.
        return replace(bound, body={**body, "context": asked.context})
    wanted = selection.selection_calls(await _read(storage, thread, _choice(asked)))
    return _decided(asked, thread, asked.message or _NARRATE, body, wanted, given)


def rewrite_run(asked: RewriteRequest) -> DomainRun:
    """Return the job that has segments written again; no model is asked which, or whether."""
    told = ", ".join(asked.segments).replace("_", " ") or "narration"
    wish = f"Write the {told} again" + (f": {asked.guidance}" if asked.guidance else ".")
    params: dict[str, Any] = {"facts": [], "guidance": asked.guidance or None}
    if asked.segments:
        params["segments"] = [*asked.segments]
    body = {"ask": "rewrite", "segments": [*asked.segments], "guidance": asked.guidance}
    return _decided(asked, asked.thread, wish, body, ("", [("generateNarrationTool", params)]), {})


def _decided(
    asked: RequestOptions,
    thread: Thread,
    words: str,
    body: Mapping[str, Any],
    wanted: tuple[str, Sequence[tuple[str, dict[str, Any]]]],
    given: Mapping[str, Any],
) -> DomainRun:
    """Return the job that carries out what a person decided; no model is asked what to do."""
    decided = decision_plan(fact_narration.WORKFLOW, uuid.uuid4().hex, *wanted)
    messages = [human_message(clean_message(words)), {"role": "assistant", **decided["messages"][0]}]
    given = {**given, **decided, "messages": messages}
    return asked.domain_run(thread, body, input=given, stream_modes=CHAT)


def reply_builder(storage: Storage) -> BuildReply:
    """Return what makes the reply to a job about a lesson."""

    async def reply(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread = await threads.get(storage, run.thread, run.owner)
        return await turn_view(storage, thread, state)

    return reply


async def turn_view(storage: Storage, thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a turn did and said: flat, and the last tool's own output as JSON text (B27, B-R3)."""
    seen = await sessions.snapshot(LESSONS.artefact(storage, _thread(thread.id, thread.owner)))
    asked = state.get("__interrupt__") or ()
    results = state.get("results", ())
    last = results[-1]["output"] if results else None
    failed = _failure(results)
    waits = asked[0].value if asked else None
    problem = str(waits.get("problem") or "") if isinstance(waits, Mapping) else ""
    return {
        "type": "tool-result" if results else "text",
        "output": json.dumps(last, ensure_ascii=False) if results else None,
        "success": not failed and not problem,
        "message": failed or _said(state, results) or problem,
        "sessionId": thread.id,
        **sessions.lesson_view(seen, sessions.pending_question(one.value for one in asked)),
        "interrupt": {"id": asked[0].id, "value": asked[0].value} if asked else None,
        "created": [dict(made) for made in state.get("created", ())],
        "toolCalls": tool_calls(state, _in_short),
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "usage": usage(state),
        "agents": agents.results(results),
        "cost": round(sum(float(one["output"].get("cost", 0)) for one in results), 8),
        "duration": round(sum(float(one["duration_s"]) for one in results), 3),
    }


def fact_questions(asked: Sequence[Interrupt]) -> list[str]:
    """Return the ids of those questions that ask which facts to tell, and nothing else."""
    kind = answers.REQUEST
    return [one.id for one in asked if isinstance(one.value, Mapping) and one.value.get("type") == kind]


def _choice(asked: TurnRequest) -> dict[str, Any]:
    """Return the facts that a person chose, and what they want of the narration beside."""
    wish = {"message": asked.message} if asked.message.strip() else {}
    return {"facts": [*(asked.chosen or ())], **wish}


async def _read(storage: Storage, thread: Thread, choice: Mapping[str, Any]) -> answers.Chosen:
    """Return the facts that a person sends unasked; raises `Invalid` for none and for what is not there."""
    proposed = (await LESSONS.artefact(storage, thread).stream_head("facts")).newest
    data: Mapping[str, Any] = proposed.data if proposed else {}
    offered, earlier = [
        [Fact.model_validate(one) for one in data.get(name, ())] for name in ("facts", "earlier")
    ]
    return cast("answers.Chosen", answers.read(choice, offered, earlier))


def _thread(session: str, owner: str) -> Thread:
    return Thread(session, owner, GRAPH, f"{LESSONS.kind}:{session}")


def _failure(results: Sequence[Mapping[str, Any]]) -> str:
    """Return what the newest call of a tool failed with, as callers are told; empty for none (B32)."""
    newest = {one["tool"]: one for one in results}
    failed = [one["output"] for one in newest.values() if one["status"] != "completed"]
    return f"Failed: {failed[-1].get('error', 'it was not carried out')}" if failed else ""


def _said(state: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    """Return the last thing that was said in this turn: by the model, else by a tool (B69)."""
    for one in reversed(state.get("messages", ())):
        if one.type == "human":
            break
        if one.type == "ai" and one.text and not conversation.calls_of(one):
            return str(one.text)
    told = [str(one["output"]["message"]) for one in results if one["output"].get("message")]
    return told[-1] if told else ""


def _in_short(output: Mapping[str, Any]) -> dict[str, Any]:
    told = (
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
    )
    return {name: output[name] for name in (*told, "suggestion", "type") if name in output}
