"""Short names for passages: the term that is defined, a proper name, or the most characteristic noun phrase.

English grammar without a dictionary: a phrase is a run of words between small words and verbs.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from callsheet.providers.offline.lessons.sentences import ENGLISH

_DETERMINERS, _PREPOSITIONS, _SMALL, _VERBS = (
    frozenset(ENGLISH["words"][name].split()) for name in ("determiners", "prepositions", "small", "verbs")
)
_STOP: Final = _DETERMINERS | _PREPOSITIONS | _SMALL
_BE: Final = frozenset(["is", "are", "was", "were", "be", "been", "has", "have", "had", "can"])
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_TOKEN: Final = re.compile(rf"{_WORD.pattern}|\d[\d.,]*|[^\w\s]")
_TERM: Final = r"(?P<term>[\w’'-]+(?: [\w’'-]+){0,3}?)"
_DEFINED: Final = re.compile(
    rf"(?:(?:an?|the) )?{_TERM} (?:is|are|was|were|means?) (?:an?|the|any|all|what|that) ", re.IGNORECASE
)
_CALLED: Final = re.compile(
    rf"\b(?:called|known as|named|termed) {_TERM}(?=[^\w\s’'-]|$| (?:that|which|and|or)\b)", re.IGNORECASE
)
_NAME: Final = re.compile(r"\b[A-Z][\w’']+(?:(?: of(?: the)?)? (?:[A-Z][\w’']+|[IVX]+\b))+")
_ENDINGS: Final = re.compile(r"(?:ies|ing|edly|ed|es|ly|s|e)$")
_MOST_WORDS: Final = 3
_LEAST_LETTERS: Final = 3
_FIRST_WORDS: Final = 2


def content(text: str) -> list[str]:
    """Return the stems of the words that name or do something, in order; equal stems stand for one word."""
    words = [word.casefold() for word in _WORD.findall(text) if len(word) >= _LEAST_LETTERS]
    return [_stem(word) for word in words if word not in _STOP]


def defines(sentence: str) -> bool:
    """Return whether a sentence says what something is or is called."""
    return bool(_DEFINED.match(sentence) or _CALLED.search(sentence))


def label(passage: Sequence[str], common: Mapping[str, int], used: Collection[str]) -> str:
    """Return a name that is not in `used` (case-folded); `common` counts the passages that have a stem."""
    scored = [
        (worth - 1.5 * later, name)
        for later, one in enumerate(passage)
        for worth, name in _names(one, common)
    ]
    names = [name[:1].upper() + name[1:] for _, name in sorted(scored, key=lambda pair: -pair[0])]
    names.append(" ".join(passage[0].split()[:_MOST_WORDS]).strip(" ,;:."))
    more = (f"{names[0]} ({number})" for number in range(2, len(used) + 3))
    return next(name for name in (*names, *more) if name.casefold() not in used)


def _names(sentence: str, common: Mapping[str, int]) -> Iterator[tuple[float, str]]:
    """Yield names with what speaks for each: its form, its place, and that few passages have its words."""
    for worth, found in ((5.0, _DEFINED.match(sentence)), (4.3, _CALLED.search(sentence))):
        place, run, _ = next(_runs(found["term"]), (9, [], "")) if found else (9, [], "")
        if place < _FIRST_WORDS:
            yield worth, " ".join(run)
    for name in (one[0] for one in _NAME.finditer(sentence)):
        first, _, rest = name.partition(" ")
        if " " in (bare := rest if first.casefold() in _STOP else name):
            yield 2.6, bare
    for place, run, after in _runs(sentence):
        rarity = sum(1 / max(1, common.get(_stem(word.casefold()), 1)) for word in run) / len(run)
        subject = 0.5 + 0.6 * (after in _BE) if place < _FIRST_WORDS else 0.0
        proper = 0.4 * (place > 0 and all(word[0].isupper() for word in run))
        yield 1.6 * rarity + 0.4 * (len(run) > 1) + subject + proper - 0.03 * place, " ".join(run)


def _runs(text: str) -> Iterator[tuple[int, list[str], str]]:
    """Yield noun phrases of up to three words, each with its first word's place and the word after it."""
    tokens = [*_TOKEN.findall(text), "."]
    run: list[str] = []
    before = ""
    for place, token in enumerate(tokens):
        folded = token.casefold()
        commands = place == 0 and tokens[1].casefold() in _DETERMINERS
        names = token[0].isalpha() and folded not in _STOP and not _is_verb(folded, before)
        if names and not commands and before not in _BE:
            run.append(token)
        elif run:
            yield place - len(run), run[-_MOST_WORDS:], folded
            run = []
        before = folded


def _is_verb(word: str, before: str) -> bool:
    forms = {word.removesuffix(ending) for ending in ("", "s", "es", "d", "ing")}
    named = before in _DETERMINERS or before in _PREPOSITIONS - {"to"}
    return not named and (word.endswith(("ed", "ly")) or not forms.isdisjoint(_VERBS))


def _stem(word: str) -> str:
    cut = _ENDINGS.sub("", word.removesuffix("'s").removesuffix("’s"))
    return cut if len(cut) >= _LEAST_LETTERS else word
