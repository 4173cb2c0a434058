"""Output for people: consoles, and text without control characters."""

import sys
import unicodedata
from typing import Any, TextIO, cast

from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return a console on stdout or stderr, without colours if `NO_COLOR` is set or it is no terminal.

    Characters that the encoding lacks are replaced. Files and pipes get no spaces at the ends of lines.
    """
    stream = sys.stderr if stderr else sys.stdout
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure:
        reconfigure(errors="replace")
    file = stream if stream.isatty() else cast("TextIO", _Trimmed(stream))
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False)


class _Trimmed:
    """A stream that drops the spaces with which tables fill their lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text without spaces at the ends of its lines."""
        self._stream.write("\n".join(line.rstrip(" ") for line in text.split("\n")))
        return len(text)


def without_control_chars(text: str) -> str:
    """Return `text` without control characters, which could control the terminal; line breaks stay."""
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) != "Cc")
