"""The grammar of the offline model: English request forms. A request matches one form completely or none.

A pattern is words with three marks: `[optional words]`, `(one|other)` and `{slot}` or `{name:slot}`. A slot
is a class of words in `SLOTS` or in the form's own `slots`. Optional words include the blank behind them.
Marks can be nested. A message is one request, or several joined by "and", "then", a comma, a semicolon or a
full stop. If one part matches no form, the message matches nothing, so that nothing is changed. A slot never
takes a word of `NEGATIONS` outside quotation marks and names, because such a word changes what is meant.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count, islice
from typing import Final

from callsheet.state.figures import ORDINALS
from callsheet.state.figures import TO_TWELVE as NUMBERS

MAX_CHARS: Final = 600
"""Longer messages match nothing."""
_MAX_REQUESTS: Final = 6
_MAX_QUOTED_CHARS: Final = 120
_THINGS: Final = (
    "bakery|bar|barber|bike shop|bookshop|café|cafe|coffee shop|dentist|farm|florist|garden|gym|hotel|"
    "library|market|museum|pizzeria|restaurant|salon|school|shop|studio|app|company|product|service|team|"
    "bread|coffee|contact|customers|delivery|history|ingredients|location|mountains|music|nature|offers|"
    "opening hours|prices|products|quality|reviews|sea|services|travel"
)
SLOTS: Final[Mapping[str, str]] = {
    "quote": r"“[^”]{1,400}”|\"[^\"]{1,400}\"|‘[^’]{1,400}’|'(?:[^']|(?<=\w)'(?=\w)){1,400}'",
    "number": r"\d{1,3}(?:\.\d)?|" + "|".join(NUMBERS),
    "ordinal": "|".join(ORDINALS) + "|last",
    "client": r"(?-i:[A-Z0-9À-Þ][\w&'’-]*(?: (?:(?:and|of|the|de|la|&) )?[A-Z0-9À-Þ][\w&'’-]*){0,5})",
    "subject": rf"(?:(?:an?|the|our|my) )?(?:{_THINGS})(?: in (?-i:[A-ZÀ-Þ][\w’-]{{1,40}}))?",
}
"""Classes of words that several workflows share; the names of clients and places have capitals."""
NEGATIONS: Final = (
    "no|not|non|never|none|nothing|nobody|neither|nor|without|minus|or|but|except|excluding|unless|if|instead|"
    "rather|than|although|only|cannot"
)
"""Words that deny, exclude or restrict; no slot takes one."""
_NEGATION: Final = re.compile(
    rf"(?<![\w'’])(?!no[ -](?:fees?|minimum)\b)(?:{NEGATIONS})(?!\w)|n['’]t\b", re.IGNORECASE
)
"""A negation; "no fee" names a thing."""
_MAX_WORDS: Final = 24
"""The part of a longer request that was not understood is the request."""
_DECISIVE: Final = re.compile(
    rf"(?<![\w'’])(?:{NEGATIONS}|{'|'.join((*NUMBERS, *ORDINALS))}|last|next|start|beginning|end|top|"
    r"before|after|until|once|twice|many|all|every(?:thing)?|each|both|any|others?|rest|half|unlike|vs|versus|more|most|less|"
    r"least|fewer|(?:long|short|fast|slow|bigg|small|larg|loud|quiet|soft)er|(?:hate|dislike|avoid|stop)s?)(?!\w)|n['’]t\b|\d",
    re.IGNORECASE,
)
"""Words that decide what is meant: a request without them is another one."""
_WIDENED: Final = re.compile(r"(?:delete|remove|clear|empty|undo|drop|erase)\b", re.IGNORECASE)
"""Verbs of requests that do more harm with a word less."""
_FUNCTION_WORDS: Final = re.compile(
    r"\A(?:(?:an?|and|as|at|by|for|from|in|into|is|it|of|on|so|that|the|then|to|with)(?: |\Z))++\Z",
    re.IGNORECASE,
)
"""Words that mean nothing alone, so that a part has others, too."""
_NAMES: Final = frozenset({"client", "brief", "filters"})
"""Slots in which any word may stand: names, and filters of campaigns, which read negations themselves."""
_POLITE: Final = re.compile(
    r"^(?:(?:please|now|ok|okay|and|also|could you|can you|would you)[, ]+)+|(?<![, ])[, ]+please$",
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(r" ?(?:,? and then |,? and |,? then |[,;.] )", re.IGNORECASE)
_QUOTE: Final = re.compile(SLOTS["quote"])
_UNKNOWN: Final = "unknown"
_MARKS: Final = {"[": "(?:", "]": ")?", "] ": " )?", "(": "(?:", ")": ")", "|": "|"}
_MARK: Final = re.compile(r"\{(?:(?P<name>\w+):)?(?P<slot>\w+)\}|\] ?|[\[(|)]|[^\[\](){}|]+")


class Unclear(Exception):
    """A request that no call can be made of; its text ends the sentence "I changed nothing, because …"."""


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
        return self._compile(lambda name, slot, _: f"(?P<{name}>{slots[slot]})")

    @cached_property
    def loose(self) -> Sequence[tuple[str, re.Pattern[str]]]:
        """Each slot's name, with the pattern in which `unknown` stands for any words in that slot."""
        slots = {**SLOTS, **self.slots}

        def variant(at: int) -> re.Pattern[str]:
            return self._compile(
                lambda _, slot, index: f"(?P<{_UNKNOWN}>.{{1,80}}?)" if index == at else f"(?:{slots[slot]})"
            )

        names = [mark["name"] or mark["slot"] for mark in _MARK.finditer(self.pattern) if mark["slot"]]
        return [(name, variant(at)) for at, name in enumerate(names)]

    def nearest(self, request: str) -> tuple[str, str] | None:
        """Return the words of a request that do not fit a slot, and the request with the example's, or ""."""
        candidates: list[tuple[str, str]] = []
        for name, pattern in self.loose:
            matched = pattern.fullmatch(request)
            if matched and matched[_UNKNOWN] and matched.start(_UNKNOWN):
                start, end = matched.span(_UNKNOWN)
                example = self.regex.fullmatch(self.example.rstrip("?"))
                words = example and example[name]
                fitting = f"{request[:start]}{words}{request[end:]}" if words else ""
                candidates.append((matched[_UNKNOWN], fitting))
        return min(candidates, key=lambda pair: len(pair[0]), default=None)

    def _compile(self, expression: Callable[[str, str, int], str]) -> re.Pattern[str]:
        """Compile the pattern with an expression for the name, class and number of each slot."""
        numbers = count()

        def translate(mark: re.Match[str]) -> str:
            if slot := mark["slot"]:
                return expression(mark["name"] or slot, slot, next(numbers))
            return _MARKS.get(mark[0]) or re.escape(mark[0])

        return re.compile(_MARK.sub(translate, self.pattern), re.IGNORECASE)


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


