"""Parsing of a narration's requested length: "90 seconds", "two minutes"."""

import re
from typing import Final

from callsheet.state.lessons.student import TEENS, TO_TWELVE, age

_MINUTE_S: Final = 60
_NUMBER: Final = rf"\d++(?:[.,]\d++)?|an?|(?:{'|'.join((*TO_TWELVE, *TEENS))})\b"
_LENGTH: Final = (
    rf"(?:\b(?:{_NUMBER})[\s-]*(?:seconds?|secs?|s|minutes?|mins?|m|segundos?|minutos?|sekunden?|minuten?"
    r"|secondes?)\b|(?<!\d)\d++\s*[秒分])"
)
_AMOUNT_UNIT: Final = re.compile(rf"(?<!\d)({_NUMBER})[\s-]*(\w)", re.IGNORECASE)
_LENGTH_PATTERN: Final = re.compile(_LENGTH, re.IGNORECASE)


def seconds(text: str) -> float:
    """Return the first length in a text, in seconds; 0 if there is none."""
    match = _LENGTH_PATTERN.search(text)
    parts = _AMOUNT_UNIT.match(match[0]) if match else None
    if parts is None:
        return 0.0
    number = parts[1].casefold().replace(",", ".")
    amount = float(number) if number[0].isdigit() else float(age(number) or 1)
    return amount * _MINUTE_S if parts[2].casefold() in "m分" else amount
