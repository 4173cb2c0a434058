"""Tasks: messages of a person in a given state of an artefact, and the checks on the result."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from callsheet.state.errors import Invalid

EVALS_FOLDER: Final = Path(__file__).parent
CASES: Final = EVALS_FOLDER / "cases"
COMMON: Final = frozenset({"id", "said", "say", "expect", "edit", "offline", "bench"})
"""Fields of a case in every workflow."""
_OF_TURN: Final = frozenset({"say", "expect", "edit", "answers"})


@dataclass(frozen=True)
class TaskMessage:
    """One message of a person, with the checks of the turn that it begins."""

    say: str | None
    """None for a turn that the workflow's own input begins."""
    expect: Mapping[str, Any] = field(default_factory=dict)
    edit: Any = None
    """The person's own change of the artefact before the message; its form is the workflow's."""
    answers: Sequence[dict[str, Any]] = ()
    """Given answers, in the form of recordings: the turn is history, with real calls and results."""


@dataclass(frozen=True)
class Task:
    """One case of a workflow."""

    workflow: str
    id: str
    requests: Sequence[TaskMessage]
    """Every turn in order; the case is about the last one."""
    setup: Mapping[str, Any]
    """The state before the first turn: the fields that only this workflow has."""
    offline: bool = False
    """The offline model's grammar covers it."""
    bench: bool = False
    """It is a labelled question for a bench, and no task of a model."""

    @property
    def group(self) -> str:
        """The first part of the id, such as `music`."""
        return self.id.partition("-")[0]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The given answers of the turns that are history, in order."""
        return [answer for request in self.requests for answer in request.answers]

    @property
    def key(self) -> str:
        """Name among the tasks of all workflows."""
        return f"{self.workflow}.{self.id}"


def load(workflow: str, fields: Iterable[str], checks: Iterable[str]) -> list[Task]:
    """Return the tasks of a workflow; raise `Invalid` for an unknown field or check."""
    path = CASES / f"{workflow}.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    tasks = [read(workflow, line, frozenset(fields), frozenset(checks)) for line in lines]
    ids = [task.id for task in tasks]
    if duplicates := sorted({one for one in ids if ids.count(one) > 1}):
        raise Invalid(f"{path.name} has two cases {duplicates[0]!r}", remedy="give each an id of its own")
    return tasks


def read(workflow: str, line: Mapping[str, Any], fields: frozenset[str], checks: frozenset[str]) -> Task:
    """Return the task of a case; raise `Invalid` for an unknown field or check."""
    name = f"{workflow}.{line.get('id')}"
    _refuse(name, "field", {*line} - COMMON - fields)
    earlier = [one if isinstance(one, dict) else {"say": one} for one in line.get("said", ())]
    turns = [*earlier, {"say": line.get("say"), "expect": line["expect"], "edit": line.get("edit")}]
    for turn in turns:
        _refuse(name, "field of a turn", {*turn} - _OF_TURN)
        _refuse(name, "check", {*turn.get("expect", {})} - checks)
    if not line["expect"]:
        raise Invalid(f"case {name} checks nothing", remedy="add a check to `expect`")
    return Task(
        workflow=workflow,
        id=line["id"],
        requests=[
            TaskMessage(turn["say"], turn.get("expect", {}), turn.get("edit"), turn.get("answers", ()))
            for turn in turns
        ],
        setup={key: value for key, value in line.items() if key not in COMMON},
        offline=line.get("offline", False),
        bench=line.get("bench", False),
    )


def entry_named(name: str, mapping: Mapping[str, Any]) -> Any:
    """Return the entry of this name; raise `Invalid` that lists the others."""
    if name not in mapping:
        raise Invalid(f"there is no {name!r}", remedy=f"use one of {', '.join(mapping)}")
    return mapping[name]


def _refuse(name: str, kind: str, unknown: Iterable[str]) -> None:
    if names := ", ".join(sorted(unknown)):
        raise Invalid(f"case {name} has an unknown {kind}: {names}", remedy="correct it, or write the check")
