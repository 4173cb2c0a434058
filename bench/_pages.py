"""The sentences about landing pages, through the compiled graph with the offline model."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.types import Command

from graphs import page_builder
from state.errors import CallsheetError
from state.owners import LOCAL
from state.page import STREAM, Page
from state.page_history import page_of as held
from storage.artefacts import Artefact, NewVersion
from storage.checkpoints import RedisSaver
from storage.connection import Storage
from tests.page_score import Case, Turn, page_of, score

_OFFLINE: Final[Any] = {"provider": "offline"}


async def scored(cases: list[Case], storage: Storage) -> list[tuple[Case, list[str]]]:
    """Return each case with what was expected and did not happen."""
    saver = RedisSaver(storage.redis)
    graph = page_builder.graph.copy(update={"checkpointer": saver})
    try:
        return [(case, await _played(case, graph, storage)) for case in cases]
    finally:
        await saver.aclose()


async def _played(case: Case, graph: Pregel[Any, Any], storage: Storage) -> list[str]:
    try:
        return score(await _Sitting(case, graph, storage).turn())
    except (CallsheetError, LookupError) as error:
        # What is refused, or leaves out what was asked for, has failed the sentence; a bug ends the bench.
        return [f"{type(error).__name__}: {error}"]


class _Sitting:
    """One case being played."""

    def __init__(self, case: Case, graph: Pregel[Any, Any], storage: Storage) -> None:
        self._case = case
        self._graph = graph
        self._name = f"{case.id}-{uuid.uuid4().hex[:6]}"
        self._artefact = Artefact(storage, "page", self._name, LOCAL)
        self._config: RunnableConfig = {"configurable": {"thread_id": self._name}}
        self._asked = False

    async def turn(self) -> Turn:
        """Return what came of the case."""
        case = self._case
        await self._artefact.open(owner=LOCAL, thread=self._name, facts={})
        first: dict[str, Any] = {"page": page_of(case.page).data(), "changes": [], "back": None}
        await self._artefact.create_version(NewVersion(STREAM, first, "local", "by-hand"))
        for element in case.locked:
            await self._artefact.lock(element, LOCAL)
        history = []
        for sentence in case.said:
            history.append(await self._page())
            await self._say(sentence, "")
        history.append(await self._page())
        self._asked = False
        reply = await self._say(case.say, case.selected)
        return Turn(case, history, await self._page(), reply, self._asked)

    async def _say(self, text: str, selected: str) -> str:
        given: Mapping[str, Any] = {
            "messages": [{"role": "user", "content": text}],
            "page_id": self._name,
            "selected_element_id": selected or None,
        }
        state = await self._graph.ainvoke(given, self._config, context=_OFFLINE)
        while "__interrupt__" in state:
            self._asked = True
            answer: Command[Any] = Command(resume={"decisions": [{"type": self._case.answer}]})
            state = await self._graph.ainvoke(answer, self._config, context=_OFFLINE)
        return str(state["messages"][-1].text)

    async def _page(self) -> Page:
        return held((await self._artefact.stream(STREAM)).newest())
