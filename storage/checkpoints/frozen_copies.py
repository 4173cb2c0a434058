"""Private copies of stored values: detect in-place changes and hand out fresh copies.

A frozen copy exists for text, numbers and times, for dicts, lists and tuples of them, and for chat messages.
Other values are compared and copied through their serialised form.
"""

import copy
import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, cast

from langchain_core import messages
from langchain_core.messages import BaseMessage

_LEAVES: Final = frozenset({
    str, int, float, bool, bytes, type(None),
    dt.datetime, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID,
})  # fmt: skip
_MESSAGES: Final[frozenset[type]] = frozenset({
    messages.AIMessage, messages.AIMessageChunk, messages.ChatMessage, messages.ChatMessageChunk,
    messages.FunctionMessage, messages.FunctionMessageChunk, messages.HumanMessage,
    messages.HumanMessageChunk, messages.RemoveMessage, messages.SystemMessage, messages.SystemMessageChunk,
    messages.ToolMessage, messages.ToolMessageChunk,
})  # fmt: skip
"""LangChain's own messages; a class of somebody else's may keep more than its fields."""

_EMPTY: Final[dict[type, Any]] = {dict: {}, list: [], tuple: ()}

T = TypeVar("T", bound=Hashable)


class FrozenCopy(Protocol):
    """A private copy of one value."""

    @property
    def id(self) -> str | None:
        """The message's id, if the value is a message that has one."""

    def matches(self, live: object) -> bool:
        """Return whether `live` still equals the copy, types included."""

    def copy(self) -> Any:
        """Return a new value that shares nothing mutable with the copy."""


def freeze(value: object) -> FrozenCopy | None:
    """Return a frozen copy of `value`, or None if its type is not supported."""
    try:
        return _FrozenMessage(value) if isinstance(value, BaseMessage) else _FrozenTree(value)
    except _UnsupportedType:
        return None


class _UnsupportedType(Exception):
    """The value contains a type that cannot be frozen."""


class _FrozenTree:
    """Frozen copy of a leaf, or of dicts, lists and tuples of leaves."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = _deep_copy(value)

    @property
    def id(self) -> None:
        return None

    def matches(self, live: object) -> bool:
        return _identical(live, self._value)

    def copy(self) -> Any:
        return _deep_copy(self._value)


class _FrozenMessage:
    """Frozen copy of a chat message, tuned for speed and size because there are many."""

    __slots__ = ("_empty", "_extra", "_prototype", "_state", "_trees")

    def __init__(self, message: BaseMessage) -> None:
        if message.__class__ not in _MESSAGES:
            raise _UnsupportedType
        self._prototype = _prototype(message.__class__, frozenset(message.model_fields_set))
        self._state = {name: _private_copy(value) for name, value in vars(message).items()}
        trees = [(name, value) for name, value in self._state.items() if value.__class__ not in _LEAVES]
        self._trees = _intern(tuple(name for name, value in trees if value))
        self._empty = _intern(tuple((name, value.__class__) for name, value in trees if not value))
        self._extra = _deep_copy(message.model_extra) or None

    @property
    def id(self) -> str | None:
        identity = self._state.get("id")
        return identity if isinstance(identity, str) else None

    def matches(self, live: object) -> bool:
        if live.__class__ is not self._prototype.__class__:
            return False
        state, frozen = vars(live), self._state
        try:
            # Nearly free, because a message and its copy mostly share the same text objects.
            if state != frozen:
                return False
        except ValueError:
            # An array compares to an array, which has no truth value; no frozen copy holds one.
            return False
        # Nested values need the strict comparison: 1 == True.
        extra = live.model_extra or None
        return _identical(extra, self._extra) and all(
            _identical(state[name], frozen[name]) for name in self._trees
        )

    def copy(self) -> Any:
        message = copy.copy(self._prototype)
        state = vars(message)
        state.update(self._state)
        for name, empty in self._empty:
            state[name] = empty()
        for name in self._trees:
            state[name] = _deep_copy(state[name])
        if self._extra:
            cast("dict[str, Any]", message.model_extra).update(_deep_copy(self._extra))
        return message


@lru_cache(maxsize=1024)
def _prototype(kind: type[BaseMessage], fields: frozenset[str]) -> BaseMessage:
    """Return a message without values whose given fields count as set: the quickest to copy."""
    construct: Callable[..., BaseMessage] = kind.model_construct
    message = construct(_fields_set=set(fields))
    vars(message).clear()
    return message


def _private_copy(value: Any) -> Any:
    """Copy like `_deep_copy`, with one shared object for all empty containers."""
    kind = value.__class__
    return _EMPTY[kind] if not value and kind in _EMPTY else _deep_copy(value)


@lru_cache(maxsize=1024)
def _intern(shape: T) -> T:
    """Return the first value equal to `shape`: fewer objects make garbage collection cheaper."""
    return shape


def _deep_copy(value: Any) -> Any:
    kind = value.__class__
    if kind in _LEAVES:
        return value
    if kind is dict:
        return {name: _deep_copy(item) for name, item in value.items()}
    if kind is list:
        return [_deep_copy(item) for item in value]
    if kind is tuple:
        return tuple(_deep_copy(item) for item in value)
    raise _UnsupportedType


def _identical(live: Any, frozen: Any) -> bool:
    """Return whether both are equal, types included."""
    kind = frozen.__class__
    if live is frozen or live.__class__ is not kind:
        return live is frozen
    if kind is dict:
        return live.keys() == frozen.keys() and all(_identical(live[name], frozen[name]) for name in frozen)
    if kind is list or kind is tuple:
        return len(live) == len(frozen) and all(map(_identical, live, frozen))
    return bool(live == frozen)
