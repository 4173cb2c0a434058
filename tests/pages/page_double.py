"""A page in storage whose tools are called through the guard."""

from typing import Any

from callsheet.state.owners import LOCAL
from callsheet.state.pages.history import page_of
from callsheet.state.pages.page import STREAM, Page
from callsheet.state.plan import Step
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools import REGISTRY
from callsheet.tools.call import Scope
from callsheet.tools.guard import guard
from callsheet.tools.guard.outcome import Outcome


class PageDouble:
    """A conversation about the page `bakery`; every call is a step of its own."""

    def __init__(
        self, storage: Storage, page_id: str = "bakery", owner: str = LOCAL, thread: str = "t"
    ) -> None:
        self.artefact = Artefact(storage, "page", page_id, owner)
        self.owner = owner
        self.thread = thread
        self.page_id = page_id
        self.steps = 0
        self.selected = ""

    async def call(self, tool: str, /, **params: Any) -> Outcome:
        """Call a tool as a new step."""
        self.steps += 1
        return await self.call_step(tool, f"c{self.steps}", **params)

    async def call_step(self, tool: str, step_id: str, /, **params: Any) -> Outcome:
        """Call a tool as the step with this id, which may have been executed before."""
        writes = sorted(REGISTRY[tool].writes) if tool in REGISTRY else []
        step = Step(
            id=step_id, tool=tool, display="", params=params, dependencies=[], reads=[], writes=writes
        )
        scope = Scope(
            self.owner,
            self.thread,
            "page",
            self.page_id,
            run="r",
            task="task",
            epoch=1,
            selected=self.selected,
        )
        return await guard.call(REGISTRY.of("page"), step, scope)

    async def result_of(self, tool: str, /, **params: Any) -> dict[str, Any]:
        """Call a tool, which must succeed, and return its result."""
        outcome = await self.call(tool, **params)
        assert outcome.ok, outcome.output
        return outcome.output

    async def error_of(self, tool: str, /, **params: Any) -> dict[str, Any]:
        """Call a tool, which must fail, and return the error."""
        outcome = await self.call(tool, **params)
        assert not outcome.ok, outcome.output
        return outcome.output

    async def page(self) -> Page:
        """Return the page as it is now."""
        return page_of((await self.artefact.stream_head(STREAM)).newest)


def same_page(first: Page, second: Page) -> bool:
    """Return whether two pages are equal apart from their id counters."""
    return first.data() | {"numbers": {}} == second.data() | {"numbers": {}}
