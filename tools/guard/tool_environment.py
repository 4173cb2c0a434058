"""The environment that a run's tools and models are called in: policy, counters and replaced tools.

The worker sets it for each run; tools and models called without a server have the default one.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from callsheet.storage.spending import ModelUsage
from callsheet.storage.tool_calls import KEEP_CALLS, CallRetention
from callsheet.tools.call import Scope
from callsheet.tools.policy import ToolPolicy

if TYPE_CHECKING:
    from callsheet.tools.registry import Tool

ReportOutcome = Callable[[str], None]
"""Receives the outcome of a call: `ok`, or the type of its error."""
_NO_REPORT: Final = nullcontext[ReportOutcome](lambda _: None)


class Counters(Protocol):
    """Counts calls of tools and models."""

    def call(self, tool: str, scope: Scope) -> AbstractContextManager[ReportOutcome]:
        """Measure one call of a tool, `unknown` for an unknown name; the context reports its outcome."""
        ...

    def count_lookup(self, tool: str, *, hit: bool) -> None:
        """Count a cacheable look-up."""
        ...

    def count_model_call(self, model: str, outcome: str, took_s: float, usage: ModelUsage) -> None:
        """Count one call of a model; `outcome` is `ok`, `failed`, or `cut` if it was cancelled."""
        ...

    def count_budget_refusal(self, budget: str) -> None:
        """Count one call of a model that was not sent because of a budget: `turn`, `thread` or `day`."""
        ...


class NoCounters:
    """Counts nothing."""

    def call(self, tool: str, scope: Scope) -> AbstractContextManager[ReportOutcome]:
        """Measure nothing."""
        del tool, scope
        return _NO_REPORT

    def count_lookup(self, tool: str, *, hit: bool) -> None:
        """Count nothing."""
        del tool, hit

    def count_model_call(self, model: str, outcome: str, took_s: float, usage: ModelUsage) -> None:
        """Count nothing."""
        del model, outcome, took_s, usage

    def count_budget_refusal(self, budget: str) -> None:
        """Count nothing."""
        del budget


@dataclass(frozen=True, eq=False)
class ToolEnvironment:
    """Settings of the operator that tools and models depend on."""

    policy: ToolPolicy = field(default_factory=ToolPolicy)
    counters: Counters = field(default_factory=NoCounters)
    replacements: Mapping[str, "Tool"] = field(default_factory=dict)
    """Tools that are called in place of those of the same name."""
    kept_calls: CallRetention = KEEP_CALLS


_CURRENT: Final[ContextVar[ToolEnvironment]] = ContextVar(
    "callsheet_tool_environment",
    default=ToolEnvironment(),  # noqa: B039 -- frozen
)


def current_tool_environment() -> ToolEnvironment:
    """Return the tool environment of this task."""
    return _CURRENT.get()


@contextmanager
def use_tool_environment(tool_environment: ToolEnvironment) -> Iterator[None]:
    """Set the tool environment of this task, and of the tasks that it starts."""
    token = _CURRENT.set(tool_environment)
    try:
        yield
    finally:
        _CURRENT.reset(token)
