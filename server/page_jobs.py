"""Requests about landing pages as jobs for the worker, and what came of them as replies.

REST, the web socket and the command line build the same jobs, so a conversation begun in one goes on in the
others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from server.encoding import digest
from server.execution import Reply, questions
from server.requested import Job
from server.turns import choice, identifier, key, last_word, message, said, thread_of, tool_calls, usage
from server.worker import Worker
from state.context import Context
from state.errors import Conflict, Invalid, Missing
from state.owners import LOCAL
from storage import threads
from storage.artefacts import Artefact
from storage.connection import Storage
from storage.run_records import Run
from storage.threads import Thread

GRAPH: Final = "page_builder"
KIND: Final = "page"
MODES: Final = ("custom", "messages-tuple")
"""What a run of a page tells: its steps, and the words as they come."""


@dataclass(frozen=True)
class PageChat:
    """What a person says about a page."""

    page_id: str
    message: str
    conversation_id: str | None = None
    selected_element_id: str | None = None
    """What "this" means (C26)."""
    context: Context = field(default_factory=Context)
    owner: str = LOCAL
    idempotency_key: str | None = None


@dataclass(frozen=True)
class PageDecision:
    """What a person answers when asked for leave."""

    page_id: str
    decisions: Sequence[Mapping[str, Any]]
    """One for each action, or one for all: `approve`, `reject` with a message, or `edit`."""
    question_id: str | None = None
    """The question that is answered; the one that waits when left out."""
    context: Context = field(default_factory=Context)
    owner: str = LOCAL
    idempotency_key: str | None = None


async def chat_job(storage: Storage, asked: PageChat) -> Job:
    """Return the job that carries a conversation about a page on, or begins it; writes nothing.

    Raises `Invalid` for what breaks a rule, and `Missing` for a conversation that is not this page's.
    """
    text = message(asked.message)
    thread = await _thread(storage, asked.page_id, asked.owner, asked.conversation_id)
    selected = asked.selected_element_id
    if selected is not None:
        identifier(selected, "selectedElementId")
    return Job(
        thread=thread,
        input={
            "page_id": page_of(thread),
            "selected_element_id": selected,
            "messages": [said(text)],
        },
        body={"ask": "chat", "message": text, "selected": selected, "context": asked.context},
        context=choice(asked.context),
        idempotency_key=key(asked.idempotency_key),
        stream_modes=MODES,
    )


async def decision_job(worker: Worker, storage: Storage, asked: PageDecision) -> Job:
    """Return the job that answers the question a page's conversation waits with; bound to that question.

    Raises `Missing` without a conversation, and `Conflict` where no such question waits.
    """
    thread = await _begun(storage, asked.page_id, asked.owner)
    waiting = {one.id: one for one in questions(await worker.state(thread))}
    name = asked.question_id or next(iter(waiting), "")
    if name not in waiting:
        raise Conflict(
            "nothing waits for an answer"
            if not waiting
            else f"question {name!r} does not wait for an answer",
            remedy="read the conversation; say in a message what you want instead",
        )
    if not asked.decisions:
        raise Invalid("no decision is given", remedy='send {"decisions": [{"type": "approve"}]}')
    decided = [dict(one) for one in asked.decisions]
    return Job(
        thread=thread,
        input={},
        body={"ask": "decision", "decisions": decided, "question": name},
        context=choice(asked.context),
        idempotency_key=key(asked.idempotency_key),
        stream_modes=MODES,
        answers={name: {"decisions": decided}},
        questions={name: digest(waiting[name].value)},
    )


async def opened(storage: Storage, thread: Thread) -> None:
    """Make the thread and its page the owner's, before anything is made of it; twice is safe.

    Raises `Missing` for another's, and `Conflict` for a thread of another workflow.
    """
    await threads.bind(storage, thread)
    await artefact_of(storage, thread).open(owner=thread.owner, thread=thread.id, facts={})


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
        "pageId": page_of(thread),
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


def page_of(thread: Thread) -> str:
    """Return the id of the page a thread is about."""
    return thread.artefact.partition(":")[2]


def artefact_of(storage: Storage, thread: Thread) -> Artefact:
    """Return the page a thread is about, in storage."""
    return Artefact(storage, KIND, page_of(thread), thread.owner)


async def _begun(storage: Storage, page_id: str, owner: str) -> Thread:
    """Return the conversation about the owner's page; raises `Missing` where there is none."""
    try:
        return await threads.get(storage, (await _thread(storage, page_id, owner, None)).id, owner)
    except Missing:
        raise Missing(
            f"there is no conversation about page {page_id!r}", remedy="begin one with a message"
        ) from None


async def _thread(storage: Storage, page_id: str, owner: str, conversation_id: str | None) -> Thread:
    artefact = Artefact(storage, KIND, identifier(page_id, "pageId"), owner)
    return await thread_of(storage, GRAPH, artefact, owner, conversation_id)
