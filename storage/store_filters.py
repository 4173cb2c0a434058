"""Which items of the store a search finds: filters as LangGraph's stores understand them, and words."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langgraph.store.base import MatchCondition

_ORDER: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
OPERATORS: Final = frozenset({"$eq", "$ne", *_ORDER})
"""What a filter may say beside a plain value."""


def fits(value: Any, wanted: Any) -> bool:
    """Return whether `value` is what a filter wants: an equal value, an object that has it, or `{"$gt": 3}`.

    A value that cannot be compared fits no order. Raises `ValueError` for an operator there is none of.
    """
    if isinstance(wanted, Mapping):
        if any(str(name).startswith("$") for name in wanted):
            return all(_applies(value, name, given) for name, given in wanted.items())
        return isinstance(value, Mapping) and all(fits(value.get(key), one) for key, one in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same and all(fits(one, other) for one, other in zip(value, wanted, strict=True))
    return bool(value == wanted)


def matches(namespace: Sequence[str], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends as the condition says; `*` is any label."""
    path = condition.path
    if len(namespace) < len(path):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) or None :]
    return all(wanted in ("*", label) for label, wanted in zip(labels, path, strict=False))


def likeness(query: str, value: Any) -> float:
    """Return the share of the query's words that `value` has somewhere, from 0 to 1."""
    asked = set(_words(query))
    return len(asked & set(_words(_text(value)))) / len(asked) if asked else 0.0


def _applies(value: Any, name: str, given: Any) -> bool:
    if name == "$eq":
        return bool(value == given)
    if name == "$ne":
        return bool(value != given)
    if name not in _ORDER:
        raise ValueError(f"there is no filter operator {name!r}; use one of {', '.join(sorted(OPERATORS))}")
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (value, given))
    texts = isinstance(value, str) and isinstance(given, str)
    return bool(_ORDER[name](value, given)) if numbers or texts else False


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(_text(one) for one in value.values())
    if isinstance(value, list | tuple):
        return " ".join(_text(one) for one in value)
    return str(value)
