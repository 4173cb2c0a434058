"""The conversation of one task with the product's own graph."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.conversation import calls_of
from callsheet.state.errors import Invalid
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.checkpoints import RedisSaver
from evals.tasks import Task, TaskMessage
from evals.turns import EvalToolCall, EvalTurn, Side

MAX_QUESTIONS: Final = 5
"""Approvals that are answered in one turn."""


class Models(NamedTuple):
    """The models of a task, as the product takes them: `provider/model`."""

    evaluated: str
    history: str = ""
    """The one whose endpoint has the given answers of earlier turns."""


class EvalSession(ABC, Generic[Side]):
    """One task's artefact and thread. A subclass prepares and reads the artefact."""

    workflow: ClassVar[WorkflowSpec[Any]]
    subject: ClassVar[str] = ""
    """Words of the workflow that a reply may be about."""

    def __init__(self, opened: Storage, task: Task, thread: str, models: "Models") -> None:
        self.task = task
        self.thread = thread
        self.opened = opened
        self.artefact = Artefact(opened, self.workflow.artefact.kind, thread, LOCAL)
        self.graph = self.workflow.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
        self.config: RunnableConfig = {"configurable": {"thread_id": thread}}
        self._models = models

    @abstractmethod
    async def prepare(self) -> Mapping[str, Any]:
        """Bring the artefact into the case's state; return further input of the first turn."""

    @abstractmethod
    async def read_artefact(self) -> Side:
        """Return the artefact as it is now."""

    async def edit(self, change: Any) -> Mapping[str, Any]:
        """Make a person's own change of the artefact; return further input of the next turn."""
        raise Invalid(f"{self.workflow.name} has no edits", remedy=f"drop {change!r} from the case")

    @classmethod
    def words_of(cls, task: Task, side: Side) -> str:
        """Return the words of the artefact that a reply may be about."""
        del task, side
        return ""

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Return the answer to an interrupt, None to leave it open; by default the answer of the case."""
        del question
        return {"decisions": [{"type": self.task.setup.get("answer", "approve")}]}

    async def conversation(self) -> "EvalConversation[Side]":
        """Prepare the state and return the conversation to be played."""
        return EvalConversation(self, await self.prepare())

    async def invoke(self, graph_input: Any, *, is_history: bool = False) -> Mapping[str, Any]:
        """Run the graph until its end or a question; the endpoint with given answers plays history."""
        model = self._models.history if is_history else self._models.evaluated
        state: Mapping[str, Any] = await self.graph.ainvoke(
            graph_input, self.config, context={"model": model}, durability="sync"
        )
        return state


class EvalConversation(Generic[Side]):
    """The turns of a session, played one by one."""

    def __init__(self, session: EvalSession[Side], graph_input: Mapping[str, Any]) -> None:
        self._session = session
        self._graph_input = graph_input
        self._sent: list[str] = []

    async def play(self, request: TaskMessage) -> EvalTurn[Side]:
        """Play one turn to its end."""
        session = self._session
        is_history = bool(request.answers)
        if request.edit is not None:
            self._graph_input = {**self._graph_input, **await session.edit(request.edit)}
        before = await session.read_artefact()
        start = len(await self._messages())
        if request.say is not None:
            self._sent.append(request.say)
            self._graph_input = {**self._graph_input, "messages": [HumanMessage(request.say)]}
        state = await session.invoke(self._graph_input, is_history=is_history)
        self._graph_input = {}
        questions: list[Mapping[str, Any]] = []
        while raised := [one.value for one in state.get("__interrupt__", ())]:
            questions += raised
            answer = session.answer(raised[0])
            if answer is None or len(questions) > MAX_QUESTIONS:
                break
            state = await session.invoke(Command(resume=answer), is_history=is_history)
        new = (await self._messages())[start:]
        after = await session.read_artefact()
        return EvalTurn(
            task=session.task,
            expect=request.expect,
            messages=[*self._sent],
            before=before,
            after=after,
            state=state,
            reply=_reply(new),
            calls=[*_calls(new)],
            questions=questions,
            words="\n".join(
                [session.subject, *(session.words_of(session.task, one) for one in (before, after))]
            ),
        )

    async def _messages(self) -> Sequence[AnyMessage]:
        state = await self._session.graph.aget_state(self._session.config)
        messages: Sequence[AnyMessage] = state.values.get("messages", ())
        return messages


def _reply(messages: Sequence[AnyMessage]) -> str:
    texts = [one.text for one in messages if isinstance(one, AIMessage) and one.text]
    return texts[-1] if texts else ""


def _calls(messages: Sequence[AnyMessage]) -> Iterator[EvalToolCall]:
    results = {one.tool_call_id: one.text for one in messages if isinstance(one, ToolMessage)}
    for message in messages:
        for call in calls_of(message):
            yield EvalToolCall(call["name"], call["args"], _as_mapping(results.get(str(call["id"]), "")))


def _as_mapping(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
