"""Repair of arguments that a model wrote as almost-JSON.

JSON5 covers the usual slips: trailing commas, unquoted keys, single quotes. Its parser leaves string contents
unchanged, and a cut-off string or a missing bracket stays an error.
"""

import asyncio
import json
import math
from typing import Any, Final

import json5

from callsheet.state.errors import Invalid

MAX_CHARS: Final = 100_000
MAX_DEPTH: Final = 32
_MAX_CHARS_IN_PLACE: Final = 1_000
"""Characters that are repaired on the event loop: JSON5's parser takes up to 30 µs for each."""
_FENCE: Final = "```"


def repair_arguments(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` holds or nearly holds; valid JSON is never changed.

    An empty text is an empty object, as providers send it for a tool without arguments; text that is encoded
    twice is decoded twice. Raises `Invalid` for
    anything that is not an object even after repair.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_CHARS:
        raise Invalid(
            f"the arguments have {len(text)} characters, over the limit of {MAX_CHARS}",
            remedy="send less at once",
        )
    if (depth := _depth(text)) > MAX_DEPTH:
        raise Invalid(
            f"the arguments are nested {depth} levels deep, over the limit of {MAX_DEPTH}",
            remedy="nest them less deeply",
        )
    value = _parse(_without_fence(text))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parse(value)
    if not isinstance(value, dict):
        raise Invalid(f"the arguments are {type(value).__name__}, not an object", remedy="send a JSON object")
    return value


async def repair_off_loop(text: str) -> dict[str, Any]:
    """Do the same as `repair_arguments` without holding up the event loop for a long text."""
    if len(text) <= _MAX_CHARS_IN_PLACE:
        return repair_arguments(text)
    return await asyncio.to_thread(repair_arguments, text)


def _without_fence(text: str) -> str:
    """Return what is inside a Markdown fence around all of the text; a text without one as it is."""
    block = text.strip()
    opening, _, rest = block.partition("\n")
    language = opening.removeprefix(_FENCE).strip().replace("-", "a").replace("_", "a")
    fenced = opening.startswith(_FENCE) and (not language or language.isalnum())
    return rest.removesuffix(_FENCE) if fenced and rest.endswith(_FENCE) else text


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as broken:
        try:
            return _finite(json5.loads(text, allow_duplicate_keys=False))
        except (ValueError, RecursionError) as hopeless:
            raise Invalid(
                f"the arguments are not JSON: {_fault(broken)}",
                remedy="send a JSON object with double-quoted keys and strings",
            ) from hopeless


def _fault(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "a number has too many digits"


def _no_constant(name: str) -> float:
    raise Invalid(f"{name} is not a JSON number", remedy="send a finite number")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{value} is not a JSON number", remedy="send a finite number")
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _depth(text: str) -> int:
    # An upper bound: brackets inside strings count too, which only makes the limit stricter.
    deepest = level = 0
    for char in text:
        level += (char in "[{") - (char in "]}")
        deepest = max(deepest, level)
    return deepest