def has_negation(text: str) -> bool:
    """Return true if a text denies, excludes or restricts something outside quotation marks."""
    return bool(_NEGATION.search(_QUOTE.sub("", text)))


def decline(text: str, advice: str = "", forms: Sequence[Form] = ()) -> str:
    """Return the sentence that declines a request outside the grammar, with advice for where it stands.

    It names the part that was not understood, and a request of the same kind that is in the grammar, or else
    an example of each kind.
    """
    request = " ".join(text.split())
    part, nearest = _unknown_part(request, forms) if forms else (request, "")
    examples = ", ".join(f"“{form.example.rstrip('?.')}”" for form in forms)
    known = f"you can ask {examples}; " if forms else ""
    if nearest:
        known = f"the nearest request I know is “{_shorten(nearest)}”; "
    place = "" if part == request else f" in “{_shorten(request)}”"
    # One sentence, since each sentence of a reply about campaigns is checked as a claim about them.
    return (
        f"I am the offline demo model and did not understand “{_shorten(part)}”{place}, so I changed "
        f"nothing: {known}{advice}docs/offline.md lists the English requests I know, and with "
        "OPENAI_API_KEY or a local model at OPENAI_BASE_URL a real model answers instead."
    )


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS].rstrip()}…"


def _unknown_part(text: str, forms: Sequence[Form]) -> tuple[str, str]:
    """Return the words of a text that match no form, and a request of the same kind that does, or ""."""
    if match(text, forms):
        return text, ""
    known, unknown = _split_unknown(text, forms)
    words = unknown.rstrip(" .!?").split()
    for start, end in _spans(len(words)):
        rest, part = " ".join(words[:start] + words[end:]), " ".join(words[start:end])
        if not _FUNCTION_WORDS.match(part) and " " in rest and _match_one(rest, forms):
            joins = end < len(words) and "and" in part.casefold().split()
            same = start and not joins and not _DECISIVE.search(part) and not _WIDENED.match(rest)
            return part, rest if same else ""
    if part_and_example := _unknown_slot(" ".join(words), forms):
        return part_and_example
    return unknown, "" if _DECISIVE.search(unknown) or _WIDENED.match(known) else known


