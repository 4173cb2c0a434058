"""Count of the values in a thread's file, before the server holds any of them."""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import ormsgpack

from callsheet.state.errors import Invalid
from callsheet.storage.archive.lines import read_lines

MAX_VALUES: Final = 1_000_000
"""Most values in one line: numbers, texts, lists and objects, also those inside of others."""
MAX_FILE_VALUES: Final = 5_000_000
_REMEDY: Final = "on the server's machine run: callsheet threads import FILE --trust"


def count_values(data: bytes, report: Callable[[int, int], None]) -> dict[str, Any]:
    """Return how many values a file has; runs in the sandbox process.

    Raises `Invalid` for content that is no exported thread, and for too many values.
    """
    del report
    total = 0
    for number, (_, line) in enumerate(read_lines(data), 2):
        count = _count(line)
        total += count
        if count > MAX_VALUES or total > MAX_FILE_VALUES:
            raise Invalid(
                f"line {number} of the file brings it to {total} values; a line may have {MAX_VALUES}, and a "
                f"file {MAX_FILE_VALUES}",
                remedy=_REMEDY,
            )
    return {"values": total}


def _count(line: Any) -> int:
    """Return the number of values in a line, up to a little more than the limit."""
    count, open_values = 0, [iter([line])]
    while open_values and count <= MAX_VALUES:
        value = next(open_values[-1], open_values)
        if value is open_values:
            open_values.pop()
            continue
        count += 1
        if isinstance(value, Mapping | list | tuple):
            open_values.append(_children(value))
    return count


def _children(value: Any) -> Iterator[Any]:
    if not isinstance(value, Mapping):
        return iter(value)
    if value.keys() == {"as", "base64"} and value["as"] == "msgpack":
        return iter([_decode(value["base64"])])
    return iter(value.values())


def _decode(text: Any) -> Any:
    """Return a value in LangGraph's encoding, with objects of libraries as their bytes."""
    try:
        data = base64.b64decode(str(text))
        return ormsgpack.unpackb(data, ext_hook=lambda _code, inner: inner, option=ormsgpack.OPT_NON_STR_KEYS)
    except (ValueError, TypeError, RecursionError):
        # What cannot be read is refused with its reason when the file is imported.
        return None
