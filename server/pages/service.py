"""Requests about landing pages as runs for the worker, and their replies.

REST, the web socket and the command line build the same runs, so each can continue the others' conversations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callsheet.server.artefacts.service import (
    CHAT,
    ArtefactService,
    RequestOptions,
    answer_in_words,
    answer_interrupt,
    question_view,
)
from callsheet.server.artefacts.turn_view import turn_fields
from callsheet.server.artefacts.turns import clean_message, human_message, identifier, last_message, turn_use
from callsheet.server.runtime.execution import BuildReply
from callsheet.server.runtime.run_request import DomainRun
from callsheet.server.runtime.worker import Worker
from callsheet.state.errors import Invalid
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

GRAPH: Final = "page_builder"
PAGES: Final = ArtefactService(GRAPH, "page", "pageId")


@dataclass(frozen=True)
class ChatRequest(RequestOptions):
    """A message about a page."""

    page_id: str
    message: str
    conversation_id: str | None = None
    selected_element_id: str | None = None
    """Element that "this" in the message means (C26)."""


@dataclass(frozen=True)
class DecisionRequest(RequestOptions):
    """The answer to an approval question."""

    page_id: str
    decisions: Sequence[Mapping[str, Any]]
    """One for each action or one for all: `approve`, `reject` with a message, or `edit`."""
    question_id: str | None = None
    """The answered question; None for the pending one."""


async def chat_run(worker: Worker, storage: Storage, request: ChatRequest) -> DomainRun:
    """Return the run that continues or starts a page's conversation; write nothing.

    A plain yes or no answers a pending question. Raises `Invalid` for an invalid request, and `Missing` for
    another page's conversation.
    """
    text = clean_message(request.message)
    thread = await PAGES.find_thread(storage, request.page_id, request.owner, request.conversation_id)
    selected = request.selected_element_id
    if selected is not None:
        identifier(selected, "selectedElementId")
    if answer_run := await answer_in_words(worker, request, thread, text):
        return answer_run
    return request.domain_run(
        thread,
        {"ask": "chat", "message": text, "selected": selected},
        input={
            "page_id": PAGES.artefact_id(thread),
            "selected_element_id": selected,
            "messages": [human_message(text)],
        },
        stream_modes=CHAT,
    )


async def decision_run(worker: Worker, storage: Storage, request: DecisionRequest) -> DomainRun:
    """Return the run that answers the pending question of a page's conversation, bound to that question.

    Raises `Missing` without a conversation, and `Conflict` if no such question is pending.
    """
    thread = await PAGES.require_thread(storage, request.page_id, request.owner)
    if not request.decisions:
        raise Invalid("no decision is given", remedy='send {"decisions": [{"type": "approve"}]}')
    decision = [dict(decision) for decision in request.decisions]
    return await answer_interrupt(worker, request, thread, {"decisions": decision}, request.question_id)


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        view = turn_view(await threads.get(storage, run.thread, run.owner), state)
        return view | await turn_use(storage, run.owner, run.thread, state)

    return build


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's changes and message, from the state it ended in; JSON.

    `drafts` has the page's newest version if the turn made one, `toolCalls` its calls in order with their
    results, `question` the pending question, or None.
    """
    interrupts = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "pageId": PAGES.artefact_id(thread),
        "drafts": {made["stream"]: made["versionId"] for made in state.get("created", ())},
        "message": "" if interrupts else last_message(state),
        "question": question_view(interrupts[0].id, interrupts[0].value) if interrupts else None,
        **turn_fields(state),
    }
