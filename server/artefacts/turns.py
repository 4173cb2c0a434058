"""Checks of requests and parts of replies that the turns of all workflows share."""

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage, HumanMessage

from callsheet.providers import with_key
from callsheet.providers.routing import Request, route
from callsheet.state import conversation
from callsheet.state.ads import brief
from callsheet.state.context import Context
from callsheet.state.errors import Invalid
from callsheet.state.owners import LOCAL, storage_id
from callsheet.storage import spending
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.spending import Account, ModelUsage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

MAX_ID: Final = 255
"""Length of an id or an idempotency key, in characters."""


def identifier(text: str, field_name: str) -> str:
    """Return `text` if it is a valid id: 1 to 255 printable characters; raise `Invalid` otherwise."""
    if not 0 < len(text) <= MAX_ID or not text.isprintable():
        raise Invalid(
            f"{field_name} {text[:40]!r} must have 1 to {MAX_ID} printable characters, and has {len(text)}",
            remedy=f"send another {field_name}",
        )
    return text


async def find_thread(
    storage: Storage,
    graph: str,
    artefact: Artefact,
    owner: str,
    conversation_id: str | None,
    at_hand: Thread | None = None,
) -> Thread:
    """Return the thread of the owner's artefact: its own, else the requested one, else the default one.

    `at_hand` was read just now, and is not read again.
    It is a stored one only if it and the artefact are bound to each other already. Raises `Missing` for a
    thread of another artefact.
    """
    requested = identifier(conversation_id, "conversationId") if conversation_id else None
    name = f"{artefact.kind}:{artefact.id}"
    named = Thread(storage_id(owner, "thread", artefact.id), owner, graph, name)
    read = requested or named.id
    meta, existing, unused_id = await asyncio.gather(
        artefact.meta(), threads.find(storage, read, owner), _unused_id(storage, named)
    )
    bound = meta.get("thread") if meta.get("owner") == owner else None
    if requested and bound and requested != bound:
        raise threads.missing_thread(requested)
    known = requested or bound
    if known is None:
        fits = existing and _may_be_about(existing, named)
        if fits:
            return named
        return replace(named, id=unused_id or await threads.derived_id(storage, owner, named.artefact))
    if known != read:
        existing = at_hand if at_hand and at_hand.id == known else await threads.find(storage, known, owner)
    if not existing or existing.graph != graph:
        return replace(named, id=known)
    if existing.artefact != name:
        raise threads.missing_thread(known)
    return existing if bound else replace(named, id=known)


async def _unused_id(storage: Storage, named: Thread) -> str:
    """Return the id for the thread of an artefact without one, if `named` is not the owner's.

    The id of `named` can be predicted by others. Only the local owner's threads are called like their
    artefacts; an empty id is one that has an owner.
    """
    if named.owner == LOCAL:
        return "" if await threads.has_owner(storage, named.id) else named.id
    return await threads.derived_id(storage, named.owner, named.artefact)


def _may_be_about(existing: Thread, named: Thread) -> bool:
    return existing.graph == "" or (existing.graph, existing.artefact) == (named.graph, named.artefact)


def clean_message(text: str, limit: int = brief.MAX_TEXT) -> str:
    """Return a message without NUL and outer spaces; raise `Invalid` if it is empty or too long."""
    cleaned = text.replace("\x00", "").strip()
    if not cleaned:
        raise Invalid("the message is empty", remedy='send {"message": "what should be different"}')
    if len(cleaned) > limit:
        raise Invalid(
            f"the message has {len(cleaned)} characters, and the limit is {limit}",
            remedy="shorten it",
        )
    return cleaned


def human_message(content: str) -> dict[str, str]:
    """Return a user's message as input of a graph."""
    # The id is stored with the run, so that a resumed run adds the message once.
    return {"role": "user", "content": content, "id": uuid.uuid4().hex}


def checked_idempotency_key(idempotency_key: str | None) -> str | None:
    """Return the key if it is None or valid; raise `Invalid` otherwise."""
    return None if idempotency_key is None else identifier(idempotency_key, "Idempotency-Key")


def checked_context(context: Context) -> Context:
    """Return the context; raise `Invalid` if its provider does not exist."""
    route(Request(provider=context.get("model") or context.get("provider", "")), with_key(os.environ))
    return context


def last_message(state: Mapping[str, Any]) -> str:
    """Return the newest turn's last message of the model without tool calls; empty for none."""
    for message in reversed(state.get("messages", ())):
        if isinstance(message, HumanMessage):
            break
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


async def turn_use(storage: Storage, owner: str, thread: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return `turnUsage`: use of models in the newest turn, its tools included (X14)."""
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
