"""Text that UTF-8 can encode: half of a surrogate pair is no character."""

from copy import copy
from dataclasses import fields, is_dataclass
from operator import is_
from typing import Any, Final

from pydantic import BaseModel

_MAX_DEPTH: Final = 64
"""Levels of a value that are looked into."""


def utf8_safe(text: str) -> str:
    """Return `text` with two halves in a row as the character they are, and U+FFFD for any other half."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf8_safe_value(value: Any, depth: int = 0) -> Any:
    """Return a value with every text in it as `utf8_safe` returns it; the same object if nothing changes.

    Looks into dicts, lists, tuples, pydantic models and dataclasses.
    """
    if isinstance(value, str):
        return utf8_safe(value)
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        pairs = [(key, item, *utf8_safe_value([key, item], depth + 1)) for key, item in value.items()]
        unchanged = all(key is new_key and item is new for key, item, new_key, new in pairs)
        return value if unchanged else {new_key: new for _, _, new_key, new in pairs}
    if type(value) in {list, tuple}:
        items = [utf8_safe_value(item, depth + 1) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    return _safe_fields(value, depth + 1)


def _safe_fields(value: Any, depth: int) -> Any:
    """Return a copy of a pydantic model or dataclass whose fields are safe; the same object if they are."""
    if isinstance(value, BaseModel):
        names = list(value.__dict__)
    elif is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value)]
    else:
        return value
    before = {name: getattr(value, name) for name in names}
    changed = {
        name: safe for name, item in before.items() if (safe := utf8_safe_value(item, depth)) is not item
    }
    if not changed:
        return value
    copied = copy(value)
    for name, safe in changed.items():
        object.__setattr__(copied, name, safe)
    return copied


class PairJoiner:
    """Makes the pieces of a text encodable; a pair whose halves are in two pieces is joined in the second."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, piece: str) -> str:
        """Return what is certain after `piece`: a first half at its end waits for the next piece."""
        text = self._held + piece
        self._held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return utf8_safe(text[: len(text) - len(self._held)])

    def flush(self) -> str:
        """Return what was held back, at the end of the text."""
        held, self._held = self._held, ""
        return utf8_safe(held)
