"""The type of a node, and the config keys that the server sets for nodes."""

from typing import Any, Protocol, TypeVar

from langgraph.runtime import Runtime

from callsheet.state.context import Context

State = TypeVar("State", contravariant=True)

OWNER_KEY = "__callsheet_owner"
"""Key of `configurable` for the owner; callers cannot set it."""
EPOCH_KEY = "__callsheet_epoch"
"""Key of `configurable` for the number of the attempt on the thread."""
RESUMES_KEY = "__callsheet_resumes"
"""Key of `configurable`: True for a run that goes on from the thread's newest checkpoint, with no input."""
RUN_KEY = "run_id"
"""Key of `configurable` and of checkpoint metadata for the run."""


class Node(Protocol[State]):
    """A node of a graph. Running it twice must be safe."""

    def __call__(self, state: State, *, runtime: Runtime[Context]) -> Any:
        """Return the changed keys only."""
        ...


def run_context(runtime: Runtime[Context]) -> Context:
    """Return the run's context; LangGraph passes None if the caller chose nothing."""
    return runtime.context or Context()
