"""JSON as the server stores and sends it: any value."""

import json
import math
from base64 import b64encode
from collections import abc
from collections.abc import Callable, Mapping
from enum import Enum
from functools import singledispatch
from typing import Any, Final

import orjson
from pydantic import BaseModel

from callsheet.state.unicode import utf8_safe

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_MAX_IN_PLACE: Final = 1024
"""Bytes of JSON that stay in the buffer they were written to."""


def dumps(value: object, unknown: Callable[[Any], Any] | None = None) -> bytes:
    """Return `value` as JSON; NaN and infinity become null, and half of a surrogate pair U+FFFD.

    `unknown` converts values that JSON lacks; the default is `to_jsonable`.
    """
    try:
        text = orjson.dumps(value, default=unknown or to_jsonable, option=_OPTIONS)
    except orjson.JSONEncodeError:
        # orjson refuses integers beyond 64 bits, halves of surrogate pairs, and deep nesting.
        return utf8_safe(_ENCODER.encode(_plain(value, unknown or to_jsonable))).encode()
    # orjson's buffer was up to twelve times as large; a copy leaves its room whole for the next one.
    return bytes(memoryview(text)) if len(text) > _MAX_IN_PLACE else text


@singledispatch
def to_jsonable(value: Any) -> Any:
    """Convert a value that JSON lacks, as LangGraph's server does.

    By default a dataclass is an object, an array or number of NumPy a list or number, anything else text.
    """
    if isinstance(value, type):
        return str(value)
    if fields := getattr(value, "__dataclass_fields__", None):
        return {name: getattr(value, name) for name in fields}
    for method in ("model_dump", "to_dict", "tolist"):
        if callable(convert := getattr(value, method, None)):
            return convert()
    return str(value)


@to_jsonable.register
def _(value: BaseModel) -> Any:
    return value.model_dump()


@to_jsonable.register
def _(value: BaseException) -> Any:
    return {"error": type(value).__name__, "message": str(value)}


@to_jsonable.register
def _(value: Enum) -> Any:
    return value.value


@to_jsonable.register(bytes)
@to_jsonable.register(bytearray)
@to_jsonable.register(memoryview)
def _(value: bytes | bytearray | memoryview) -> Any:
    return b64encode(value).decode()


# Subclasses of JSON types, which orjson passes to its default function.


@to_jsonable.register
def _(value: str) -> Any:
    return str.__str__(value)


@to_jsonable.register
def _(value: int) -> Any:
    return int(value)


@to_jsonable.register(abc.Mapping)
def _(value: Mapping[Any, Any]) -> Any:
    return dict(value)


@to_jsonable.register(abc.Set)
@to_jsonable.register(abc.Sequence)
def _(value: abc.Collection[Any]) -> Any:
    fields = _field_names(value)
    return dict(zip(fields, value, strict=True)) if fields else list(value)


def _field_names(value: object) -> tuple[str, ...]:
    """Return the names of a named tuple's fields; none for any other value."""
    return getattr(value, "_fields", ()) if isinstance(value, tuple) else ()


def _plain(value: Any, unknown: Callable[[Any], Any]) -> Any:
    """Convert a value to dicts, lists, strings, numbers, booleans and None."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item, unknown) for name, item in value.items()}
    if isinstance(value, list | tuple) and not _field_names(value):
        return [_plain(item, unknown) for item in value]
    try:
        # Types that orjson encodes itself: times, UUIDs, and fragments, which may have what it refuses.
        return json.loads(orjson.dumps(value, option=_OPTIONS))
    except orjson.JSONEncodeError:
        return _plain(unknown(value), unknown)
