"""A run as LangGraph's clients know it."""

from typing import Any, Final

from server.wire.shapes import when
from storage.run_records import Run

_SAME: Final = (
    *("input", "command", "stream_mode", "interrupt_before", "interrupt_after"),
    *("webhook", "subgraphs", "resumable"),
)


def shown(run: Run) -> dict[str, Any]:
    """Return a run."""
    return {
        "run_id": run.id,
        "thread_id": run.thread,
        "assistant_id": run.assistant,
        "metadata": run.metadata,
        "status": run.status,
        "kwargs": _asked(run),
        "multitask_strategy": run.strategy,
        "created_at": when(run.created_ms),
        "updated_at": when(run.updated_ms),
        "langsmith_session_name": None,
    }


def _asked(run: Run) -> dict[str, Any]:
    asked = run.request
    named = {
        "run_id": run.id,
        "thread_id": run.thread,
        "graph_id": run.graph,
        "assistant_id": run.assistant,
    }
    config = {**asked["config"], "metadata": run.metadata}
    config["configurable"] = {**config.get("configurable", {}), **(asked["checkpoint"] or {}), **named}
    return {name: asked[name] for name in _SAME} | {
        "config": config,
        "context": asked["context"] or {},
        "feedback_keys": asked.get("feedback_keys"),
        "temporary": run.temporary,
        "checkpoint_during": True,
        "durability": "sync",
    }
