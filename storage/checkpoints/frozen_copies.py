"""Private copies of stored values: detect in-place changes and hand out fresh copies.

A shadow is made of values it knows through and through: text, numbers and moments, dicts, lists and tuples of
them, and chat messages. Anything else has none, and is compared and given out by its serialised form.
"""

import datetime as dt
import decimal
import uuid
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from langchain_core.messages import BaseMessage

_LEAVES: Final = frozenset({
    str, int, float, bool, bytes, type(None),
    dt.datetime, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID,
})  # fmt: skip


_EMPTY: Final[dict[type, Any]] = {dict: {}, list: [], tuple: ()}

T = TypeVar("T", bound=Hashable)


class FrozenCopy(Protocol):
    """A private copy of one value."""

    @property
    def id(self) -> str | None:
        """The id of a message that has one."""

    def matches(self, live: object) -> bool:
        """Whether `live` is still what it was when the shadow was taken."""

    def copy(self) -> Any:
        """Another value like it, which shares nothing with it that can be changed."""


def freeze(value: object) -> FrozenCopy | None:
    """The shadow of `value`, or None for a kind of value that has none."""
    try:
        return _FrozenMessage(value) if isinstance(value, BaseMessage) else _FrozenTree(value)
    except _Opaque:
        return None


class _Opaque(Exception):
    """A value that is not known through and through."""


class _FrozenTree:
    """Of a leaf, or of dicts, lists and tuples of leaves."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = _twin(value)

    @property
    def id(self) -> None:
        return None

    def matches(self, live: object) -> bool:
        return _same(live, self._value)

    def copy(self) -> Any:
        return _twin(self._value)


class _FrozenMessage:
    """Of a chat message; as cheap as a message can be compared, copied and kept, for there are many."""

    __slots__ = ("_empty", "_extra", "_kind", "_names", "_state", "_trees")

    def __init__(self, message: BaseMessage) -> None:
        if message.__pydantic_private__:
            raise _Opaque
        self._kind = message.__class__
        self._state = {name: _kept(value) for name, value in message.__dict__.items()}
        trees = [(name, value) for name, value in self._state.items() if value.__class__ not in _LEAVES]
        self._trees = _shared(tuple(name for name, value in trees if value))
        self._empty = _shared(tuple((name, value.__class__) for name, value in trees if not value))
        self._extra = _twin(message.__pydantic_extra__) or None
        self._names = _shared(frozenset(message.model_fields_set))

    @property
    def id(self) -> str | None:
        identity = self._state.get("id")
        return identity if isinstance(identity, str) else None

    def matches(self, live: object) -> bool:
        if live.__class__ is not self._kind:
            return False
        state, known = live.__dict__, self._state
        extra = live.__pydantic_extra__ or None
        try:
            # The texts of a message and of its shadow are mostly the same objects: this is nearly free.
            if state != known:
                return False
        except ValueError:
            # Arrays answer == with an array, which has no truth; no shadow holds one.
            return False
        # Where there is more than texts that does not suffice: 1 == True.
        return _same(extra, self._extra) and all(_same(state[name], known[name]) for name in self._trees)

    def copy(self) -> Any:
        # What pydantic's own model_construct does, without a look at every field: half the time of copy.copy.
        message = object.__new__(self._kind)
        state = self._state.copy()
        for name, empty in self._empty:
            state[name] = empty()
        for name in self._trees:
            state[name] = _twin(state[name])
        assign = object.__setattr__
        assign(message, "__dict__", state)
        assign(message, "__pydantic_fields_set__", set(self._names))
        assign(message, "__pydantic_extra__", _twin(self._extra) if self._extra else {})
        assign(message, "__pydantic_private__", None)
        return message


def _kept(value: Any) -> Any:
    """As `_twin`, for a value nobody else will ever see: what is empty need not be there twice."""
    kind = value.__class__
    return _EMPTY[kind] if not value and kind in _EMPTY else _twin(value)


@lru_cache(maxsize=1024)
def _shared(shape: T) -> T:
    """The first value equal to `shape`: the fewer objects, the less the garbage collector has to visit."""
    return shape


def _twin(value: Any) -> Any:
    kind = value.__class__
    if kind in _LEAVES:
        return value
    if kind is dict:
        return {name: _twin(item) for name, item in value.items()}
    if kind is list:
        return [_twin(item) for item in value]
    if kind is tuple:
        return tuple(_twin(item) for item in value)
    raise _Opaque


def _same(live: Any, known: Any) -> bool:
    """Whether they are equal down to the types."""
    kind = known.__class__
    if live is known or live.__class__ is not kind:
        return live is known
    if kind is dict:
        return live.keys() == known.keys() and all(_same(live[name], known[name]) for name in known)
    if kind is list or kind is tuple:
        return len(live) == len(known) and all(map(_same, live, known))
    return bool(live == known)
