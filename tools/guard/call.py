"""What a tool is told by the server; none of it comes from the model (B23)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from callsheet.state.errors import Forbidden

if TYPE_CHECKING:
    # A tool in a process of its own has no storage, and should not wait for its client to be imported.
    from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
    from callsheet.storage.artefacts.receipts import Fence


@dataclass(frozen=True)
class Scope:
    """Who asks, on which thread, about which artefact, in which attempt."""

    owner: str
    thread: str
    kind: str
    artefact: str
    """Id of the artefact the thread is about."""
    run: str
    """Id of the run; versions made in one run are drafts together."""
    task: str
    """LangGraph's task id: the same after a crash and a resume, another after a fork."""
    epoch: int
    """Counts the attempts on the thread; 0 where nobody counts them."""
    plan: str = ""
    """Id of the plan in hand, which tells apart calls whose ids repeat."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the workflow knows of the artefact: for an ad `language`, `market`, `spotSeconds`."""
    selected: str = ""
    """The part of the artefact that the person has selected, which "this" means; empty for none (C2, C26)."""
    model: str = ""
    """`provider/model` or `provider` that the run was asked to use; empty lets the tool choose (A-R1)."""
    patient: bool = False
    """Whether a call over its limit waits for its turn instead of being refused, as a step of a plan does."""


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    scope: Scope
    artefact: "Artefact"
    id: str
    """The model's tool_call_id."""
    writes: frozenset[str]
    """Streams this step may write."""
    fence: "Fence | None"
    """Leave for the one effect; None for a tool without effect."""

    async def write(
        self,
        stream: str,
        data: Mapping[str, Any],
        *,
        parent: str | None = None,
        result: Mapping[str, Any],
        expected_head: "StreamHead | None" = None,
    ) -> dict[str, Any]:
        """Make a version of `stream` together with its receipt, and return the tool's result.

        `expected_head` is the head the version was made from. Calling twice is safe: the second call gets the
        receipt. Raises `Forbidden` outside the step's write set or for a locked part, and `Conflict` when the
        head has changed.
        """
        if stream not in self.writes or self.fence is None:
            raise Forbidden(f"this step may not write {stream!r}", remedy="plan a step that declares it")
        from callsheet.storage.artefacts.artefacts import NewVersion  # noqa: PLC0415 -- as above

        new = NewVersion(stream, data, "llm", self.scope.run, parent, result, expected_head)
        return await self.artefact.create_version(new, self.fence)
