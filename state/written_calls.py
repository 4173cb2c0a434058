"""Tool calls that a model wrote as text, as small local models do whose server knows no form of theirs.

A call is a JSON object with a name and arguments, or the name of a tool with its arguments behind it. It may
be fenced, tagged, listed, numbered, or have its outer braces doubled, as a template of Qwen 2.5 shows them.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_SPACER: Final = re.compile(r"\s+|</?tool(?:s|_calls?)>|```[\w-]*|[,;)\]\[]")
"""Whatever may be between calls."""
_NAME: Final = re.compile(
    r"(?:#{1,6} |[-*] |\d{1,2}[.)] )?[`*]{0,3}(?:functions\.)?([\w-]{1,64})[`*]{0,3}[:(]{0,2}"
)
_NAME_KEYS: Final = ("name", "tool", "function")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input")
_DECODER: Final = json.JSONDecoder(strict=False)
_MAX_TRIES: Final = 50
"""Objects of a text that are read."""


class WrittenCall(NamedTuple):
    """A call in a text."""

    name: str
    """A known tool."""
    args: dict[str, Any]


def calls_in_text(text: str, known: Callable[[str], str | None]) -> list[WrittenCall]:
    """Return the calls of a text that consists of calls alone, in order; none for any other text.

    `known` returns the tool that a name stands for.
    """
    calls: list[WrittenCall] = []
    at = 0
    while at < len(text):
        if spacer := _SPACER.match(text, at):
            at = spacer.end()
            continue
        read = _read_call(text, at, known)
        if read is None:
            return []
        call, at = read
        calls.append(call)
    return calls


def mentions_call(text: str, known: Callable[[str], str | None]) -> bool:
    """Return whether a text has a call beside other words."""
    starts = (match.start() for match in re.finditer(r"^(?=[^{\n]{0,80}\{)|\{", text, re.MULTILINE))
    return any(_read_call(text, start, known) for start, _ in zip(starts, range(_MAX_TRIES), strict=False))


def _read_call(text: str, at: int, known: Callable[[str], str | None]) -> tuple[WrittenCall, int] | None:
    """Return the call that begins at `at`, and where it ends."""
    named = _NAME.match(text, at)
    tool = known(named[1]) if named else None
    if named and tool:
        at = named.end()
        while spacer := _SPACER.match(text, at):
            at = spacer.end()
    read = _read_object(text, at)
    if read is None:
        return None
    data, end = read
    name = next((data[key] for key in _NAME_KEYS if isinstance(data.get(key), str)), None)
    args = next((data[key] for key in _ARGUMENT_KEYS if isinstance(data.get(key), Mapping)), None)
    if name is not None and args is not None and (called := known(name)):
        return WrittenCall(called, {**args}), end
    return (WrittenCall(tool, data), end) if tool else None


def _read_object(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the JSON object at `at`, and where it ends; its outer braces may be doubled."""
    if not text.startswith("{", at):
        return None
    doubled = text.startswith("{{", at)
    try:
        data, end = _DECODER.raw_decode(text, at + doubled)
    except (ValueError, RecursionError):
        return None
    return data, end + (doubled and text.startswith("}", end))
