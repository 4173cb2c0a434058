"""Limits of tools: time-outs, rates, retries, breakers, cache.

The operator's option for a tool beats the tool's own; then come the operator's options for all tools and the
defaults here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as checked

from callsheet.state.budgets import Budgets, parse_budgets
from callsheet.state.errors import Invalid
from callsheet.state.pricing import PRICES, Price, parse_prices

ALL_TOOLS: Final = "*"
"""Stands for every tool, or every owner."""


@checked(frozen=True, config=ConfigDict(extra="forbid"))
class ToolOptions:
    """Options of a tool; None falls back to the next source."""

    timeout_s: Annotated[float | None, Field(gt=0, le=3600)] = None
    """Seconds until a call times out and a late write is refused; 30."""
    calls: Annotated[int | None, Field(ge=0)] = None
    """Calls of one owner in any `window_s`, 0 for no limit; 10 with effects outside, else 600."""
    window_s: Annotated[float | None, Field(gt=0, le=3600)] = None
    """Seconds in which calls are counted; 60."""
    failures: Annotated[int | None, Field(ge=0)] = None
    """Failures in a row that open the breaker, 0 for no breaker; 5."""
    rest_s: Annotated[float | None, Field(gt=0, le=3600)] = None
    """Seconds that an open breaker refuses calls before it admits one probe; 30."""
    tries: Annotated[int | None, Field(ge=1, le=10)] = None
    """Attempts at a call where a retry is safe; 3."""
    backoff_s: Annotated[float | None, Field(ge=0, le=60)] = None
    """Longest pause before the second attempt, doubled for each further one; 0.5."""
    cache_s: Annotated[float | None, Field(ge=0, le=86_400)] = None
    """Seconds that the result of a pure look-up is cached, 0 for never; 300. Errors are not cached."""
    output_bytes: Annotated[int | None, Field(ge=1)] = None
    """Largest result as JSON; 1 000 000."""
    memory_bytes: Annotated[int | None, Field(ge=1)] = None
    """Address space of a sandbox process beyond what it starts with; 512 MiB."""
    cpu_s: Annotated[float | None, Field(gt=0, le=3600)] = None
    """Processor seconds of a sandbox process; the same as `timeout_s`."""


_DEFAULTS: Final = ToolOptions(
    timeout_s=30.0,
    window_s=60.0,
    failures=5,
    rest_s=30.0,
    tries=3,
    backoff_s=0.5,
    cache_s=300.0,
    output_bytes=1_000_000,
    memory_bytes=512 * 1024 * 1024,
)


_UNSET: Final = ToolOptions()


@dataclass(frozen=True)
class EffectivePolicy:
    """Options of one tool with all defaults applied; the fields are those of `ToolOptions`."""

    timeout_s: float
    calls: int
    window_s: float
    failures: int
    rest_s: float
    tries: int
    backoff_s: float
    cache_s: float
    output_bytes: int
    memory_bytes: int
    cpu_s: float


@dataclass(frozen=True, eq=False)
class ToolPolicy:
    """The operator's options, grants and prices; compared by identity."""

    options: Mapping[str, ToolOptions] = field(default_factory=dict)
    """Options by tool; `*` for tools without their own."""
    grants: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {ALL_TOOLS: (ALL_TOOLS,)})
    """Permissions by owner; `*` for owners not named, and as a permission for all."""

    prices: Mapping[str, Price] = field(default_factory=lambda: PRICES)
    """Prices of models by name."""
    budgets: Budgets = field(default_factory=Budgets)
    """Caps on the cost of model calls."""

    def grants_all(self, owner: str, permissions: frozenset[str]) -> bool:
        """Return True if the owner has all permissions; a grant may be a pattern such as `page:*`."""
        return _covers(self.grants.get(owner, self.grants.get(ALL_TOOLS, ())), permissions)

    def effective(self, name: str, own: ToolOptions, *, calls: int) -> EffectivePolicy:
        """Return the policy of the tool `name`; `calls` is its default limit."""
        return _resolve(self.options.get(name, _UNSET), own, self.options.get(ALL_TOOLS, _UNSET), calls)

    def sets_timeout(self, name: str, own: ToolOptions) -> bool:
        """Return True if the time-out of the tool `name` is the operator's."""
        if self.options.get(name, _UNSET).timeout_s is not None:
            return True
        return own.timeout_s is None and self.options.get(ALL_TOOLS, _UNSET).timeout_s is not None


@cache
def _covers(granted: tuple[str, ...], permissions: frozenset[str]) -> bool:
    return all(any(fnmatchcase(one, grant) for grant in granted) for one in permissions)


@cache
def _resolve(named: ToolOptions, own: ToolOptions, every: ToolOptions, calls: int) -> EffectivePolicy:
    sources = (named, own, every, replace(_DEFAULTS, calls=calls))
    values = {one.name: _first(one.name, sources) for one in fields(EffectivePolicy)}
    return EffectivePolicy(**{**values, "cpu_s": values["cpu_s"] or values["timeout_s"]})


def parse_policy(
    options: Mapping[str, Any],
    grants: Mapping[str, Any],
    prices: Mapping[str, Any] | None = None,
    budgets: Mapping[str, Any] | None = None,
) -> ToolPolicy:
    """Parse the operator's JSON; raises `Invalid` with the tool and the field, or the owner."""
    for owner, listed in grants.items():
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise Invalid(
                f"the grants of {owner!r} are {listed!r}, not a list of permissions",
                remedy='write ["*"] for all of them in CALLSHEET_TOOL_GRANTS',
            )
    read = {name: _parse_options(name, written) for name, written in options.items()}
    granted = {ALL_TOOLS: (ALL_TOOLS,), **{owner: tuple(listed) for owner, listed in grants.items()}}
    return ToolPolicy(read, granted, parse_prices(prices or {}), parse_budgets(budgets or {}))


def _parse_options(name: str, written: Any) -> ToolOptions:
    if not isinstance(written, Mapping):
        raise Invalid(
            f"the terms of {name!r} are {written!r}, not an object", remedy='write {"timeout_s": 5}'
        )
    try:
        return ToolOptions(**written)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field_name = ".".join(str(part) for part in first["loc"])
        known = ", ".join(one.name for one in fields(ToolOptions))
        raise Invalid(
            f"{field_name!r} of {name!r} is {first['input']!r}: {first['msg']}",
            remedy=f"correct CALLSHEET_TOOLS; there are {known}",
        ) from None


def _first(name: str, sources: tuple[ToolOptions, ...]) -> Any:
    return next((value for source in sources if (value := getattr(source, name)) is not None), None)
