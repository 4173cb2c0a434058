"""The tools of one lesson, called through the guard as a workflow calls them."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from callsheet.state.owners import LOCAL
from callsheet.state.plan import Step
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.redis.connection import Storage
from callsheet.tools import REGISTRY
from callsheet.tools.call import Scope
from callsheet.tools.guard import guard
from callsheet.tools.registry import Tool


class LessonTools:
    """One lesson in the test's storage."""

    def __init__(
        self,
        storage: Storage,
        name: str = "lesson-1",
        *,
        tools: Mapping[str, Tool] = REGISTRY,
        model: str = "",
    ) -> None:
        self._tools = tools
        self.artefact = Artefact(storage, "lesson", name, LOCAL)
        self._name = name
        self._model = model
        self._count = count()

    async def call(self, tool: str, **params: Any) -> dict[str, Any]:
        """Call a tool and return what the model is answered, an error too."""
        number = next(self._count)
        step = Step(
            id=f"call-{number}",
            tool=tool,
            display="",
            params=params,
            dependencies=[],
            reads=[],
            writes=sorted(self._tools[tool].writes),
        )
        scope = Scope(
            LOCAL, "t", "lesson", self._name, run=f"run-{number}", task="task", epoch=1, model=self._model
        )
        return (await guard.call(self._tools, step, scope)).output

    async def create_version(self, stream: str, data: dict[str, Any]) -> str:
        """Write a version by hand, as a person or an upload does, and return its id."""
        if not await self.artefact.meta():
            await self.artefact.open(owner=LOCAL, thread=self._name, facts={})
        version = await self.artefact.create_version(NewVersion(stream, data, LOCAL, "by-hand"))
        return str(version["versionId"])

    async def newest_data(self, stream: str) -> dict[str, Any]:
        """Return the data of a stream's newest version, which must exist."""
        newest = (await self.artefact.stream_head(stream)).newest
        assert newest is not None
        return dict(newest.data)
