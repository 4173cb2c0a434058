"""A fact of a lesson and the passage of the source that says it (B6, B-R10)."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

FEWEST: Final = 5
"""Facts a lesson has when its source supports them (B6)."""
MOST: Final = 15
_ID_BYTES: Final = 5


class Passage(BaseModel):
    """Where a source says something: `text[start:end] == quote`."""

    model_config = ConfigDict(frozen=True)

    quote: str
    start: int = Field(ge=0)
    """Characters from the beginning of the source's text."""
    end: int = Field(ge=0)


class Fact(BaseModel):
    """One thing to teach."""

    model_config = ConfigDict(frozen=True)

    NOUN: ClassVar[str] = "fact"

    id: str
    """The same for the same concept and passage, however often they are found."""
    concept: str = Field(min_length=1, max_length=200)
    """What it is about, in a few words."""
    details: str = Field(min_length=1, max_length=4000)
    """What there is to know, in two to four sentences where the source has them."""
    confidence: float = Field(default=1.0, ge=0, le=1)
    source: Passage | None = None
    """None for a fact that a person added."""


def fact_id(concept: str, passage: str) -> str:
    """Return the id of the fact that `said` (its quote, or its details) is about `concept`."""
    normalized = "\n".join(
        " ".join(unicodedata.normalize("NFC", part).casefold().split()) for part in (concept, passage)
    )
    return f"fact-{hashlib.blake2b(normalized.encode(), digest_size=_ID_BYTES).hexdigest()}"


def added(concept: str, details: str) -> Fact:
    """Return a fact that a person states; nothing in the source has to support it."""
    return Fact(id=fact_id(concept, details), concept=concept, details=details)


def located(quote: str, text: str) -> Passage | None:
    """Return where `text` says `quote`, with the text's own characters, or None.

    Letter case, the width of blanks and the shape of quotation marks and dashes do not matter.
    """
    start = text.find(quote) if quote.strip() else -1
    if start >= 0:
        return Passage(quote=quote, start=start, end=start + len(quote))
    pieces = [re.escape(_normalize(piece)) for piece in quote.split()]
    # Folding keeps every character's place, so that a match is a span of the text itself.
    match = re.search(r"\s+".join(pieces), _normalize(text)) if pieces else None
    if not match:
        return None
    return Passage(quote=text[match.start() : match.end()], start=match.start(), end=match.end())


def distinct(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts in order without those whose id came before."""
    return list({fact.id: fact for fact in facts}.values())


def shortfall(facts: Sequence[Fact]) -> list[str]:
    """Return a warning where there are fewer facts than a lesson should have; none are made up (B-R10)."""
    if len(facts) >= FEWEST:
        return []
    count = "no fact" if not facts else "1 fact" if len(facts) == 1 else f"{len(facts)} facts"
    return [f"the material supports {count}, fewer than {FEWEST}; add more material for a fuller lesson"]


_PLAIN_PUNCTUATION: Final = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‑": "-", "\u00a0": " "}
)


def _normalize(text: str) -> str:
    return "".join(_lowercase_char(char) for char in text.translate(_PLAIN_PUNCTUATION))


def _lowercase_char(char: str) -> str:
    small = char.lower()
    return small if len(small) == 1 else char
