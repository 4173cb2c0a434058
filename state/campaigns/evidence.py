"""Evidence of searches: sets of campaigns with their conditions and counts, and the campaigns themselves.

Filters, words and groups give a set whose size is known. A search by meaning gives its nearest campaigns:
they can be cited, but they prove no count.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any, Final

from callsheet.state.campaigns.reading import plain_words

SINGLE: Final = frozenset({"channel", "company", "product", "sentiment", "visual_style", "month"})
"""Dimensions with one value for each campaign, so that counts of several values can be added."""
FIELDS: Final = {
    "channel": "channel",
    "product": "primary_product",
    "sentiment": "imagery_sentiment",
    "visual_style": "imagery_visual_style",
}
"""Fields of a campaign by dimension."""
Campaign = Mapping[str, Any]
Values = Mapping[str, frozenset[str]]
"""Folded values by dimension; `offer` is with or without, `month` has months such as 2026-03."""


PREFIX: Final = 5
"""Letters by which forms of a word are the same."""
_EMPTIED: Final = re.compile(r"(?<!\d)\d++ without (\w++)")
_UNPROVEN: Final = frozenset({"id", "capture_date", "image_s3_urls"})
"""Fields whose numbers prove no figure: `c-0012` is not 12 dollars."""


@dataclass(frozen=True)
class CampaignSet:
    """The campaigns that meet some conditions, and what is known of them together."""

    included: Values
    excluded: Values
    count: float
    spend: float | None = None
    volume: float | None = None
    group: str = ""
    """Dimension of a row in a table of counts; empty for a whole result."""
    query: str = ""
    """Words that were searched for, folded."""
    days: tuple[str, str] = ("", "")
    """First and last day of a range."""
    emptied_by: frozenset[str] = frozenset()
    """Filters of an empty set without each of which it would have campaigns."""

    @property
    def conditions(self) -> frozenset[tuple[str, object]]:
        """All conditions, to compare sets by."""
        named = {(name, values) for name, values in self.included.items()}
        return frozenset(
            {
                *named,
                *((f"not {name}", values) for name, values in self.excluded.items()),
                *((("query", self.query),) if self.query else ()),
                *((("days", self.days),) if any(self.days) else ()),
            }
        )

    def contains(self, other: "CampaignSet") -> bool:
        """Return whether `other` has all conditions of this set, or narrower ones, and further ones."""
        return (
            self.conditions != other.conditions
            and all(
                other.included.get(name, values | {""}) <= values for name, values in self.included.items()
            )
            and all(values <= other.excluded.get(name, frozenset()) for name, values in self.excluded.items())
            and self.query in {"", other.query}
            and self.days in {("", ""), other.days}
        )

    def fits(self, included: Values, excluded: Values) -> bool:
        """Return whether the set is of campaigns with these values, and has no other group."""
        if self.group and not self.included[self.group] <= included.get(self.group, frozenset()):
            return False
        return all(self.has(name, values) for name, values in included.items()) and all(
            values <= self.excluded.get(name, frozenset())
            or (name == "offer" and self.has(name, _opposite(values)))
            for name, values in excluded.items()
        )

    def has(self, name: str, values: frozenset[str]) -> bool:
        """Return whether all campaigns of the set have one of these values."""
        if name == "month" and name not in self.included:
            return _is_within(self.days, values)
        own = self.included.get(name)
        return own is not None and own <= values


@dataclass(frozen=True)
class Result:
    """One result: its set, and the campaigns of it that were returned."""

    set: CampaignSet
    campaigns: Sequence[Campaign]
    is_ranked: bool

    @property
    def is_complete(self) -> bool:
        """True if every campaign of the set was returned."""
        return not self.is_ranked and len(self.campaigns) == self.set.count


@dataclass(frozen=True)
class SearchEvidence:
    """The results of a conversation's searches."""

    campaigns: Mapping[str, Campaign] = field(default_factory=dict)
    """By id."""
    results: Sequence[Result] = ()
    rows: Sequence[CampaignSet] = ()
    """Rows of tables of counts."""
    library: frozenset[str] = frozenset()
    """Companies of the library, returned or not."""

    @cached_property
    def sets(self) -> tuple[CampaignSet, ...]:
        """All sets whose counts are known."""
        return (*(one.set for one in self.results if not one.is_ranked), *self.rows)

    @cached_property
    def nested(self) -> tuple[tuple[CampaignSet, CampaignSet], ...]:
        """Pairs of a set and a larger one that contains it."""
        return tuple((a, b) for a, b in permutations(self.sets, 2) if b.contains(a))

    @cached_property
    def companies(self) -> Mapping[str, str]:
        """Companies of the library and brands of the campaigns, each with its company, folded."""
        sets = [*(one.set for one in self.results), *self.rows]
        named = {value for one in sets for value in one.included.get("company", ())}
        names = {name: name for name in (*named, *self.library)}
        for one in self.campaigns.values():
            names |= {one["company"]: one["company"]}
            if one["brand"]:
                names.setdefault(one["brand"], one["company"])
        return {name: fold(company) for name, company in names.items()}

    @cached_property
    def _stems(self) -> dict[str, frozenset[str]]:
        return {}

    def stems_of(self, campaign: Campaign) -> frozenset[str]:
        """Return the beginnings of all words of a campaign."""
        return self._stems.get(campaign["id"]) or self._stems.setdefault(
            campaign["id"], stems([text_of(campaign)])
        )

    @cached_property
    def named_stems(self) -> frozenset[str]:
        """The beginnings of the words in companies, filters and queries."""
        sets = [*(one.set for one in self.results), *self.rows]
        filters = [value for one in sets for each in one.included.values() for value in each]
        return stems([*self.companies, *filters, *(one.set.query for one in self.results)])

    def table(self, dimension: str, excluded: Values, included: Values) -> Mapping[str, CampaignSet]:
        """Return the sets of single values of a dimension that are otherwise of the same campaigns."""
        tables: dict[object, dict[str, CampaignSet]] = {}
        for one in self.sets:
            values = one.included.get(dimension, frozenset())
            rest = CampaignSet(
                _without(one.included, dimension), one.excluded, 0, query=one.query, days=one.days
            )
            if len(values) == 1 and rest.fits(_without(included, dimension), excluded):
                tables.setdefault(rest.conditions, {})[next(iter(values))] = one
        wanted = included.get(dimension, frozenset())
        fitting = [table for table in tables.values() if wanted <= table.keys()]
        return max(fitting, key=len, default={})


