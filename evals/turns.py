"""One turn of a conversation, and the checks that every workflow has.

A check returns what is wrong, or an empty text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from callsheet.state import languages
from callsheet.state.errors import Invalid
from evals.tasks import Task

Side = TypeVar("Side")
_CANNOT: Final = re.compile(
    r"\b(?:not|no|nothing|none|cannot|can't|couldn't|won't|don't|doesn't|isn't|wasn't|aren't|unable|only|already)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class EvalToolCall:
    """A call that the model made, with its result."""

    name: str
    args: Mapping[str, Any]
    result: Mapping[str, Any]


@dataclass(frozen=True)
class EvalTurn(Generic[Side]):
    """One turn, with the artefact before and after it."""

    task: Task
    expect: Mapping[str, Any]
    messages: Sequence[str]
    """The person's messages so far, the newest last."""
    before: Side
    after: Side
    state: Mapping[str, Any]
    """The thread's state after the turn."""
    reply: str
    calls: Sequence[EvalToolCall]
    questions: Sequence[Mapping[str, Any]]
    """Interrupts that were raised in the turn."""


class Check(Protocol):
    """A function that compares a turn with an expectation and returns what is wrong."""

    __name__: str

    def __call__(self, expected: Any, turn: EvalTurn[Any], /) -> str:
        """Return what is wrong, or an empty text."""
        ...


def failures(checks: Mapping[str, Check], turn: EvalTurn[Any]) -> dict[str, str]:
    """Return what is wrong with a turn, by check."""
    actual = {name: checks[name](expected, turn) for name, expected in turn.expect.items()}
    return {name: problem for name, problem in actual.items() if problem}


def unless(holds: object, problem: str) -> str:
    """Return the problem unless something holds."""
    return "" if holds else problem


def lacks(text: str, expected: str | Sequence[str]) -> str:
    """Return the first of the expected texts that a text lacks, ignoring case; empty for none."""
    folded = " ".join(text.casefold().split())
    every = [expected] if isinstance(expected, str) else expected
    return next((one for one in every if one.casefold() not in folded), "")


def has_any(text: str, expected: Sequence[str]) -> bool:
    """Return whether a text has one of these, ignoring case."""
    return any(not lacks(text, one) for one in expected)


def says(expected: str | Sequence[str], turn: EvalTurn[Any]) -> str:
    """Check that the reply has each text."""
    missing = lacks(turn.reply, expected)
    return unless(not missing, f"the reply does not say {missing!r}")


def says_any(expected: Sequence[str], turn: EvalTurn[Any]) -> str:
    """Check that the reply has one of the texts."""
    return unless(has_any(turn.reply, expected), f"the reply says none of {expected}")


def says_not(expected: Sequence[str], turn: EvalTurn[Any]) -> str:
    """Check that the reply has none of the texts."""
    return unless(not has_any(turn.reply, expected), f"the reply says one of {expected}")


def asks_or_admits(expected: bool, turn: EvalTurn[Any]) -> str:
    """Check that the reply asks a question or says that something was not done."""
    del expected
    return unless("?" in turn.reply or _CANNOT.search(turn.reply), "the reply neither asks nor admits")


def admits(expected: bool, turn: EvalTurn[Any]) -> str:
    """Check that the reply says that something was not done."""
    del expected
    return unless(_CANNOT.search(turn.reply), "the reply does not admit that it was not done")


def reply_language(expected: str, turn: EvalTurn[Any]) -> str:
    """Check the language of the reply."""
    actual = languages.detect(turn.reply)
    return unless(actual == expected, f"the reply is in {actual}")


def calls(expected: Sequence[Mapping[str, Any]], turn: EvalTurn[Any]) -> str:
    """Check that each tool was called, with at least these arguments."""
    for one in expected:
        same = [call for call in turn.calls if call.name == one["name"]]
        if not any(_has_arguments(call.args, one.get("args", {})) for call in same):
            actual = [dict(call.args) for call in same]
            return f"no call {one['name']} with {one.get('args', {})}; given: {actual or 'none'}"[:400]
    return ""


def never(expected: Sequence[str], turn: EvalTurn[Any]) -> str:
    """Check that none of these tools was called."""
    forbidden = sorted({call.name for call in turn.calls} & {*expected})
    return unless(not forbidden, f"called {', '.join(forbidden)}")


def _has_arguments(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    return all(_matches(actual.get(name), value) for name, value in expected.items())


def _matches(actual: Any, expected: Any) -> bool:
    """Return whether an argument matches: a text that contains the expected one, the same number or set.

    `{"any": [...]}` lists alternatives.
    """
    if expected in ("", None):
        return not actual
    if isinstance(expected, dict):
        return any(_matches(actual, one) for one in expected["any"])
    if isinstance(expected, str):
        return not lacks(str(actual or ""), expected)
    if isinstance(expected, list):
        return isinstance(actual, list) and {*map(str, actual)} == {*map(str, expected)}
    try:
        return actual is not None and float(actual) == float(expected)
    except (TypeError, ValueError):
        return False


COMMON: Final[tuple[Check, ...]] = (
    says,
    says_any,
    says_not,
    asks_or_admits,
    admits,
    reply_language,
    calls,
    never,
)
"""Checks of every workflow."""


def table(*checks: Check) -> Mapping[str, Check]:
    """Return the checks of a workflow by name, including the common ones."""
    return {check.__name__: check for check in (*COMMON, *checks)}


def entry_named(name: str, mapping: Mapping[str, Any]) -> Any:
    """Return the entry of this name; raise `Invalid` that lists the others."""
    if name not in mapping:
        raise Invalid(f"there is no {name!r}", remedy=f"use one of {', '.join(mapping)}")
    return mapping[name]
