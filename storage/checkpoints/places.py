"""Where a checkpoint is."""

from typing import NamedTuple

from langchain_core.runnables import RunnableConfig

from state.errors import Invalid
from storage.checkpoints.records import joined


class Place(NamedTuple):
    """A checkpoint, or if `checkpoint` is empty the newest one, of a namespace of a thread."""

    thread: str
    namespace: str
    checkpoint: str

    @property
    def field(self) -> bytes:
        """The checkpoint's field."""
        return joined(self.namespace, self.checkpoint)

    def config(self) -> RunnableConfig:
        """How LangGraph names the place."""
        return {
            "configurable": {
                "thread_id": self.thread,
                "checkpoint_ns": self.namespace,
                "checkpoint_id": self.checkpoint,
            }
        }


def place(config: RunnableConfig) -> Place:
    """The place a config names; `Invalid` without a thread id."""
    chosen = config.get("configurable") or {}
    if not chosen.get("thread_id"):
        remedy = "Pass config={'configurable': {'thread_id': …}}."
        raise Invalid(f"the config {config!r} names no thread", remedy=remedy)
    return Place(
        str(chosen["thread_id"]), chosen.get("checkpoint_ns") or "", chosen.get("checkpoint_id") or ""
    )
