"""The grammar of the offline model: English request forms, each matched as a whole or not at all.

A pattern is words with three marks: `[optional words]`, `(one|other)` and `{slot}` or `{name:slot}`, where
a slot is a class of words in `SLOTS` or in the form's own `slots`; optional words take the space behind them
along, and marks may be nested. A message is one request, or several joined
by "and", "then", a comma, a semicolon or a full stop. If any part matches no form, the whole message matches
nothing: a request that is not wholly understood changes nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

MAX_CHARS: Final = 600
"""Longer messages match nothing."""
MAX_PARTS: Final = 6
"""Most requests in one message."""
NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
ORDINALS: Final = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
SLOTS: Final[Mapping[str, str]] = {
    "quote": r"“[^”]{1,400}”|\"[^\"]{1,400}\"|‘[^’]{1,400}’|'(?:[^']|(?<=\w)'(?=\w)){1,400}'",
    "number": r"\d{1,3}(?:\.\d)?|" + "|".join(NUMBERS),
    "ordinal": "|".join(ORDINALS) + "|last",
    "version": r"v\d{1,4}",
    "word": r"[\w-]{1,40}",
    "words": r"[\w%€$£'’-]{1,40}(?: [\w%€$£'’-]{1,40}){0,5}",
}
"""Classes of words that every workflow shares."""
_POLITE: Final = re.compile(
    r"^(?:(?:please|now|ok|okay|and|also|could you|can you|would you)[, ]+)+|[, ]+please$", re.IGNORECASE
)
_JOINT: Final = re.compile(r"\s*(?:,? and then |,? and |,? then |[,;.] )\s*", re.IGNORECASE)
_QUOTED: Final = re.compile(SLOTS["quote"])
_MARKS: Final = {"[": "(?:", "]": ")?", "] ": " )?", "(": "(?:", ")": ")", "|": "|"}
_MARK: Final = re.compile(r"\{(?:(?P<name>\w+):)?(?P<slot>\w+)\}|\] ?|[\[(|)]|[^\[\](){}|]+")


@dataclass(frozen=True)
class Form:
    """One form of request."""

    name: str
    """What it asks for, such as `music.mood`."""
    pattern: str
    example: str
    """A sentence of this form, as documented."""
    slots: Mapping[str, str] = field(default_factory=dict)
    """Classes of words of its own: name to a regular expression without groups."""

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The pattern, compiled."""
        return re.compile(_compiled(self.pattern, {**SLOTS, **self.slots}), re.IGNORECASE)


@dataclass(frozen=True)
class Match:
    """One request that was understood."""

    form: str
    """Name of its form."""
    slots: Mapping[str, str]
    """The words in its slots, as written; quotes are taken off."""
    text: str
    """The request as written."""


def match(text: str, forms: Sequence[Form]) -> tuple[Match, ...]:
    """Return the requests of a message in their order; empty unless every word of it is understood."""
    sentence = " ".join(text.split()).strip()
    if not sentence or len(sentence) > MAX_CHARS:
        return ()
    return _requests(sentence, forms, MAX_PARTS) or ()


def number(word: str) -> float:
    """Return the value of a `number` or `ordinal` slot; "last" is -1."""
    lowered = word.casefold()
    for names in (NUMBERS, ORDINALS):
        if lowered in names:
            return names.index(lowered) + 1
    return -1 if lowered == "last" else float(lowered)


def _requests(sentence: str, forms: Sequence[Form], most: int) -> tuple[Match, ...] | None:
    """Return the fewest requests that make up the sentence."""
    if whole := _single(sentence, forms):
        return (whole,)
    if most == 1:
        return None
    quotes = [found.span() for found in _QUOTED.finditer(sentence)]
    for joint in _JOINT.finditer(sentence):
        if any(start < joint.start() < end for start, end in quotes):
            continue
        first = _single(sentence[: joint.start()], forms)
        rest = _requests(sentence[joint.end() :], forms, most - 1) if first else None
        if first and rest:
            return (first, *rest)
    return None


def _single(sentence: str, forms: Sequence[Form]) -> Match | None:
    plain = _POLITE.sub("", sentence.rstrip(" .!?"))
    for form in forms:
        if found := form.regex.fullmatch(plain):
            slots = {name: _unquoted(value) for name, value in found.groupdict().items() if value is not None}
            return Match(form.name, slots, sentence)
    return None


def _unquoted(text: str) -> str:
    return text[1:-1] if _QUOTED.fullmatch(text) else text


def _compiled(pattern: str, slots: Mapping[str, str]) -> str:
    """Return the pattern as a regular expression: each mark becomes its counterpart, also within others."""

    def part(mark: re.Match[str]) -> str:
        if slot := mark["slot"]:
            return f"(?P<{mark['name'] or slot}>{slots[slot]})"
        return _MARKS.get(mark[0]) or re.escape(mark[0])

    return _MARK.sub(part, pattern)
