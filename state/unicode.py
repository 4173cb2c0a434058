"""Text that UTF-8 and XML can have: half of a surrogate pair is no character."""

import re
from typing import Any, Final

from callsheet.state.nested_values import replace_parts

_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_safe(text: str) -> str:
    """Return `text` with a blank for each character that XML cannot have."""
    return _NOT_XML.sub(" ", text)


def utf8_safe(text: str) -> str:
    """Return `text` with two halves in a row as the character they are, and U+FFFD for any other half."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def utf8_safe_value(value: Any) -> Any:
    """Return a value with every text in it as `utf8_safe` returns it; the same object if nothing changes."""
    return replace_parts(value, lambda part: utf8_safe(part) if isinstance(part, str) else part)


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
