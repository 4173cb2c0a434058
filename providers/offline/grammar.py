"""The grammar of the offline model: English request forms. A request matches one form completely or none.

A pattern is words with three marks: `[optional words]`, `(one|other)` and `{slot}` or `{name:slot}`. A slot
is a class of words in `SLOTS` or in the form's own `slots`. Optional words include the blank behind them.
Marks can be nested. A message is one request, or several joined by "and", "then", a comma, a semicolon or a
full stop. If one part matches no form, the message matches nothing, so that nothing is changed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from callsheet.state.figures import ORDINALS
from callsheet.state.figures import TO_TWELVE as NUMBERS

MAX_CHARS: Final = 600
"""Longer messages match nothing."""
_MAX_REQUESTS: Final = 6
_MAX_QUOTED_CHARS: Final = 120
SLOTS: Final[Mapping[str, str]] = {
    "quote": r"“[^”]{1,400}”|\"[^\"]{1,400}\"|‘[^’]{1,400}’|'(?:[^']|(?<=\w)'(?=\w)){1,400}'",
    "number": r"\d{1,3}(?:\.\d)?|" + "|".join(NUMBERS),
    "ordinal": "|".join(ORDINALS) + "|last",
    "client": r"(?-i:[A-Z0-9À-Þ][\w&'’-]*(?: (?:(?:and|of|the|de|la|&) )?[A-Z0-9À-Þ][\w&'’-]*){0,5})",
    "words": r"[\w%€$£'’-]{1,40}(?: [\w%€$£'’-]{1,40}){0,5}",
}
"""Classes of words that several workflows share; a client's name has capitals."""
_POLITE: Final = re.compile(
    r"^(?:(?:please|now|ok|okay|and|also|could you|can you|would you)[, ]+)+|(?<![, ])[, ]+please$",
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(r" ?(?:,? and then |,? and |,? then |[,;.] )", re.IGNORECASE)
_QUOTE: Final = re.compile(SLOTS["quote"])
_MARKS: Final = {"[": "(?:", "]": ")?", "] ": " )?", "(": "(?:", ")": ")", "|": "|"}
_MARK: Final = re.compile(r"\{(?:(?P<name>\w+):)?(?P<slot>\w+)\}|\] ?|[\[(|)]|[^\[\](){}|]+")


@dataclass(frozen=True)
class Form:
    """One form of request."""

    name: str
    """Its subject and action, such as `music.wish`."""
    pattern: str
    example: str
    """A sentence of this form, for the documentation."""
    slots: Mapping[str, str] = field(default_factory=dict)
    """Classes of words of its own: name to a regular expression without groups."""

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern."""
        slots = {**SLOTS, **self.slots}

        def expression(mark: re.Match[str]) -> str:
            if slot := mark["slot"]:
                return f"(?P<{mark['name'] or slot}>{slots[slot]})"
            return _MARKS.get(mark[0]) or re.escape(mark[0])

        return re.compile(_MARK.sub(expression, self.pattern), re.IGNORECASE)


@dataclass(frozen=True)
class FormMatch:
    """One request that was understood."""

    form: str
    """Name of its form."""
    slots: Mapping[str, str]
    """The words in its slots, as written, without quotation marks."""


def match(text: str, forms: Sequence[Form]) -> tuple[FormMatch, ...]:
    """Return the requests of a message in order; empty unless every word of it is understood."""
    sentence = " ".join(text.split())
    if not sentence or len(sentence) > MAX_CHARS:
        return ()
    return _match_all(sentence, forms, _MAX_REQUESTS)


def number(word: str) -> float:
    """Return the value of a `number` or `ordinal` slot; -1 for "last"."""
    lowered = word.casefold()
    for names in (NUMBERS, ORDINALS):
        if lowered in names:
            return names.index(lowered) + 1
    return -1 if lowered == "last" else float(lowered)


def decline(text: str, advice: str = "") -> str:
    """Return the sentence that declines a request outside the grammar, with advice for where it stands."""
    request = " ".join(text.split())
    if len(request) > _MAX_QUOTED_CHARS:
        request = f"{request[:_MAX_QUOTED_CHARS].rstrip()}…"
    return (
        f"I am the offline demo model and did not understand “{request}”, so I changed nothing: "
        f"{advice}docs/offline.md lists the English requests I know, and with OPENAI_API_KEY or a local "
        "model at OPENAI_BASE_URL a real model answers instead."
    )


def _match_all(sentence: str, forms: Sequence[Form], limit: int) -> tuple[FormMatch, ...]:
    """Return the fewest requests, `limit` at most, that make up the sentence; empty for none."""
    if single := _match_one(sentence, forms):
        return (single,)
    if limit == 1:
        return ()
    quotes = [quote.span() for quote in _QUOTE.finditer(sentence)]
    for separator in _SEPARATOR.finditer(sentence):
        if any(start < separator.start() < end for start, end in quotes):
            continue
        first = _match_one(sentence[: separator.start()], forms)
        others = _match_all(sentence[separator.end() :], forms, limit - 1) if first else ()
        if first and others:
            return (first, *others)
    return ()


def _match_one(sentence: str, forms: Sequence[Form]) -> FormMatch | None:
    request = _POLITE.sub("", sentence.rstrip(" .!?"))
    for form in forms:
        if matched := form.regex.fullmatch(request):
            slots = {name: _unquote(text) for name, text in matched.groupdict().items() if text is not None}
            return FormMatch(form.name, slots)
    return None


def _unquote(text: str) -> str:
    return text[1:-1] if _QUOTE.fullmatch(text) else text
