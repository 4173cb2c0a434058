"""Days of an import in their usual forms. Whether `05/01/2026` has the day first, the whole file decides.

Day and month are ambiguous with slashes alone: `31.10.2026` has the day first, and `2026/10/31` the year.
"""

import re
from collections.abc import Iterable
from datetime import date, datetime
from typing import Final, Literal

from callsheet.state.errors import Invalid

Order = Literal["day first", "month first"]
_FORMS: Final = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y")
_SLASHED: Final[dict[Order, str]] = {"day first": "%d/%m/%Y", "month first": "%m/%d/%Y"}
_SLASHES: Final = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/[0-9]{4}")
_MONTHS: Final = 12


def order_of(texts: Iterable[str]) -> Order | None:
    """Return the order of day and month in the slashed dates of a file.

    A number above 12 is a day. None if no date has one, or if the dates contradict each other.
    """
    orders = {order for text in texts if (order := _own_order(_without_time(text)))}
    return orders.pop() if len(orders) == 1 else None


def read_day(text: str, order: Order | None) -> date | None:
    """Return the day that a text in one of the usual forms means, without a time after it; None for none.

    Raises `Invalid` for a slashed date that has two readings where the file has no `order`.
    """
    text = _without_time(text)
    if _SLASHES.fullmatch(text):
        return _slashed_day(text, order)
    return next((day for form in _FORMS if (day := _parse(text, form))), None)


def _slashed_day(text: str, order: Order | None) -> date | None:
    if order := order or _own_order(text):
        return _parse(text, _SLASHED[order])
    readings = sorted({day for form in _SLASHED.values() if (day := _parse(text, form))})
    if len(readings) > 1:
        first, second = readings
        raise Invalid(
            f"it may be {first} or {second}, and the other dates of the file do not decide",
            remedy="write it as YYYY-MM-DD",
        )
    return next(iter(readings), None)


def _own_order(text: str) -> Order | None:
    """Return the order that a date shows by itself."""
    slashed = _SLASHES.fullmatch(text)
    first, second = (int(slashed[1]), int(slashed[2])) if slashed else (0, 0)
    if first > _MONTHS >= second:
        return "day first"
    return "month first" if second > _MONTHS >= first else None


def _without_time(text: str) -> str:
    text = text.strip()
    day, _, time = text.replace("T", " ", 1 if text[:1].isdigit() else 0).rpartition(" ")
    return day if ":" in time else text


def _parse(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()  # noqa: DTZ007 -- a day has no zone
    except ValueError:
        return None
