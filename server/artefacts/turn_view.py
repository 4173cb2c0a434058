"""The reply to a run of a workflow without a feature, and the fields that all such replies share."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage

from callsheet.server.engine.execution import BuildReply
from callsheet.state import conversation
from callsheet.storage import spending
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.spending import Account, ModelUsage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread


def turn_fields(
    state: Mapping[str, Any], shorten: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
) -> dict[str, Any]:
    """Return the fields of every turn's reply; `shorten` turns a tool's output into its `result`."""
    return {
        "created": [dict(draft) for draft in state.get("created", ())],
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "toolCalls": tool_calls(state, shorten),
        "usage": usage(state),
    }


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's changes and message, from the state it ended in; JSON.

    `drafts` has the newest version of each stream that the turn changed, `toolCalls` its calls in order,
    `question` the pending interrupt, or None; with one, `message` is its words.
    """
    interrupts = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "artefactId": thread.artefact.partition(":")[2],
        "drafts": {draft["stream"]: draft["versionId"] for draft in state.get("created", ())},
        "message": turn_message(state),
        "question": {"id": interrupts[0].id, "value": interrupts[0].value} if interrupts else None,
        **turn_fields(state),
    }


def reply_builder(storage: Storage) -> BuildReply:
    """Return the function that builds the reply to a run."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        view = turn_view(await threads.get(storage, run.thread, run.owner), state)
        return view | await turn_use(storage, run.owner, run.thread, state)

    return build


def turn_message(state: Mapping[str, Any]) -> str:
    """Return the words of the pending question; without one those of the model."""
    interrupts = state.get("__interrupt__") or ()
    return question_text(interrupts[0].value) if interrupts else last_message(state)


def question_text(question: Any) -> str:
    """Return a question in words, a line for each action; empty for a question of another form."""
    if not isinstance(question, Mapping):
        return question if isinstance(question, str) else ""
    actions = [
        str(action.get("description") or action.get("name", ""))
        for action in question.get("action_requests", ())
    ]
    return "\n".join(actions) or str(question.get("message") or "")


def last_message(state: Mapping[str, Any]) -> str:
    """Return the newest turn's last message of the model without tool calls; empty for none."""
    for message in reversed(state.get("messages", ())):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage) and not conversation.calls_of(message):
            return message.text
    return ""


def usage(state: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of the whole conversation."""
    counted = state.get("usage") or {}
    return {
        "inputTokens": counted.get("input_tokens", 0),
        "outputTokens": counted.get("output_tokens", 0),
        "cachedTokens": counted.get("cached_tokens", 0),
        "modelCalls": counted.get("calls", 0),
    }


async def turn_use(storage: Storage, owner: str, thread: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return `turnUsage`: use of models in the newest turn, its tools included."""
    account = Account(owner, thread, conversation.turn_id(state.get("messages", ())))
    return {"turnUsage": use_view(spending.total(await spending.read_usage(storage, account, "turn")))}


def use_view(used: ModelUsage) -> dict[str, Any]:
    """Return the use of models as the API shows it."""
    return {
        "modelCalls": used.calls,
        "inputTokens": used.input,
        "cachedTokens": used.cached,
        "outputTokens": used.output,
        "costUsd": None if used.unpriced else round(used.cost, 9),
    }


def tool_calls(
    state: Mapping[str, Any], shorten: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest turn's tool calls in order: `{id, name, arguments, status, result, durationSeconds}`.

    `shorten` turns a tool's output into `result`.
    """
    # Some vendors repeat call ids from message to message, so the key includes the message's id.
    arguments = {
        (message.id, call["id"]): call["args"]
        for message in state.get("messages", ())
        for call in conversation.calls_of(message)
    }
    return [
        {
            "id": result["id"],
            "name": result["tool"],
            "arguments": arguments.get((result["plan"], result["id"]), {}),
            "status": result["status"],
            "result": shorten(result["output"]),
            "durationSeconds": result["duration_s"],
        }
        for result in state.get("results", ())
    ]
