"""Shortening of a conversation that does not fit, in the copy that is sent.

The oldest turns go first, then the middle of the longest results and messages. The system prompt, the state
block, what was called and the newest turn stay.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from callsheet.state.conversation import calls_of, turn_starts
from callsheet.state.state_block import block_behind, split_block
from callsheet.state.tokens import common_limit, estimate_messages, estimate_text, shorten

_FIRST_SHARE: Final = 4
"""Part of the limit that the first message of several turns may take: a quarter."""
_LEAST_EARLIER: Final = 30
"""Tokens that are left of a result which the model has answered already."""
_LEAST: Final = 100
"""Tokens that are left of other results and messages."""
_NOTE: Final = 12
"""Tokens of the note in a shortened text."""


def fit_conversation(sent: Sequence[AnyMessage], tokens: int) -> list[AnyMessage]:
    """Return the conversation in at most `tokens` tokens, as far as that is possible."""
    kept = list(sent)
    starts = turn_starts(kept)
    if len(starts) > 1 and estimate_messages(kept) > tokens:
        kept[starts[0]] = _limit_message(kept[starts[0]], max(_LEAST, tokens // _FIRST_SHARE))
        kept = _without_oldest_turns(kept, starts, tokens)
    calling = [index for index, one in enumerate(kept) if calls_of(one)][-1:]
    results = [index for index, one in enumerate(kept) if isinstance(one, ToolMessage)]
    earlier = [index for index in results if index < (calling or [0])[0]]
    for chosen, least in ((earlier, _LEAST_EARLIER), ([*results, *turn_starts(kept)], _LEAST)):
        kept = _with_limit(kept, chosen, tokens, least)
    return kept


def _without_oldest_turns(sent: Sequence[AnyMessage], starts: Sequence[int], tokens: int) -> list[AnyMessage]:
    """Return the first user message (the brief) with the answer to it, and the newest turns that fit.

    Turns are left out whole, so that results stay with their calls.
    """
    if estimate_messages(sent) <= tokens:
        return list(sent)
    # Some templates want user and assistant in turn.
    reply = [
        one for one in sent[starts[1] - 1 : starts[1]] if isinstance(one, AIMessage) and not calls_of(one)
    ]
    head = [*sent[: starts[0] + 1], *reply]
    fitting = (start for start in starts[1:-1] if estimate_messages([*head, *sent[start:]]) <= tokens)
    return [*head, *sent[next(fitting, starts[-1]) :]]


def _with_limit(
    sent: Sequence[AnyMessage], chosen: Collection[int], tokens: int, least: int
) -> list[AnyMessage]:
    """Return the conversation with a common limit for the chosen messages, as far as that serves `tokens`."""
    over = estimate_messages(sent) - tokens
    if over <= 0:
        return list(sent)
    sizes = [estimate_text(split_block(sent[index].text)[0]) for index in chosen]
    limit = common_limit(sizes, sum(sizes) - over, least)
    return [_limit_message(one, limit) if index in chosen else one for index, one in enumerate(sent)]


def _limit_message(message: AnyMessage, tokens: int) -> AnyMessage:
    """Return a message with at most `tokens` tokens of its own text; images and the state block stay."""
    text, block = split_block(message.text)
    if estimate_text(text) <= tokens:
        return message
    content: Any = block_behind(shorten(text, tokens - _NOTE), block)
    if isinstance(message, HumanMessage) and not isinstance(message.content, str):
        others = [part for part in message.content if isinstance(part, dict) and part.get("type") != "text"]
        content = [{"type": "text", "text": content}, *others]
    return message.model_copy(update={"content": content})
