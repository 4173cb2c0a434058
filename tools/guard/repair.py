"""Repair of arguments that a model wrote as almost-JSON.

JSON5 covers the usual slips: trailing commas, unquoted keys, single quotes. Its parser leaves string contents
unchanged, and a cut-off string or a missing bracket stays an error.
"""

import json
import math
import re
from typing import Any, Final

import json5

from callsheet.state.errors import Invalid

MAX_CHARS: Final = 100_000
MAX_DEPTH: Final = 32
_FENCE: Final = re.compile(r"\A\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


def repair_arguments(text: str) -> dict[str, Any]:
    """Return the JSON object that `text` holds or nearly holds; valid JSON is never changed.

    An empty text is an empty object, as providers send it for a tool without arguments; text that is encoded
    twice is decoded twice. Raises `Invalid` for
    anything that is not an object even after repair.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_CHARS or _depth(text) > MAX_DEPTH:
        raise Invalid(
            f"{len(text)} characters of arguments are over {MAX_CHARS}, or nested over {MAX_DEPTH} levels",
            remedy="send less at once",
        )
    fenced = _FENCE.match(text)
    value = _parse(fenced.group(1) if fenced else text)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _parse(value)
    if not isinstance(value, dict):
        raise Invalid(f"the arguments are {type(value).__name__}, not an object", remedy="send a JSON object")
    return value


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as broken:
        try:
            return _finite(json5.loads(text, allow_duplicate_keys=False))
        except (ValueError, RecursionError) as hopeless:
            raise Invalid(
                f"the arguments are not JSON: {broken.msg} at character {broken.pos}",
                remedy="send a JSON object with double-quoted keys and strings",
            ) from hopeless


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
