"""Facts of a lesson, with the passages of the source that support them."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.differences import Difference, compare

MIN_FACTS: Final = 5
"""Minimum facts of a lesson, if its source supports them."""
MAX_FACTS: Final = 15
_ID_BYTES: Final = 5
_SAME: Final = 0.8
"""Least share of a passage that an offered one has of it where both say the same."""
_FOOTNOTES: Final = re.compile(r"(?<=[^\W\d_][.!?])[0-9]{1,3}(?![0-9])|[\u00b9\u00b2\u00b3\u2070-\u2079]+")
"""Numbers of footnotes that are glued to a sentence's end, and raised ones."""


class Passage(BaseModel):
    """A passage of the source: `text[start:end] == quote`."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    quote: str
    start: int = Field(ge=0)
    """Offset in the source's text, in characters."""
    end: int = Field(ge=0)


class Fact(BaseModel):
    """One fact."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

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
    """Return the passage of `text` that has the letters and digits of `quote`, or None.

    Case, blanks, signs, Markdown and reference marks are ignored.
    """
    start = text.find(quote) if quote.strip() else -1
    if start >= 0:
        return Passage(quote=quote, start=start, end=start + len(quote))
    wanted, source = _letters(quote), _letters(text)
    at = source.text.find(wanted.text) if wanted.text else -1
    if at < 0:
        return None
    start, end = source.places[at], source.places[at + len(wanted.text) - 1] + 1
    # Signs at the ends of the quote, such as a full stop, belong to the passage.
    before, after = wanted.places[0], len(quote) - 1 - wanted.places[-1]
    while before and start and _is_sign(text[start - 1]):
        start, before = start - 1, before - 1
    while after and end < len(text) and _is_sign(text[end]):
        end, after = end + 1, after - 1
    return Passage(quote=text[start:end], start=start, end=end)


def distinct(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts in order, without repeated ids."""
    return list({fact.id: fact for fact in facts}.values())


def not_offered(facts: Iterable[Fact], offered: Iterable[str]) -> tuple[Fact, ...]:
    """Return the facts whose passage is not within one that was offered, nor is one of these all but theirs.

    A footnote behind a sentence makes no other one of it.
    """
    known = [_statement(one) for one in offered]
    return tuple(
        fact
        for fact in facts
        if not any(
            _same(_statement(fact.source.quote if fact.source else fact.details), one) for one in known
        )
    )


def _same(new: str, offered: str) -> bool:
    return bool(new) and (new in offered or (offered in new and len(offered) >= _SAME * len(new)))


def _statement(passage: str) -> str:
    """Return letters and digits of a passage, without the numbers of its footnotes."""
    return _letters(_FOOTNOTES.sub("", passage)).text


def shortfall(facts: Sequence[Fact]) -> list[str]:
    """Return a warning if there are too few facts for a lesson; none are made up."""
    if len(facts) >= MIN_FACTS:
        return []
    count = "no fact" if not facts else "1 fact" if len(facts) == 1 else f"{len(facts)} facts"
    return [f"the material supports {count}, fewer than {MIN_FACTS}; add more material for a fuller lesson"]


_MARKS: Final = re.compile(r"\[(?:\d{1,3}|[a-z])\]|\]\([^()\s]++\)")
"""Reference marks, and addresses of Markdown links."""


class _Letters(NamedTuple):
    """The letters and digits of a text, with their offsets in it."""

    text: str
    places: Sequence[int]


@lru_cache(maxsize=8)
def _letters(text: str) -> _Letters:
    # Marks become blanks, which keeps every offset.
    plain = _MARKS.sub(lambda match: " " * len(match[0]), text)
    letters: list[str] = []
    places: list[int] = []
    for at, char in enumerate(plain):
        folded = char.lower() if char.isascii() else unicodedata.normalize("NFKD", char).casefold()
        # A free-standing accent becomes a blank with a mark, which is no letter.
        for each in folded if folded[:1] != " " else "":
            if each.isalnum() or unicodedata.category(each)[0] == "M":
                letters.append(each)
                places.append(at)
    return _Letters("".join(letters), places)


def _is_sign(char: str) -> bool:
    return not (char.isalnum() or char.isspace())


def fact_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return the differences of facts as people read them: concepts and details; ids and passages follow.

    Those of earlier proposals are there to choose, too.
    """
    return [_in_words(one) for one in compare(_readable(before), _readable(after))]


def _readable(data: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in data.items() if isinstance(value, str | int | float)}
    facts = {fact["id"]: fact for fact in (*data.get("facts", ()), *data.get("earlier", ()))}
    counts = Counter(str(fact["concept"]) for fact in facts.values())
    named = [
        {
            # Two facts about one thing are told apart by what they say.
            "id": concept if counts[concept] == 1 else f"{concept}: {fact['details']}",
            "text": fact["details"],
        }
        for fact in facts.values()
        for concept in [str(fact["concept"])]
    ]
    return {**plain, "facts": named}


def _in_words(difference: Difference) -> Difference:
    """Return a difference under the concept of its fact, with the details as its values."""
    path = difference["path"].removesuffix(".text")
    name = path.removeprefix("facts.")
    sides = {
        side: value["text"] if isinstance(value, Mapping) else value
        for side in ("before", "after")
        if (value := difference.get(side)) is not None
    }
    text = difference["text"].replace(difference["path"], name, 1)
    return cast("Difference", {**difference, "path": path, "text": text, **sides})
