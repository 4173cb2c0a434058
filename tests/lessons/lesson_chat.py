"""A conversation about one lesson with the graph itself."""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command

from callsheet.graphs import fact_narration
from callsheet.state.compaction import ContextTokens
from callsheet.state.lessons.narration import Narration
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.checkpoints import RedisSaver

OFFLINE = {"provider": "offline"}
CONFIG: RunnableConfig = {"configurable": {"thread_id": "lesson-chat"}}
Graph = Pregel[Any, Any]


class LessonChat:
    """A conversation about one lesson, with the graph itself."""

    def __init__(self, opened: Storage, chosen: Any = None, thread: str = "lesson-chat") -> None:
        self.graph: Graph = fact_narration.graph.copy(update={"checkpointer": RedisSaver(opened.redis)})
        self.artefact = Artefact(opened, "lesson", thread, LOCAL)
        self._chosen = chosen or OFFLINE
        self._config: RunnableConfig = {"configurable": {"thread_id": thread}}

    async def says(self, text: str, **more: Any) -> dict[str, Any]:
        return await self._run({"messages": [{"role": "user", "content": text}], **more})

    async def asks(self, question: str, **more: Any) -> dict[str, Any]:
        """Return the state of a lesson that waits for an answer, without a turn before."""
        said = AIMessage(question, id="asked:question")
        room = ContextTokens(used=0, budget=30_000)
        given = {"messages": [said], "context_tokens": room, **more}
        await self.graph.aupdate_state(self._config, given, as_node="summarizer")
        return await self._run(None)

    async def answers(self, answer: Any) -> dict[str, Any]:
        return await self._run(Command(resume=answer))

    async def _run(self, given: Any) -> dict[str, Any]:
        state: dict[str, Any] = await self.graph.ainvoke(
            given, self._config, context=self._chosen, durability="sync"
        )
        return state

    async def data(self, stream: str) -> dict[str, Any]:
        newest = (await self.artefact.stream_head(stream)).newest
        return dict(newest.data) if newest else {}

    async def count(self, stream: str) -> int:
        return len((await self.artefact.stream(stream)).versions)

    async def narration(self) -> Narration:
        return Narration.model_validate(await self.data("narration"))


def pending_question(state: dict[str, Any]) -> dict[str, Any]:
    [question] = state["__interrupt__"]
    value: dict[str, Any] = question.value
    return value


def ids(question: dict[str, Any], *numbers: int) -> list[str]:
    return [question["facts"][number - 1]["id"] for number in numbers]
