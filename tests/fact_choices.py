"""Cases of a person's choice among facts, and each one's failures as lines of words.

A line of `sentences/fact_choices.jsonl` has `facts` (a name in `fact_choices_facts.json`), `say`, and
`expect`: the numbers `chosen`, words of the facts `added`, a word of what is `refused`, or that it is `talk`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from callsheet.state.errors import Invalid
from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.selection import AddedFacts, Answer, Chosen, NotAChoice, read

_FOLDER: Final = Path(__file__).parent / "sentences"


@dataclass(frozen=True)
class Case:
    """One sentence and what must come of it."""

    line: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Its name."""
        return str(self.line["id"])

    def failures(self) -> list[str]:
        """Return what was expected and is not so."""
        facts, expect = known(self.line["facts"]), self.line["expect"]
        try:
            got = told(read(self.line["say"], facts), facts)
        except Invalid as refused:
            got = {"refused": str(refused)}
        return [
            f"{key} is {got.get(key)!r}, not {expect.get(key)!r}"
            for key in sorted({*got, *expect})
            if not _fits(expect.get(key), got.get(key))
        ]


def load() -> list[Case]:
    """Return the cases in their order."""
    text = (_FOLDER / "fact_choices.jsonl").read_text("utf-8")
    return [Case(json.loads(line)) for line in text.splitlines()]


def known(name: str) -> list[Fact]:
    """Return the facts of this name, which are counted in their ids."""
    every = json.loads((_FOLDER / "fact_choices_facts.json").read_text("utf-8"))
    return [
        Fact(id=f"{name}-{n}", concept=concept, details=details)
        for n, (concept, details) in enumerate(every[name], 1)
    ]


def told(answer: Answer, facts: Sequence[Fact]) -> dict[str, Any]:
    """Return an answer in the words of the file."""
    if isinstance(answer, NotAChoice):
        return {"talk": True}
    assert isinstance(answer, Chosen | AddedFacts)
    numbers = [facts.index(fact) + 1 for fact in answer.facts if fact in facts]
    new = [fact.details for fact in answer.facts if fact not in facts]
    return {key: value for key, value in {"chosen": numbers, "added": new}.items() if value}


def _fits(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and all(_right(*pair) for pair in zip(wanted, got, strict=True))
    return _right(wanted, got)


def _right(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, str) and isinstance(got, str):
        return wanted.casefold() in got.casefold() if wanted else wanted == got
    return bool(wanted == got)
