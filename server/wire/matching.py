"""Whether an object is one that a search wants."""

from collections.abc import Mapping
from typing import Any


def contains(value: Any, wanted: Any) -> bool:
    """Return whether `value` has all of `wanted` in it, at every level, as PostgreSQL's `@>` understands it.

    None wants nothing.
    """
    if wanted is None:
        return True
    if not isinstance(wanted, Mapping):
        return _has(value, wanted)
    return isinstance(value, Mapping) and all(
        name in value and _has(value[name], one) for name, one in wanted.items()
    )


def _has(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return contains(value, wanted)
    if isinstance(wanted, list):
        return isinstance(value, list) and all(any(_has(one, want) for one in value) for want in wanted)
    return bool(value == wanted)