def _spans(words: int) -> Iterator[tuple[int, int]]:
    """Yield the parts that a request may have too much: half of it at most, its end before its middle."""
    if words <= _MAX_WORDS:
        half = (words + 1) // 2
        tails = ((start, words) for start in range(words - 1, words - half - 1, -1))
        inner = (
            (start, start + size) for size in range(1, half + 1) for start in reversed(range(words - size))
        )
        yield from chain(tails, inner)


def _unknown_slot(request: str, forms: Sequence[Form]) -> tuple[str, str] | None:
    """Return the words that do not fit the one slot of a form, the fewest, and a request that fits, or ""."""
    request = _POLITE.sub("", request)
    candidates = (
        [pair for form in forms if (pair := form.nearest(request))] if len(request) <= MAX_CHARS else []
    )
    if not candidates:
        return None
    part = min((part for part, _ in candidates), key=len)
    fitting = {nearest for each, nearest in candidates if each == part}
    is_same = len(fitting) == 1 and not _DECISIVE.search(part) and not _WIDENED.match(request)
    return part, fitting.pop() if is_same else ""


def _split_unknown(text: str, forms: Sequence[Form]) -> tuple[str, str]:
    """Return the requests at the beginning of a text, or else at its end, that match forms, and the rest."""
    separators = [*islice(_separators(text), 2 * _MAX_REQUESTS)]
    for separator in reversed(separators):
        if match(text[: separator.start()], forms):
            return text[: separator.start()], text[separator.end() :]
    for separator in separators:
        if match(text[separator.end() :], forms):
            return text[separator.end() :], text[: separator.start()]
    return "", text


def _separators(sentence: str) -> Iterator[re.Match[str]]:
    """Yield the separators outside quotation marks."""
    quotes = [quote.span() for quote in _QUOTE.finditer(sentence)]
    for separator in _SEPARATOR.finditer(sentence):
        if not any(start < separator.start() < end for start, end in quotes):
            yield separator


def _match_all(sentence: str, forms: Sequence[Form], limit: int) -> tuple[FormMatch, ...]:
    """Return the fewest requests, `limit` at most, that make up the sentence; empty for none."""
    if single := _match_one(sentence, forms):
        return (single,)
    if limit == 1:
        return ()
    for separator in _separators(sentence):
        first = _match_one(sentence[: separator.start()], forms)
        others = _match_all(sentence[separator.end() :], forms, limit - 1) if first else ()
        if first and others:
            return (first, *others)
    return ()


def _match_one(sentence: str, forms: Sequence[Form]) -> FormMatch | None:
    request = _POLITE.sub("", sentence.rstrip(" .!?"))
    for form in forms:
        matched = form.regex.fullmatch(request)
        if matched and not _negates(matched.groupdict()):
            slots = {name: _unquote(text) for name, text in matched.groupdict().items() if text is not None}
            return FormMatch(form.name, slots)
    return None


def _negates(slots: Mapping[str, str | None]) -> bool:
    """Return true if the words of a slot, other than names, have a negation."""
    return any(text and has_negation(text) for name, text in slots.items() if name not in _NAMES)


def _unquote(text: str) -> str:
    return text[1:-1] if _QUOTE.fullmatch(text) else text
