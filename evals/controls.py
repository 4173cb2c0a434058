"""Controls: good and bad answers written beside the cases, which test the checks and not a model.

A bad answer must fail the check that it is about, a good one in other words must pass. Where only a judge can
tell, a control says so (`judge: true`): without a judge it is skipped, and counted as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # ships no types

from callsheet.state.errors import CallsheetError, Invalid
from evals import sides, tasks
from evals.judging import Judge
from evals.running import transcript_of
from evals.sides import Build
from evals.tasks import EVALS_FOLDER, Task
from evals.turns import COMMON, EvalToolCall, EvalTurn, TurnScore, score_turn
from evals.workflows import KITS

FOLDER: Final = EVALS_FOLDER / "controls"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader; that of libyaml, where it is built in, takes a tenth of the time."""
_BUILDERS: Final[Mapping[str, Build]] = {
    "ad_creation": sides.ad_side,
    "fact_narration": sides.lesson_side,
    "page_builder": sides.page_side,
    "scene_edit": sides.project_side,
    "campaign_search": lambda *_: None,
}
_ANSWER_FIELDS: Final = frozenset(
    {"name", "reply", "calls", "questions", "after", "searches", "judge", "fails"}
)
_GROUP_FIELDS: Final = frozenset({"turn", "check", "task", "given", "say", "before", "expect", "good", "bad"})


@dataclass(frozen=True)
class Control:
    """One good or bad answer."""

    workflow: str
    name: str
    check: str
    """The check that it is about; empty for a whole answer to a real task."""
    is_good: bool
    needs_judge: bool
    """True if code alone cannot tell, so that the rubric waits for a judge."""
    fails: Sequence[str]
    """Checks that must fail, of a bad one."""
    turn: EvalTurn[Any]

    def score(self) -> TurnScore:
        """Return the outcomes of the checks."""
        return score_turn(KITS[self.workflow].checks, self.turn)

    def problem(self) -> str:
        """Return why the checks are wrong about the answer; empty if they are right."""
        actual = self.score()
        if self.needs_judge:
            holds = not actual.failures and actual.rubrics
            return "" if holds else f"no judge is needed: {dict(actual.failures) or 'everything passes'}"
        if self.is_good:
            return (
                f"a good answer fails: {dict(actual.failures)}"
                if actual.failures
                else self._open_problem(actual)
            )
        missing = [one for one in self.fails if one not in actual.failures]
        return f"a bad answer passes {', '.join(missing)}" if missing else ""

    @property
    def material(self) -> str:
        """The turn as a judge reads it."""
        return "\n".join([*transcript_of(self.turn), KITS[self.workflow].product(self.turn)])

    async def judged_problem(self, judge: Judge) -> str:
        """Return why the judge is wrong about an answer that needs one; empty if it is right."""
        for name, rubric in self.score().rubrics.items():
            ruling = await judge.rule(self.material, rubric)
            if ruling is not self.is_good:
                return f"the judge decides {ruling} on {name}"
        return ""

    def _open_problem(self, actual: TurnScore) -> str:
        waiting = [name for name in actual.rubrics if not self.check or name == self.check]
        return f"only a judge can tell {', '.join(waiting)}: mark it `judge: true`" if waiting else ""


def load(folder: Path = FOLDER) -> list[Control]:
    """Return all controls; raise `Invalid` for an unknown field, check or task."""
    controls = [
        control
        for path in sorted(folder.glob("*.yaml"))
        for group in yaml.load(path.read_text("utf-8"), _LOADER)  # noqa: S506 -- a safe one, too
        for control in _read(path.stem, group)
    ]
    names = [f"{one.workflow}: {one.name}" for one in controls]
    if twice := sorted({one for one in names if names.count(one) > 1}):
        raise Invalid(f"two controls are called {twice[0]!r}", remedy="give each a name of its own")
    return controls


