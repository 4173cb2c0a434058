"""The three doors to a lesson: the bare graph, LangGraph's own client, and REST.

What comes of an answer is looked up in storage, the same for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from langgraph_sdk.client import LangGraphClient

from callsheet.state.lessons.assets import live
from callsheet.state.lessons.narration import Narration
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from tests.doubles.wire_served import new_id
from tests.lessons.lesson_chat import OFFLINE, LessonChat
from tests.lessons.lesson_client import TOOLS, LessonClient, ok, user

GRAPH = "fact_narration"
_CARDS = {"approve", "edit", "reject"}
Question = dict[str, Any]
Waits = dict[str, Any] | None
"""The value of the question that waits; None where none does."""


def ids(asked: Question, *numbers: int) -> list[str]:
    return [asked["facts"][number - 1]["id"] for number in numbers]


def card(kind: str, **more: Any) -> dict[str, Any]:
    """What LangChain's cards send."""
    return {"decisions": [{"type": kind, **more}]}


def edited(action: str, **args: Any) -> dict[str, Any]:
    return card("edit", edited_action={"name": action, "args": args})


def inbox(kind: str, args: Any = None) -> list[dict[str, Any]]:
    """What Agent Inbox sends."""
    return [{"type": kind, "args": args}]


class LessonDriver(ABC):
    """One lesson, by one of the doors."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.thread = ""
        self.told = ""
        """What was said last."""

    @abstractmethod
    async def says(self, text: str, **chosen: Any) -> Waits:
        """What waits after a message; `chosen` are further keys of the input."""

    @abstractmethod
    async def answers(self, answer: Any) -> Waits:
        """What waits after an answer to what waited."""

    async def asked(self, text: str, **chosen: Any) -> dict[str, Any]:
        """The question that a message leads to."""
        found = await self.says(text, **chosen)
        assert found is not None, self.told
        return found

    async def newest(self, stream: str) -> dict[str, Any]:
        """What the newest version of a stream holds; empty for none."""
        newest = (await self._artefact.stream_head(stream)).newest
        return dict(newest.data) if newest else {}

    async def count(self, stream: str) -> int:
        """How many versions a stream has."""
        return len((await self._artefact.stream(stream)).versions)

    async def confirmed(self) -> list[str]:
        """Ids of the facts that were chosen."""
        return [one["id"] for one in (await self.newest("confirmed")).get("facts", ())]

    async def narration(self) -> Narration:
        """The newest narration."""
        return Narration.model_validate(await self.newest("narration"))

    async def assets(self) -> list[dict[str, Any]]:
        """What is shown beside the words."""
        return [dict(one.data) for one in live((await self._artefact.stream("assets")).versions)]

    async def standing(self) -> str:
        """What was said of the lesson beside what was made of it."""
        return str((await self._artefact.meta()).get("status", ""))

    @property
    def _artefact(self) -> Artefact:
        return Artefact(self.storage, "lesson", self.thread, LOCAL)


class GraphDriver(LessonDriver):
    """The graph itself, with the saver."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.thread = new_id()
        self._chat = LessonChat(storage, thread=self.thread)

    async def says(self, text: str, **chosen: Any) -> Waits:
        return self._waits(await self._chat.says(text, **chosen))

    async def answers(self, answer: Any) -> Waits:
        return self._waits(await self._chat.answers(answer))

    def _waits(self, state: Mapping[str, Any]) -> Waits:
        self.told = state["messages"][-1].text
        [question] = state.get("__interrupt__") or [None]
        return question.value if question else None


class SdkDriver(LessonDriver):
    """LangGraph's own client."""

    def __init__(self, storage: Storage, client: LangGraphClient) -> None:
        super().__init__(storage)
        self._client = client

    async def says(self, text: str, **chosen: Any) -> Waits:
        if not self.thread:
            self.thread = (await self._client.threads.create())["thread_id"]
        return await self._run(input={"messages": [{"role": "user", "content": text}], **chosen})

    async def answers(self, answer: Any) -> Waits:
        return await self._run(command={"resume": answer})

    async def _run(self, **asked: Any) -> Waits:
        context: Any = OFFLINE
        state: Any = await self._client.runs.wait(self.thread, GRAPH, context=context, **asked)
        self.told = state["messages"][-1]["content"]
        [question] = state.get("__interrupt__") or [None]
        return question["value"] if question else None


class RestDriver(LessonDriver):
    """The endpoints of lessons: words as a message, lists as `selectedFacts`, cards as `decisions`."""

    def __init__(self, storage: Storage, lesson_client: LessonClient) -> None:
        super().__init__(storage)
        self._teacher = lesson_client
        self._asks = ""

    async def says(self, text: str, **chosen: Any) -> Waits:
        return self._waits(await self._teacher.says(text, **chosen))

    async def answers(self, answer: Any) -> Waits:
        return self._waits(ok(await self._teacher.post(TOOLS, **self._body(answer))))

    def _waits(self, told: Mapping[str, Any]) -> Waits:
        self.told, self.thread = str(told["message"]), str(told["sessionId"])
        question = told["interrupt"]
        problem = question["value"]["problem"] if question else ""
        assert told["success"] != (bool(problem) or self.told.startswith("Failed: ")), self.told
        self._asks = question["value"]["type"] if question else ""
        return dict(question["value"]) if question else None

    def _body(self, answer: Any) -> dict[str, Any]:
        """The request that says an answer as a client of these endpoints would."""
        listed = isinstance(answer, list) and self._asks == "select_facts"
        if isinstance(answer, str) and answer:
            return {"messages": user(answer)}
        if listed and not any(isinstance(one, dict) and "type" in one for one in answer):
            return {"selectedFacts": answer}
        if isinstance(answer, dict) and {one.get("type") for one in answer.get("decisions", ())} & _CARDS:
            return answer
        if isinstance(answer, dict) and set(answer) == {"facts", "message"}:
            return {"selectedFacts": answer["facts"], "messages": user(answer["message"])}
        return {"answer": answer}
