"""Compaction of a long conversation in the model's input: when, and what is left out (A66, A67, A-R12).

The messages of a thread stay complete. First the results of look-ups are left out, because the state block
shows what is true now; then the oldest turns are summarised. It starts at 70 % of the budget and ends below
40 %, so that a provider's prompt cache holds for many turns.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from typing_extensions import TypedDict

from callsheet.state.conversation import calls_of, messages_after, sentences, turn_starts
from callsheet.state.tokens import estimate_messages

MAX_TURNS: Final = 10
"""Most user turns sent in full; beyond it the older ones are summarised (A-R12)."""
KEPT_TURNS: Final = 3
"""Turns that a summary leaves in full, if they fit (A-R12)."""
START: Final = 0.7
"""Share of the budget at which compaction starts."""
END: Final = 0.4
"""Share of the budget at which it ends."""
SUMMARY_TOKENS: Final = 800
"""Expected tokens of a summary."""
MAX_QUOTES: Final = 4_000
"""Most characters of sentences that a summary repeats word for word."""
LEFT_OUT: Final = '{"note": "This earlier result was left out. Call the tool again if it is needed."}'
"""Content that replaces the result of an earlier look-up."""
_FIGURE: Final = re.compile(
    r"[^\s,;()\"'“”]{0,60}\d[^\s,;()\"'“”]{0,60}|[^\s,;()\"'“”]{1,60}[@/][^\s,;()\"'“”]{1,60}"
)


class View(NamedTuple):
    """The part of a conversation that is not sent in full any more; empty before the first compaction."""

    summary: str = ""
    summary_upto: str = ""
    """Id of the last message that the summary covers."""
    cleared_upto: str = ""
    """Id of the last message before which results of look-ups are left out."""


class ContextTokens(TypedDict):
    """Tokens of the last request with its answer, and those that the model's context window allows."""

    used: int
    budget: int


class Compaction(NamedTuple):
    """One compaction."""

    summarised: Sequence[AnyMessage]
    """Messages that a summary replaces; empty if leaving out results is enough."""
    cleared_upto: str


def compaction(
    messages: Sequence[AnyMessage], view: View, room: ContextTokens, lookups: Collection[str]
) -> Compaction | None:
    """Return the compaction that is due after a turn, or None.

    `lookups` are the tools whose results say what was true when they were called.
    """
    recent = messages_after(messages, view.summary_upto if view.summary else "")
    starts = turn_starts(recent)
    many = len(starts) > MAX_TURNS
    if not starts or (room["used"] < START * room["budget"] and not many):
        return None
    cleared = without_results(recent, str(recent[-1].id), lookups)
    before = estimate_messages(without_results(recent, view.cleared_upto, lookups))
    after = estimate_messages(cleared)
    if not many and before > after and room["used"] - (before - after) <= END * room["budget"]:
        return Compaction((), str(recent[-1].id))
    overhead = max(0, room["used"] - before) + SUMMARY_TOKENS
    kept = _kept_turns(cleared, starts, END * room["budget"] - overhead)
    return Compaction(recent[: starts[-kept]], str(recent[-1].id)) if len(starts) > kept else None


def _kept_turns(messages: Sequence[AnyMessage], starts: Sequence[int], tokens: float) -> int:
    """Return the number of turns to keep: three, or as many as fit; one at least."""
    fitting = (
        kept
        for kept in range(min(KEPT_TURNS, len(starts) - 1), 1, -1)
        if estimate_messages(messages[starts[-kept] :]) <= tokens
    )
    return next(fitting, 1)


def without_results(messages: Sequence[AnyMessage], upto: str, lookups: Collection[str]) -> list[AnyMessage]:
    """Return the messages with a note in place of each look-up's result, up to the message with id `upto`."""
    end = next((index for index, one in enumerate(messages) if upto and one.id == upto), -1)
    names = {str(call["id"]): call["name"] for one in messages[: end + 1] for call in calls_of(one)}
    return [
        one.model_copy(update={"content": LEFT_OUT})
        if isinstance(one, ToolMessage) and index <= end and names.get(one.tool_call_id) in lookups
        else one
        for index, one in enumerate(messages)
    ]


def transcript(messages: Sequence[AnyMessage]) -> str:
    """Return the messages as a text for the model that summarises them; results only as far as they fail."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            lines.append(f"Person: {message.text}")
        elif isinstance(message, AIMessage):
            lines += [f"Assistant: {message.text}"] if message.text else []
            lines += [f"(The assistant called {call['name']}.)" for call in calls_of(message)]
    return "\n".join(lines)


def plain_summary(messages: Sequence[AnyMessage]) -> str:
    """Return the turns' requests and answers, the beginning of each, where no model summarises them."""
    lines = []
    for message in messages:
        if isinstance(message, HumanMessage):
            lines.append(f"- asked: {_beginning(message.text, 300)}")
        elif isinstance(message, AIMessage) and not calls_of(message) and message.text:
            lines.append(f"  answered: {_beginning(message.text, 200)}")
    return "\n".join(lines)


def lost_sentences(messages: Sequence[AnyMessage], summary: str) -> list[str]:
    """Return the person's sentences with a number, code or address that a summary lacks."""
    texts = [one.text for one in messages if isinstance(one, HumanMessage)]
    every = dict.fromkeys(sentence.strip() for text in texts for sentence in sentences(text))
    kept: list[str] = []
    for sentence in reversed([one for one in every if _is_lost(one, summary.casefold())]):
        if sum(map(len, kept)) + len(sentence) <= MAX_QUOTES:
            kept.append(sentence)
    return kept[::-1]


def _is_lost(sentence: str, summary: str) -> bool:
    figures = (figure.strip(".:!?").casefold() for figure in _FIGURE.findall(sentence))
    return any(figure not in summary for figure in figures)


def _beginning(text: str, characters: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= characters else f"{flat[:characters]}…"