def evidence_of(outputs: Sequence[Mapping[str, Any]]) -> SearchEvidence:
    """Return what search results prove."""
    campaigns = {one["id"]: one for output in outputs for one in output.get("campaigns", ())}
    library = {name for output in outputs for name in output.get("libraryCompanies", ())}
    results = [_result(output) for output in outputs]
    rows = [row for output, result in zip(outputs, results, strict=True) for row in _rows(output, result)]
    return SearchEvidence(campaigns, results, rows, frozenset(library))


def has_value(campaign: Campaign, dimension: str, value: str) -> bool:
    """Return whether a campaign has a folded value of a dimension."""
    match dimension:
        case "company":
            return value in {fold(campaign["company"]), fold(campaign["brand"])}
        case "value_prop":
            return value in {fold(one) for one in campaign["key_value_props"]}
        case "month":
            return str(campaign["capture_date"]).startswith(value)
        case "offer":
            return (value == "with") == bool(campaign["offer"])
    own = fold(str(campaign[FIELDS[dimension]] or ""))
    return own == value


def text_of(campaign: Campaign) -> str:
    """Return all words of a campaign."""
    values = [value for key, value in campaign.items() if key not in _UNPROVEN and value]
    return " ".join(" ".join(value) if isinstance(value, list) else str(value) for value in values)


def stems(texts: Iterable[str]) -> frozenset[str]:
    """Return the beginnings of all words of the texts, by which their forms are compared."""
    return frozenset(word[:PREFIX] for text in texts for word in plain_words(text).split())


def fold(text: str) -> str:
    """Return the words of a value in lower case; the last one without the s of a plural."""
    return plain_words(text).removesuffix("s")


def _result(output: Mapping[str, Any]) -> Result:
    filters, campaigns = output.get("detectedFilters", {}), output.get("campaigns", ())
    days = filters.get("date_range") or {}
    is_ranked = output.get("by") == "meaning"
    is_complete = not is_ranked and len(campaigns) == output["count"]
    conditions = CampaignSet(
        dict(_conditions(filters)),
        dict(_conditions(filters.get("exclude", {}))),
        float(output["count"]),
        _sum(campaigns, "spend") if is_complete else None,
        _sum(campaigns, "volume") if is_complete else None,
        query=plain_words(str(output.get("query", ""))),
        days=(days.get("start") or "", days.get("end") or ""),
        emptied_by=frozenset(
            match[1] for note in output.get("notes", ()) if (match := _EMPTIED.fullmatch(note))
        ),
    )
    return Result(conditions, campaigns, is_ranked)


def _rows(output: Mapping[str, Any], result: Result) -> Iterator[CampaignSet]:
    aggregation = output.get("aggregation") or {}
    by, parent = aggregation.get("groupBy", ""), result.set
    for row in aggregation.get("groups", ()):
        value = str(row["value"]) if by == "month" else fold(str(row["value"]))
        yield CampaignSet(
            {**parent.included, by: frozenset({value})},
            parent.excluded,
            float(row["count"]),
            float(row["spend"]),
            float(row["volume"]),
            group=by,
            days=parent.days,
        )


def _conditions(filters: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    for name, values in filters.items():
        if isinstance(values, list):
            yield name, frozenset(fold(str(one)) for one in values)
    if (has_offer := filters.get("has_offer")) is not None:
        yield "offer", frozenset({"with" if has_offer else "without"})


def _sum(campaigns: Iterable[Campaign], name: str) -> float:
    return float(sum(one[name] or 0 for one in campaigns))


def _without(values: Values, dimension: str) -> Values:
    return {name: each for name, each in values.items() if name != dimension}


def _opposite(values: frozenset[str]) -> frozenset[str]:
    """Return the other one of with and without."""
    return frozenset({"with", "without"}) - values


def _is_within(days: tuple[str, str], months: frozenset[str]) -> bool:
    """Return whether a range of days lies in the months, or between the first and the last of them."""
    return all(day.startswith(tuple(months)) for day in days)
