"""The workflow `ad_creation`: one answer to one conversation about an audio ad."""

from collections.abc import Sequence

from langchain_core.messages import BaseMessage

from providers.offline.ad_creation import first_draft, refinement
from providers.offline.ad_creation.brief import parse
from providers.offline.ad_creation.conversation import Conversation, read
from providers.offline.ad_creation.kinds import UNKNOWN
from providers.offline.ad_creation.phrasebook import book
from providers.offline.ad_creation.tongue import spoken
from providers.offline.answer import Answer, Calls, Say

_BRIEF_WORDS = 3


def answer(messages: Sequence[BaseMessage], allowed: frozenset[str]) -> Answer | None:
    """Return what the model says next, calling none but the `allowed` tools; None before anybody spoke."""
    conversation = read(messages, allowed)
    if conversation is None:
        return None
    said = _respond(conversation) if allowed else _closing(conversation)
    if isinstance(said, Say):
        return said
    calls = tuple(request for request in said.calls if request.name in allowed)
    return Calls(calls, said.text) if calls else _closing(conversation)


def _respond(conversation: Conversation) -> Answer:
    """Return a first draft for a brief, a refinement for anything later."""
    if conversation.turn.brief or _opens_with_a_brief(conversation):
        return first_draft.respond(conversation)
    return refinement.respond(conversation)


def _opens_with_a_brief(conversation: Conversation) -> bool:
    """Whether the first words of a new conversation describe a client, though not in the usual form."""
    turn = conversation.turn
    if len(conversation.turns) > 1 or conversation.summary or turn.results("get_current_state"):
        return False
    brief = parse(turn.text)
    described = brief.kind is not UNKNOWN or bool(brief.brand and brief.claims)
    # Thai and Chinese do not set spaces between words.
    return described and (len(turn.text.split()) >= _BRIEF_WORDS or not turn.text.isascii())


def _closing(conversation: Conversation) -> Say:
    """Return the last word when no tool may be called any more."""
    if conversation.turn.brief or _opens_with_a_brief(conversation):
        return first_draft.closing(conversation)
    answer = refinement.respond(conversation)
    if isinstance(answer, Say):
        return answer
    unfinished = book(spoken(conversation.turn.text) or "english").one("replies", "unfinished")
    return Say("\n".join(part for part in (answer.text, unfinished) if part))
