"""The context of a tool call, set by the server and never by the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from callsheet.state.errors import Forbidden
from callsheet.state.versions import MODEL, Author, origin

if TYPE_CHECKING:
    # A sandboxed tool has no storage and should not wait for the import of its client.
    from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
    from callsheet.storage.artefacts.receipts import StepFence


@dataclass(frozen=True)
class Scope:
    """Owner, thread, artefact and attempt of a call."""

    owner: str
    thread: str
    kind: str
    artefact: str
    """Id of the thread's artefact."""
    run: str
    """Id of the run; versions made in one run are drafts together."""
    task: str
    """LangGraph's task id: the same after a crash and a resume, another after a fork."""
    epoch: int
    """Number of the attempt on the thread; 0 if attempts are not counted."""
    plan: str = ""
    """Id of the plan, which distinguishes calls with equal ids."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the artefact: for an ad `language`, `market`, `spotSeconds`."""
    brief: str = ""
    """Text of the person from before this turn, whose contacts, figures and legal lines a script must say."""
    request: str = ""
    """Text of the person for this turn; a script must say the same of it."""
    words: str = ""
    """Newest message of the person, kept with the versions that it leads to."""
    maker: str = ""
    """`provider/model` of the answer that the call comes from; empty for none."""
    has_answer: bool = False
    """True if a person has written since the artefact's question was put to them last."""
    earlier_drafts: tuple[tuple[str, str], ...] = ()
    """Stream and id of the versions that this turn made in earlier plans, in order."""
    selected: str = ""
    """Part of the artefact that the person has selected, meant by "this"; empty for none."""
    model: str = ""
    """`provider/model` or `provider` of the run; empty lets the tool choose."""
    patient: bool = False
    """True if a call over its limit waits, as a step of a plan does, instead of being refused."""


@dataclass(frozen=True)
class VersionDraft:
    """A version that a tool writes."""

    stream: str
    data: Mapping[str, Any]
    parent: str | None = None
    """None for the newest version at the time of writing."""
    expected_head: "StreamHead | None" = None
    """Head that the version was made from; None skips the check."""
    by: Author = "model"


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    scope: Scope
    artefact: "Artefact"
    id: str
    """The model's tool_call_id."""
    writes: frozenset[str]
    """Streams this step may write."""
    fence: "StepFence | None"
    """Fence of the effect; None for a tool without one."""

    async def write_all(self, drafts: Sequence[VersionDraft], *, result: Mapping[str, Any]) -> dict[str, Any]:
        """Write versions of several streams together with one receipt: all of them or none.

        Repeats and errors are those of `write`. The result of a step that may write several has `versions`,
        the new versions by stream.
        """
        for draft in drafts:
            if draft.stream not in self.writes or self.fence is None:
                raise Forbidden(
                    f"this step may not write {draft.stream!r}", remedy="plan a step that declares it"
                )
        from callsheet.storage.artefacts.artefacts import NewVersion  # noqa: PLC0415 -- as above

        scope = self.scope
        new = [
            NewVersion(
                one.stream,
                one.data,
                MODEL,
                scope.run,
                one.parent,
                result,
                one.expected_head,
                origin(one.by, scope.words, scope.maker or scope.model),
            )
            for one in drafts
        ]
        return await self.artefact.create_versions(new, self.fence, named=len(self.writes) > 1)

    async def write(
        self,
        stream: str,
        data: Mapping[str, Any],
        *,
        parent: str | None = None,
        result: Mapping[str, Any],
        expected_head: "StreamHead | None" = None,
        by: Author = "model",
    ) -> dict[str, Any]:
        """Write a version of `stream` together with its receipt, and return the tool's result.

        `expected_head` is the head that the version was made from. Calling it twice is safe: the second call
        returns the receipt. Raises `Forbidden` outside the step's write set or for a locked part, and
        `Conflict` if the head has changed.
        """
        return await self.write_all([VersionDraft(stream, data, parent, expected_head, by)], result=result)
