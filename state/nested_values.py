"""Values inside values."""

from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass
from operator import is_
from typing import Any, Final

from pydantic import BaseModel

_MAX_DEPTH: Final = 64
"""Levels of a value that are looked into."""


def replace_parts(value: Any, replace: Callable[[Any], Any], depth: int = 0) -> Any:
    """Return a value with every part replaced that holds no others; the same object if nothing changes.

    Looks into dicts, lists, tuples, pydantic models and dataclasses.
    """
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        pairs = [(key, item, *replace_parts([key, item], replace, depth + 1)) for key, item in value.items()]
        unchanged = all(key is new_key and item is new for key, item, new_key, new in pairs)
        return value if unchanged else {new_key: new for _, _, new_key, new in pairs}
    if isinstance(value, list | tuple) and (type(value) in {list, tuple} or hasattr(value, "_make")):
        items = [replace_parts(item, replace, depth + 1) for item in value]
        make = getattr(value, "_make", type(value))
        return value if all(map(is_, items, value)) else make(items)
    return _replace_in_fields(value, replace, depth + 1)


def _replace_in_fields(value: Any, replace: Callable[[Any], Any], depth: int) -> Any:
    """Return a copy of a pydantic model or dataclass with its fields replaced; other values are parts."""
    if isinstance(value, BaseModel):
        names = list(value.__dict__)
    elif is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in fields(value)]
    else:
        return replace(value)
    before = {name: getattr(value, name) for name in names}
    changed = {
        name: new for name, item in before.items() if (new := replace_parts(item, replace, depth)) is not item
    }
    if not changed:
        return value
    copied = copy(value)
    for name, new in changed.items():
        object.__setattr__(copied, name, new)
    return copied
