"""Days as people write them; the whole file decides whether `05/01/2026` has the day first."""

import re
from datetime import date, timedelta
from typing import Final, Literal

from callsheet.state.errors import Invalid

Order = Literal["day first", "month first"]
_ORDERS: Final[tuple[Order, Order]] = ("day first", "month first")
_TIME: Final = re.compile(
    r"[ T]\d{1,2}:\d{2}(:\d{2}([.,]\d{1,9})?)?( ?[ap]\.?m\.?)?( ?(z|utc|gmt|[+-]\d{2}:?\d{2}))?",
    re.IGNORECASE,
)
_ISO: Final = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})")
_DOTTED: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4}|\d{2})")
_SLASHED: Final = re.compile(r"(\d{1,2})([/-])(\d{1,2})\2(\d{4}|\d{2})")
_DAY_MONTH: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th|\.)?[ -]([^\W\d_]{3,12})\.?[, -]{1,2}(\d{4})")
_MONTH_DAY: Final = re.compile(r"([^\W\d_]{3,12})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})")
_IN_TEXT: Final = re.compile(
    r"(?<![\w.,/-])(?:\d{1,2}(?:st|nd|rd|th|\.)? (?:of |de )?[^\W\d_]{3,12}\.?,?(?: de)? \d{4}"
    r"|[^\W\d_]{3,12}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4}|\d{1,2}([./])\d{1,2}\1\d{4})(?![\w/])"
)
_OF: Final = re.compile(r" (?:of|de)(?= )")
_EXCEL: Final = re.compile(r"(\d{5})(\.\d{1,12})?")
_EXCEL_DAYS: Final = range(36_526, 73_050)
"""Day numbers of a spreadsheet from 2000 to 2099."""
_EPOCH: Final = date(1899, 12, 30)
_MONTHS: Final = 12
_MAX_CHARS: Final = 60
_NAMES: Final = (
    "january janvier januar enero gennaio",
    "february février februar febrero febbraio",
    "march mars märz maerz marzo",
    "april avril abril aprile",
    "may mai mayo maggio",
    "june juin juni junio giugno",
    "july juillet juli julio luglio",
    "august août agosto",
    "september septembre septiembre settembre",
    "october octobre oktober octubre ottobre",
    "november novembre noviembre",
    "december décembre dezember diciembre dicembre",
)


def own_order(text: str) -> Order | None:
    """Return the order that a date shows by itself."""
    slashed = _SLASHED.fullmatch(_without_time(text))
    first, second = (int(slashed[1]), int(slashed[3])) if slashed else (0, 0)
    if first > _MONTHS >= second:
        return "day first"
    return "month first" if second > _MONTHS >= first else None


def is_dotted(text: str) -> bool:
    """Return whether a date is written as `31.10.2026`."""
    return bool(_DOTTED.fullmatch(_without_time(text)))


def excel_day(text: str) -> date | None:
    """Return the day of a spreadsheet's day number; None for another text."""
    number = _EXCEL.fullmatch(text.strip())
    if number and int(number[1]) in _EXCEL_DAYS:
        return _EPOCH + timedelta(days=int(number[1]))
    return None


def days_in(text: str) -> list[tuple[frozenset[date], int, int]]:
    """Return the days that a sentence names, each with its readings, and its start and end in the text."""
    read = []
    for match in _IN_TEXT.finditer(text):
        plain = _OF.sub("", match[0])
        readings = (read_day(plain, order) for order in _ORDERS)
        if days := frozenset(day for day in readings if day):
            read.append((days, match.start(), match.end()))
    return read


def read_day(text: str, order: Order | None) -> date | None:
    """Return the day that a text in one of the usual forms means, without a time after it; None for none.

    Raises `Invalid` for a slashed date that has two readings where the file has no `order`.
    """
    text = _without_time(text)
    if slashed := _SLASHED.fullmatch(text):
        return _slashed_day(slashed, order or own_order(text))
    if iso := _ISO.fullmatch(text):
        return _date(int(iso[1]), int(iso[3]), int(iso[4]))
    if dotted := _DOTTED.fullmatch(text):
        return _date(_year(dotted[3]), int(dotted[2]), int(dotted[1]))
    if named := _DAY_MONTH.fullmatch(text):
        return _date(int(named[3]), _month(named[2]), int(named[1]))
    if named := _MONTH_DAY.fullmatch(text):
        return _date(int(named[3]), _month(named[1]), int(named[2]))
    return excel_day(text)


def _slashed_day(slashed: re.Match[str], order: Order | None) -> date | None:
    first, second, year = int(slashed[1]), int(slashed[3]), _year(slashed[4])
    day_first, month_first = _date(year, second, first), _date(year, first, second)
    if order:
        return day_first if order == "day first" else month_first
    readings = sorted({day for day in (day_first, month_first) if day})
    if len(readings) > 1:
        raise Invalid(
            f"it may be {readings[0]} or {readings[1]}, and the other dates of the file do not decide",
            remedy="write it as YYYY-MM-DD",
        )
    return next(iter(readings), None)


def _without_time(text: str) -> str:
    text = text.strip()
    if len(text) > _MAX_CHARS:
        return ""
    for time in _TIME.finditer(text):
        if time.end() == len(text):
            return text[: time.start()].rstrip(",")
    return text


def _year(text: str) -> int:
    return int(text) if len(text) > 2 else 2000 + int(text)  # noqa: PLR2004 -- two digits are of this century


def _month(word: str) -> int:
    """Return the month that a word names or begins; 0 for none."""
    word = word.casefold()
    months = [
        number
        for number, names in enumerate(_NAMES, 1)
        if any(name.startswith(word) for name in names.split()) or (word == "sept" and number == 9)  # noqa: PLR2004 -- September
    ]
    return months[0] if len(months) == 1 else 0


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
