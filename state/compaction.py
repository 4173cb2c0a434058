"""Compaction of a long conversation in the model's input: when, and what is left out.

The messages of a thread stay complete. First the results of look-ups are left out, because the state block
shows what is true now; then the oldest turns are summarised. It starts at 70 % of the budget and ends below
40 %, so that a provider's prompt cache holds for many turns. Where a window is so small that prompt and tools
fill it, little would be won at every turn, and it waits until it is worth a change.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from typing_extensions import TypedDict

from callsheet.state.conversation import calls_of, messages_after, turn_starts
from callsheet.state.sentences import sentence_spans, split_sentences
from callsheet.state.tokens import both_ends, estimate_messages, estimate_text, fitting_length, shorten

MAX_TURNS: Final = 10
"""Most user turns sent in full; beyond it the older ones are summarised."""
KEPT_TURNS: Final = 3
"""Turns that a summary leaves in full, if they fit."""
START: Final = 0.7
"""Share of the budget at which compaction starts."""
END: Final = 0.4
"""Share of the budget at which it ends."""
MIN_GAIN: Final = 0.15
"""Least share of the budget that a compaction leaves out."""
SUMMARY_TOKENS: Final = 800
"""Expected tokens of a summary."""
MAX_SUMMARY: Final = SUMMARY_TOKENS * 3 // 2
"""Most tokens of a summary; a longer one is cut at the end of a sentence."""
MAX_QUOTES: Final = 600
"""Most tokens of sentences that a summary repeats word for word."""
MAX_PINNED: Final = 2_000
"""Most tokens of the first requests, or of the brief."""
_PART: Final = 6
"""Each of these takes a sixth of the budget at most."""
_MAX_MESSAGE: Final = 600
"""Most tokens of a message in the material for a summary."""
_LEAST_MESSAGE: Final = 40
_MAX_QUOTED: Final = 300
"""Tokens of a message that are looked through for sentences to repeat; more is material."""
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


def within(most: int, budget: int) -> int:
    """Return a limit of tokens, smaller where the model's window is."""
    return min(most, budget // _PART) if budget else most


class Compaction(NamedTuple):
    """One compaction."""

    summarised: Sequence[AnyMessage]
    """Messages that a summary replaces; empty if leaving out results is enough."""
    cleared_upto: str


def compaction(
    messages: Sequence[AnyMessage],
    view: View,
    room: ContextTokens,
    lookups: Collection[str],
    max_results: int | None = None,
) -> Compaction | None:
    """Return the compaction that is due after a turn, or None.

    `lookups` are the tools whose results say what was true when they were called. Above `max_results` tokens
    they are left out however much space there is.
    """
    recent = messages_after(messages, view.summary_upto if view.summary else "")
    starts = turn_starts(recent)
    many = len(starts) > MAX_TURNS
    is_full = many or room["used"] >= START * room["budget"]
    if not starts or not (is_full or max_results is not None):
        return None
    end, budget = str(recent[-1].id), room["budget"]
    cleared = without_results(recent, end, lookups)
    before = estimate_messages(without_results(recent, view.cleared_upto, lookups))
    freed = before - estimate_messages(cleared)
    if not is_full:
        return Compaction((), end) if max_results is not None and freed > max_results else None
    if not many and freed > 0 and room["used"] - freed <= END * budget:
        return Compaction((), end)
    overhead = max(0, room["used"] - before) + within(SUMMARY_TOKENS, budget)
    kept = _kept_turns(cleared, starts, END * budget - overhead)
    if len(starts) > kept and (many or estimate_messages(cleared[: starts[-kept]]) >= MIN_GAIN * budget):
        return Compaction(recent[: starts[-kept]], end)
    return Compaction((), end) if freed >= MIN_GAIN * budget else None


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


def transcript(messages: Sequence[AnyMessage], tokens: int) -> str:
    """Return the messages as a text of about `tokens` tokens for the model that summarises them.

    Of a long message it has the beginning and the end, of results nothing.
    """
    most = max(_LEAST_MESSAGE, min(_MAX_MESSAGE, tokens // max(1, len(messages))))
    lines: list[str] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            lines.append(f"Person: {shorten(message.text, most)}")
        elif isinstance(message, AIMessage):
            lines += [f"Assistant: {shorten(message.text, most)}"] if message.text else []
            lines += [f"(The assistant called {call['name']}.)" for call in calls_of(message)]
    return "\n".join(lines)


def limited_summary(text: str, tokens: int) -> str:
    """Return a summary in at most `tokens` tokens, cut at the end of a sentence or a line."""
    if estimate_text(text) <= tokens:
        return text
    start = text[: fitting_length(text, tokens)]
    ends = [end for _, end in sentence_spans(text) if end <= len(start)]
    return start[: ends[-1]] if ends else start.rstrip()


def plain_summary(messages: Sequence[AnyMessage]) -> str:
    """Return the turns' requests and answers, the beginning of each, where no model summarises them."""
    lines = []
    for message in messages:
        if isinstance(message, HumanMessage):
            lines.append(f"- asked: {_beginning(message.text, 300)}")
        elif isinstance(message, AIMessage) and not calls_of(message) and message.text:
            lines.append(f"  answered: {_beginning(message.text, 200)}")
    return "\n".join(lines)


def lost_sentences(messages: Sequence[AnyMessage], kept: str, tokens: int) -> list[str]:
    """Return the person's sentences with a number, code or address that the `kept` text lacks."""
    every = dict.fromkeys(
        sentence.strip()
        for one in messages
        if isinstance(one, HumanMessage)
        for sentence in _own_sentences(one.text)
    )
    lost: list[str] = []
    for sentence in reversed([one for one in every if _is_lost(one, kept.casefold())]):
        if sum(map(estimate_text, lost)) + estimate_text(sentence) <= tokens:
            lost.append(sentence)
    return lost[::-1]


def _own_sentences(text: str) -> list[str]:
    """Return the sentences of a message; of a long one those at its beginning and end that are whole."""
    start, end = both_ends(text, _MAX_QUOTED)
    every = split_sentences(start)
    return [*every[:-1], *split_sentences(end)[1:]] if end else every


def _is_lost(sentence: str, kept: str) -> bool:
    figures = (figure.strip(".:!?").casefold() for figure in _FIGURE.findall(sentence))
    return any(figure not in kept for figure in figures)


def _beginning(text: str, characters: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= characters else f"{flat[:characters]}…"
