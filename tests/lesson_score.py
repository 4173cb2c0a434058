"""Failures of one answer to a sentence about lessons, each as a line of words.

A line of `tests/sentences/fact_narration.jsonl` has `id`, `lang`, `before` (what happened until then: a name
in `BEFORE`), `say`, and what must come of it: `calls` (a text argument may say more, other values are the
same) and `says`. A line of `fact_choices.jsonl` has `facts` (a name in `fact_choices_facts.json`), `say`, and
`expect`: the numbers `chosen`, words of the facts `added`, a word of what is `refused`, or that it is `talk`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

import providers
from state.errors import Invalid
from state.facts import Fact
from state.selection import Answer, Chosen, Said, Stated, read
from tools import REGISTRY
from tools.registry import definitions

FOLDER: Final = Path(__file__).parent / "sentences"
TOOLS: Final = REGISTRY.of("lesson")
_FOUND: Final = {
    "success": True,
    "message": "I found 1 fact.",
    "facts": [{"id": "a", "concept": "Photosynthesis"}],
}
BEFORE: Final[Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]] = {
    "new": (),
    "facts": (("extractFactsTool", _FOUND),),
    "confirmed": (("extractFactsTool", _FOUND),),
    "narration": (
        ("extractFactsTool", _FOUND),
        ("generateNarrationTool", {"success": True, "message": "Ready."}),
    ),
}


@dataclass(frozen=True)
class Case:
    """One sentence and what must come of it."""

    line: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Its name."""
        return str(self.line["id"])

    @property
    def group(self) -> str:
        """What it is counted with."""
        kind = self.id.rsplit("-", 1)[0]
        return f"choice {kind}" if "facts" in self.line else kind

    def failures(self) -> list[str]:
        """Return what was expected and is not so."""
        return _choosing(self.line) if "facts" in self.line else _calling(self.line)


def load(name: str) -> list[Case]:
    """Return the cases of one of the two files."""
    return [Case(json.loads(line)) for line in (FOLDER / name).read_text("utf-8").splitlines()]


def known(name: str) -> list[Fact]:
    """Return the facts of this name, which are counted in their ids."""
    every = json.loads((FOLDER / "fact_choices_facts.json").read_text("utf-8"))
    return [
        Fact(id=f"{name}-{n}", concept=concept, details=told)
        for n, (concept, told) in enumerate(every[name], 1)
    ]


def history(before: str) -> list[BaseMessage]:
    """Return the conversation until then."""
    messages: list[BaseMessage] = [SystemMessage("You help teachers.")]
    for number, (tool, result) in enumerate(BEFORE[before]):
        call: Any = {"name": tool, "args": {}, "id": f"c{number}", "type": "tool_call"}
        messages += [
            HumanMessage("Before."),
            AIMessage("", tool_calls=[call]),
            ToolMessage(json.dumps(result), tool_call_id=f"c{number}", name=tool),
            AIMessage("Done."),
        ]
    return messages


def replied(*messages: BaseMessage, choice: str = "auto") -> AIMessage:
    """Return what the offline model answers."""
    model = providers.load("offline").bind_tools(definitions(TOOLS), tool_choice=choice)
    return model.invoke(list(messages))


def _calling(line: Mapping[str, Any]) -> list[str]:
    reply = replied(*history(line["before"]), HumanMessage(line["say"]))
    calls = {call["name"]: call["args"] for call in reply.tool_calls}
    wanted = {call["name"]: call["args"] for call in line["calls"]}
    return [
        *(f"calls {name}" for name in sorted(set(calls) - set(wanted))),
        *(f"does not call {name}" for name in sorted(set(wanted) - set(calls))),
        *(
            f"{name}: {key} is {calls[name].get(key)!r}, not {value!r}"
            for name, args in wanted.items()
            if name in calls
            for key, value in args.items()
            if not _right(value, calls[name].get(key))
        ),
        *([] if line.get("says", "") in str(reply.text) else [f"says {reply.text!r}"]),
    ]


def _right(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, str) and isinstance(got, str):
        return wanted == got if not wanted else wanted.casefold() in got.casefold()
    return bool(wanted == got)


def _choosing(line: Mapping[str, Any]) -> list[str]:
    facts, expect = known(line["facts"]), line["expect"]
    try:
        got = told(read(line["say"], facts), facts)
    except Invalid as refused:
        got = {"refused": str(refused)}
    return [
        f"{key} is {got.get(key)!r}, not {expect.get(key)!r}"
        for key in sorted({*got, *expect})
        if not _fits(expect.get(key), got.get(key))
    ]


def _fits(wanted: Any, got: Any) -> bool:
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and all(_right(*pair) for pair in zip(wanted, got, strict=True))
    return _right(wanted, got)


def told(answer: Answer, facts: Sequence[Fact]) -> dict[str, Any]:
    """Return an answer in the words of the file."""
    if isinstance(answer, Said):
        return {"talk": True}
    assert isinstance(answer, Chosen | Stated)
    numbers = [facts.index(fact) + 1 for fact in answer.facts if fact in facts]
    new = [fact.details for fact in answer.facts if fact not in facts]
    return {key: value for key, value in {"chosen": numbers, "added": new}.items() if value}
