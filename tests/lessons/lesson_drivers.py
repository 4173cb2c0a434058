"""Three ways to drive a lesson: the compiled graph, LangGraph's own client, and REST.

What an answer changed is read from storage, in the same way for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from langgraph_sdk.client import LangGraphClient

from callsheet.state.lessons.images import live_assets
from callsheet.state.lessons.narration import Narration
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from tests.doubles.wire_served import new_id
from tests.lessons.lesson_chat import OFFLINE, LessonChat
from tests.lessons.lesson_client import TOOLS, LessonClient, ok, user

GRAPH = "fact_narration"
_DECISIONS = {"approve", "edit", "reject"}
Question = dict[str, Any]
PendingQuestion = Question | None
"""The value of the interrupt that waits for an answer; None where none does."""


def decision(kind: str, **fields: Any) -> dict[str, Any]:
    """An answer in the form of LangChain's human-in-the-loop middleware."""
    return {"decisions": [{"type": kind, **fields}]}


def edit_decision(action: str, **args: Any) -> dict[str, Any]:
    return decision("edit", edited_action={"name": action, "args": args})


def inbox_answer(kind: str, args: Any = None) -> list[dict[str, Any]]:
    """An answer in the form of Agent Inbox."""
    return [{"type": kind, "args": args}]


class LessonDriver(ABC):
    """One lesson, driven in one of the ways."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.thread_id = ""
        self.last_message = ""
        """The text of the conversation's last message."""

    @abstractmethod
    async def send(self, text: str, **graph_input: Any) -> PendingQuestion:
        """Return the question that waits after a message, sent with these further keys of the input."""

    @abstractmethod
    async def answer(self, answer: Any) -> PendingQuestion:
        """Return the question that waits after an answer to the pending one."""

    async def question_after(self, text: str, **graph_input: Any) -> Question:
        """Return the question that a message leads to, which must be one."""
        question = await self.send(text, **graph_input)
        assert question is not None, self.last_message
        return question

    async def newest_data(self, stream: str) -> dict[str, Any]:
        """Return the data of a stream's newest version; empty for none."""
        newest = (await self._artefact.stream_head(stream)).newest
        return dict(newest.data) if newest else {}

    async def version_count(self, stream: str) -> int:
        return len((await self._artefact.stream(stream)).versions)

    async def confirmed_ids(self) -> list[str]:
        """Return the ids of the facts that were chosen."""
        return [fact["id"] for fact in (await self.newest_data("confirmed")).get("facts", ())]

    async def narration(self) -> Narration:
        """Return the newest narration."""
        return Narration.model_validate(await self.newest_data("narration"))

    async def assets(self) -> list[dict[str, Any]]:
        """Return the assets that were not removed."""
        return [
            dict(version.data) for version in live_assets((await self._artefact.stream("assets")).versions)
        ]

    async def stored_status(self) -> str:
        """Return the status in the lesson's record; empty where the status follows from the versions."""
        return str((await self._artefact.meta()).get("status", ""))

    @property
    def _artefact(self) -> Artefact:
        return Artefact(self.storage, "lesson", self.thread_id, LOCAL)


class GraphDriver(LessonDriver):
    """The compiled graph with the saver."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.thread_id = new_id()
        self._chat = LessonChat(storage, thread_id=self.thread_id)

    async def send(self, text: str, **graph_input: Any) -> PendingQuestion:
        return self._pending(await self._chat.send(text, **graph_input))

    async def answer(self, answer: Any) -> PendingQuestion:
        return self._pending(await self._chat.answer(answer))

    def _pending(self, state: Mapping[str, Any]) -> PendingQuestion:
        self.last_message = state["messages"][-1].text
        [interrupt] = state.get("__interrupt__") or [None]
        return interrupt.value if interrupt else None


class SdkDriver(LessonDriver):
    """LangGraph's own client."""

    def __init__(self, storage: Storage, client: LangGraphClient) -> None:
        super().__init__(storage)
        self._client = client

    async def send(self, text: str, **graph_input: Any) -> PendingQuestion:
        if not self.thread_id:
            self.thread_id = (await self._client.threads.create())["thread_id"]
        return await self._run(input={"messages": [{"role": "user", "content": text}], **graph_input})

    async def answer(self, answer: Any) -> PendingQuestion:
        return await self._run(command={"resume": answer})

    async def _run(self, **payload: Any) -> PendingQuestion:
        context: Any = OFFLINE
        state: Any = await self._client.runs.wait(self.thread_id, GRAPH, context=context, **payload)
        self.last_message = state["messages"][-1]["content"]
        [interrupt] = state.get("__interrupt__") or [None]
        return interrupt["value"] if interrupt else None


class RestDriver(LessonDriver):
    """The endpoints of lessons: words as a message, lists as `selectedFacts`, decisions as `decisions`."""

    def __init__(self, storage: Storage, lesson_client: LessonClient) -> None:
        super().__init__(storage)
        self._client = lesson_client
        self._question_type = ""

    async def send(self, text: str, **graph_input: Any) -> PendingQuestion:
        return self._pending(await self._client.send(text, **graph_input))

    async def answer(self, answer: Any) -> PendingQuestion:
        return self._pending(ok(await self._client.post(TOOLS, **self._request_body(answer))))

    def _pending(self, reply: Mapping[str, Any]) -> PendingQuestion:
        self.last_message, self.thread_id = str(reply["message"]), str(reply["sessionId"])
        interrupt = reply["interrupt"]
        problem = interrupt["value"]["problem"] if interrupt else ""
        is_failure = bool(problem) or self.last_message.startswith("Failed: ")
        assert reply["success"] != is_failure, self.last_message
        self._question_type = interrupt["value"]["type"] if interrupt else ""
        return dict(interrupt["value"]) if interrupt else None

    def _request_body(self, answer: Any) -> dict[str, Any]:
        """Return the body in which a client of these endpoints sends an answer."""
        is_choice = isinstance(answer, list) and self._question_type == "select_facts"
        if isinstance(answer, str) and answer:
            return {"messages": user(answer)}
        if is_choice and not any(isinstance(fact, dict) and "type" in fact for fact in answer):
            return {"selectedFacts": answer}
        if (
            isinstance(answer, dict)
            and {each.get("type") for each in answer.get("decisions", ())} & _DECISIONS
        ):
            return answer
        if isinstance(answer, dict) and set(answer) == {"facts", "message"}:
            return {"selectedFacts": answer["facts"], "messages": user(answer["message"])}
        return {"answer": answer}
