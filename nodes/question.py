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

from callsheet import storage
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.approvals import ALLOWED
from callsheet.state.context import Context
from callsheet.state.errors import Refused
from callsheet.state.plan import Plan, Step, with_dependencies
from callsheet.state.versions import Version
from callsheet.state.workflow import Workflow
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools.guard.call import Scope

Calls = Sequence[tuple[str, dict[str, Any]]]
"""Names of tools, each with its parameters."""


@dataclass(frozen=True)
class Interrupt:
    """What a person is asked about one action, in the shape that stock agent interfaces render (B51)."""

    action: str
    args: dict[str, Any]
    """What is proposed; an edit changes it."""
    question: str
    effect: str
    """What answering does."""
    schema: dict[str, Any]
    examples: Sequence[Any]

    def value(self, problem: str, **more: Any) -> dict[str, Any]:
        """Return the interrupt's value; `problem` is what was wrong with the last answer."""
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
    """One visit of a node that asks: what it asks about, and the message that is heard instead of asking."""

    workflow: WorkflowSpec
    scope: Scope
    artefact: Artefact
    message: str | None
    problem: str
    """What was wrong with the last answer; empty where nothing was."""

    async def newest(self, stream: str) -> Version | None:
        """Return the newest version of a stream of the artefact."""
        return (await self.artefact.stream_head(stream)).newest

    def answer(self, question: Interrupt, **more: Any) -> Any:
        """Return the message that was heard, else what a person answers to the question."""
        return interrupt(question.value(self.problem, **more)) if self.message is None else self.message

    def chat_update(self, text: str) -> dict[str, Any]:
        """Return what an answer changes that is something to say: the model hears it as a message."""
        messages: list[AnyMessage] = (
            [] if self.message is not None else [HumanMessage(text, id=f"{self.scope.task}:said")]
        )
        return {"messages": messages, "plan": None, "problem": ""}

    def decision_update(self, words: str, calls: Calls, remark: str = "") -> dict[str, Any]:
        """Return what an answer changes that decides something: the calls it decides, as the plan.

        `said` is what the person said along with it, which goes into the conversation.
        """
        turn = decision_plan(self.workflow, self.scope.task, words, calls)
        messages: list[AnyMessage] = self.chat_update(remark)["messages"] if remark else []
        return {**turn, "messages": [*messages, AIMessage(**turn["messages"][0])]}

    def append_calls(self, words: str, calls: Calls) -> dict[str, Any]:
        """Return what carries the turn on with more calls: what it made and said so far stays told."""
        changed = self.decision_update(words, calls)
        return {key: changed[key] for key in ("messages", "plan", "decided", "problem")}


async def answer_session(workflow: WorkflowSpec, state: Workflow, runtime: Runtime[Context]) -> AnswerSession:
    """Return who is heard: the message that was sent, or nobody yet."""
    scope = workflow.scope(state, runtime)
    artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
    last = state["messages"][-1]
    message = last.text if isinstance(last, HumanMessage) else None
    return AnswerSession(workflow, scope, artefact, message, str(state.get("problem", "")))


def refusal_update(error: Refused) -> dict[str, Any]:
    """Return what an answer changes that is refused: the reason is told, and the question asked again."""
    problem = f"{error.message}: {error.remedy}" if error.remedy else error.message
    return {
        "messages": [AIMessage(problem[:1].upper() + problem[1:] + ".")],
        "plan": None,
        "problem": problem,
    }


def decision_plan(workflow: WorkflowSpec, name: str, words: str, calls: Calls) -> dict[str, Any]:
    """Return what makes the calls that a person decided the plan of a new turn; JSON, so no message yet.

    `name` is what tells this decision from others of the thread.
    """
    tools = {**workflow.tools, **workflow.internal_tools}
    steps = [
        Step(
            id=f"call_{name}_{number}",
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
    turn = {"results": [], "created": [], "drafts": {}, "rounds": 0, "rejected": []}
    plan = Plan(id=f"{name}:decided", steps=with_dependencies(steps))
    message = {"content": words, "id": plan["id"], "tool_calls": tool_calls}
    return {"messages": [message], "plan": plan, "decided": True, "problem": "", **turn}
