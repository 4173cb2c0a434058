"""What the conversations of all workflows have in common where they are asked for and answered."""

import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage

from callsheet.providers import available
from callsheet.providers.routing import Request, route
from callsheet.state import conversation
from callsheet.state.ads import brief
from callsheet.state.context import Context
from callsheet.state.errors import Invalid, Missing
from callsheet.state.owners import storage_id
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

MAX_ID: Final = 255
"""Characters of an id or an idempotency key."""


def identifier(text: str, field_name: str) -> str:
    """Return `text` if it can be an id: 1 to 255 printable characters; else raises `Invalid`."""
    if not 0 < len(text) <= MAX_ID or not text.isprintable():
        raise Invalid(
            f"{field_name} {text[:40]!r} must have 1 to {MAX_ID} printable characters, and has {len(text)}",
            remedy=f"send another {field_name}",
        )
    return text


async def find_thread(
    storage: Storage, graph: str, artefact: Artefact, owner: str, conversation_id: str | None
) -> Thread:
    """Return the conversation about the owner's artefact: its own, else the one asked for, else its name's.

    Raises `Missing` for a conversation that is about something else.
    """
    asked = identifier(conversation_id, "conversationId") if conversation_id else None
    meta = await artefact.meta()
    bound = meta.get("thread") if meta.get("owner") == owner else None
    if asked and bound and asked != bound:
        raise threads.missing_thread(asked)
    thread = Thread(
        asked or bound or storage_id(owner, "thread", artefact.id),
        owner,
        graph,
        f"{artefact.kind}:{artefact.id}",
    )
    try:
        found = await threads.get(storage, thread.id, owner)
    except Missing:
        return thread
    if found.graph == thread.graph and found.artefact != thread.artefact:
        raise threads.missing_thread(thread.id)
    return thread


def clean_message(text: str) -> str:
    """Return what a person said, without what nobody can read; raises `Invalid` for nothing and too much."""
    said = text.replace("\x00", "").strip()
    if not said:
        raise Invalid("the message is empty", remedy='send {"message": "what should be different"}')
    if len(said) > brief.MAX_TEXT:
        raise Invalid(
            f"the message has {len(said)} characters, and the limit is {brief.MAX_TEXT}", remedy="shorten it"
        )
    return said


def human_message(content: str) -> dict[str, str]:
    """Return a message of a person for a graph."""
    # The id is made here and stored with the run, so that a run taken up again adds the message once.
    return {"role": "user", "content": content, "id": uuid.uuid4().hex}


def checked_idempotency_key(idempotency_key: str | None) -> str | None:
    """Return an idempotency key that can be one; raises `Invalid`."""
    return None if idempotency_key is None else identifier(idempotency_key, "Idempotency-Key")


def checked_context(context: Context) -> Context:
    """Return what the caller chose; raises `Invalid` for a provider that does not exist."""
    route(Request(provider=context.get("model") or context.get("provider", "")), available(os.environ))
    return context


def last_message(state: Mapping[str, Any]) -> str:
    """Return the newest thing the model said without calling a tool."""
    for message in reversed(state.get("messages", ())):
        if isinstance(message, AIMessage) and not conversation.calls_of(message):
            return message.text
    return ""


def usage(state: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of the whole conversation (A66)."""
    counted = state.get("usage") or {}
    return {
        "inputTokens": counted.get("input_tokens", 0),
        "outputTokens": counted.get("output_tokens", 0),
        "cachedTokens": counted.get("cached_tokens", 0),
        "modelCalls": counted.get("calls", 0),
    }


def tool_calls(
    state: Mapping[str, Any], in_short: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest turn's tool calls in order: `{id, name, arguments, status, result, durationSeconds}`.

    `result` is what `in_short` makes of what the tool answered.
    """
    # With some vendors call ids repeat from message to message, so the message's id belongs to the name.
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
            "result": in_short(result["output"]),
            "durationSeconds": result["duration_s"],
        }
        for result in state.get("results", ())
    ]
