"""Asks a person which facts the lesson tells, and turns the answer into the steps it decides (B47-B54).

Nothing is written before the answer, and what it decides is carried out by the executor, so that it happens
once whichever process hears it. An answer that cannot be a choice is refused, and the question asked again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

import storage
from nodes.node import Node, Subject
from state import selection as answers
from state.context import Context
from state.decisions import ALLOWED
from state.errors import Invalid, Refused
from state.facts import Fact
from state.lesson_workflow import LessonState
from state.plan import Plan, Step, linked
from state.selection import REQUEST, SCHEMA, Answer, Chosen, Others, Said, Stated
from state.selection_words import reopened, revised
from state.versions import Version
from storage.artefacts import Artefact
from tools.call import Scope

_EFFECT: Final = "The facts you choose are confirmed, and the narration is written from them and no others."


def selection(subject: Subject) -> Node[LessonState]:
    """Return the node that asks for the facts of a lesson."""

    async def select_facts(state: LessonState, *, runtime: Runtime[Context]) -> dict[str, Any]:
        scope = subject.scope(state, runtime)
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        proposed = (await artefact.tip("facts")).newest
        if proposed is None:
            return {"choice": None, "plan": None}
        last = state["messages"][-1]
        heard = last.text if isinstance(last, HumanMessage) else None
        try:
            if not state.get("choice"):
                read = _revision(heard or "", await _told(artefact))
            else:
                answer = interrupt(question(proposed, state.get("problem", ""))) if heard is None else heard
                read = answers.read(answer, _facts(proposed, "facts"), _facts(proposed, "earlier"))
        except Invalid as error:
            return refused(error)
        if read is None:
            return {"messages": [AIMessage("Choose again.")], "choice": proposed.id, "plan": None}
        return _decided(subject, scope, read, heard=heard is not None)

    return select_facts


async def _told(artefact: Artefact) -> list[Fact]:
    confirmed = (await artefact.tip("confirmed")).newest
    return _facts(confirmed, "facts") if confirmed else []


def _revision(text: str, told: Sequence[Fact]) -> Answer | None:
    """Return what a message changes of a choice that was made; None where it shall be made once more."""
    if reopened(text):
        return None
    facts = revised(text, told)
    return Said(text) if facts is None else Chosen(facts)


def question(proposed: Version, problem: str = "") -> dict[str, Any]:
    """Return the interrupt's value, in the shape stock agent interfaces render (B51)."""
    data = proposed.data
    facts: Sequence[Mapping[str, Any]] = data["facts"]
    shown = [{key: one[key] for key in ("id", "concept", "details", "confidence")} for one in facts]
    count = f"{len(facts)} fact{'s' * (len(facts) != 1)}"
    asked = f"I found {count} about {data['topic']}. Which shall the lesson tell? {_EFFECT}"
    told = f"{problem}\n\n{asked}" if problem else asked
    return {
        "action_requests": [{"name": REQUEST, "args": {"facts": shown}, "description": told}],
        "review_configs": [{"action_name": REQUEST, "allowed_decisions": [*ALLOWED]}],
        "type": REQUEST,
        "facts": [{"number": number, **one} for number, one in enumerate(facts, 1)],
        "earlierFacts": data.get("earlier", []),
        "topic": data["topic"],
        "learningObjective": data["learningObjective"],
        "warnings": data.get("warnings", []),
        "version": proposed.id,
        "problem": problem,
        "effect": _EFFECT,
        "response_schema": SCHEMA,
        "examples": [{"facts": [one["id"] for one in facts[:3]]}, "the first two"],
    }


def _facts(proposed: Version, name: str) -> list[Fact]:
    return [Fact.model_validate(one) for one in proposed.data.get(name, ())]


def refused(error: Refused) -> dict[str, Any]:
    """Return what an answer changes that is refused: the reason is told, and the question asked again."""
    told = f"{error.message}: {error.remedy}" if error.remedy else error.message
    return {"messages": [AIMessage(told[:1].upper() + told[1:] + ".")], "plan": None, "problem": told}


def _decided(subject: Subject, scope: Scope, read: Answer, *, heard: bool) -> dict[str, Any]:
    """Return what an answer changes: the steps it decides, or what there is to say to it."""
    if isinstance(read, Said):
        said: list[AnyMessage] = [] if heard else [HumanMessage(read.text, id=f"{scope.task}:said")]
        return {"messages": said, "plan": None, "problem": ""}
    made = decision(subject, scope.task, *calls(read))
    return {**made, "messages": [AIMessage(**made["messages"][0])]}


def decision(
    subject: Subject, name: str, words: str, wanted: Sequence[tuple[str, dict[str, Any]]]
) -> dict[str, Any]:
    """Return what makes the calls that a person decided the plan of a new turn; JSON, so no message yet.

    `name` is what tells this decision from others of the thread.
    """
    own = {**subject.tools, **subject.own}
    steps = [
        Step(
            id=f"call_{name}_{number}",
            tool=tool,
            display=own[tool].display,
            params=params,
            dependencies=[],
            reads=sorted(own[tool].reads),
            writes=sorted(own[tool].writes),
        )
        for number, (tool, params) in enumerate(wanted)
    ]
    made = [
        {"name": step["tool"], "args": step["params"], "id": step["id"], "type": "tool_call"}
        for step in steps
    ]
    turn = {"results": [], "created": [], "drafts": {}, "rounds": 0, "rejected": []}
    plan = Plan(id=f"{name}:decided", steps=linked(steps))
    said = {"content": words, "id": plan["id"], "tool_calls": made}
    return {"messages": [said], "plan": plan, "decided": True, "problem": "", **turn}


def calls(read: Chosen | Stated | Others) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """Return what is said to an answer, and the calls that carry it out."""
    if isinstance(read, Others):
        return "I look for other facts.", [
            ("extractFactsTool", {"content": "", "guidance": read.guidance[:1000] or "other facts"})
        ]
    facts = [fact.model_dump() for fact in read.facts]
    names = ", ".join(fact.concept for fact in read.facts)
    if isinstance(read, Stated):
        return f"I add: {names}.", [("addFactsTool", {"facts": facts})]
    return f"The lesson tells: {names}.", [
        ("confirmFactsTool", {"facts": facts}),
        ("generateNarrationTool", {"facts": [], "segments": []}),
    ]
