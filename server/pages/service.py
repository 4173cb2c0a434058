"""Requests about landing pages as jobs for the worker, and what came of them as replies.

REST, the web socket and the command line build the same jobs, so a conversation begun in one goes on in the
others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.server.artefacts.service import CHAT, ArtefactService, RequestOptions, answer_interrupt
from callsheet.server.artefacts.turns import (
    clean_message,
    human_message,
    identifier,
    last_message,
    tool_calls,
    usage,
)
from callsheet.server.runtime.execution import BuildReply, pending_interrupts
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Worker
from callsheet.state.consent import consent
from callsheet.state.errors import Invalid
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

GRAPH: Final = "page_builder"
PAGES: Final = ArtefactService(GRAPH, "page", "pageId")


@dataclass(frozen=True)
class ChatRequest(RequestOptions):
    """What a person says about a page."""

    page_id: str
    message: str
    conversation_id: str | None = None
    selected_element_id: str | None = None
    """What "this" means (C26)."""


@dataclass(frozen=True)
class DecisionRequest(RequestOptions):
    """What a person answers when asked for leave."""

    page_id: str
    decisions: Sequence[Mapping[str, Any]]
    """One for each action, or one for all: `approve`, `reject` with a message, or `edit`."""
    question_id: str | None = None
    """The question that is answered; the one that waits when left out."""


async def chat_run(worker: Worker, storage: Storage, asked: ChatRequest) -> DomainRun:
    """Return the job that carries a conversation about a page on, or begins it; writes nothing.

    A plain yes or no answers the question that waits, if one does. Raises `Invalid` for what breaks a rule,
    and `Missing` for a conversation that is not this page's.
    """
    text = clean_message(asked.message)
    thread = await PAGES.find_thread(storage, asked.page_id, asked.owner, asked.conversation_id)
    selected = asked.selected_element_id
    if selected is not None:
        identifier(selected, "selectedElementId")
    answer = consent(text)
    if answer is not None and pending_interrupts(await worker.state(thread)):
        decided = {"type": "approve"} if answer else {"type": "reject", "message": text}
        return await answer_interrupt(worker, asked, thread, {"decisions": [decided]})
    return asked.domain_run(
        thread,
        {"ask": "chat", "message": text, "selected": selected},
        input={
            "page_id": PAGES.artefact_id(thread),
            "selected_element_id": selected,
            "messages": [human_message(text)],
        },
        stream_modes=CHAT,
    )


async def decision_run(worker: Worker, storage: Storage, asked: DecisionRequest) -> DomainRun:
    """Return the job that answers the question a page's conversation waits with; bound to that question.

    Raises `Missing` without a conversation, and `Conflict` where no such question waits.
    """
    thread = await PAGES.require_thread(storage, asked.page_id, asked.owner)
    if not asked.decisions:
        raise Invalid("no decision is given", remedy='send {"decisions": [{"type": "approve"}]}')
    decided = [dict(one) for one in asked.decisions]
    return await answer_interrupt(worker, asked, thread, {"decisions": decided}, asked.question_id)


def reply_builder(storage: Storage) -> BuildReply:
    """Return what makes the reply to a job about a page."""

    async def reply(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        return turn_view(await threads.get(storage, run.thread, run.owner), state)

    return reply


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a turn changed and said, from the state it ended in; JSON.

    `drafts` has the page's newest version if this turn made one, `toolCalls` the turn's calls in order with
    what came of each, `question` what a person is asked, or None.
    """
    asked = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "pageId": PAGES.artefact_id(thread),
        "drafts": {made["stream"]: made["versionId"] for made in state.get("created", ())},
        "created": [dict(made) for made in state.get("created", ())],
        "message": "" if asked else last_message(state),
        "question": question_view(asked[0].id, asked[0].value) if asked else None,
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "toolCalls": tool_calls(state, dict),
        "usage": usage(state),
    }


def question_view(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question for leave as callers are asked it."""
    return {"id": name, "actions": list(value.get("action_requests", ()))}
