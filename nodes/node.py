"""What every node is given, and what a workflow is about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from langgraph.config import get_config
from langgraph.runtime import Runtime

from state.context import Context
from state.errors import Invalid
from state.owners import LOCAL
from state.plan import Step
from state.versions import Version
from state.workflow import DraftMade, Workflow
from tools.call import Scope
from tools.registry import Tool

State = TypeVar("State", contravariant=True)

OWNER = "__callsheet_owner"
"""Key of `configurable` under which the server says who asks; callers never set it."""
EPOCH = "__callsheet_epoch"
"""Key of `configurable` under which the server counts the attempts on the thread."""
RUN = "run_id"
"""Key of `configurable` and of checkpoint metadata that names the run."""


class Node(Protocol[State]):
    """A step of a graph: the state it needs in, the keys it changed out. Running it twice must be safe."""

    def __call__(self, state: State, *, runtime: Runtime[Context]) -> Any:
        """Return only the keys it changed."""
        ...


@dataclass(frozen=True)
class Subject:
    """What a workflow is about, and what differs from workflow to workflow in the shared nodes."""

    kind: str
    """First part of the artefact's keys."""
    streams: tuple[str, ...]
    tools: Mapping[str, Tool]
    """The tools this workflow allows."""
    artefact: Callable[[Any, str], str]
    """(state, thread id) to the artefact's id."""
    facts: Callable[[Any], Mapping[str, str]]
    """State to what the tools need to know of the artefact."""
    prompt: Callable[[Any, str], str]
    """(state, artefact id) to the system prompt; the same from turn to turn."""
    opening: Callable[[Any], str | None]
    """State to the first user message, where the input holds none."""
    summary: Callable[[str, Mapping[str, Any]], str]
    """(stream, data) to one line."""
    selected: Callable[[Any], str] = lambda _: ""
    """State to the part of the artefact that the person has selected (C26)."""
    about: Callable[[Any, Step, Mapping[str, Version | None]], str] | None = None
    """(state, step, newest versions by stream) to what a step is about, as a person knows it again."""
    own: Mapping[str, Tool] = field(default_factory=dict)
    """Tools that no model may call: those of steps that a person's answer decides."""
    noted: Callable[[Any, Sequence[DraftMade]], Mapping[str, Any]] = lambda _state, _made: {}
    """(state, versions a plan made) to what else the state remembers of them."""

    def allowed(self, state: Workflow) -> Mapping[str, Tool]:
        """Return the tools that the plan in hand may call: where a person made it, the workflow's own too."""
        return {**self.tools, **self.own} if state.get("decided") else self.tools

    def scope(self, state: Workflow, runtime: Runtime[Context]) -> Scope:
        """Return who asks, on which thread and about what, as far as the host tells.

        Raises `Invalid` without a thread id, since nothing could be remembered.
        """
        chosen = get_config().get("configurable", {})
        wanted = choices(runtime)
        thread = str(chosen.get("thread_id") or "")
        if not thread:
            raise Invalid(
                "the run has no thread id", remedy='pass config={"configurable": {"thread_id": "…"}}'
            )
        info = runtime.execution_info
        task = info.task_id if info else ""
        plan = state.get("plan")
        return Scope(
            owner=str(chosen.get(OWNER) or LOCAL),
            thread=thread,
            kind=self.kind,
            artefact=self.artefact(state, thread),
            run=str(chosen.get(RUN) or task),
            task=task,
            plan=plan["id"] if plan else "",
            epoch=int(chosen.get(EPOCH) or 0),
            facts=self.facts(state),
            selected=self.selected(state),
            model=wanted.get("model") or wanted.get("provider") or state.get("provider") or "",
            patient=bool(plan and len(plan["steps"]) > 1),
        )


def choices(runtime: Runtime[Context]) -> Context:
    """Return what the caller chose for this run; LangGraph gives None where nothing was chosen."""
    return runtime.context or Context()
