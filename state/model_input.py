"""The copy of a conversation that is sent to a model: valid for every vendor, and short enough.

Stored messages stay as they are. In the copy every call has a unique id, a legal name and an object of
arguments, and its result follows it; there are no results without a call and no empty messages. Where it does
not fit, the oldest turns go first, then the middle of the longest results and messages. The system prompt,
the state block, what was called and the newest turn stay.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, takewhile
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from callsheet.state.answers import MAX_ID, legal_name
from callsheet.state.compaction import View, without_results
from callsheet.state.conversation import calls_of, messages_after, turn_starts
from callsheet.state.receipts import without_receipt
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
    room = tokens - estimate_messages(head)
    behind = [*accumulate(estimate_messages([one]) for one in reversed(sent))][::-1]
    return [*head, *sent[next((start for start in starts[1:-1] if behind[start] <= room), starts[-1]) :]]


def _with_limit(
    sent: Sequence[AnyMessage], chosen: Collection[int], tokens: int, least: int
) -> list[AnyMessage]:
    """Return the conversation with a common limit for the chosen messages, as far as that serves `tokens`."""
    over = estimate_messages(sent) - tokens
    if over <= 0:
        return list(sent)
    sizes = [estimate_text(split_block(sent[index].text)[0]) for index in chosen]
    limit = common_limit(sizes, sum(sizes) - over, least)
    limited = set(chosen)
    return [_limit_message(one, limit) if index in limited else one for index, one in enumerate(sent)]


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


NOTHING_LEFT_OUT = View()
_NO_RESULT = '{"error": "The call was cancelled before it was carried out."}'


def model_input(
    system: str,
    messages: Sequence[AnyMessage],
    view: View = NOTHING_LEFT_OUT,
    *,
    pinned: str = "",
    lookups: Collection[str] = (),
) -> list[AnyMessage]:
    """Return the model's input: one system message, and the messages that `view` leaves.

    After a compaction the system message ends with `pinned`, word for word, and the summary. Until the
    next one the beginning is the same in every turn, so that a provider's prompt cache works.
    """
    parts = [system]
    if view.summary:
        parts += [f"The conversation began with this, word for word:\n{pinned}"] if pinned else []
        parts += [f"Previous conversation summary: {view.summary}"]
    newest = messages_after(messages, view.summary_upto if view.summary else "")
    recent = [without_receipt(one) for one in newest]
    visible = without_results(recent, view.cleared_upto, lookups)
    return [SystemMessage("\n\n".join(parts)), *_valid_history(visible)]


def _valid_history(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a valid copy of a conversation."""
    copied: list[AnyMessage] = []
    taken: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        if isinstance(message, AIMessage) and (calls := calls_of(message)):
            behind = (messages[at] for at in range(index + 1, len(messages)))
            results = list(takewhile(lambda one: isinstance(one, ToolMessage), behind))
            copied += _with_results(message, calls, results, taken)
        elif isinstance(message, AIMessage):
            copied += [message] if message.text.strip() else []
        elif message.content or not isinstance(message, HumanMessage):
            copied.append(message)
    return [*_join_answers(copied)]


def _join_answers(messages: Iterable[AnyMessage]) -> Iterator[AnyMessage]:
    """Yield the messages with answers in a row as one, since some templates refuse two."""
    for is_answer, row in groupby(messages, lambda one: isinstance(one, AIMessage) and not one.tool_calls):
        answers = list(row)
        if is_answer and len(answers) > 1:
            yield answers[0].model_copy(update={"content": "\n\n".join(one.text for one in answers)})
        else:
            yield from answers


def _with_results(
    message: AIMessage, calls: Sequence[ToolCall], results: Sequence[AnyMessage], taken: set[str]
) -> Iterator[AnyMessage]:
    """Yield a message with calls, and a result for each of them."""
    left = list(results)
    renamed: list[ToolCall] = []
    answers: list[ToolMessage] = []
    for number, call in enumerate(calls):
        name = _unique_id(call["id"], f"{message.id}/{number}", taken)
        renamed.append({**call, "id": name, "name": legal_name(call["name"])})
        result = next((one for one in left if getattr(one, "tool_call_id", None) == str(call["id"])), None)
        if result is not None:
            left.remove(result)
        content = result.text if result is not None and result.text else _NO_RESULT
        answers.append(_result(result, content, name))
    yield message.model_copy(update={"tool_calls": renamed, "invalid_tool_calls": []})
    yield from answers


def _result(stored: AnyMessage | None, content: str, call: str) -> ToolMessage:
    if isinstance(stored, ToolMessage) and stored.text == content:
        return stored if stored.tool_call_id == call else stored.model_copy(update={"tool_call_id": call})
    return ToolMessage(content, tool_call_id=call)


def _unique_id(given: str | None, place: str, taken: set[str]) -> str:
    """Return the id if it is short and new in the conversation, else one made from its place."""
    known = str(given or "")
    if not known or len(known) > MAX_ID or known in taken:
        known = f"call_{hashlib.sha256(place.encode(errors='replace')).hexdigest()[:24]}"
    taken.add(known)
    return known
