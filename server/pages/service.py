"""Requests about landing pages as runs for the worker, and their replies.

REST and the web socket build the same runs, so each can continue the other's conversations.
"""

from collections.abc import Mapping
from typing import Any, Final

from callsheet.server.artefacts import service as artefact_service
from callsheet.server.artefacts.service import (
    CHAT,
    ArtefactService,
    RequestContext,
    answer_in_words,
    clean_message,
    human_message,
    pending_questions,
    question_view,
    require_not_paused,
    run_request,
)
from callsheet.server.artefacts.views import turn_fields, turn_message
from callsheet.server.engine.worker import Worker
from callsheet.server.http.requests import identifier
from callsheet.server.pages.schemas import DecisionBody, PageChatCreate
from callsheet.state.approvals import consent
from callsheet.storage.runs.records import RunRequest
from callsheet.storage.threads.threads import Thread

GRAPH: Final = "page_builder"
PAGES: Final = ArtefactService(GRAPH, "page", "pageId")


async def chat_run(worker: Worker, page_id: str, body: PageChatCreate, caller: RequestContext) -> RunRequest:
    """Return the run that continues or starts a page's conversation; write nothing.

    A plain yes or no answers a pending question. Raises `Invalid` for an invalid request, and `Missing` for
    another page's conversation.
    """
    text, selected = clean_message(body.message), body.selectedElementId
    thread = await PAGES.find_thread(worker.storage, page_id, caller.owner, body.conversationId)
    if selected is not None:
        identifier(selected, "selectedElementId")
    pending = [] if consent(text) is None else await pending_questions(worker, thread)
    what = {"ask": "chat", "message": text, "selected": selected}
    if answer_run := answer_in_words(pending, caller, thread, text, what):
        return answer_run
    await require_not_paused(worker, thread, caller)
    graph_input = {
        "page_id": PAGES.artefact_id(thread),
        "selected_element_id": selected,
        "messages": [human_message(text)],
    }
    return run_request(thread, caller, what, input=graph_input, stream_mode=[*CHAT])


async def decision_run(
    worker: Worker, page_id: str, body: DecisionBody, caller: RequestContext
) -> RunRequest:
    """Return the run that answers the pending question of a page's conversation, bound to that question.

    Raises `Missing` without a conversation, and `Conflict` if no such question is pending.
    """
    thread = await PAGES.require_thread(worker.storage, page_id, caller.owner)
    answer = {"decisions": [decision.model_dump(exclude_none=True) for decision in body.decisions]}
    return await artefact_service.decision_run(worker, thread, caller, answer, body.questionId)


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's changes and message, from the state it ended in; JSON.

    `drafts` has the page's newest version if the turn made one, `toolCalls` its calls in order with their
    results, `question` the pending question, whose words are the `message`, or None.
    """
    interrupts = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "pageId": PAGES.artefact_id(thread),
        "drafts": {draft["stream"]: draft["versionId"] for draft in state.get("created", ())},
        "message": turn_message(state),
        "question": question_view(interrupts[0].id, interrupts[0].value) if interrupts else None,
        **turn_fields(state),
    }
