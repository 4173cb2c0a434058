"""Figures of a text, and the numbers that another text has in the same or another form."""

import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from callsheet.state.names import COMPARING
from callsheet.state.number_words import chinese_numbers, number_tokens, spelled_numbers

_FIGURE: Final = re.compile(r"\d++(?:[.,]\d++)*")
_CLAIM: Final = re.compile(rf"(?<![A-Za-z\d]){_FIGURE.pattern}")
"""A figure that is no part of a name such as CO2."""
_GROUPED: Final = re.compile(r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,4}(?!\d)")
"""Thousands parted by blanks."""
_YEAR: Final = re.compile(r"[12]\d{3}")
_ROUND: Final = frozenset({100.0, 1e3, 1e6, 1e9, 1e12})
_LARGEST_USUAL: Final = 12
"""Number words up to here, as in "two main ideas", are no claims."""
_SCALES: Final = (1e3, 1e4, 1e6, 1e8, 1e9, 1e12)
"""Values of the words that follow figures in any language: Millionen, 万."""
_HEDGES: Final = frozenset(
    {"about", "above", "almost", "approximately", "around", "least", "most", "nearly", "over", "roughly"}
    | {"some", "than", "under"}
)
"""English words after which a number is rounded: about, more than."""
_SMALL: Final = 100
"""Numbers below it are rounded only where a word says so."""
_LARGE: Final = 10_000
"""Numbers from here on are no years."""
_ROUNDING: Final = 0.25
"""Greatest difference of a rounded number, as a share of the exact one."""
_PRESENT: Final = 2025
"""The year from which "years ago" is counted, give or take `_PRESENT_SPAN` years."""
_PRESENT_SPAN: Final = 25


def figures(text: str) -> list[str]:
    """Return the numbers in a text as written; thousands may be grouped by commas or dots."""
    return _FIGURE.findall(text)


def number(figure: str) -> float | None:
    """Return a number as written in English: commas stand between thousands."""
    plain = figure.replace(",", "")
    try:
        return float(plain)
    except ValueError:
        return None


def numbers(text: str) -> set[float]:
    """Return the values of the numbers in a text, read as English."""
    return {value for figure in figures(text) if (value := number(figure)) is not None}


def readings(figure: str) -> frozenset[float]:
    """Return the values that a figure may have: 1,500 is fifteen hundred or one and a half."""
    english, european = number(figure), _european(figure)
    values = {value for value in (english, european) if value is not None}
    return frozenset(values or {float(part) for part in re.split(r"[.,]", figure)})


def figure_values(text: str) -> frozenset[float]:
    """Return all values that the figures of a text may have."""
    return frozenset(value for figure in figures(text) for value in readings(figure))


@lru_cache(maxsize=64)
def all_numbers(text: str) -> frozenset[float]:
    """Return all values that the figures and number words of a text may have."""
    text = unicodedata.normalize("NFKC", text)
    values = set(figure_values(text))
    values |= {_join_groups(each) for each in _GROUPED.findall(text)}
    values |= {value for each in spelled_numbers(text) for value in each}
    return frozenset(values | chinese_numbers(text))


def has_number(text: str, figure: str) -> bool:
    """Return whether a text has a number, in figures or in words."""
    return bool(readings(figure) & all_numbers(text))


def unproven_figures(sentence: str, known: frozenset[float]) -> list[str]:
    """Return the figures of a sentence in any language that are no form of a known number, as written."""
    groups = [each for each in _GROUPED.findall(sentence) if _join_groups(each) in known]
    proven = {part for each in groups for part in figures(each)}
    return [
        figure
        for figure in _CLAIM.findall(sentence)
        if not readings(figure) & known and figure not in proven and not _is_rounded(figure, known)
    ]


