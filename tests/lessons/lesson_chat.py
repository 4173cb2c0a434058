"""A conversation about one lesson with the compiled graph itself."""

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
    """One lesson, whose graph is invoked without a server."""

    def __init__(self, storage: Storage, context: Any = None, thread_id: str = "lesson-chat") -> None:
        self.graph: Graph = fact_narration.graph.copy(update={"checkpointer": RedisSaver(storage.redis)})
        self.artefact = Artefact(storage, "lesson", thread_id, LOCAL)
        self._context = context or OFFLINE
        self._config: RunnableConfig = {"configurable": {"thread_id": thread_id}}

    async def send(self, text: str, **graph_input: Any) -> dict[str, Any]:
        """Return the state after a message, sent with these further keys of the input."""
        return await self._run({"messages": [{"role": "user", "content": text}], **graph_input})

    async def pose_question(self, question: str, **values: Any) -> dict[str, Any]:
        """Return the state of a lesson that waits for an answer to a question, without a turn before it."""
        message = AIMessage(question, id="posed:question")
        tokens = ContextTokens(used=0, budget=30_000)
        update = {"messages": [message], "context_tokens": tokens, **values}
        await self.graph.aupdate_state(self._config, update, as_node="summarizer")
        return await self._run(None)

    async def continue_after_tools(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the state of a run that continues where another one stopped after the tool executor."""
        message = {"role": "user", "content": "1 and 2", "id": "decision"}
        update = {"messages": [message], "decision": "decision", **values}
        await self.graph.aupdate_state(self._config, update, as_node="tool_executor")
        return await self._run(None)

    async def answer(self, answer: Any) -> dict[str, Any]:
        """Return the state after the pending question is resumed with an answer."""
        return await self._run(Command(resume=answer))

    async def _run(self, graph_input: Any) -> dict[str, Any]:
        state: dict[str, Any] = await self.graph.ainvoke(
            graph_input, self._config, context=self._context, durability="sync"
        )
        return state

    async def newest_data(self, stream: str) -> dict[str, Any]:
        """Return the data of a stream's newest version; empty for none."""
        newest = (await self.artefact.stream_head(stream)).newest
        return dict(newest.data) if newest else {}

    async def version_count(self, stream: str) -> int:
        return len((await self.artefact.stream(stream)).versions)

    async def narration(self) -> Narration:
        """Return the newest narration."""
        return Narration.model_validate(await self.newest_data("narration"))


def pending_question(state: dict[str, Any]) -> dict[str, Any]:
    """Return the value of the one interrupt of a state."""
    [interrupt] = state["__interrupt__"]
    value: dict[str, Any] = interrupt.value
    return value


def fact_ids(question: dict[str, Any], *numbers: int) -> list[str]:
    """Return the ids of the facts with these numbers in a question."""
    return [question["facts"][number - 1]["id"] for number in numbers]
