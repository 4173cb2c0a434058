"""Answers made of statements, each checked by look-up in the campaigns that it cites.

A statement names what it claims: campaigns, companies, offers, figures and days. Each claim must be in a
cited campaign or in a count of this conversation, and every number of its text must be one of these.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.figures import figures, number, numbers

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?")
_MONEY_OR_SHARE: Final = re.compile(
    r"[$€£] ?(\d++(?:[.,]\d++)*)|(?<![\d.,])(\d++(?:[.,]\d++)*) ?(?:%|percent)"
)
_UNPROVEN: Final = frozenset({"id", "capture_date", "image_s3_urls"})
"""Fields whose numbers prove no figure: `c-0012` is not 12 dollars."""
MAX_STATEMENTS: Final = 40


class Statement(BaseModel):
    """A sentence or line of the answer, with what proves it."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=4_000)
    campaigns: list[str] = Field(
        default=[], max_length=50, description="Ids of the campaigns, such as c-0012"
    )
    companies: list[str] = Field(
        default=[], max_length=50, description="Companies or brands that the text names"
    )
    offers: list[str] = Field(default=[], max_length=50, description="Offers, word for word")
    figures: list[float] = Field(
        default=[], max_length=100, description="Counts, spends and volumes in the text"
    )
    dates: list[str] = Field(default=[], max_length=50, description="Days or months, such as 2026-03-01")


class Answer(BaseModel):
    """The answer to the person."""

    model_config = ConfigDict(extra="forbid")

    statements: list[Statement] = Field(min_length=1, max_length=MAX_STATEMENTS)
    suggestions: list[str] = Field(default=[], max_length=5, description="Questions that could follow")


@dataclass(frozen=True)
class SearchEvidence:
    """The results of a conversation's searches."""

    campaigns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By id."""
    counts: frozenset[float] = frozenset()
    """Counts, spends and volumes of results and groups."""
    words: frozenset[str] = frozenset()
    """Values of groups and filters, folded: companies, months, days."""
    library: frozenset[str] = frozenset()
    """Companies of the library, returned or not."""


def evidence_of(outputs: Sequence[Mapping[str, Any]]) -> SearchEvidence:
    """Return what search results prove."""
    campaigns = {one["id"]: one for output in outputs for one in output.get("campaigns", ())}
    counts: set[float] = set()
    words: set[str] = set()
    for output in outputs:
        counts.add(float(output.get("count", 0)))
        for row in output.get("aggregation", {}).get("groups", ()):
            counts |= {float(row["count"]), float(row["spend"]), float(row["volume"])}
            words.add(_plain(str(row["value"])))
        words |= set(_filter_words(output.get("detectedFilters", {})))
    library = {name for output in outputs for name in output.get("libraryCompanies", ())}
    return SearchEvidence(campaigns, frozenset(counts), frozenset(words), frozenset(library))


def _filter_words(filters: Mapping[str, Any]) -> Iterator[str]:
    for value in filters.values():
        if isinstance(value, Mapping):
            yield from _filter_words(value)
        elif isinstance(value, list):
            yield from (_plain(str(one)) for one in value)
        elif value is not None:
            yield _plain(str(value))


def problems(statement: Statement, evidence: SearchEvidence) -> list[str]:
    """Return what a statement claims without support; empty for a supported one."""
    cited = {name: evidence.campaigns[name] for name in statement.campaigns if name in evidence.campaigns}
    wrong = [f"campaign {name!r} was not returned" for name in statement.campaigns if name not in cited]
    pool = cited or evidence.campaigns
    wrong += [
        f"company {one!r} is not among them"
        for one in statement.companies
        if not _is_company(one, pool, evidence)
    ]
    wrong += [f"offer {one!r} is not among them" for one in statement.offers if not _is_offer(one, pool)]
    wrong += [
        f"figure {one:g} was not returned" for one in statement.figures if not _is_figure(one, pool, evidence)
    ]
    wrong += [
        f"date {one!r} was not returned" for one in statement.dates if not _is_date(one, pool, evidence)
    ]
    return wrong + list(_text_problems(statement, pool, evidence))


def _text_problems(
    statement: Statement, pool: Mapping[str, Mapping[str, Any]], evidence: SearchEvidence
) -> Iterator[str]:
    """Yield what the words claim, whatever the fields beside them name."""
    text = statement.text
    days = _DATE.findall(text)
    yield from (f"date {day!r} was not returned" for day in days if not _is_date(day, pool, evidence))
    every = {one[key] for one in evidence.campaigns.values() for key in ("company", "brand") if one[key]}
    named = _names_in(text, every | evidence.library)
    yield from (
        f"company {name!r} is not among them" for name in named if not _is_company(name, pool, evidence)
    )
    for known_id in evidence.campaigns:
        text = text.replace(known_id, " ")
    text = _DATE.sub(" ", text)
    proven = _proven_numbers(pool, evidence)
    marked = [first or second for first, second in _MONEY_OR_SHARE.findall(text)]
    yield from (f"figure {part!r} was not returned" for part in marked if not _is_known(part, proven))
    listed = max(len(pool), len(statement.companies), len(statement.offers))
    known = proven | _numbers_of_days(pool, evidence) | {float(n) for n in range(1, listed + 1)}
    yield from (f"number {part!r} was not returned" for part in figures(text) if not _is_known(part, known))


def _names_in(text: str, names: Iterable[str]) -> list[str]:
    """Return the names in a text, but none that is only part of a longer one, as a brand may be."""
    words = f" {_words(text)} "
    contained: list[str] = []
    for name in sorted(names, key=len, reverse=True):
        if (wanted := f" {_words(name)} ") in words:
            contained.append(name)
            words = words.replace(wanted, " | ")
    return sorted(contained)


def _words(text: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())


def _is_company(name: str, pool: Mapping[str, Mapping[str, Any]], evidence: SearchEvidence) -> bool:
    names = {_plain(one[key]) for one in pool.values() for key in ("company", "brand")}
    return _plain(name) in names | evidence.words


def _is_offer(text: str, pool: Mapping[str, Mapping[str, Any]]) -> bool:
    wanted = _plain(text)
    return any(wanted and wanted in _plain(one["offer"]) for one in pool.values())


def _is_figure(value: float, pool: Mapping[str, Mapping[str, Any]], evidence: SearchEvidence) -> bool:
    own = {float(one[key]) for one in pool.values() for key in ("volume", "spend") if one[key] is not None}
    offers = {value for one in pool.values() for value in numbers(one["offer"])}
    return value in evidence.counts | own | offers | {float(len(pool))}


def _is_date(text: str, pool: Mapping[str, Mapping[str, Any]], evidence: SearchEvidence) -> bool:
    days = {str(one["capture_date"]) for one in pool.values()}
    return bool(text) and (any(day.startswith(text) for day in days) or _plain(text) in evidence.words)


def _proven_numbers(pool: Mapping[str, Mapping[str, Any]], evidence: SearchEvidence) -> set[float]:
    """Return the figures of campaigns and counts."""
    texts = [str(value) for one in pool.values() for key, value in one.items() if key not in _UNPROVEN]
    return {value for text in texts for value in numbers(text)} | evidence.counts


def _numbers_of_days(pool: Mapping[str, Mapping[str, Any]], evidence: SearchEvidence) -> set[float]:
    texts = [*(str(one["capture_date"]).replace("-", " ") for one in pool.values()), *evidence.words]
    return {value for text in texts for value in numbers(text)}


def _is_known(text: str, known: set[float]) -> bool:
    value = number(text)
    return value is not None and value in known


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .")
