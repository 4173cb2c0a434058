"""Quantities of a statement: counts, amounts, shares and ranks, each with its clause and its rounding."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from callsheet.state.campaigns.mentions import clause_spans
from callsheet.state.figures import ORDINALS, figures, number, readings, spelled_numbers
from callsheet.state.languages import detect, find
from callsheet.state.number_words import numbers_in_words

_SCALES: Final = {
    1e3: r"k|thousand|tausend|mil|mille|tys\w*",
    1e6: r"m|mn|mio\.?|million(?:s|en|es)?|millones|milion\w*",
    1e9: r"bn|mrd\.?|billions?|milliarden?|milliards?|mil millones|miliard\w*",
}
_SCALED: Final = re.compile(
    r"(?<![\w.,])(\d[\d.,]*)[ -]?(?:" + "|".join(f"({one})" for one in _SCALES.values()) + r")\b",
    re.IGNORECASE,
)
_SHARE: Final = re.compile(r"^ ?(?:%|percent|per cent|prozent|por ciento|pour cent)", re.IGNORECASE)
_MARKED: Final = re.compile(r"[$€£¥] ?\d|\d ?(?:%|percent)")
_ORDINAL: Final = re.compile(
    rf"\b(?:({'|'.join(ORDINALS[1:])})|(\d{{1,2}})(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)
_ROUND: Final = {
    r"(?:a |one |une? |ein )?(?:dozen|dutzend|docena|douzaine)": (12, ""),
    r"(?:dozens|dutzende|docenas|douzaines)": (24, "more"),
    r"(?:hundreds|hunderte|cientos|centaines)": (200, "more"),
    r"(?:thousands|tausende|miles(?= de )|milliers)": (2_000, "more"),
}
"""Words for round numbers, with the number and its bound."""
_BEFORE: Final = {
    "more": (
        r"more than|over|above|at least|upwards of|mehr als|über|mindestens|más de|al menos|plus de|au moins"
    ),
    "less": r"less than|fewer than|under|below|at most|weniger als|unter|höchstens|menos de|moins de|au plus",
    "about": r"about|around|roughly|approximately|some|close to|circa|etwa|ungefähr|rund|unos|unas|environ",
    "nearly": r"nearly|almost|just under|fast|knapp|casi|presque",
}
BOUND: Final = re.compile(
    r"\b(?:(" + ")|(".join(_BEFORE.values()) + r"))[ ]{1,3}[$€£¥]? ?$",
    re.IGNORECASE,
)
"""Words before a figure that say how near it is."""
_LONGEST_BOUND: Final = 40
"""Characters before a figure in which such words stand."""
BOUND_FIGURE: Final = re.compile(rf"\b(?:{'|'.join(_BEFORE.values())})[ ]{{1,3}}[$€£¥]? ?\d", re.IGNORECASE)
"""The same with a figure behind it."""
_SPLIT_DIGITS: Final = re.compile(
    r"(?<=[\d.,])[*_~`\u200b-\u200d\u2060\ufeff\u00ad]++(?=[\d.,])|(?<=\d)[\u00a0\u202f](?=\d{3})"
)
_ABOUT: Final = 0.04
_NEARLY: Final = 0.08
"""Share by which a figure may differ from the exact one."""


@dataclass(frozen=True)
class Quantity:
    """A number that a statement claims."""

    shown: str
    values: frozenset[float]
    """All that it may mean."""
    span: tuple[int, int] = (0, 0)
    """Its clause in the text; empty for a number of a field."""
    step: float = 0
    """Half of its last digit, by which it may be rounded."""
    is_share: bool = False
    is_marked: bool = False
    """True with a sign of a currency or for percent."""
    is_rank: bool = False
    bound: str = ""
    """`more`, `less`, `about` or `nearly`, as the words before it say."""

    def fits(self, exact: float) -> bool:
        """Return whether the exact number is the quantity, or one it may be rounded from."""
        return any(self._fits(value, exact) for value in self.values)

    def _fits(self, value: float, exact: float) -> bool:
        match self.bound:
            case "more":
                return exact >= value
            case "less":
                return exact <= value
            case "about":
                return abs(exact - value) <= max(self.step, _ABOUT * value)
            case "nearly":
                return value * (1 - _NEARLY) <= exact <= value
        return abs(exact - value) <= self.step + 1e-9


def joined_digits(text: str) -> str:
    """Return a text whose numbers are in one piece, without marks of Markdown and invisible signs in them."""
    return _SPLIT_DIGITS.sub("", text)


def quantities(text: str) -> Iterator[Quantity]:
    """Yield the numbers of a text, clause by clause."""
    name = detect(text) or ""
    language = find(name)
    code = language.code if language else ""
    for start, end in clause_spans(text):
        clause = text[start:end]
        for read in (_amounts, _ranks, _round_numbers):
            matches = [*read(clause, (start, end))]
            for one, at, stop in matches:
                yield one
                clause = clause[:at] + " " * (stop - at) + clause[stop:]
        yield from _in_digits(clause, (start, end), is_english=code in {"", "en"})
        for spelled in spelled_numbers(clause) if code in {"", "en"} else ():
            if min(spelled) > 1:
                yield Quantity(f"{min(spelled):g}", spelled, (start, end))
        if code != "en":
            for value in numbers_in_words(clause, code):
                yield Quantity(f"{value:g}", frozenset({value}), (start, end))


def _amounts(clause: str, span: tuple[int, int]) -> Iterator[tuple[Quantity, int, int]]:
    """Yield amounts with a word for thousands or millions: 19.4 million, 226k."""
    for match in _SCALED.finditer(clause):
        scale = next(scale for scale, word in zip(_SCALES, match.groups()[1:], strict=True) if word)
        values = frozenset(value * scale for value in readings(match[1].rstrip(".,")))
        decimals = len(re.split(r"[.,]", match[1].rstrip(".,"))[-1]) if re.search(r"[.,]\d", match[1]) else 0
        step = 0.5 * scale * 10.0**-decimals
        marked = bool(_MARKED.search(clause[max(0, match.start() - 2) : match.end()]))
        bound = _bound(clause[: match.start()])
        yield (
            Quantity(match[0], values, span, step, is_marked=marked, bound=bound),
            match.start(),
            match.end(),
        )


def _ranks(clause: str, span: tuple[int, int]) -> Iterator[tuple[Quantity, int, int]]:
    for match in _ORDINAL.finditer(clause):
        value = ORDINALS.index(match[1].lower()) + 1.0 if match[1] else float(match[2])
        yield Quantity(match[0], frozenset({value}), span, is_rank=True), match.start(), match.end()


def _round_numbers(clause: str, span: tuple[int, int]) -> Iterator[tuple[Quantity, int, int]]:
    for word, (value, bound) in _ROUND.items():
        for match in re.finditer(rf"\b{word}\b", clause, re.IGNORECASE):
            yield Quantity(match[0], frozenset({float(value)}), span, bound=bound), match.start(), match.end()


def _in_digits(clause: str, span: tuple[int, int], *, is_english: bool) -> Iterator[Quantity]:
    at = 0
    for shown in figures(clause):
        at = clause.index(shown, at) + len(shown)
        value = number(shown)
        values = ({value} if value is not None else set()) if is_english else {max(readings(shown))}
        before = clause[: at - len(shown)]
        is_share = bool(_SHARE.match(clause[at:]))
        yield Quantity(
            shown,
            frozenset(values),
            span,
            step=_share_step(shown) if is_share else 0.005 if "." in shown else 0,
            is_share=is_share,
            is_marked=bool(_MARKED.search(clause[max(0, at - len(shown) - 2) : at + 9])),
            bound=_bound(before),
        )


def _share_step(shown: str) -> float:
    decimals = re.split(r"[.,]", shown)
    return 0.5 * 10.0 ** -(len(decimals[-1]) if len(decimals) > 1 else 0)


def _bound(before: str) -> str:
    match = BOUND.search(before, max(0, len(before) - _LONGEST_BOUND))
    return next(name for name, word in zip(_BEFORE, match.groups(), strict=True) if word) if match else ""
