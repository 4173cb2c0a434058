"""Facts of a lesson, with the passages of the source that support them (B6, B-R10)."""

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

MIN_FACTS: Final = 5
"""Minimum facts of a lesson, if its source supports them (B6)."""
MAX_FACTS: Final = 15
_ID_BYTES: Final = 5


class Passage(BaseModel):
    """A passage of the source: `text[start:end] == quote`."""

    model_config = ConfigDict(frozen=True)

    quote: str
    start: int = Field(ge=0)
    """Offset in the source's text, in characters."""
    end: int = Field(ge=0)


class Fact(BaseModel):
    """One fact."""

    model_config = ConfigDict(frozen=True)

    NOUN: ClassVar[str] = "fact"

    id: str
    """Derived from concept and passage, so stable between extractions."""
    concept: str = Field(min_length=1, max_length=200)
    """Topic in a few words."""
    details: str = Field(min_length=1, max_length=4000)
    """The fact in full, two to four sentences if the source has them."""
    confidence: float = Field(default=1.0, ge=0, le=1)
    source: Passage | None = None
    """Supporting passage; None for a fact that a person added."""


def fact_id(concept: str, passage: str) -> str:
    """Return the id of the fact about `concept`, with `passage` its quote or else its details."""
    normalized = "\n".join(
        " ".join(unicodedata.normalize("NFC", part).casefold().split()) for part in (concept, passage)
    )
    return f"fact-{hashlib.blake2b(normalized.encode(), digest_size=_ID_BYTES).hexdigest()}"


def new_fact(concept: str, details: str) -> Fact:
    """Return a fact added by a person, without a passage."""
    return Fact(id=fact_id(concept, details), concept=concept, details=details)


def find_passage(quote: str, text: str) -> Passage | None:
    """Return the passage of `text` that matches `quote`, or None.

    Case, amount of whitespace, and the style of quotation marks and dashes are ignored.
    """
    start = text.find(quote) if quote.strip() else -1
    if start >= 0:
        return Passage(quote=quote, start=start, end=start + len(quote))
    wanted = " ".join(_normalize(quote).split())
    # Normalizing keeps every character's offset, so that a match is a span of the text itself.
    words = list(re.finditer(r"\S+", _normalize(text)))
    starts = list(accumulate((len(word[0]) + 1 for word in words), initial=0))
    at = " ".join(word[0] for word in words).find(wanted) if wanted else -1
    if at < 0:
        return None
    first, last = (bisect_right(starts, place) - 1 for place in (at, at + len(wanted) - 1))
    start = words[first].start() + at - starts[first]
    end = words[last].start() + at + len(wanted) - starts[last]
    return Passage(quote=text[start:end], start=start, end=end)


def distinct(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts in order, without repeated ids."""
    return list({fact.id: fact for fact in facts}.values())


def shortfall(facts: Sequence[Fact]) -> list[str]:
    """Return a warning if there are too few facts for a lesson; none are made up (B-R10)."""
    if len(facts) >= MIN_FACTS:
        return []
    count = "no fact" if not facts else "1 fact" if len(facts) == 1 else f"{len(facts)} facts"
    return [f"the material supports {count}, fewer than {MIN_FACTS}; add more material for a fuller lesson"]


_PLAIN_PUNCTUATION: Final = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "\u00a0": " "}
)


def _normalize(text: str) -> str:
    return "".join(_lowercase_char(char) for char in text.translate(_PLAIN_PUNCTUATION))


def _lowercase_char(char: str) -> str:
    small = char.lower()
    return small if len(small) == 1 else char
