"""Whole messages as the parts that a model would have streamed, as LangGraph's own server sends them."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from langchain_core.messages import BaseMessage

_LATE: Final = frozenset({"args", "data", "output", "transcript", "value"})
"""Fields of a block that may be large, so that only its later parts have them."""
_EMPTY: Final[Mapping[str, Mapping[str, Any]]] = {
    "tool_call": {"args": {}},
    "server_tool_call": {"args": {}},
    "non_standard": {"value": {}},
}
"""Late fields that the first part of a block must have nevertheless, by its type."""


def message_parts(message: BaseMessage) -> Iterator[dict[str, Any]]:
    """Yield the parts of a message that no model streamed."""
    metadata, usage = message.response_metadata, getattr(message, "usage_metadata", None)
    names = {"provider": metadata.get("model_provider"), "model": metadata.get("model_name")}
    about = _without_none(names)
    yield {
        "event": "message-start",
        "role": "ai",
        "id": message.id or "",
        **({"metadata": about} if about else {}),
    }
    for index, block in enumerate(_blocks(message)):
        for event, content in _block_parts(block):
            yield {"event": f"content-block-{event}", "index": index, **content}
    yield {
        "event": "message-finish",
        **({"usage": usage} if usage else {}),
        **({"metadata": metadata} if metadata else {}),
    }


def _blocks(message: BaseMessage) -> Iterator[Mapping[str, Any]]:
    # LangChain fails to read some malformed contents; then the message has no blocks.
    with suppress(AttributeError, LookupError, TypeError, ValueError):
        yield from message.content_blocks
    for call in getattr(message, "invalid_tool_calls", ()):
        yield {**_without_none(call), "type": "invalid_tool_call"}


def _block_parts(block: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = block["type"]
    late, empty, delta = _LATE, _EMPTY.get(kind, {}), _data_delta(block)
    if kind in {"text", "reasoning"}:
        late, empty = frozenset({kind, "index", "annotations"}), {kind: ""}
        delta = {"type": f"{kind}-delta", kind: block[kind]} if block.get(kind) else None
    yield "start", {"content": {name: block[name] for name in block if name not in late} | dict(empty)}
    if delta:
        yield "delta", {"delta": delta}
    yield "finish", {"content": dict(block)}


def _data_delta(block: Mapping[str, Any]) -> dict[str, Any] | None:
    if not block.get("data"):
        return None
    encoding = {"encoding": "base64"} if block.get("encoding") == "base64" else {}
    return {"type": "data-delta", "data": block["data"], **encoding}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
