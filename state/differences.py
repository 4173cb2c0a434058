"""Differences between two versions of any stream: structured, and in words."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import eq
from typing import Any, Final, Literal, NotRequired

from typing_extensions import TypedDict

MAX_LINE: Final = 200
"""Characters of a one-line difference."""
_QUOTED: Final = 60
"""Characters of a value in words."""
_CONTEXT: Final = 20
"""Characters, about, before the place where two long texts begin to differ."""
_NAMED: Final = 3
"""Differences that a line names."""


class Difference(TypedDict):
    """One difference."""

    kind: Literal["added", "removed", "moved", "changed"]
    path: str
    """Place, such as `voiceTracks.track-0.text`; an entry of a list by its id, or else its index."""
    text: str
    """The difference in one line."""
    before: NotRequired[Any]
    """Value that there was."""
    after: NotRequired[Any]
    """Value that there is."""


def compare(before: Any, after: Any, path: str = "") -> list[Difference]:
    """Return the differences between two JSON values, in order of the newer one; empty for equal ones."""
    if before == after and type(before) is type(after):
        return []
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return [*_part_differences(before, after, path)]
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        by_id = _have_ids(before) and _have_ids(after)
        old, new = (_named_parts(value, by_id=by_id) for value in (before, after))
        return [*_part_differences(old, new, path), *(_moves(old, new, path) if by_id else ())]
    words = " → ".join(_quotes(before, after))
    text = f"{path or 'value'}: {words}"
    return [Difference(kind="changed", path=path, text=text, before=before, after=after)]


def _part_differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Difference]:
    for name, value in old.items():
        if name not in new:
            place = _join(path, name)
            text = f"{place} removed: {_quote(value)}"
            yield Difference(kind="removed", path=place, text=text, before=value)
    for name, value in new.items():
        place = _join(path, name)
        if name in old:
            yield from compare(old[name], value, place)
        else:
            yield Difference(kind="added", path=place, text=f"{place} added: {_quote(value)}", after=value)


def _moves(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[Difference]:
    """Yield one difference if the entries that a list kept are in another order."""
    before, after = [name for name in old if name in new], [name for name in new if name in old]
    if before != after:
        text = f"{path or 'value'} in another order: {', '.join(after)}"
        yield Difference(kind="moved", path=path, text=text, before=before, after=after)


def _have_ids(entries: Sequence[Any]) -> bool:
    """Return whether each entry has an id of its own."""
    ids = {str(entry["id"]) for entry in entries if isinstance(entry, Mapping) and "id" in entry}
    return len(ids) == len(entries)


def _named_parts(entries: Sequence[Any], *, by_id: bool) -> Mapping[str, Any]:
    return {str(entry["id"] if by_id else index): entry for index, entry in enumerate(entries)}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _quote(value: Any) -> str:
    if isinstance(value, Mapping):
        label = next((value[name] for name in ("text", "description", "name") if value.get(name)), None)
        return _quote(label) if label is not None else f"{len(value)} field{'s' * (len(value) != 1)}"
    if isinstance(value, list | tuple):
        return f"{len(value)} entr{'y' if len(value) == 1 else 'ies'}"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if not isinstance(value, str):
        return f"{value}"
    return _quote_text(" ".join(value.split()))


def _quotes(before: Any, after: Any) -> tuple[str, str]:
    """Return both values in words; of long texts the part where they begin to differ."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return _quote(before), _quote(after)
    old, new = (" ".join(value.split()) for value in (before, after))
    same = sum(1 for _ in takewhile(bool, map(eq, old, new)))
    begin = old.rfind(" ", 0, same - _CONTEXT) + 1 if same > _QUOTED - _CONTEXT else 0
    return _quote_text(old, begin), _quote_text(new, begin)


def _quote_text(words: str, begin: int = 0) -> str:
    part = f"…{words[begin:]}" if begin else words
    return f'"{part}"' if len(part) <= _QUOTED else f'"{part[: _QUOTED - 1].rstrip()}…"'


def one_line(lines: Sequence[str]) -> str:
    """Return the first differences in one line, and the number of the others."""
    rest = f"; and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    text = "; ".join(lines[:_NAMED])
    room = MAX_LINE - len(rest)
    return (text if len(text) <= room else f"{text[: room - 1]}…") + rest
