"""Requests about landing pages as jobs for the worker, and what came of them as replies.

REST, the web socket and the command line build the same jobs, so a conversation begun in one goes on in the
others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from server.desk import CHAT, Asked, Desk, answering
from server.execution import Reply, questions
from server.requested import Job
from server.turns import identifier, last_word, message, said, tool_calls, usage
from server.worker import Worker
from state.consent import consent
from state.errors import Invalid
from storage import threads
from storage.connection import Storage
from storage.run_records import Run
from storage.threads import Thread

GRAPH: Final = "page_builder"
DESK: Final = Desk(GRAPH, "page", "pageId")


@dataclass(frozen=True)
class PageChat(Asked):
    """What a person says about a page."""

    page_id: str
    message: str
    conversation_id: str | None = None
    selected_element_id: str | None = None
    """What "this" means (C26)."""


@dataclass(frozen=True)
class PageDecision(Asked):
    """What a person answers when asked for leave."""

    page_id: str
    decisions: Sequence[Mapping[str, Any]]
    """One for each action, or one for all: `approve`, `reject` with a message, or `edit`."""
    question_id: str | None = None
    """The question that is answered; the one that waits when left out."""


async def chat_job(worker: Worker, storage: Storage, asked: PageChat) -> Job:
    """Return the job that carries a conversation about a page on, or begins it; writes nothing.

    A plain yes or no answers the question that waits, if one does. Raises `Invalid` for what breaks a rule,
    and `Missing` for a conversation that is not this page's.
    """
    text = message(asked.message)
    thread = await DESK.thread(storage, asked.page_id, asked.owner, asked.conversation_id)
    selected = asked.selected_element_id
    if selected is not None:
        identifier(selected, "selectedElementId")
    answer = consent(text)
    if answer is not None and questions(await worker.state(thread)):
        decided = {"type": "approve"} if answer else {"type": "reject", "message": text}
        return await answering(worker, asked, thread, {"decisions": [decided]})
    return asked.job(
        thread,
        {"ask": "chat", "message": text, "selected": selected},
        input={
            "page_id": DESK.subject(thread),
            "selected_element_id": selected,
            "messages": [said(text)],
        },
        stream_modes=CHAT,
    )


async def decision_job(worker: Worker, storage: Storage, asked: PageDecision) -> Job:
    """Return the job that answers the question a page's conversation waits with; bound to that question.

    Raises `Missing` without a conversation, and `Conflict` where no such question waits.
    """
    thread = await DESK.begun(storage, asked.page_id, asked.owner)
    if not asked.decisions:
        raise Invalid("no decision is given", remedy='send {"decisions": [{"type": "approve"}]}')
    decided = [dict(one) for one in asked.decisions]
    return await answering(worker, asked, thread, {"decisions": decided}, asked.question_id)


def replying(storage: Storage) -> Reply:
    """Return what makes the reply to a job about a page."""

    async def reply(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        return answer(await threads.get(storage, run.thread, run.owner), state)

    return reply


def answer(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a turn changed and said, from the state it ended in; JSON.

    `drafts` has the page's newest version if this turn made one, `toolCalls` the turn's calls in order with
    what came of each, `question` what a person is asked, or None.
    """
    asked = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "pageId": DESK.subject(thread),
        "drafts": {made["stream"]: made["versionId"] for made in state.get("created", ())},
        "created": [dict(made) for made in state.get("created", ())],
        "message": "" if asked else last_word(state),
        "question": question(asked[0].id, asked[0].value) if asked else None,
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "toolCalls": tool_calls(state, dict),
        "usage": usage(state),
    }


def question(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question for leave as callers are asked it."""
    return {"id": name, "actions": list(value.get("action_requests", ()))}
