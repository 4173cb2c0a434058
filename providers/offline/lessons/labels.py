"""Short names for passages: the defined term, a proper name, or the first noun phrase.

There is no dictionary: a phrase is a run of words between function words and verbs.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from callsheet.providers.offline.lessons.sentences import ENGLISH

_DETERMINERS, _PREPOSITIONS, _FUNCTION_WORDS, _VERBS = (
    frozenset(ENGLISH["words"][name].split()) for name in ("determiners", "prepositions", "function", "verbs")
)
_STOP: Final = _DETERMINERS | _PREPOSITIONS | _FUNCTION_WORDS
_BE: Final = frozenset(["is", "are", "was", "were", "be", "been", "being", "has", "have", "had", "can"])
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_TOKEN: Final = re.compile(rf"{_WORD.pattern}|\d[\d.,]*|[^\w\s]")
_TERM: Final = r"(?P<term>[\w’'-]+(?: [\w’'-]+){0,3}?)"
_DEFINED: Final = re.compile(
    rf"(?:(?:an?|the) )?{_TERM} (?:is|are|was|were|means?) (?:an?|the|any|all|what|that) ", re.IGNORECASE
)
_CALLED: Final = re.compile(
    rf"\b(?:called|known as|named|termed) {_TERM}(?=[^\w\s’'-]|$| (?:that|which|and|or)\b)", re.IGNORECASE
)
_PROPER_NAME: Final = re.compile(r"\b[A-Z][\w’']+(?:(?: of(?: the)?)? (?:[A-Z][\w’']+|[IVX]+\b))+")
_ENDINGS: Final = re.compile(r"(?:ies|ing|edly|ed|es|ly|s|e)$")
_MAX_WORDS: Final = 3
_MIN_LETTERS: Final = 3


def stems(text: str) -> list[str]:
    """Return the stems of the content words in order; words with equal stems count as one word."""
    words = [word.casefold() for word in _WORD.findall(text) if len(word) >= _MIN_LETTERS]
    return [_stem(word) for word in words if word not in _STOP]


def defines(sentence: str) -> bool:
    """Return true if a sentence defines or names something."""
    return bool(_DEFINED.match(sentence) or _CALLED.search(sentence))


def label(passage: Sequence[str], used: Collection[str]) -> str:
    """Return a name for the sentences of a passage that is not in `used` (case-folded)."""
    names = [name[:1].upper() + name[1:] for sentence in passage for name in _names(sentence)]
    names.append(" ".join(passage[0].split()[:_MAX_WORDS]).strip(" ,;:."))
    names += [f"{names[0]} ({number})" for number in range(2, len(used) + 3)]
    return next(name for name in names if name.casefold() not in used)


def _names(sentence: str) -> Iterator[str]:
    """Yield possible names, the best first."""
    for definition in (_DEFINED.match(sentence), _CALLED.search(sentence)):
        yield from [*_noun_phrases(definition["term"])][:1] if definition else ()
    for name in _PROPER_NAME.findall(sentence):
        first, _, last = name.partition(" ")
        if " " in (bare := last if first.casefold() in _STOP else name):
            yield bare
    yield from _noun_phrases(sentence)


def _noun_phrases(text: str) -> Iterator[str]:
    """Yield the noun phrases, the last three words of each."""
    tokens = [*_TOKEN.findall(text), "."]
    phrase: list[str] = []
    before = ""
    for position, token in enumerate(tokens):
        word = token.casefold()
        # "Close the lid": a verb in front of a determiner is a command.
        command = position == 0 and tokens[1].casefold() in _DETERMINERS
        noun = token[0].isalpha() and word not in _STOP and not _is_verb(word, before)
        if noun and not command and before not in _BE:
            phrase.append(token)
        elif phrase:
            yield " ".join(phrase[-_MAX_WORDS:])
            phrase = []
        before = word


def _is_verb(word: str, before: str) -> bool:
    if before in _DETERMINERS or before in _PREPOSITIONS - {"to"}:
        return False
    base_forms = {word.removesuffix(ending) for ending in ("", "s", "es", "d", "ing")}
    return word.endswith(("ed", "ly")) or not base_forms.isdisjoint(_VERBS)


def _stem(word: str) -> str:
    stem = _ENDINGS.sub("", word.removesuffix("'s").removesuffix("’s"))
    return stem if len(stem) >= _MIN_LETTERS else word
