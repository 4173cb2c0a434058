"""Text of a request on the command line: an argument, a file or stdin."""

import os
import shlex
import sys
from pathlib import Path
from typing import IO, Final

from callsheet.server.settings.installation import program
from callsheet.state.errors import Invalid
from callsheet.state.uploads import MAX_MATERIAL

STDIN: Final = "-"
MAX_BYTES: Final = 1_000_000
"""Size of a text, like that of a request's body."""


def read_text(text: str | None, file: str | None, name: str) -> str:
    """Return the text given as an argument or in a file, exactly one of the two; `-` is stdin for both.

    `name` names the text in errors. Raises `Invalid` for an unreadable file, bytes that are not UTF-8, and
    an empty text.
    """
    if STDIN in {text, file}:
        return _decode(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin")
    if file is not None:
        return _decode(read_bytes(file, MAX_BYTES), f"file {file!r}")
    # Python passes bytes of the command line that are not UTF-8 as surrogates.
    return _decode(os.fsencode(str(text)), name)


def resume_command(command: str, name: str, data_dir: Path | None) -> str:
    """Return the shell command that continues `name`, on the same data."""
    option = f" --data-dir {shlex.quote(str(data_dir))}" if data_dir else ""
    return f"{program()} {command} {shlex.quote(name)}{option}"


def read_bytes(path: str, limit: int = MAX_MATERIAL) -> bytes:
    """Return the content of a file, at most one byte over the limit; raise `Invalid` if it is unreadable."""
    with open_bytes(path) as file:
        return file.read(limit + 1)


def open_bytes(path: str) -> IO[bytes]:
    """Return a file that is open for reading; raise `Invalid` if it is unreadable."""
    try:
        file = Path(path).expanduser().open("rb")
        # A folder opens, and cannot be read.
        file.peek(1)
    except OSError as error:
        raise Invalid(
            f"file {path!r} cannot be read: {(error.strerror or str(error)).lower()}", remedy="check the path"
        ) from error
    return file


def _decode(content: bytes, name: str) -> str:
    if len(content) > MAX_BYTES:
        raise Invalid(f"{name} has over {MAX_BYTES} bytes", remedy="shorten it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name} is not UTF-8 text: byte {error.start}", remedy="save it as UTF-8") from error
    if not text.strip():
        raise Invalid(f"{name} is empty", remedy="say in words what you want")
    return text
