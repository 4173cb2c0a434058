"""OpenAI's Responses API as the scripted endpoint speaks it: its rules, its answers, its events.

https://developers.openai.com/api/reference/resources/responses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.doubles.chat_double import Say


def broken_rule(body: Mapping[str, Any]) -> str | None:
    """Return the first rule that `body` breaks, or None."""
    return next(_rules(body), None)


def _rules(body: Mapping[str, Any]) -> Iterator[str]:
    for name in ("messages", "max_tokens", "max_completion_tokens", "stream_options", "temperature", "n"):
        if name in body:
            yield f"Unknown parameter: '{name}'."
    if body.get("store") is not False:
        yield "these tests store nothing at the vendor"
    for tool in body.get("tools", ()):
        if tool["type"] != "function" or "name" not in tool:
            yield "Missing required parameter: 'tools[0].name'."
    yield from _calls(body["input"])
    for at, item in enumerate(body["input"]):
        if item.get("type") == "reasoning":
            yield from _reasoning(item, [*body["input"], {}][at + 1])


def _calls(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answers = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    yield from (f"No tool output found for function call {call}." for call in calls if call not in answers)
    for answer in answers:
        if answer not in calls:
            yield f"No tool call found for function call output with call_id {answer}."


def _reasoning(item: Mapping[str, Any], following: Mapping[str, Any]) -> Iterator[str]:
    name = item.get("id")
    if not item.get("encrypted_content"):
        yield f"Item with id '{name}' not found. Items are not persisted when `store` is set to false."
    if following.get("role") != "assistant" and following.get("type") != "function_call":
        yield f"Item '{name}' of type 'reasoning' was provided without its required following item."


def response(say: Say, body: Mapping[str, Any]) -> dict[str, Any]:
    """The complete response."""
    status = "incomplete" if say.finish else "completed"
    return {
        "id": "resp_double",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": status,
        "error": None,
        "incomplete_details": {"reason": say.finish} if say.finish else None,
        "output": list(_output(say)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": say.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": say.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": say.prompt_tokens + say.completion_tokens,
        },
    }


def _output(say: Say) -> Iterator[dict[str, Any]]:
    if say.reasoning:
        yield {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": say.reasoning}
    if say.text or say.refusal:
        part = (
            {"type": "refusal", "refusal": say.refusal}
            if say.refusal
            else {"type": "output_text", "text": say.text, "annotations": []}
        )
        yield {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    for call_id, name, arguments in say.calls:
        yield {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
            "status": "completed",
        }


def events(say: Say, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The response as the events of a stream."""
    complete = response(say, body)
    stream_events = _stream_events(say, complete)
    yield from ({**event, "sequence_number": number} for number, event in enumerate(stream_events))


def _stream_events(say: Say, complete: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {**complete, "status": "in_progress", "output": []}}
    for index, item in enumerate(complete["output"]):
        yield from _item_events(say, index, item)
        if say.break_off:
            return
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{complete['status']}", "response": complete}


def _item_events(say: Say, index: int, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    # Fields are empty until their end; the reasoning's key is not complete before.
    empty: dict[str, dict[str, Any]] = {
        "reasoning": {"encrypted_content": "early"},
        "message": {"content": []},
        "function_call": {"arguments": ""},
    }
    place = {"output_index": index, "item_id": item["id"]}
    partial_item = {**item, **empty[item["type"]]}
    yield {"type": "response.output_item.added", "output_index": index, "item": partial_item}
    if item["type"] == "message":
        for piece in _pieces(say.text, say.piece):
            more = {"delta": piece, "content_index": 0, "logprobs": []}
            yield {"type": "response.output_text.delta", **place, **more}
        if say.refusal:
            yield {"type": "response.refusal.done", **place, "content_index": 0, "refusal": say.refusal}
    if item["type"] == "function_call":
        for piece in _pieces(item["arguments"], say.piece):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))
