"""A person's own words on the command line: as an argument, from a file, or from stdin."""

import json
import os
import sys
from pathlib import Path
from typing import Final

from state.errors import Invalid
from state.uploads import MAX_MATERIAL

STDIN: Final = "-"
MOST_BYTES: Final = 1_000_000
"""Of a brief, like a request's body."""


def given(said: str | None, file: str | None) -> str:
    """Return the text that is given in exactly one of two ways; `-` stands for stdin in both.

    Raises `Invalid` for a file that cannot be read and for what is not UTF-8.
    """
    if STDIN in {said, file}:
        return _decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "stdin")
    if file is not None:
        return _decoded(_bytes(file), f"file {file!r}")
    # What is not UTF-8 on the command line arrives as characters that stand for its bytes.
    return _decoded(os.fsencode(str(said)), "the brief")


def content(path: str) -> bytes:
    """Return what is in a file of any kind; raises `Invalid` for one that cannot be read."""
    return _bytes(path, MAX_MATERIAL)


def brief(text: str, file: str | None) -> object:
    """Return the brief that `text` holds: an object where it is JSON, else the text itself.

    Raises `Invalid` for JSON that a request's body could not be either.
    """
    if not (file or "").endswith(".json") and not text.lstrip().startswith("{"):
        return text
    from server.api import bodies  # noqa: PLC0415 -- FastAPI takes its time, and a sentence needs none

    try:
        return bodies.read(text.encode())
    except json.JSONDecodeError as error:
        name = f"file {file!r}" if file else "the brief"
        where = f" in line {error.lineno}, column {error.colno}" if error.doc else ""
        raise Invalid(
            f"{name} is not JSON: {error.msg[0].lower()}{error.msg[1:]}{where}",
            remedy='write {"clientDescription": "who the ad is for and what it should say"}',
        ) from error


def _bytes(path: str, most: int = MOST_BYTES) -> bytes:
    try:
        with Path(path).expanduser().open("rb") as opened:
            return opened.read(most + 1)
    except OSError as error:
        raise Invalid(
            f"file {path!r} cannot be read: {(error.strerror or str(error)).lower()}", remedy="check the path"
        ) from error


def _decoded(content: bytes, name: str) -> str:
    if len(content) > MOST_BYTES:
        raise Invalid(f"{name} has over {MOST_BYTES} bytes", remedy="shorten it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name} is not UTF-8 text: byte {error.start}", remedy="save it as UTF-8") from error
