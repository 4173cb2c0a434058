"""Claims of equality, of a ratio in words and of a trend, each recomputed from counts."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from callsheet.state.campaigns.counting import measure
from callsheet.state.campaigns.evidence import Campaign, CampaignSet, SearchEvidence
from callsheet.state.campaigns.mentions import Mention, by_dimension

_TIMES: Final = {
    2.0: re.compile(r"\b(?:twice|double|doppelt|deux fois|el doble|dos veces|dwa razy)\b", re.IGNORECASE),
    3.0: re.compile(r"\b(?:three times|triple|dreimal|trois fois|tres veces|trzy razy)\b", re.IGNORECASE),
    4.0: re.compile(r"\b(?:four times|viermal|quatre fois|cuatro veces)\b", re.IGNORECASE),
}
_ABOUT: Final = 0.15
"""Share by which a ratio may differ from the word for it."""
_EQUAL: Final = re.compile(
    r"\b(?:(?:the )?same (?:number|amount|count|share|spend|volume)|tied|equally|level with|just as many"
    r"|gleich (?:viele|viel|oft)|ebenso viele|autant|le même nombre|el mismo número|igual de|tyle samo)\b",
    re.IGNORECASE,
)
_UP: Final = (
    r"(?:ris(?:e|es|en|ing)|rose|gr(?:ow|ows|own|owing|ew)|increas\w+|climb\w*|soar\w*|doubl(?:ed|ing)"
    r"|more and more|(?:an )?upward trend|gestiegen|steig(?:t|en)|stieg(?:en)?|gewachsen|wächst|verdoppelt"
    r"|augment\w+|progress\w+|crec\w+|aument\w+|duplic\w+|rosn\w+)"
)
_DOWN: Final = (
    r"(?:fall(?:s|en|ing)?|fell|declin\w+|decreas\w+|shr[aiu]nk\w*|dropp\w+|fewer and fewer|less and less"
    r"|(?:a )?downward trend|gesunken|sinkt|gefallen|diminu\w+|baiss\w+|disminu\w+|spad\w+)"
)
_TIME: Final = (
    r"(?:since|over (?:the|time)|year|months?|quarter|steadily|trend|seit|jahr|monat\w*|depuis|mois|desde"
    r"|mes(?:es)?|od)"
)
_AMOUNT: Final = (
    r"(?:campaigns?|ads?|spen[dt]\w*|budgets?|volumes?|numbers?|share|activity|kampagnen|ausgaben|campagnes"
    r"|dépenses|campañas|gastos?)"
)
_BETWEEN: Final = (
    r"\W+(?:(?:has|have|had|is|are|was|were|been|keeps?|kept|on|steadily|hat|haben|ist|sind|ont|han)\W+){0,3}"
)


def _trend(verb: str) -> re.Pattern[str]:
    """Return the pattern of a text in which an amount, or something over time, rises or falls."""
    return re.compile(
        rf"\b{_AMOUNT}{_BETWEEN}{verb}\b|\b{verb}\b.{{0,60}}\b{_TIME}\b|\b{_TIME}\b.{{0,60}}\b{verb}\b",
        re.IGNORECASE,
    )


_TRENDS: Final = ((1, _trend(_UP)), (-1, _trend(_DOWN)))


def problems(
    text: str, mentions: Sequence[Mention], evidence: SearchEvidence, cited: Sequence[Campaign]
) -> Iterator[str]:
    """Yield claims of equality, of a ratio or of a trend that no counts prove; none for single campaigns."""
    if cited:
        return
    sides = _two_sides(mentions, evidence)
    for factor, word in _TIMES.items():
        if word.search(text) and not (sides and _has_ratio(sides, text, factor)):
            yield f"a ratio of {factor:g} is not proven by counts"
    if _EQUAL.search(text) and not (sides and measure(sides[0], text) == measure(sides[1], text)):
        yield "the counts are not equal"
    for sign, trend in _TRENDS:
        if trend.search(text) and not _is_trend(evidence, mentions, text, sign):
            yield "a trend is not proven: it needs group_by month"


def _two_sides(mentions: Sequence[Mention], evidence: SearchEvidence) -> list[CampaignSet]:
    """Return the sets of the first two values of one dimension; empty where there are no two."""
    for name in dict.fromkeys(one.dimension for one in mentions):
        values = [*dict.fromkeys(one.value for one in mentions if one.dimension == name)]
        others = [one for one in mentions if one.dimension != name]
        included = {**by_dimension(others), name: frozenset(values)}
        table = evidence.table(name, by_dimension(others, negated=True), included)
        if len(values) == 2 and table:  # noqa: PLR2004 -- the two sides
            return [table[value] for value in values]
    return []


def _has_ratio(sides: Sequence[CampaignSet], text: str, factor: float) -> bool:
    first, second = (measure(one, text) for one in sides)
    return bool(second) and abs(first / second - factor) <= _ABOUT * factor


def _is_trend(evidence: SearchEvidence, mentions: Sequence[Mention], text: str, sign: int) -> bool:
    """Return whether the months from the first named one on never turn, and end higher, or lower for -1."""
    others = [one for one in mentions if one.dimension != "month"]
    table = evidence.table("month", by_dimension(others, negated=True), by_dimension(others))
    named = sorted(by_dimension(mentions).get("month", ()))
    last = named[-1] if len(named) > 1 else "9999"
    months = [month for month in sorted(table) if (named[0] if named else "") <= month <= last]
    amounts = [sign * measure(table[month], text) for month in months]
    return len(amounts) > 1 and amounts[0] < amounts[-1] and all(a <= b for a, b in pairwise(amounts))
