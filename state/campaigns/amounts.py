"""Amounts as people write them; the whole file decides whether `12.500` has thousands or decimals."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from callsheet.state.campaigns.headings import CURRENCIES, SYMBOLS
from callsheet.state.errors import Invalid

Mark = Literal[".", ","]
"""A decimal mark."""
MARKS: Final[tuple[Mark, Mark]] = (".", ",")
_MAX_CHARS: Final = 60
_CODES: Final = (*sorted(SYMBOLS, key=len, reverse=True), *sorted(CURRENCIES))
_CURRENCY: Final = "|".join(map(re.escape, _CODES))
_START: Final = re.compile(rf"({_CURRENCY}) ?(?=[\d.,])", re.IGNORECASE)
_END: Final = re.compile(rf"(?<=[\w.+]) ?({_CURRENCY})$", re.IGNORECASE)
_BODY: Final = r"\d[\d.,'’ ]*|[.,]\d+"
_SUFFIX: Final = r"thousand|k|tsd\.?|million|millionen|mn|mm|mio\.?|m|billion|bn|b|mrd\.?"
_RANGE: Final = re.compile(
    rf"(?P<sign><=|>=|[<>≤≥]|under |below |up to |over |above |bis )? ?"
    rf"(?P<low>{_BODY}) ?(?P<low_unit>{_SUFFIX})?"
    rf"(?P<open>\+)?(?: ?(?:-|–|—|to|bis) ?(?P<high>{_BODY}) ?(?P<high_unit>{_SUFFIX})?)?",
    re.IGNORECASE,
)
_BOUNDS: Final = re.compile(r"lower_bound: ?(\d{1,15})(?:, ?upper_bound: ?(\d{1,15}))?")
_UP_TO: Final = ("<", "≤", "under", "below", "up", "bis")
_UNITS: Final = {"t": 1_000, "k": 1_000, "m": 10**6, "b": 10**9, "mrd": 10**9}
_INDIAN: Final = re.compile(r"\d{1,2}(?:,\d{2})+,\d{3}")


class Amount(NamedTuple):
    """A number, or a range of numbers."""

    low: Decimal
    high: Decimal | None = None
    """Upper bound of a range; None for a number, and for a range without one."""
    currency: str = ""
    """Code; empty if none is written."""


class _Parts(NamedTuple):
    sign: str
    low: str
    low_unit: str
    high: str
    high_unit: str
    currency: str
    before: bool
    """True for a currency before the number."""


def decimal_marks(text: str, *, is_count: bool) -> set[Mark]:
    """Return the decimal marks that a text shows by itself; a count has no decimals."""
    parts = _split(text)
    if parts is None:
        return set()
    marks: set[Mark] = set()
    for body, unit in ((parts.low, parts.low_unit), (parts.high, parts.high_unit)):
        readings = _readings(body, is_count=is_count and not unit)
        if len(readings) == 1 and any(mark in body for mark in MARKS):
            marks |= {*readings}
        elif (
            len(set(readings.values())) > 1
            and parts.before
            and parts.currency in {"USD", "GBP"}
            and "," in body
        ):
            # Nobody writes money in these currencies with three decimals after a comma.
            marks.add(".")
    return marks


def read_amount(text: str, mark: Mark | None, *, is_count: bool) -> Amount | None:
    """Return the amount of a text; None for a text that is none.

    Raises `Invalid` for a number that has two readings where the file has no decimal `mark`.
    """
    if bounds := _BOUNDS.fullmatch(text.strip()):
        return Amount(Decimal(bounds[1]), Decimal(bounds[2]) if bounds[2] else None)
    parts = _split(text)
    if parts is None:
        return None
    low = _number(
        parts.low, parts.low_unit or (parts.high_unit if parts.high else ""), mark, is_count=is_count
    )
    high = _number(parts.high, parts.high_unit, mark, is_count=is_count) if parts.high else None
    if low is None or (parts.high and (high is None or high < low)):
        return None
    if parts.sign.casefold().startswith(_UP_TO):
        return Amount(Decimal(0), low, parts.currency) if high is None else None
    return Amount(low, high, parts.currency)


def bounds_of(value: Mapping[Any, Any]) -> str:
    """Return an object with bounds, as Meta's Ad Library has them, as the text that its tables have."""
    low, high = value.get("lower_bound", ""), value.get("upper_bound", "")
    return f"lower_bound: {low}" + (f", upper_bound: {high}" if high != "" else "")


def _split(text: str) -> _Parts | None:
    text = " ".join(text.split())
    if len(text) > _MAX_CHARS:
        return None
    currency, before = "", False
    if start := _START.search(text):
        currency, before = _code(start[1]), True
    elif end := _END.search(text):
        currency = _code(end[1])
    if currency:
        text = _START.sub("", text) if before else _END.sub("", text)
    if not (match := _RANGE.fullmatch(text.strip())):
        return None
    parts = match.groupdict(default="")
    sign = parts["sign"] or (">" if parts["open"] else "")
    low, high = parts["low"].strip(), parts["high"].strip()
    return _Parts(sign, low, parts["low_unit"], high, parts["high_unit"], currency, before)


def _code(text: str) -> str:
    return SYMBOLS.get(text.casefold(), text.upper())


def _number(body: str, unit: str, mark: Mark | None, *, is_count: bool) -> Decimal | None:
    readings = _readings(body, is_count=is_count and not unit)
    values = sorted({*readings.values()})
    if not values:
        return None
    if len(values) > 1 and mark is None:
        raise Invalid(
            f"it may be {values[0]:f} or {values[1]:f}, and the other numbers of the file do not decide",
            remedy=f"write it as {values[1]:f}, or as {values[0]:.2f} with a point and two decimals",
        )
    value = values[0] if mark is None or len(values) == 1 else readings[mark]
    return value * _factor(unit)


def _factor(unit: str) -> int:
    unit = unit.casefold().rstrip(".")
    return _UNITS.get(unit) or _UNITS[unit[:1]] if unit else 1


def _readings(body: str, *, is_count: bool) -> dict[Mark, Decimal]:
    """Return the numbers that a body may mean, by decimal mark; a count has no decimals but zeros."""
    readings: dict[Mark, Decimal] = {}
    for mark in MARKS:
        if (value := _parse(body, mark)) is not None:
            readings[mark] = value
    counts = {mark: value for mark, value in readings.items() if mark not in body}
    return counts if is_count and counts else readings


def _parse(body: str, mark: Mark) -> Decimal | None:
    """Return the number with this decimal mark; None if it cannot be one."""
    integer, separator, fraction = body.partition(mark)
    thousands = "," if mark == "." else "."
    if separator and not (fraction.isascii() and fraction.isdigit()):
        return None
    integer = integer or "0"
    if not integer.isdigit():
        integer = _join_groups(integer, thousands)
    return Decimal(f"{integer}.{fraction or 0}").normalize() if integer.isascii() and integer else None


def _join_groups(integer: str, thousands: str) -> str:
    """Return an integer without the marks of its groups; empty if the groups are no thousands."""
    for group in (thousands, " ", "'", "’"):
        first, *others = integer.split(group)
        is_grouped = first.isdigit() and len(first) <= 3 and not first.startswith("0")  # noqa: PLR2004 -- a group
        if others and is_grouped and all(len(one) == 3 and one.isdigit() for one in others):  # noqa: PLR2004
            return first + "".join(others)
    return integer.replace(",", "") if thousands == "," and _INDIAN.fullmatch(integer) else ""