async def run(judge: Judge | None, folder: Path = FOLDER) -> tuple[list[str], str]:
    """Return the problems of all controls of a folder, and a sentence with their numbers."""
    controls = load(folder)
    problems = [f"{one.workflow} {one.name}: {problem}" for one in controls if (problem := one.problem())]
    problems += missing_controls(controls)
    for_judge = [one for one in controls if one.needs_judge]
    if judge:
        judged = await judge.each(lambda one: one.judged_problem(judge), for_judge)
        problems += [
            f"{one.workflow} {one.name}: {each}" for one, each in zip(for_judge, judged, strict=True) if each
        ]
    decided = [one for one in controls if not one.needs_judge]
    good = sum(one.is_good for one in decided)
    rest = "judged" if judge else "skipped, since they need a judge"
    return problems, (
        f"Controls: {good} good and {len(decided) - good} bad answers, {len(for_judge)} {rest}; "
        f"{len(problems)} problems"
    )


def missing_controls(controls: Sequence[Control]) -> list[str]:
    """Return the checks without a good or without a bad control."""
    kinds = {(one.workflow, one.check, one.is_good) for one in controls}
    shared = {(check, is_good) for _, check, is_good in kinds}
    common = {check.__name__ for check in COMMON}
    return [
        f"{name}.{check} has no {'good' if is_good else 'bad'} control"
        for name, kit in KITS.items()
        for check in kit.checks
        for is_good in (True, False)
        if (name, check, is_good) not in kinds and not (check in common and (check, is_good) in shared)
    ]


def _read(file: str, group: Mapping[str, Any]) -> Iterator[Control]:
    """Yield the controls of a group, an entry of a file."""
    _refuse(f"{file}: {group.get('check') or group.get('task')}", {*group} - _GROUP_FIELDS)
    workflow, case = _task_of(file, group)
    expect = group.get("expect") or case.requests[group.get("turn", 0) - 1].expect
    check = group.get("check", "")
    _refuse(f"{file}: {check}", {*expect, *([check] if check else [])} - {*KITS[workflow].checks})
    for kind in ("good", "bad"):
        for answer in group.get(kind, ()):
            _refuse(f"{file}: {answer.get('name')}", {*answer} - _ANSWER_FIELDS)
            is_good = kind == "good"
            name = f"{check or case.id}: {answer['name']}"
            fails = [] if is_good else answer.get("fails") or [check]
            if not is_good and fails == [""]:
                raise Invalid(f"control {name} fails no check", remedy="name one in `fails`")
            try:
                turn = _turn(workflow, case, {**group, "expect": expect}, answer)
            except CallsheetError as error:
                raise Invalid(f"control {workflow} {name}: {error}", remedy="correct it") from error
            yield Control(
                workflow=workflow,
                name=name,
                check=check,
                is_good=is_good,
                needs_judge=answer.get("judge", False),
                fails=fails,
                turn=turn,
            )


def _task_of(file: str, group: Mapping[str, Any]) -> tuple[str, Task]:
    """Return workflow and task of a group: a real task, or one that only the control has."""
    if "task" in group:
        workflow, _, name = group["task"].partition(".")
        by_id = {task.id: task for task in KITS[workflow].tasks()}
        return workflow, tasks.entry_named(name, by_id)
    say = group.get("say")
    request = tasks.TaskMessage(say, group["expect"])
    return file, Task(file, f"control-{group['check']}", [request], group.get("given", {}))


def _turn(workflow: str, case: Task, group: Mapping[str, Any], answer: Mapping[str, Any]) -> EvalTurn[Any]:
    build = _BUILDERS[workflow]
    start = build(case, {}, None)
    before = build(case, group["before"], start) if "before" in group else start
    after = build(case, answer["after"], before) if "after" in answer else before
    session = KITS[workflow].session
    words = [session.subject, session.words_of(case, before), session.words_of(case, after)]
    return EvalTurn(
        task=case,
        expect=group["expect"],
        messages=[one.say for one in case.requests[: group.get("turn")] if one.say],
        before=before,
        after=after,
        state={"choice": "v1", **sides.search_state(answer.get("searches", ()))},
        reply=answer.get("reply", ""),
        calls=[
            EvalToolCall(name, args, *(result or [{}])) for name, args, *result in answer.get("calls", ())
        ],
        questions=answer.get("questions", ()),
        words="\n".join(words),
    )


def _refuse(name: str, unknown: Sequence[str] | set[str]) -> None:
    if names := ", ".join(sorted(unknown)):
        raise Invalid(f"control {name} has an unknown field or check: {names}", remedy="correct it")
