"""Common parts of the nodes that ask a person.

Nothing is written before the answer. Its decision becomes a plan for the executor, so that it happens once in
whichever process receives it. An invalid answer is refused, and the question asked again.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from callsheet import storage
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.approvals import ALLOWED
from callsheet.state.context import Context
from callsheet.state.errors import Refused
from callsheet.state.plan import Plan, Step, with_dependencies
from callsheet.state.versions import Version
from callsheet.state.workflow import Workflow, new_turn
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools.call import Scope

REFUSAL: Final = ":refusal"
"""Suffix of the ids of messages that refuse an answer."""
_ID_CHARS: Final = 28
Calls = Sequence[tuple[str, dict[str, Any]]]
"""Names of tools, each with its parameters."""


@dataclass(frozen=True)
class Interrupt:
    """A question about one action, in the shape that stock agent interfaces render."""

    action: str
    args: dict[str, Any]
    """Proposal, which an edit changes."""
    question: str
    effect: str
    """Effect of an answer, for people."""
    schema: dict[str, Any]
    examples: Sequence[Any]

    def value(self, problem: str, **more: Any) -> dict[str, Any]:
        """Return the interrupt's value; `problem` says why the last answer was refused."""
        question = f"{self.question} {self.effect}"
        text = f"{problem}\n\n{question}" if problem else question
        return {
            "action_requests": [{"name": self.action, "args": self.args, "description": text}],
            "review_configs": [{"action_name": self.action, "allowed_decisions": [*ALLOWED]}],
            "type": self.action,
            **more,
            "problem": problem,
            "effect": self.effect,
            "response_schema": self.schema,
            "examples": [*self.examples],
        }


@dataclass(frozen=True)
class AnswerSession:
    """One execution of a node that asks, with the message that answers instead of an interrupt."""

    workflow: WorkflowSpec[Any]
    scope: Scope
    artefact: Artefact
    message: str | None
    problem: str
    """Why the last answer was refused; empty if it was not."""

    async def newest(self, stream: str) -> Version | None:
        """Return the newest version of a stream of the artefact."""
        return (await self.artefact.stream_head(stream)).newest

    def answer(self, question: Interrupt, **more: Any) -> Any:
        """Return the message, or else the person's answer to the interrupt."""
        return interrupt(question.value(self.problem, **more)) if self.message is None else self.message

    def chat_update(self, text: str) -> dict[str, Any]:
        """Return the update for an answer that is a chat message: it goes to the model."""
        messages: list[AnyMessage] = (
            [] if self.message is not None else [HumanMessage(text, id=f"{self.scope.task}:said")]
        )
        return {"messages": messages, "plan": None, "problem": ""}

    def decision_update(self, words: str, calls: Calls, remark: str = "") -> dict[str, Any]:
        """Return the update for a decision: its calls as the plan.

        `remark` is the person's message with it, which goes into the conversation.
        """
        turn = decision_plan(self.workflow, self.scope.task, words, calls)
        messages: list[AnyMessage] = self.chat_update(remark)["messages"] if remark else []
        return {**turn, "messages": [*messages, AIMessage(**turn["messages"][0])]}

    def append_calls(self, words: str, calls: Calls) -> dict[str, Any]:
        """Return the update that continues the turn with further calls and keeps its results."""
        changed = self.decision_update(words, calls)
        return {key: changed[key] for key in ("messages", "plan", "decided", "problem")}


async def answer_session(
    workflow: WorkflowSpec[Any], state: Workflow, runtime: Runtime[Context]
) -> AnswerSession:
    """Return the session of this execution, with the newest message if a person sent it."""
    scope = workflow.scope(state, runtime)
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    last = state["messages"][-1]
    message = last.text if isinstance(last, HumanMessage) else None
    return AnswerSession(workflow, scope, artefact, message, str(state.get("problem", "")))


def refusal_update(error: Refused) -> dict[str, Any]:
    """Return the update for a refused answer: the reason, and the question once more."""
    problem = refusal_text(error)
    return {
        "messages": [AIMessage(problem[:1].upper() + problem[1:] + ".", id=f"{uuid.uuid4()}{REFUSAL}")],
        "plan": None,
        "problem": problem,
    }


def refusal_text(error: Refused) -> str:
    """Return the reason why an answer was refused, and what to do, for the next question."""
    return f"{error.message}: {error.remedy}" if error.remedy else error.message


def decision_plan(workflow: WorkflowSpec[Any], name: str, words: str, calls: Calls) -> dict[str, Any]:
    """Return the update that makes a person's calls the plan of a new turn, as JSON.

    `name` distinguishes this decision from others of the thread.
    """
    tools = {**workflow.tools, **workflow.internal_tools}
    steps = [
        Step(
            # At most 40 characters, which OpenAI accepts.
            id=f"call_{name.replace('-', '')[:_ID_CHARS]}_{number}",
            tool=tool,
            display=tools[tool].display,
            params=params,
            dependencies=[],
            reads=sorted(tools[tool].reads),
            writes=sorted(tools[tool].writes),
        )
        for number, (tool, params) in enumerate(calls)
    ]
    tool_calls = [
        {"name": step["tool"], "args": step["params"], "id": step["id"], "type": "tool_call"}
        for step in steps
    ]
    plan = Plan(id=f"{name}:decided", steps=with_dependencies(steps))
    message = {"content": words, "id": plan["id"], "tool_calls": tool_calls}
    return {"messages": [message], "plan": plan, "decided": True, "problem": "", **new_turn()}