def unproven_numbers(sentence: str, known: frozenset[float]) -> list[str]:
    """Return the figures and spelled numbers of an English sentence that are no form of a known number.

    "1960s", "17th century", "350 years ago" and "nearly 50" are proven by 1969, 1666, 1666 and 48. Small and
    round number words are no claims, nor are comparisons: "like 30 penguins".
    """
    known = known | frozenset(_numbers_in_context(sentence, known))
    wrong = unproven_figures(sentence, known)
    spelled = spelled_numbers(sentence)
    proven = (value for values in spelled if values & known for value in values)
    parts = {value / scale for value in proven for scale in _SCALES}
    usual = {float(value) for value in range(_LARGEST_USUAL + 1)} | _ROUND | figure_values(sentence) | known
    return [
        *(figure for figure in wrong if not readings(figure) & parts),
        *(f"{max(values):,.10g}" for values in spelled if not values & usual),
    ]


def is_scaled(figure: str, known: frozenset[float]) -> bool:
    """Return whether a word in any language may make a figure a known number: 150 Millionen, 38万."""
    scaled = {
        result for value in readings(figure) for scale in _SCALES for result in (value * scale, value / scale)
    }
    return bool(scaled & (known | _rounded_numbers(known, _LARGE)))


def _european(figure: str) -> float | None:
    """Return a number with dots between thousands and a decimal comma; None if it is none."""
    integer, comma, decimals = figure.partition(",")
    first, *groups = integer.split(".")
    if "," in decimals or "." in decimals or any(len(group) != 3 for group in groups):  # noqa: PLR2004
        return None
    return float(f"{first}{''.join(groups)}{'.' * bool(comma)}{decimals}")


def _join_groups(grouped: str) -> float:
    return float("".join(_FIGURE.findall(grouped)))


def _is_rounded(figure: str, known: frozenset[float]) -> bool:
    """Return whether a figure is a known number rounded; a year never is."""
    return not _YEAR.fullmatch(figure) and bool(readings(figure) & _rounded_numbers(known, _SMALL))


@lru_cache(maxsize=64)
def _rounded_numbers(known: frozenset[float], least: float) -> frozenset[float]:
    """Return the known numbers from `least` on, rounded up and down to one and to two digits."""
    result: set[float] = set()
    for exact in known:
        if least <= exact < math.inf:
            step = 10.0 ** math.floor(math.log10(exact))
            sizes = (step, step / 10)
            around = {
                round(turn(exact / size) * size, 6) for size in sizes for turn in (math.floor, math.ceil)
            }
            result |= {value for value in around if abs(value - exact) <= exact * _ROUNDING}
    return frozenset(result)


def _numbers_in_context(sentence: str, known: frozenset[float]) -> Iterator[float]:
    """Yield the numbers of an English sentence that the words around them make a form of a known number."""
    tokens = number_tokens(sentence)
    ordered = sorted(known)
    rounded = _rounded_numbers(known, 1)
    for at, values in enumerate(tokens):
        if isinstance(values, str):
            continue
        before = next(
            (token for token in reversed(tokens[max(0, at - 2) : at]) if token not in {"a", "an"}), ""
        )
        after = [token for token in tokens[at + 1 : at + 4] if token not in {"st", "nd", "rd", "th"}]
        if before in COMPARING:
            yield from values
        elif before in _HEDGES:
            yield from values & rounded
        for value in values:
            if any(_has_between(ordered, *period) for period in _periods(value, after)):
                yield value


def _periods(value: float, after: list[str | frozenset[float]]) -> Iterator[tuple[float, float]]:
    """Yield the first and last years that a number and the words after it may mean: 1960s, 17th century."""
    match after:
        case ["s", *_] if value < 100:  # noqa: PLR2004 -- the sixties
            yield from ((start + value, start + value + 9) for start in (1800, 1900, 2000))
        case ["s", *_] if value % 10 == 0:
            yield value, value + (99 if value % 100 == 0 else 9)
        case ["century" | "centuries", *_]:
            yield 100 * (value - 1), 100 * value
        case ["years", "ago", *_]:
            gap = max(_PRESENT_SPAN, value / 10)
            yield _PRESENT - value - gap, _PRESENT - value + gap
            yield value - _PRESENT - gap, value - _PRESENT + gap
        case _:
            pass


def _has_between(ordered: Sequence[float], low: float, high: float) -> bool:
    at = bisect_left(ordered, low)
    return at < len(ordered) and ordered[at] <= high
