"""A conversation of one task with the product's own graph, turn after turn."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state.conversation import calls_of
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.checkpoints import RedisSaver
from evals.tasks import Task, TaskTurn
from evals.turns import ObservedCall, PlayedTurn, Side

MAX_QUESTIONS: Final = 5
"""Approvals that are answered in one turn."""


class TaskSession(ABC, Generic[Side]):
    """One task's artefact and thread. A subclass prepares the state, and looks at it."""

    workflow: ClassVar[WorkflowSpec[Any]]

    def __init__(self, opened: Storage, task: Task, thread: str, model: str) -> None:
        self.task = task
        self.thread = thread
        self.opened = opened
        self.artefact = Artefact(opened, self.workflow.artefact.kind, thread, LOCAL)
        self.graph = self.workflow.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
        self.config: RunnableConfig = {"configurable": {"thread_id": thread}}
        self._context = {"model": model}

    @abstractmethod
    async def prepare(self) -> Mapping[str, Any]:
        """Bring the artefact into the case's state; return further input of the first turn."""

    @abstractmethod
    async def look(self) -> Side:
        """Return the artefact as it is now."""

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Return the answer to an interrupt, None to leave it open; by default what the case says."""
        del question
        return {"decisions": [{"type": self.task.given.get("answer", "approve")}]}

    async def conversation(self) -> "ConversationPlayer[Side]":
        """Prepare the state and return the conversation to be played."""
        return ConversationPlayer(self, await self.prepare())

    async def invoke(self, given: Any) -> Mapping[str, Any]:
        """Run the graph until its end or a question."""
        state: Mapping[str, Any] = await self.graph.ainvoke(
            given, self.config, context=self._context, durability="sync"
        )
        return state


class ConversationPlayer(Generic[Side]):
    """The turns of a session, played one by one."""

    def __init__(self, session: TaskSession[Side], given: Mapping[str, Any]) -> None:
        self._session = session
        self._given = given
        self._said: list[str] = []

    async def play(self, request: TaskTurn) -> PlayedTurn[Side]:
        """Play one turn to its end."""
        session = self._session
        before = await session.look()
        start = len(await self._messages())
        if request.say is not None:
            self._said.append(request.say)
            self._given = {**self._given, "messages": [HumanMessage(request.say)]}
        state = await session.invoke(self._given)
        self._given = {}
        questions: list[Mapping[str, Any]] = []
        while raised := [one.value for one in state.get("__interrupt__", ())]:
            questions += raised
            answer = session.answer(raised[0])
            if answer is None or len(questions) > MAX_QUESTIONS:
                break
            state = await session.invoke(Command(resume=answer))
        new = (await self._messages())[start:]
        return PlayedTurn(
            task=session.task,
            expect=request.expect,
            said=[*self._said],
            before=before,
            after=await session.look(),
            state=state,
            reply=_reply(new),
            calls=[*_calls(new)],
            questions=questions,
        )

    async def _messages(self) -> Sequence[AnyMessage]:
        state = await self._session.graph.aget_state(self._session.config)
        messages: Sequence[AnyMessage] = state.values.get("messages", ())
        return messages


def _reply(messages: Sequence[AnyMessage]) -> str:
    texts = [one.text for one in messages if isinstance(one, AIMessage) and one.text]
    return texts[-1] if texts else ""


def _calls(messages: Sequence[AnyMessage]) -> Iterator[ObservedCall]:
    results = {one.tool_call_id: one.text for one in messages if isinstance(one, ToolMessage)}
    for message in messages:
        for call in calls_of(message):
            yield ObservedCall(call["name"], call["args"], _parsed(results.get(str(call["id"]), "")))


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text}
    return value if isinstance(value, dict) else {"value": value}
