"""One turn of a conversation, and the checks that every workflow has.

A check returns what is wrong, an empty text, or the rubric for a judge where no code can tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from callsheet.state import languages
from callsheet.state.claims import content
from callsheet.state.figures import all_numbers
from evals.tasks import Task
from evals.wording import affirms, affirms_any, fold, shares_content

Side = TypeVar("Side")
FEWER: Final = 0.96
MORE: Final = 1.04
"""Least changes that a person notices as shorter or slower, and as larger or faster."""
_SHORT: Final = 2
"""Words of content of a reply that is too short to be off topic by its words alone."""
_ADMITS: Final = (
    "The reply tells the person, in whatever words and language, that what was asked for was not done or "
    "cannot be done. It does not claim that it was done."
)
_ASKS: Final = (
    "The reply either asks the person what it needs to know to go on, or tells them that what was asked for "
    "was not done or cannot be done. It does not claim that it was done."
)


@dataclass(frozen=True)
class ForJudge:
    """An outcome that no code can decide: the checks of structure hold, and a judge reads the rest."""

    rubric: str
    """A statement about the turn that is true or false."""


Outcome = str | ForJudge
"""Problem of a turn, an empty text for none, or the rubric for a judge."""


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
    words: str = ""
    """The words of the artefact and of its workflow, which a reply may be about."""


class Check(Protocol):
    """A function that compares a turn with an expectation and returns its outcome."""

    __name__: str

    def __call__(self, expected: Any, turn: EvalTurn[Any], /) -> Outcome:
        """Return what is wrong, an empty text, or the rubric for a judge."""
        ...


@dataclass(frozen=True)
class TurnScore:
    """The outcomes of a turn's checks; what is in neither mapping holds."""

    failures: Mapping[str, str]
    """Problems by check."""
    rubrics: Mapping[str, str]
    """Rubrics for a judge by check."""


def score_turn(checks: Mapping[str, Check], turn: EvalTurn[Any]) -> TurnScore:
    """Return the outcomes of a turn's checks."""
    outcomes = {name: checks[name](expected, turn) for name, expected in turn.expect.items()}
    return TurnScore(
        {name: one for name, one in outcomes.items() if isinstance(one, str) and one},
        {name: one.rubric for name, one in outcomes.items() if isinstance(one, ForJudge)},
    )


def unless(holds: object, problem: str) -> str:
    """Return the problem unless something holds."""
    return "" if holds else problem


def lacks(text: str, expected: str | Sequence[str]) -> str:
    """Return the first of the expected texts that a text lacks, ignoring case and marks; empty for none."""
    folded = fold(text)
    every = [expected] if isinstance(expected, str) else expected
    return next((one for one in every if fold(one) not in folded), "")


def has_any(text: str, expected: Sequence[str]) -> bool:
    """Return whether a text has one of these, ignoring case."""
    return any(not lacks(text, one) for one in expected)


def description_outcome(text: str, expected: Sequence[str], name: str) -> Outcome:
    """Return whether a description has one of these words; a judge reads one that has other words."""
    affirmed = affirms_any(text, expected)
    if affirmed is None and text.strip():
        return ForJudge(f"The {name} {text!r} is as if it were described as: {' or '.join(expected)}.")
    return unless(affirmed, f"the {name} is {text!r}")


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


def figures(expected: Sequence[float | Sequence[float]], turn: EvalTurn[Any]) -> str:
    """Check that the reply states each number, or one of an inner list.

    Numbers in digits and in English or Chinese words are read; in other words, the figures that the answer
    declares for its statements count.
    """
    written = all_numbers(turn.reply)
    actual = written or {float(one) for one in _declared_figures(turn)}
    lists = [one if isinstance(one, Sequence) else [one] for one in expected]
    missing = [one for one in lists if actual.isdisjoint(map(float, one))]
    return unless(not missing, f"the reply states {sorted(actual)}, and not {missing[:1]}")


def _declared_figures(turn: EvalTurn[Any]) -> list[float]:
    statements = [one for call in turn.calls for one in call.args.get("statements", ())]
    return [figure for one in statements if isinstance(one, Mapping) for figure in one.get("figures", ())]


def on_topic(expected: bool, turn: EvalTurn[Any]) -> Outcome:
    """Check that the reply has content of the messages or the artefact; a judge reads a short one."""
    del expected
    return about(turn, [*turn.messages, turn.words], "the request or the artefact")


def about(turn: EvalTurn[Any], sources: Sequence[str], name: str) -> Outcome:
    """Return whether the reply shares content with sources; a judge reads a short one, such as "yes"."""
    if shares_content(turn.reply, sources):
        return ""
    if 0 < len(content(turn.reply)) <= _SHORT:
        return ForJudge(f"The reply {turn.reply!r} is a sensible answer, and is about {name}.")
    return f"the reply has nothing of {name}"


def asks_or_admits(expected: bool, turn: EvalTurn[Any]) -> Outcome:
    """Check that the reply is on topic; a judge reads whether it asks or says what was not done."""
    problem = on_topic(expected, turn)
    return problem if isinstance(problem, str) and problem else ForJudge(_ASKS)


def admits(expected: bool, turn: EvalTurn[Any]) -> Outcome:
    """Check that the reply is on topic; a judge reads whether it says what was not done."""
    problem = on_topic(expected, turn)
    return problem if isinstance(problem, str) and problem else ForJudge(_ADMITS)


def rubric(expected: str, turn: EvalTurn[Any]) -> Outcome:
    """Leave a statement about the turn to a judge, unless the turn has neither a reply nor a call."""
    return ForJudge(expected) if turn.reply.strip() or turn.calls else "there is no reply and no call"


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
    """Return whether an argument matches: a text that has the expected one undenied, the same number or set.

    `{"any": [...]}` lists alternatives.
    """
    if expected in ("", None):
        return not actual
    if isinstance(expected, dict):
        return any(_matches(actual, one) for one in expected["any"])
    if isinstance(expected, str):
        return not lacks(str(actual or ""), expected) and affirms(str(actual or ""), expected) is not False
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
    figures,
    on_topic,
    asks_or_admits,
    admits,
    rubric,
    reply_language,
    calls,
    never,
)
"""Checks of every workflow."""


def table(*checks: Check) -> Mapping[str, Check]:
    """Return the checks of a workflow by name, including the common ones."""
    return {check.__name__: check for check in (*COMMON, *checks)}
