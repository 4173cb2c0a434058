"""The form of a node, and the keys by which the server speaks to nodes."""

from typing import Any, Protocol, TypeVar

from langgraph.runtime import Runtime

from callsheet.state.context import Context

State = TypeVar("State", contravariant=True)

OWNER_KEY = "__callsheet_owner"
"""Key of `configurable` under which the server says who asks; callers never set it."""
EPOCH_KEY = "__callsheet_epoch"
"""Key of `configurable` under which the server counts the attempts on the thread."""
RUN_KEY = "run_id"
"""Key of `configurable` and of checkpoint metadata that names the run."""


class Node(Protocol[State]):
    """A step of a graph: the state it needs in, the keys it changed out. Running it twice must be safe."""

    def __call__(self, state: State, *, runtime: Runtime[Context]) -> Any:
        """Return only the keys it changed."""
        ...


def run_context(runtime: Runtime[Context]) -> Context:
    """Return what the caller chose for this run; LangGraph gives None where nothing was chosen."""
    return runtime.context or Context()
