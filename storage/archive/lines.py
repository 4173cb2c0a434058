"""Format of an exported thread: JSON lines with a checksum each; the last line has one over all others.

The first line names the format. A value that JSON can represent is written as JSON, any other in LangGraph's
encoding, in base64. Only types whose construction cannot run foreign code are read back.
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
VERSION: Final = 4
"""Version of the format that is written. Version 3 had no plans, and 2 no spans of elements."""
_READABLE: Final = (2, 3, 4)
"""Versions that are read; files of others are refused."""
_REMEDY: Final = "export the thread again"
_CHECKSUM_DIGITS: Final = 16
"""Hexadecimal digits of a line's checksum, which detects damage, not tampering."""
_MAX_DIGITS: Final = 20
"""Characters of the longest integer of 64 bits."""
_SCALARS: Final = (str, int, float, bool, type(None))


class LineWriter:
    """Encoder of the lines of one file."""

    def __init__(self) -> None:
        self._count = 0
        self._digest = hashlib.sha256()

    def header(self, about: Mapping[str, Any]) -> bytes:
        """Return the first line."""
        return self.line("header", {"format": FORMAT, "version": VERSION, **about})

    def line(self, kind: str, data: Mapping[str, Any]) -> bytes:
        """Return the next line; `data` is JSON."""
        line = {"type": kind, "sha256": _checksum(data), "data": data}
        encoded = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._count += 1
        self._digest.update(encoded)
        return encoded

    def insert(self, lines: bytes) -> bytes:
        """Return lines of another file, which have their own checksums, as part of this one."""
        self._count += lines.count(b"\n")
        self._digest.update(lines)
        return lines

    def end(self) -> bytes:
        """Return the last line, by which a reader knows that the file is complete."""
        return self.line("end", {"lines": self._count, "sha256": self._digest.hexdigest()})


def read_lines(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield type and data of every line except the first and the last.

    Raises `Invalid` for content that is not an exported thread, has another version, is damaged or was cut
    off. The last line is checked last, so consume all lines before you use any.
    """
    digest, lines = hashlib.sha256(), content.splitlines(keepends=True)
    kind, data = "", dict[str, Any]()
    for number, line in enumerate(lines, 1):
        kind, data = _parse_first(line) if number == 1 else parse_line(number, line)
        if number == 1:
            _check_header(kind, data)
        elif kind != "end":
            yield kind, data
        elif number < len(lines) or data != {"lines": number - 1, "sha256": digest.hexdigest()}:
            raise Invalid("the file is damaged: its last line does not match the others", remedy=_REMEDY)
        digest.update(line)
    if kind != "end":
        raise Invalid("the file is incomplete: its last line is missing", remedy=_REMEDY)


def _parse_first(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        return parse_line(1, line)
    except _ForeignLine as error:
        raise _not_a_thread() from error


class _ForeignLine(Invalid):
    """A line that is none of an exported file."""


def parse_line(number: int, line: bytes) -> tuple[str, dict[str, Any]]:
    """Return type and data of a line; raise `Invalid` for a foreign or damaged one."""
    try:
        parsed = json.loads(line, parse_constant=_refuse_constant, parse_int=_parse_int)
        kind, checksum, data = parsed["type"], parsed["sha256"], parsed["data"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f": {error}" if isinstance(error, _OutOfRange) else ""
        raise _ForeignLine(
            f"line {number} of the file is not a line of an exported thread{reason}", remedy=_REMEDY
        ) from error
    if not (isinstance(kind, str) and isinstance(data, dict)) or checksum != _checksum(data):
        raise Invalid(f"line {number} of the file is damaged: its checksum is wrong", remedy=_REMEDY)
    return kind, data


def _check_header(kind: str, data: Mapping[str, Any]) -> None:
    if kind != "header" or data.get("format") != FORMAT:
        raise _not_a_thread()
    if data.get("version") not in _READABLE:
        versions = f"{_READABLE[0]} to {_READABLE[-1]}"
        raise Invalid(
            f"the file has version {data.get('version')!r} of the format; only {versions} can be read",
            remedy="export the thread again with this version of Callsheet",
        )


def _not_a_thread() -> Invalid:
    return Invalid(
        "the file is not an exported thread", remedy="send a file written by `callsheet threads export`"
    )


class _OutOfRange(ValueError):
    """A number that no checkpoint can hold."""


def _parse_int(text: str) -> int:
    """Return the integer; raises `_OutOfRange` for one that LangGraph's encoding cannot write."""
    if len(text) > _MAX_DIGITS or not -(2**63) <= (number := int(text)) < 2**64:
        raise _OutOfRange(f"the integer {text[:_MAX_DIGITS]} has more than 64 bits")
    return number


def _refuse_constant(text: str) -> float:
    raise ValueError(text)


def _checksum(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    # UTF-8 cannot encode a lone surrogate; replacing it makes the checksum mismatch instead of raising.
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:_CHECKSUM_DIGITS]


class ValueCodec:
    """Conversion of a graph's state values to JSON and back."""

    def __init__(self, *, trusted: bool = False) -> None:
        """`trusted` constructs every type that a file names, which may run code: only for one's own files."""
        self.trusted: Final = trusted
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=True if trusted else None)

    def encode(self, value: Any) -> dict[str, Any]:
        """Return `value` as `{"json"}`, or as `{"as", "base64"}`."""
        if _is_json(value):
            return {"json": value}
        kind, data = self._serde.dumps_typed(value)
        return {"as": kind, "base64": base64.b64encode(data).decode()}

    def decode(self, encoded: Mapping[str, Any]) -> Any:
        """Return the value; raises `Invalid` for an unsupported encoding or type."""
        if "json" in encoded:
            return encoded["json"]
        kind = encoded.get("as")
        if kind not in {"msgpack", "null", "bytes", "bytearray"}:
            raise Invalid(f"a value has the unsupported encoding {kind!r}", remedy=_REMEDY)
        try:
            data = base64.b64decode(str(encoded.get("base64", "")), validate=True)
            with _collect_refused_types() as refused:
                value = self._serde.loads_typed((kind, data))
        except (ValueError, TypeError, RecursionError) as error:
            raise Invalid(f"a value cannot be read: {error}", remedy=_REMEDY) from error
        if refused:
            raise Invalid(
                f"the file contains a {refused[0]}; only types of LangChain and Python are read",
                remedy="if you made the file yourself, import it on the command line with --trust",
            )
        return value


@contextmanager
def _collect_refused_types() -> Iterator[list[str]]:
    """Collect the types that LangGraph refuses to construct, since it replaces them silently."""
    refused: list[str] = []
    current = threading.get_ident()

    def listen(event: SerdeEvent) -> None:
        if event["kind"].endswith("blocked") and threading.get_ident() == current:
            refused.append(f"{event['module']}.{event['name']}")

    unregister = register_serde_event_listener(listen)
    try:
        yield refused
    finally:
        unregister()


def _is_json(value: Any) -> bool:
    """Return whether a JSON round trip gives back exactly this value."""
    if type(value) is dict:
        return all(type(name) is str and _is_utf8(name) and _is_json(part) for name, part in value.items())
    if type(value) is list:
        return all(_is_json(part) for part in value)
    if type(value) is str:
        return _is_utf8(value)
    return type(value) in _SCALARS and value == value and value not in {float("inf"), float("-inf")}  # noqa: PLR0124 -- NaN


def _is_utf8(value: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in value)
