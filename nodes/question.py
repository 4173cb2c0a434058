"""What all questions to a person have in common: who is heard, how they are asked, what an answer decides.

Nothing is written before the answer, and what it decides is carried out by the executor, so that it happens
once whichever process hears it. An answer that is none is refused, and the question asked again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

import storage
from nodes.node import Subject
from state.context import Context
from state.decisions import ALLOWED
from state.errors import Refused
from state.plan import Plan, Step, linked
from state.versions import Version
from state.workflow import Workflow
from storage.artefacts import Artefact
from tools.call import Scope

Calls = Sequence[tuple[str, dict[str, Any]]]
"""Names of tools, each with its parameters."""


@dataclass(frozen=True)
class Question:
    """What a person is asked about one action, in the shape that stock agent interfaces render (B51)."""

    action: str
    args: dict[str, Any]
    """What is proposed; an edit changes it."""
    asked: str
    effect: str
    """What answering does."""
    schema: dict[str, Any]
    examples: Sequence[Any]

    def value(self, problem: str, **more: Any) -> dict[str, Any]:
        """Return the interrupt's value; `problem` is what was wrong with the last answer."""
        asked = f"{self.asked} {self.effect}"
        told = f"{problem}\n\n{asked}" if problem else asked
        return {
            "action_requests": [{"name": self.action, "args": self.args, "description": told}],
            "review_configs": [{"action_name": self.action, "allowed_decisions": [*ALLOWED]}],
            "type": self.action,
            **more,
            "problem": problem,
            "effect": self.effect,
            "response_schema": self.schema,
            "examples": [*self.examples],
        }


@dataclass(frozen=True)
class Hearing:
    """One visit of a node that asks: what it asks about, and the message that is heard instead of asking."""

    subject: Subject
    scope: Scope
    artefact: Artefact
    heard: str | None
    problem: str
    """What was wrong with the last answer; empty where nothing was."""

    async def newest(self, stream: str) -> Version | None:
        """Return the newest version of a stream of the artefact."""
        return (await self.artefact.tip(stream)).newest

    def answer(self, question: Question, **more: Any) -> Any:
        """Return the message that was heard, else what a person answers to the question."""
        return interrupt(question.value(self.problem, **more)) if self.heard is None else self.heard

    def talk(self, text: str) -> dict[str, Any]:
        """Return what an answer changes that is something to say: the model hears it as a message."""
        said: list[AnyMessage] = (
            [] if self.heard is not None else [HumanMessage(text, id=f"{self.scope.task}:said")]
        )
        return {"messages": said, "plan": None, "problem": ""}

    def decided(self, words: str, wanted: Calls, said: str = "") -> dict[str, Any]:
        """Return what an answer changes that decides something: the calls it decides, as the plan.

        `said` is what the person said along with it, which goes into the conversation.
        """
        made = decision(self.subject, self.scope.task, words, wanted)
        told: list[AnyMessage] = self.talk(said)["messages"] if said else []
        return {**made, "messages": [*told, AIMessage(**made["messages"][0])]}

    def also(self, words: str, wanted: Calls) -> dict[str, Any]:
        """Return what carries the turn on with more calls: what it made and said so far stays told."""
        changed = self.decided(words, wanted)
        return {key: changed[key] for key in ("messages", "plan", "decided", "problem")}


async def hearing(subject: Subject, state: Workflow, runtime: Runtime[Context]) -> Hearing:
    """Return who is heard: the message that was sent, or nobody yet."""
    scope = subject.scope(state, runtime)
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    last = state["messages"][-1]
    heard = last.text if isinstance(last, HumanMessage) else None
    return Hearing(subject, scope, artefact, heard, str(state.get("problem", "")))


def refused(error: Refused) -> dict[str, Any]:
    """Return what an answer changes that is refused: the reason is told, and the question asked again."""
    told = f"{error.message}: {error.remedy}" if error.remedy else error.message
    return {"messages": [AIMessage(told[:1].upper() + told[1:] + ".")], "plan": None, "problem": told}


def decision(subject: Subject, name: str, words: str, wanted: Calls) -> dict[str, Any]:
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
