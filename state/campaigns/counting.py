"""Claims about many campaigns, recomputed from the counts of filters, words and groups."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from callsheet.state.campaigns.evidence import (
    FIELDS,
    SINGLE,
    Campaign,
    CampaignSet,
    Result,
    SearchEvidence,
    Values,
    fold,
    has_value,
)
from callsheet.state.campaigns.mentions import Mention, by_dimension
from callsheet.state.campaigns.quantities import Quantity
from callsheet.state.campaigns.reading import plain_words

_SPEND: Final = re.compile(
    r"\b(?:spen[dt]\w*|budget|cost|dollars?|ausg\w+|gast\w+|dépens\w+)\b|[$€£]", re.IGNORECASE
)
_VOLUME: Final = re.compile(r"\b(?:volumes?|pieces|impressions)\b", re.IGNORECASE)
_REST: Final = re.compile(r"\b(?:others?|remaining|rest|übrigen|demás|autres|outros)\b", re.IGNORECASE)
_AVERAGE: Final = re.compile(r"\b(?:averag\w+|mean|durchschnitt\w*|promedio|moyenne)\b", re.IGNORECASE)
_RANGE: Final = re.compile(r"\b(?:rang\w+|between|from|zwischen|von|entre|de)\b", re.IGNORECASE)
_TOTAL: Final = re.compile(r"\b(?:total|altogether|overall|insgesamt|en tout|suman?)\b", re.IGNORECASE)
_DIMENSION_WORDS: Final = {
    "channel": re.compile(r"\b(?:channels?|kanäle?n?|canal(?:es)?|canaux)\b", re.IGNORECASE),
    "company": re.compile(
        r"\b(?:compan(?:y|ies)|firmen|unternehmen|empresas?|entreprises?)\b", re.IGNORECASE
    ),
    "sentiment": re.compile(r"\b(?:sentiments?|moods?|tones?|stimmungen)\b", re.IGNORECASE),
    "product": re.compile(r"\b(?:products?|produkte|productos?|produits?)\b", re.IGNORECASE),
    "visual_style": re.compile(r"\b(?:styles?|stile|estilos?)\b", re.IGNORECASE),
    "month": re.compile(r"\b(?:months?|monate?n?|mes(?:es)?|mois)\b", re.IGNORECASE),
}
"""Words for the dimensions themselves."""
_TIMES: Final = re.compile(r"\b(?:times|twice|double|triple)\b|\dx\b", re.IGNORECASE)
_DIFFERENCE: Final = re.compile(
    r"\b(?:trail(?:s|ed)?|leads?|gap|lags?|by(?= \S+(?: campaigns?| ads?)?\W*$)"
    r"|more|fewer|less|difference|spread|ahead|behind|mehr|weniger|más|menos|plus|moins)\b",
    re.IGNORECASE,
)
_SUCH: Final = re.compile(r"\b(?:such|these|those|them|match\w*)\b", re.IGNORECASE)
_ABOUT: Final = 2.5
"""Percent by which a share may differ from the word for it."""
_NONE: Final[Values] = {}
_PLAIN_TEXT: Final = """
a about ad ads an any are campaign campaigns copy filter filters for found has have i in is it library match
matched matches matching mention mentions near no none nothing of offer offers one or query result results
returned say says search searches so that the them there these this those to was were with word words your
"""
_PLAIN: Final = frozenset(_PLAIN_TEXT.split())
"""Words that say of a search only that it has no match."""


def match_words(count: int) -> str:
    """Return how many campaigns match, as the beginning of a sentence."""
    return "1 campaign matches" if count == 1 else f"{count} campaigns match"


def explains(evidence: SearchEvidence, mentions: Sequence[Mention], one: Quantity, text: str) -> bool:
    """Return whether a figure is a count, spend or volume of what is named, or follows from such figures."""
    included, excluded = by_dimension(mentions), by_dimension(mentions, negated=True)
    if one.is_rank:
        return any(one.fits(rank) for rank in _ranks(evidence, mentions, text))
    if one.bound in {"more", "less"}:
        exact = (
            [*_shares(evidence, included, excluded)]
            if one.is_share
            else [measure(each, text) for each in evidence.sets if each.fits(included, excluded)]
        )
        return bool(exact) and one.fits(max(exact))
    if not one.is_share and any(
        map(one.fits, (float(part) for part, _ in _parts(evidence, included, excluded)))
    ):
        return True
    # A figure that a field declares may be a share or a count.
    shares = _shares(evidence, included, excluded) if one.is_share else ()
    direct = (
        ()
        if one.is_share and one.span != (0, 0)
        else (each for part in evidence.sets if part.fits(included, excluded) for each in figures_of(part))
    )
    return any(map(one.fits, itertools.chain(shares, direct))) or follows(evidence, mentions, one, text)


def follows(evidence: SearchEvidence, mentions: Sequence[Mention], one: Quantity, text: str) -> bool:
    """Return whether a figure follows from several figures of what is named."""
    included, excluded = by_dimension(mentions), by_dimension(mentions, negated=True)
    is_declared = one.is_share and one.span == (0, 0)
    if one.is_share and not is_declared:
        return any(map(one.fits, _shares(evidence, included, excluded)))
    derived = _combinations(evidence, included, excluded, "" if is_declared else text)
    return any(map(one.fits, itertools.chain(derived, _of_values(evidence, mentions, text))))


def _ranks(evidence: SearchEvidence, mentions: Sequence[Mention], text: str) -> Iterator[float]:
    """Yield the places of the named values in their tables, the largest first."""
    for one in mentions:
        table = _table_of(evidence, mentions, one.dimension)
        if one.value in table:
            own = measure(table[one.value], text)
            yield 1.0 + sum(measure(row, text) > own for row in table.values())


def _table_of(evidence: SearchEvidence, mentions: Sequence[Mention], name: str) -> Mapping[str, CampaignSet]:
    """Return the table of a dimension for what is named beside it; empty if there is none."""
    others = [each for each in mentions if each.dimension != name]
    table = evidence.table(name, by_dimension(others, negated=True), by_dimension(others))
    return table if any(row.group == name for row in table.values()) else {}


def _of_values(evidence: SearchEvidence, mentions: Sequence[Mention], text: str) -> Iterator[float]:
    """Yield how many values are named or occur, and the least, greatest and mean of their table."""
    yield from (float(len(values)) for values in by_dimension(mentions).values() if len(values) > 1)
    for name in _named_dimensions(text):
        if table := _table_of(evidence, [one for one in mentions if one.dimension != name], name):
            measured = [measure(row, text) for row in table.values()]
            yield float(len(measured))
            yield from (min(measured), max(measured)) if _RANGE.search(text) else ()
            yield from [sum(measured) / len(measured)] if _AVERAGE.search(text) else ()
            yield from [max(measured) - min(measured)] if _DIFFERENCE.search(text) else ()
            yield from [sum(measured)] if name in SINGLE and _TOTAL.search(text) else ()
        complete = (one.campaigns for one in evidence.results if one.is_complete and name in FIELDS)
        yield from (float(len({fold(str(one[FIELDS[name]])) for one in each})) for each in complete)


@lru_cache(maxsize=64)
def _named_dimensions(text: str) -> tuple[str, ...]:
    """Return the dimensions that a text names themselves; it is asked for each figure of the text."""
    return tuple(name for name, word in _DIMENSION_WORDS.items() if word.search(text))


def figures_of(one: CampaignSet) -> list[float]:
    """Return the count of a set, and its spend and volume where they are known."""
    return [each for each in (one.count, one.spend, one.volume) if each is not None]


def _combinations(evidence: SearchEvidence, included: Values, excluded: Values, text: str) -> Iterator[float]:
    """Yield sums and differences of named values, what remains of a larger, averages and ratios."""
    for name in SINGLE & included.keys():
        rows = _named_rows(evidence, name, included, excluded)
        if len(rows) > 1:
            yield from (sum(one) for one in zip(*map(figures_of, rows), strict=False))
        if len(rows) == 2:  # noqa: PLR2004 -- a difference has two sides
            yield from _comparisons(rows[0].count, rows[1].count, text)
    for part, larger in evidence.nested:
        is_rest = part.fits(included, excluded) and _REST.search(text)
        if is_rest or (excluded and part.fits({**included, **excluded}, _NONE)):
            yield larger.count - part.count
    if _AVERAGE.search(text):
        fitting = [one for one in evidence.sets if one.count and one.fits(included, excluded)]
        yield from (round(one.spend / one.count, 2) for one in fitting if one.spend is not None)


def _comparisons(first: float, second: float, text: str) -> Iterator[float]:
    """Yield the difference and the ratio of two counts, if the text speaks of one."""
    if not text or _DIFFERENCE.search(text):
        yield abs(first - second)
    if _TIMES.search(text) and first and second:
        yield round(max(first, second) / min(first, second), 1)


def _shares(evidence: SearchEvidence, included: Values, excluded: Values) -> Iterator[float]:
    """Yield the shares in percent of what is named in the larger sets around it."""
    for part, larger in evidence.nested:
        if larger.count and part.fits(included, excluded):
            yield 100 * part.count / larger.count
            if larger.spend and part.spend is not None:
                yield 100 * part.spend / larger.spend
        if larger.count and excluded and part.fits({**included, **excluded}, _NONE):
            yield 100 * (larger.count - part.count) / larger.count
    yield from (100 * part / every for part, every in _parts(evidence, included, excluded))
    for name in SINGLE & included.keys():
        rows = _named_rows(evidence, name, included, excluded)
        larger_sets = [larger for part, larger in evidence.nested if part in rows and larger.count]
        if len(rows) > 1:
            yield from (100 * sum(one.count for one in rows) / larger.count for larger in larger_sets)


def _parts(evidence: SearchEvidence, included: Values, excluded: Values) -> Iterator[tuple[int, int]]:
    """Yield how many campaigns of a complete result have what is named, and how many it has."""
    for result in evidence.results if included or excluded else ():
        if result.is_complete and result.campaigns:
            yield sum(_is_named(one, included, excluded) for one in result.campaigns), len(result.campaigns)


def _is_named(one: Campaign, included: Values, excluded: Values) -> bool:
    return all(
        any(has_value(one, name, value) for value in values) for name, values in included.items()
    ) and not (any(has_value(one, name, value) for name, values in excluded.items() for value in values))


def _named_rows(evidence: SearchEvidence, name: str, included: Values, excluded: Values) -> list[CampaignSet]:
    """Return the sets of the named values of a dimension; none if one of them is unknown."""
    table = evidence.table(name, excluded, included)
    return [table[value] for value in sorted(included[name])] if table else []


def is_all(evidence: SearchEvidence, mentions: Sequence[Mention], text: str, *, shown: bool = False) -> bool:
    """Return whether all campaigns of a result have what is named.

    Its filters say so, or every campaign was returned and has it, or a row of its counts has all of them.
    With `shown` it is about the campaigns of the last result that the person sees, and may name nothing.
    """
    included, excluded = by_dimension(mentions), by_dimension(mentions, negated=True)
    if shown and not included and not excluded:
        return True
    results = evidence.results[-1:] if shown else evidence.results
    if not included and not excluded:
        return any(one.set.query and one.set.count and _has_words(text, one.set.query) for one in results)
    rows = (pair for pair in evidence.nested if pair[0].group and pair[0].fits(included, excluded))
    return any(_all_have(one, included, excluded, shown=shown) for one in results) or any(
        part.count == larger.count for part, larger in rows
    )


def _all_have(result: Result, included: Values, excluded: Values, *, shown: bool) -> bool:
    if result.set.count and result.set.fits(included, excluded):
        return True
    campaigns = result.campaigns if shown or result.is_complete else ()
    return bool(campaigns) and all(_is_named(one, included, excluded) for one in campaigns)


def is_none(evidence: SearchEvidence, mentions: Sequence[Mention], text: str) -> bool:
    """Return whether a filter or a word search shows that no campaign has what is named."""
    plain, denied = by_dimension(mentions), by_dimension(mentions, negated=True)
    named: Values = {
        name: plain.get(name, frozenset()) | denied.get(name, frozenset()) for name in {*plain, *denied}
    }
    if not named:
        last = [one.set for one in evidence.results[-1:] if not one.set.count]
        return any(
            _is_only_about(text, one.query) and (not one.emptied_by or _SUCH.search(text)) for one in last
        )
    empty = (one for one in evidence.sets if not one.count and _covers(one, named))
    if any(_is_of(one, named, text) for one in empty):
        return True
    excluding = (one.set for one in evidence.results if one.set.count)
    if denied and any(
        all(values <= one.excluded.get(name, frozenset()) for name, values in denied.items())
        for one in excluding
    ):
        return True
    complete = [one for one in evidence.results if one.is_complete and one.campaigns]
    if any(not _some_have(one, denied or named) for one in complete):
        return True
    return any(
        table and not values & table.keys() and any(row.group for row in table.values())
        for name, values in named.items()
        for table in [evidence.table(name, _NONE, {})]
    )


def _is_of(one: CampaignSet, named: Values, text: str) -> bool:
    """Return whether an empty set is of what is named: by its values, or its words."""
    if one.query and not _has_words(text, one.query):
        return False
    # A set with further conditions says nothing of campaigns without them.
    is_complete = one.included.keys() <= {*named, "offer"} or _SUCH.search(text)
    return bool(is_complete) and all(one.has(name, values) for name, values in named.items())


def _covers(one: CampaignSet, named: Values) -> bool:
    """Return whether the filters that emptied a set by themselves are named."""
    emptied = {{"date_range": "month", "has_offer": "offer"}.get(name, name) for name in one.emptied_by}
    return emptied <= named.keys()


def _some_have(result: Result, named: Values) -> bool:
    return any(
        all(any(has_value(one, name, value) for value in values) for name, values in named.items())
        for one in result.campaigns
    )


def _is_only_about(text: str, query: str) -> bool:
    """Return whether a text names nothing but the words of a query."""
    return {*plain_words(text).split()} <= {*query.split(), *_PLAIN}


def _has_words(text: str, query: str) -> bool:
    words = {*plain_words(text).split()}
    return any(word in words for word in query.split())


def is_majority(evidence: SearchEvidence, mentions: Sequence[Mention]) -> bool:
    """Return whether more than half of a larger set have what is named."""
    included, excluded = by_dimension(mentions), by_dimension(mentions, negated=True)
    return bool(included or excluded) and any(share > 50 for share in _shares(evidence, included, excluded))  # noqa: PLR2004


def is_fraction(evidence: SearchEvidence, mentions: Sequence[Mention], percent: float) -> bool:
    """Return whether what is named has about this share of a larger set."""
    included, excluded = by_dimension(mentions), by_dimension(mentions, negated=True)
    return any(abs(share - percent) <= _ABOUT for share in _shares(evidence, included, excluded))


def is_largest(evidence: SearchEvidence, mentions: Sequence[Mention], text: str, *, sign: int = 1) -> bool:
    """Return whether the first value that is named has the largest row of its table; the smallest for -1."""
    for one in mentions:
        others = [each for each in mentions if each.dimension != one.dimension]
        table = evidence.table(one.dimension, by_dimension(others, negated=True), by_dimension(others))
        if one.value in table and any(row.group == one.dimension for row in table.values()):
            best = max(sign * measure(row, text) for row in table.values())
            if sign * measure(table[one.value], text) == best:
                return True
    return False


def is_more(
    evidence: SearchEvidence, mentions: Sequence[Mention], order: Sequence[Mention], text: str, *, sign: int
) -> bool:
    """Return whether the counts of values of one dimension fall in this order; rise for -1."""
    name = order[0].dimension
    others = [one for one in mentions if one.dimension != name]
    values = frozenset(one.value for one in order)
    table = evidence.table(name, by_dimension(others, negated=True), {**by_dimension(others), name: values})
    if not table or any(one.dimension != name for one in order):
        return False
    counts = [sign * measure(table[one.value], text) for one in order]
    return all(first > second for first, second in itertools.pairwise(counts))


def amount_name(text: str) -> str:
    """Return the field of a campaign that a text is about; empty if it may be another."""
    return "spend" if _SPEND.search(text) else "volume" if _VOLUME.search(text) else ""


def measure(one: CampaignSet, text: str) -> float:
    """Return the figure that a comparison is about."""
    if _SPEND.search(text):
        return one.spend or 0
    return (one.volume or 0) if _VOLUME.search(text) else one.count
