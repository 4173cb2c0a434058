"""The file a thread is carried away in: JSON lines, each with a checksum, the last with one over them all.

The first line says what the file is. Values that JSON can hold are JSON; others are LangGraph's own encoding
in base64, of which only types are read again that can do nothing when they are made.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from callsheet.state.errors import Invalid

FORMAT: Final = "callsheet-thread"
VERSION: Final = 2
"""Of the format; a reader refuses what is newer than itself."""
PLAIN: Final = 1
"""The version of a file with one artefact at most and no files, which earlier programs read, too."""
_REMEDY: Final = "export the thread again"
_MARK: Final = 16
"""Hexadecimal digits of a line's checksum: against damage, not against intent."""
_PLAIN: Final = (str, int, float, bool, type(None))


class LineWriter:
    """Writes the lines of one file."""

    def __init__(self) -> None:
        self._count = 0
        self._whole = hashlib.sha256()

    def header(self, about: Mapping[str, Any], *, plain: bool) -> bytes:
        """Return the first line; `plain` where there is nothing that earlier programs do not read."""
        return self.line("header", {"format": FORMAT, "version": PLAIN if plain else VERSION, **about})

    def line(self, kind: str, data: Mapping[str, Any]) -> bytes:
        """Return the next line; `data` is JSON."""
        return self._counted({"type": kind, "sha256": _mark(data), "data": data})

    def end(self) -> bytes:
        """Return the last line, without which a file is not whole."""
        data = {"lines": self._count, "sha256": self._whole.hexdigest()}
        return self._counted({"type": "end", "sha256": _mark(data), "data": data})

    def _counted(self, line: Mapping[str, Any]) -> bytes:
        written = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._count += 1
        self._whole.update(written)
        return written


def read_lines(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield kind and data of every line but the first and the last.

    Raises `Invalid` for what is no such file, is newer than this program, is damaged or was cut off; the last
    is known at the end only.
    """
    whole, lines = hashlib.sha256(), content.splitlines(keepends=True)
    kind, data = "", dict[str, Any]()
    for number, line in enumerate(lines, 1):
        kind, data = _parsed(number, line)
        if number == 1:
            _check_header(kind, data)
        elif kind != "end":
            yield kind, data
        elif number < len(lines) or data != {"lines": number - 1, "sha256": whole.hexdigest()}:
            raise Invalid("the file is damaged: its end does not fit the rest", remedy=_REMEDY)
        whole.update(line)
    if kind != "end":
        raise Invalid("the file is not whole: its last line is missing", remedy=_REMEDY)


def _parsed(number: int, line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        found = json.loads(line, parse_constant=_no_number)
        kind, mark, data = found["type"], found["sha256"], found["data"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if number == 1:
            raise _foreign() from error
        raise Invalid(f"line {number} of the file is no JSON of ours", remedy=_REMEDY) from error
    if not (isinstance(kind, str) and isinstance(data, dict)) or mark != _mark(data):
        raise Invalid(f"line {number} of the file is damaged: its checksum is wrong", remedy=_REMEDY)
    return kind, data


def _check_header(kind: str, data: Mapping[str, Any]) -> None:
    if kind != "header" or data.get("format") != FORMAT:
        raise _foreign()
    if data.get("version") not in {PLAIN, VERSION}:
        raise Invalid(
            f"the file has version {data.get('version')!r} of the format, and up to {VERSION} is read here",
            remedy="use the version of Callsheet that wrote it",
        )


def _foreign() -> Invalid:
    return Invalid("the file is no exported thread", remedy="send a file made by: callsheet threads export")


def _no_number(text: str) -> float:
    raise ValueError(text)


def _mark(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    # A half of a pair, which no text is made of, would be an error of its own.
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:_MARK]


class ValueCodec:
    """Values of a graph's state as JSON and back."""

    def __init__(self, *, trusted: bool = False) -> None:
        """`trusted` makes whatever types a file names, which may run their code: for files of one's own."""
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=True if trusted else None)

    def encode(self, value: Any) -> dict[str, Any]:
        """Return `value` as `{"json"}`, or as `{"as", "base64"}`."""
        if _is_plain(value):
            return {"json": value}
        kind, data = self._serde.dumps_typed(value)
        return {"as": kind, "base64": base64.b64encode(data).decode()}

    def decode(self, told: Mapping[str, Any]) -> Any:
        """Return the value; raises `Invalid` for an encoding or a type that is not read."""
        if "json" in told:
            return told["json"]
        if told.get("as") not in {"msgpack", "null", "bytes", "bytearray"}:
            raise Invalid(f"a value is encoded as {told.get('as')!r}, which is not read", remedy=_REMEDY)
        try:
            data = base64.b64decode(str(told.get("base64", "")), validate=True)
            with _refusing() as refused:
                value = self._serde.loads_typed((told["as"], data))
        except (ValueError, TypeError, RecursionError) as error:
            raise Invalid(f"a value cannot be read: {error}", remedy=_REMEDY) from error
        if refused:
            raise Invalid(
                f"the file holds a {refused[0]}, and only LangChain's and Python's own types are read",
                remedy="import it on the command line with --trust if you made it yourself",
            )
        return value


@contextmanager
def _refusing() -> Iterator[list[str]]:
    """Collect the types that reading refused; LangGraph would put a part in their place without a word."""
    refused: list[str] = []
    here = threading.get_ident()

    def listen(event: SerdeEvent) -> None:
        if event["kind"].endswith("blocked") and threading.get_ident() == here:
            refused.append(f"{event['module']}.{event['name']}")

    forget = register_serde_event_listener(listen)
    try:
        yield refused
    finally:
        forget()


def _is_plain(value: Any) -> bool:
    """Whether JSON gives back exactly this."""
    if type(value) is dict:
        return all(type(name) is str and _is_text(name) and _is_plain(part) for name, part in value.items())
    if type(value) is list:
        return all(_is_plain(part) for part in value)
    if type(value) is str:
        return _is_text(value)
    return type(value) in _PLAIN and value == value and value not in {float("inf"), float("-inf")}  # noqa: PLR0124 -- NaN


def _is_text(value: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in value)
