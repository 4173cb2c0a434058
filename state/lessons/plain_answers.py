"""Answers that code reads without a model: numbers, ids, "all" and "none". Other words are for the model."""

import re
from collections.abc import Callable
from typing import Final, Literal

from callsheet.state.consent import consent

_SEPARATORS: Final = re.compile(r"[\s,;&+、，和]+")
_AND: Final = frozenset({"and", "und", "y", "et", "e"})
_ALL: Final = frozenset({"all", "everything"})
_NONE: Final = frozenset({"none", "nothing"})
MAX_DIGITS: Final = 9
"""Maximum digits of a number."""


def read_plain(text: str, is_id: Callable[[str], bool]) -> list[str] | Literal["all"] | None:
    """Return the numbers and ids of a text that has nothing else, or "all"; None for other words.

    The list is empty for "none"; a plain yes is "all".
    """
    word = text.strip(" .!").casefold()
    if word in _ALL or consent(text):
        return "all"
    if word in _NONE:
        return []
    parts = [part.lstrip("#").rstrip(".") for part in _SEPARATORS.split(text)]
    parts = [part for part in parts if part and part.casefold() not in _AND]
    return parts if parts and all(is_number(part) or is_id(part) for part in parts) else None


def is_plain(text: str) -> bool:
    """Return whether a text is numbers, or a word such as "all" or "yes", which may answer any question."""
    return read_plain(text, lambda _part: False) is not None


def is_number(text: str) -> bool:
    """Return whether a text is a number in digits."""
    return text.isdecimal() and len(text) <= MAX_DIGITS
