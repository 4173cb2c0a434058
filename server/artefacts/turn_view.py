"""The reply to a run of a workflow without a feature, and the fields that all such replies share."""

from collections.abc import Callable, Mapping
from typing import Any

from callsheet.server.artefacts.turns import last_message, tool_calls, turn_use, usage
from callsheet.server.runtime.execution import BuildReply
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


def turn_fields(
    state: Mapping[str, Any], shorten: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
) -> dict[str, Any]:
    """Return the fields of every turn's reply; `shorten` turns a tool's output into its `result`."""
    return {
        "created": [dict(made) for made in state.get("created", ())],
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "toolCalls": tool_calls(state, shorten),
        "usage": usage(state),
    }


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's changes and message, from the state it ended in; JSON.

    `drafts` has the newest version of each stream that the turn changed, `toolCalls` its calls in order,
    `question` the pending interrupt, or None.
    """
    interrupts = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "artefactId": thread.artefact.partition(":")[2],
        "drafts": {made["stream"]: made["versionId"] for made in state.get("created", ())},
        "message": "" if interrupts else last_message(state),
        "question": {"id": interrupts[0].id, "value": interrupts[0].value} if interrupts else None,
        **turn_fields(state),
    }


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        view = turn_view(await threads.get(storage, run.thread, run.owner), state)
        return view | await turn_use(storage, run.owner, run.thread, state)

    return build
