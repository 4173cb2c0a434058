"""Who or what an English sentence says something about: the words before its verb.

There is no parser here: verbs are known by a list of common ones and by how their forms end. Where the words
do not show it, nothing is returned.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

_TOKEN: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d[\d.,]*|[,;:()]")
_BEGIN: Final = frozenset(
    [
        "in",
        "on",
        "at",
        "by",
        "with",
        "from",
        "during",
        "under",
        "after",
        "before",
        "when",
        "while",
        "because",
        "since",
        "as",
        "although",
        "though",
        "if",
        "for",
        "among",
        "between",
        "once",
        "until",
        "without",
        "near",
        "inside",
        "outside",
        "above",
        "below",
        "over",
        "through",
        "despite",
        "today",
        "then",
    ]
)
"""Words that what is said before a subject begins with."""
_CLAUSES: Final = frozenset(
    ["when", "while", "because", "since", "as", "although", "though", "if", "once", "until"]
)
"""Those of them that a clause begins with."""
_OPEN: Final = frozenset(
    [
        "a",
        "an",
        "the",
        "each",
        "every",
        "some",
        "many",
        "most",
        "all",
        "both",
        "several",
        "few",
        "his",
        "her",
        "its",
        "their",
    ]
)
"""Words that a subject may begin with, and a concept does not."""
_NOBODY: Final = frozenset(
    [
        "it",
        "he",
        "she",
        "they",
        "this",
        "that",
        "these",
        "those",
        "there",
        "we",
        "you",
        "i",
        "one",
        "what",
        "who",
        "which",
        "here",
        "everything",
        "nothing",
        "others",
        "another",
        "such",
        "people",
        "someone",
        "everyone",
    ]
)
_AUXILIARIES: Final = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "can",
        "could",
        "will",
        "would",
        "may",
        "might",
        "must",
        "shall",
        "should",
        "does",
        "do",
        "did",
    ]
)
_MOST: Final = 4
"""Words of a subject, but for what follows an `of`."""
_MONTHS: Final = frozenset(
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ]
)


def subjects(sentence: str) -> Iterator[str]:
    """Yield what a sentence speaks of, in its own words; nothing where that is not clear.

    First of its main clause, then of what is said before that.
    """
    tokens = _TOKEN.findall(sentence)
    for start in _begins(tokens):
        verb = _verb(tokens, start)
        named = _named(tokens[start:verb]) if verb is not None else ""
        if named:
            yield named


def acts(word: str) -> bool:
    """Return whether a word is a verb as it follows one thing."""
    return word in _verbs()[1]


def _begins(tokens: Sequence[str]) -> list[int]:
    """Return where subjects begin: after what is said of the time, the place or the reason, and within it."""
    at = 0
    while at < len(tokens) and (tokens[at].casefold().endswith("ly") or tokens[at] in {"First", "Then", ","}):
        at += 1
    if at >= len(tokens) or tokens[at].casefold() not in _BEGIN:
        return [at]
    comma = next((place for place in range(at, len(tokens)) if tokens[place] == ","), None)
    after = [] if comma is None else [comma + 1]
    if tokens[at].casefold() in _CLAUSES:
        return [*after, at + 1]
    # "In winter the bees cluster together."
    opens = [place for place in range(at + 2, min(len(tokens), at + 6)) if tokens[place].casefold() in _OPEN]
    return [*after, *opens[-1:]]


def _verb(tokens: Sequence[str], start: int) -> int | None:
    """Return the place of the first verb."""
    for place in range(start + 1, min(len(tokens), start + 2 * _MOST + 1)):
        word = tokens[place].casefold()
        if not word[0].isalpha():
            return None
        if word in _AUXILIARIES or _is_verb(word, tokens[place - 1].casefold()):
            return place
    return None


def _is_verb(word: str, before: str) -> bool:
    certain, plural, past = _verbs()
    if before in _OPEN or before == "of":
        return False
    several = (before.endswith(("s", "men")) and not before.endswith("ss")) or before in _SEVERAL
    if word in past or (word.endswith("ed") and len(word) > 4 and not several):  # noqa: PLR2004 -- "shed", "need"
        return True
    if word in certain:
        return several
    return word in plural and not several


def _named(words: Sequence[str]) -> str:
    while words and (words[0].casefold() in _OPEN or words[0][0].isdigit()):
        words = words[1:]
    while words and words[-1].casefold().endswith("ly"):
        words = words[:-1]
    folded = [word.casefold() for word in words]
    if not words or _NOBODY & set(folded) or set(folded) <= _MONTHS:
        return ""
    size = folded.index("of") if "of" in folded else len(words)
    return " ".join(words) if 0 < size <= _MOST and len(words) <= 2 * _MOST else ""


_SEVERAL: Final = frozenset(
    [
        "people",
        "children",
        "men",
        "women",
        "bacteria",
        "mice",
        "fish",
        "sheep",
        "feet",
        "teeth",
        "geese",
        "data",
    ]
)


@cache
def _verbs() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return verbs as they follow several, as they follow one, and as they tell of the past."""
    table = tomllib.loads(files(__package__).joinpath("verbs.toml").read_text(encoding="utf-8"))
    base = frozenset(str(table["base"]).split())
    return base, frozenset(_third(one) for one in base), frozenset(str(table["past"]).split())


def _third(verb: str) -> str:
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search(r"[^aeiou]y$", verb) else f"{verb}s"
