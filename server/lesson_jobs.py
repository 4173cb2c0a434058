"""Requests about lessons as jobs for the worker, and what came of them as replies (B24-B37, B-R2, B-R3).

A session is a thread of `fact_narration`, and the lesson has the thread's id: whoever has the one has all.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from server import lessons
from server.desk import CHAT, Asked, Desk, answering
from server.execution import Reply, questions
from server.requested import Job
from server.turns import identifier, message, said, tool_calls, usage
from server.worker import Worker
from state import conversation, selection
from state.errors import Conflict, Invalid
from state.facts import Fact
from state.plan import Step
from storage import thread_records, threads
from storage.artefacts import NewVersion
from storage.connection import Storage
from storage.run_records import Run
from storage.threads import Thread
from tools import REGISTRY

GRAPH: Final = "fact_narration"
DESK: Final = Desk(GRAPH, "lesson", "sessionId")
_NARRATE: Final = "Write the narration from the facts I have chosen."
"""What is said for a person who sends facts and no words (B33)."""


class Place(NamedTuple):
    """The session that a request is about."""

    thread: Thread
    new: bool
    """Whether it begins with this request (B28)."""


@dataclass(frozen=True)
class LessonChat(Asked):
    """What a person says in a session, or chooses."""

    place: Place
    message: str = ""
    chosen: Sequence[Any] | None = None
    """The facts the lesson is to tell, each whole, its id or its number (B33, B52)."""
    subject: str | None = None
    """The school subject from now on (B-R12)."""


@dataclass(frozen=True, kw_only=True)
class Rewrite(Asked):
    """Segments of a narration that the model is to write again."""

    thread: Thread
    segments: Sequence[str]
    """All where none is named."""
    guidance: str


async def place(storage: Storage, owner: str, asked: str | None) -> Place:
    """Return the owner's session of this id, or a new one where nobody has it, or none is named (B36, B37).

    Raises `Missing` for another's, which must not look like a new one (B-R5), and `Conflict` for a
    conversation about something else.
    """
    if asked:
        found = await thread_records.find(storage, identifier(asked, DESK.id_name), owner)
        if found is not None:
            if found.graph not in {"", GRAPH}:
                raise Conflict(
                    f"conversation {asked!r} runs {found.graph!r}, not {GRAPH!r}",
                    remedy="use the interface of that workflow, or another session",
                )
            return Place(_thread(asked, owner), new=False)
        if await threads.taken(storage, asked):
            raise threads.unknown(asked)
    return Place(_thread(uuid.uuid4().hex, owner), new=True)


async def known(storage: Storage, owner: str, asked: str | None) -> Thread:
    """Return the owner's session of this id; raises `Missing` where there is none, and as `place` does."""
    if not asked:
        raise Invalid("no session is named", remedy="send X-Session-Id, or sessionId")
    found = await place(storage, owner, asked)
    if found.new:
        raise threads.unknown(asked)
    return found.thread


async def job(worker: Worker, storage: Storage, asked: LessonChat) -> Job:
    """Return the job that carries the session on; facts that are chosen answer the question that waits.

    Where none waits they are confirmed before anything runs (B33). Raises `Invalid` for what breaks a rule,
    and `Conflict` for a question that was answered meanwhile.
    """
    thread = asked.place.thread
    if asked.chosen is not None:
        waiting = [] if asked.place.new else questions(await worker.state(thread))
        if waiting:
            return await answering(worker, asked, thread, {"facts": [*asked.chosen]})
        await _confirm(storage, thread, asked.chosen)
    text = message(asked.message or (_NARRATE if asked.chosen is not None else ""))
    given = {"subject": asked.subject} if asked.subject else {}
    chosen = {"selectedFacts": asked.chosen} if asked.chosen is not None else {}
    return asked.job(
        thread,
        {"ask": "chat", "message": text, **given, **chosen},
        input={**given, "messages": [said(text)]},
        stream_modes=CHAT,
    )


def rewrite(asked: Rewrite) -> Job:
    """Return the job that has segments written again; no model is asked which, or whether."""
    told = ", ".join(asked.segments).replace("_", " ") or "narration"
    wish = f"Write the {told} again" + (f": {asked.guidance}" if asked.guidance else ".")
    name = uuid.uuid4().hex
    params: dict[str, Any] = {"facts": [], "guidance": asked.guidance or None}
    if asked.segments:
        params["segments"] = [*asked.segments]
    tool = REGISTRY["generateNarrationTool"]
    step = Step(
        id=f"call_{name}",
        tool=tool.name,
        display=tool.display,
        params=params,
        dependencies=[],
        reads=sorted(tool.reads),
        writes=sorted(tool.writes),
    )
    call = {"name": tool.name, "args": params, "id": step["id"]}
    words = {"role": "assistant", "content": "", "id": name, "tool_calls": [call]}
    fresh = {"results": [], "created": [], "drafts": {}, "rounds": 0, "rejected": []}
    return asked.job(
        asked.thread,
        {"ask": "rewrite", "segments": [*asked.segments], "guidance": asked.guidance},
        input={
            "messages": [said(wish), words],
            "plan": {"id": name, "steps": [step]},
            "decided": True,
            **fresh,
        },
        stream_modes=CHAT,
    )


def replying(storage: Storage) -> Reply:
    """Return what makes the reply to a job about a lesson."""

    async def reply(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread = await threads.get(storage, run.thread, run.owner)
        return await answer(storage, thread, state)

    return reply


async def answer(storage: Storage, thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a turn did and said: flat, and the last tool's own output as JSON text (B27, B-R3)."""
    seen = await lessons.seen(DESK.artefact_of(storage, _thread(thread.id, thread.owner)))
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
        **lessons.brief(seen, waits=bool(asked)),
        "interrupt": {"id": asked[0].id, "value": asked[0].value} if asked else None,
        "created": [dict(made) for made in state.get("created", ())],
        "toolCalls": tool_calls(state, _in_short),
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "usage": usage(state),
        "cost": round(sum(float(one["output"].get("cost", 0)) for one in results), 8),
        "duration": round(sum(float(one["duration_s"]) for one in results), 3),
    }


async def _confirm(storage: Storage, thread: Thread, chosen: Sequence[Any]) -> None:
    """Confirm facts that a person sends unasked; those already confirmed so are left alone."""
    artefact = DESK.artefact_of(storage, thread)
    proposed, confirmed = [(await artefact.tip(name)).newest for name in ("facts", "confirmed")]
    data: Mapping[str, Any] = proposed.data if proposed else {}
    offered, earlier = [
        [Fact.model_validate(one) for one in data.get(name, ())] for name in ("facts", "earlier")
    ]
    read = selection.read({"facts": [*chosen]}, offered, earlier)
    facts = [fact.model_dump() for fact in read.facts] if isinstance(read, selection.Chosen) else []
    await DESK.opened(storage, thread)
    if confirmed is None or confirmed.data["facts"] != facts:
        new = NewVersion("confirmed", {"facts": facts}, thread.owner, uuid.uuid4().hex)
        await artefact.create_version(new)


def _thread(session: str, owner: str) -> Thread:
    return Thread(session, owner, GRAPH, f"{DESK.kind}:{session}")


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
    told = ("success", "message", "versionId", "status", "cost", "duration", "cached", "warnings", "error")
    return {name: output[name] for name in (*told, "suggestion", "type") if name in output}
