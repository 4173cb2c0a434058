"""The workflow `ad_creation`: one answer to one conversation about an audio ad."""

from providers.offline import first_draft, refinement
from providers.offline.brief import parse
from providers.offline.conversation import Answer, Conversation, Say
from providers.offline.kinds import UNKNOWN
from providers.offline.phrasebook import book
from providers.offline.tongue import spoken

TOOLS = frozenset(
    {"search_voices", "create_voice_draft", "create_music_draft", "create_sfx_draft", "get_current_state"}
)
_BRIEF_WORDS = 3


def respond(conversation: Conversation) -> Answer:
    """Return what the model says next: a first draft for a brief, a refinement for anything later."""
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


def closing(conversation: Conversation) -> Say:
    """Return the last word when no tool may be called any more."""
    if conversation.turn.brief or _opens_with_a_brief(conversation):
        return first_draft.closing(conversation)
    answer = refinement.respond(conversation)
    if isinstance(answer, Say):
        return answer
    unfinished = book(spoken(conversation.turn.text) or "english").one("replies", "unfinished")
    return Say("\n".join(part for part in (answer.text, unfinished) if part))
