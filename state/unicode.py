"""Text that UTF-8 can encode: half of a surrogate pair is no character."""

from collections.abc import Mapping
from typing import Any


def utf8_safe(text: str) -> str:
    """Return `text` with two halves in a row as the character they are, and U+FFFD for any other half."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf8_safe_json(value: Any) -> Any:
    """Return a JSON value with every text, names too, as `utf8_safe` returns it."""
    if isinstance(value, str):
        return utf8_safe(value)
    if isinstance(value, Mapping):
        return {utf8_safe(name): utf8_safe_json(item) for name, item in value.items()}
    return [utf8_safe_json(item) for item in value] if isinstance(value, list) else value


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
