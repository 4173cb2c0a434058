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
class ObservedCall:
    """A call that the model made, with its result."""

    name: str
    args: Mapping[str, Any]
    result: Mapping[str, Any]


@dataclass(frozen=True)
class PlayedTurn(Generic[Side]):
    """One turn, with the artefact before and after it."""

    task: Task
    expect: Mapping[str, Any]
    said: Sequence[str]
    """The person's messages so far, the newest last."""
    before: Side
    after: Side
    state: Mapping[str, Any]
    """The thread's state after it."""
    reply: str
    calls: Sequence[ObservedCall]
    questions: Sequence[Mapping[str, Any]]
    """Interrupts that were raised in it."""


class Check(Protocol):
    """Compares a turn with what is wanted, and returns what is wrong."""

    __name__: str

    def __call__(self, wanted: Any, turn: PlayedTurn[Any], /) -> str:
        """Return what is wrong, or an empty text."""
        ...


def failures(checks: Mapping[str, Check], turn: PlayedTurn[Any]) -> dict[str, str]:
    """Return what is wrong with a turn, by check."""
    actual = {name: checks[name](wanted, turn) for name, wanted in turn.expect.items()}
    return {name: problem for name, problem in actual.items() if problem}


def unless(holds: object, problem: str) -> str:
    """Return the problem unless something holds."""
    return "" if holds else problem


def lacks(text: str, wanted: str | Sequence[str]) -> str:
    """Return the first of the wanted texts that a text lacks, in any case; empty for none."""
    folded = " ".join(text.casefold().split())
    every = [wanted] if isinstance(wanted, str) else wanted
    return next((one for one in every if one.casefold() not in folded), "")


def has_any(text: str, wanted: Sequence[str]) -> bool:
    """Return whether a text has one of these, in any case."""
    return any(not lacks(text, one) for one in wanted)


def says(wanted: str | Sequence[str], turn: PlayedTurn[Any]) -> str:
    """Find each text in the reply."""
    missing = lacks(turn.reply, wanted)
    return unless(not missing, f"the reply does not say {missing!r}")


def says_any(wanted: Sequence[str], turn: PlayedTurn[Any]) -> str:
    """Find one of the texts in the reply."""
    return unless(has_any(turn.reply, wanted), f"the reply says none of {wanted}")


def says_not(wanted: Sequence[str], turn: PlayedTurn[Any]) -> str:
    """Find none of the texts in the reply."""
    return unless(not has_any(turn.reply, wanted), f"the reply says one of {wanted}")


def asks_or_admits(wanted: bool, turn: PlayedTurn[Any]) -> str:
    """Find a question in the reply, or that something was not done."""
    del wanted
    return unless("?" in turn.reply or _CANNOT.search(turn.reply), "the reply neither asks nor admits")


def admits(wanted: bool, turn: PlayedTurn[Any]) -> str:
    """Find in the reply that something was not done."""
    del wanted
    return unless(_CANNOT.search(turn.reply), "the reply does not admit that it was not done")


def reply_language(wanted: str, turn: PlayedTurn[Any]) -> str:
    """Compare the language of the reply."""
    actual = languages.detect(turn.reply)
    return unless(actual == wanted, f"the reply is in {actual}")


def calls(wanted: Sequence[Mapping[str, Any]], turn: PlayedTurn[Any]) -> str:
    """Find each call, with at least these arguments."""
    for one in wanted:
        same = [call for call in turn.calls if call.name == one["name"]]
        if not any(_has_arguments(call.args, one.get("args", {})) for call in same):
            given = [dict(call.args) for call in same]
            return f"no call {one['name']} with {one.get('args', {})}; given: {given or 'none'}"[:400]
    return ""


def never(wanted: Sequence[str], turn: PlayedTurn[Any]) -> str:
    """Find no call of these tools."""
    made = sorted({call.name for call in turn.calls} & {*wanted})
    return unless(not made, f"called {', '.join(made)}")


def _has_arguments(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_fits(given.get(name), value) for name, value in wanted.items())


def _fits(given: Any, wanted: Any) -> bool:
    """Return whether an argument is what is wanted: a text that contains it, the same number or set.

    `{"any": [...]}` has several that will do.
    """
    if wanted in ("", None):
        return not given
    if isinstance(wanted, dict):
        return any(_fits(given, one) for one in wanted["any"])
    if isinstance(wanted, str):
        return not lacks(str(given or ""), wanted)
    if isinstance(wanted, list):
        return isinstance(given, list) and {*map(str, given)} == {*map(str, wanted)}
    try:
        return given is not None and float(given) == float(wanted)
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
    """Return the checks of a workflow by name, those of every workflow among them."""
    return {check.__name__: check for check in (*COMMON, *checks)}


def known(name: str, mapping: Mapping[str, Any]) -> Any:
    """Return the entry of this name; raise `Invalid` that lists the others."""
    if name not in mapping:
        raise Invalid(f"there is no {name!r}", remedy=f"use one of {', '.join(mapping)}")
    return mapping[name]
