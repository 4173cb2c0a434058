"""Text of a request on the command line: an argument, a file or stdin."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from callsheet.state.errors import Invalid
from callsheet.state.uploads import MAX_MATERIAL

STDIN: Final = "-"
MAX_BYTES: Final = 1_000_000
"""Of a brief, like a request's body."""

_REQUESTS_OWN: Final = ("language", "market", "duration")


def read_text(said: str | None, file: str | None, name: str = "the brief") -> str:
    """Return the text that is given in exactly one of two ways; `-` stands for stdin in both.

    `name` is what it is called. Raises `Invalid` for a file that cannot be read, for what is not UTF-8 and
    for what says nothing.
    """
    if STDIN in {said, file}:
        return _decoded(sys.stdin.buffer.read(MAX_BYTES + 1), "stdin")
    if file is not None:
        return _decoded(_bytes(file), f"file {file!r}")
    # What is not UTF-8 on the command line arrives as characters that stand for its bytes.
    return _decoded(os.fsencode(str(said)), name)


def resume_command(command: str, name: str, data_dir: Path | None) -> str:
    """Return the command that goes on with `name`, for a shell, on the data that the command line named."""
    where = f" --data-dir {shlex.quote(str(data_dir))}" if data_dir else ""
    return f"callsheet {command} {shlex.quote(name)}{where}"


def read_bytes(path: str) -> bytes:
    """Return what is in a file of any kind; raises `Invalid` for one that cannot be read."""
    return _bytes(path, MAX_MATERIAL)


def parse_brief(text: str, file: str | None) -> tuple[object, str]:
    """Return the brief that `text` holds, an object where it is JSON, and its ad's id, empty unless told.

    The body of a request to make an ad is read as one. Raises `Invalid` for JSON that no body could be.
    """
    if not (file or "").endswith(".json") and not text.lstrip().startswith("{"):
        return text, ""
    found = _json(text, file)
    if not isinstance(found, Mapping) or not isinstance(found.get("brief"), Mapping):
        return found, ""
    # What the request says of its own wins over its brief.
    own = {name: found[name] for name in _REQUESTS_OWN if found.get(name) is not None}
    return {**found["brief"], **own}, str(found.get("adId", ""))


def _json(text: str, file: str | None) -> object:
    from callsheet.server.ads import bodies  # noqa: PLC0415 -- FastAPI takes its time, and a sentence needs none

    try:
        return bodies.parse_json(text.encode())
    except json.JSONDecodeError as error:
        name = f"file {file!r}" if file else "the brief"
        where = f" in line {error.lineno}, column {error.colno}" if error.doc else ""
        raise Invalid(
            f"{name} is not JSON: {error.msg[0].lower()}{error.msg[1:]}{where}",
            remedy='write {"clientDescription": "who the ad is for and what it should say"}',
        ) from error


def _bytes(path: str, most: int = MAX_BYTES) -> bytes:
    try:
        with Path(path).expanduser().open("rb") as opened:
            return opened.read(most + 1)
    except OSError as error:
        raise Invalid(
            f"file {path!r} cannot be read: {(error.strerror or str(error)).lower()}", remedy="check the path"
        ) from error


def _decoded(content: bytes, name: str) -> str:
    if len(content) > MAX_BYTES:
        raise Invalid(f"{name} has over {MAX_BYTES} bytes", remedy="shorten it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{name} is not UTF-8 text: byte {error.start}", remedy="save it as UTF-8") from error
    if not text.strip():
        raise Invalid(f"{name} is empty", remedy="say in words what you want")
    return text
