"""Answers of models: whether one is whole, and the form in which it is kept (A70-A76, C42).

A kept answer has tool calls with legal names and with ids that are unique in the thread, because every vendor
that continues the conversation reads them.
"""

import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall

from callsheet.state.conversation import calls_of

Verdict = Literal["whole", "cut text", "cut calls", "refused", "filtered", "empty"]
MAX_ID: Final = 40
"""Characters of a call's id that OpenAI accepts."""
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME: Final = 64
_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens"})
_CALL_TAG: Final = re.compile(r"<tool_call>([^<]*)(?:</tool_call>)?")
_FENCE: Final = re.compile(r"```[\w-]*\n([^`]*)```")
_NAME_KEYS: Final = ("name", "tool", "function")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input")


def verdict(answer: AIMessage) -> Verdict:
    """Return whether an answer is whole, by its finish reason and content."""
    reason = answer.response_metadata.get("finish_reason")
    if answer.additional_kwargs.get("refusal"):
        return "refused"
    if reason == "content_filter":
        return "filtered"
    if reason in _CUT:
        return "cut calls" if calls_of(answer) else "cut text"
    return "whole" if answer.text.strip() or calls_of(answer) else "empty"


def kept_answer(answer: AIMessage, earlier: Sequence[BaseMessage], tools: Collection[str]) -> AIMessage:
    """Return an answer with legal names and unique ids of its calls.

    A vendor's id is kept if it is legal and new in the thread. An answer that is nothing but a call of a
    known tool, written as text, becomes that call.
    """
    written = [] if calls_of(answer) else list(_calls_in_text(answer.text, tools))
    taken = {str(call["id"]) for message in earlier for call in calls_of(message)}
    calls = [
        ToolCall(
            name=_name(call["name"], tools), args=call["args"], id=_id(call["id"], taken), type="tool_call"
        )
        for call in (*answer.tool_calls, *written)
    ]
    broken = [
        InvalidToolCall(
            name=_name(call["name"] or "", tools),
            args=call["args"],
            id=_id(call["id"], taken),
            error=call["error"],
            type="invalid_tool_call",
        )
        for call in answer.invalid_tool_calls
    ]
    content: Any = "" if written else answer.content
    return answer.model_copy(update={"content": content, "tool_calls": calls, "invalid_tool_calls": broken})


def sum_of_usage(answers: Sequence[AIMessage]) -> dict[str, int]:
    """Return the usage of all answers: `input_tokens`, `output_tokens`, `cached_tokens`, `calls`."""
    counted = [answer.usage_metadata for answer in answers if answer.usage_metadata]
    return {
        "input_tokens": sum(one["input_tokens"] for one in counted),
        "output_tokens": sum(one["output_tokens"] for one in counted),
        "cached_tokens": sum(one.get("input_token_details", {}).get("cache_read", 0) or 0 for one in counted),
        "calls": len(answers),
    }


def legal_name(name: str) -> str:
    """Return a tool's name in the form that vendors accept."""
    return _ILLEGAL.sub("_", name)[:_MAX_NAME] or "unnamed"


def _name(name: str, tools: Collection[str]) -> str:
    """Return the known tool of this spelling, such as `functions.search` for `search`; else a legal name."""
    candidates = (name, name.rpartition(".")[2], name.strip())
    return next((one for one in candidates if one in tools), legal_name(name))


def _id(given: str | None, taken: set[str]) -> str:
    known = str(given or "")
    name = known if _ID.fullmatch(known) and known not in taken else f"call_{uuid.uuid4().hex[:24]}"
    taken.add(name)
    return name


def _calls_in_text(text: str, tools: Collection[str]) -> Iterator[ToolCall]:
    """Yield the calls of a text that consists of calls alone."""
    tagged = _CALL_TAG.findall(text)
    if tagged and not _CALL_TAG.sub("", text).strip():
        parts = tagged
    else:
        fences = _FENCE.findall(text)
        parts = fences if fences and not _FENCE.sub("", text).strip() else [text]
    read = [_written_call(part, tools) for part in parts]
    yield from (call for call in read if call) if all(read) else ()


def _written_call(text: str, tools: Collection[str]) -> ToolCall | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if not isinstance(data, Mapping):
        return None
    name = next((data[key] for key in _NAME_KEYS if isinstance(data.get(key), str)), "")
    args = next((data[key] for key in _ARGUMENT_KEYS if isinstance(data.get(key), Mapping)), None)
    known = _name(name, tools)
    if known not in tools or args is None:
        return None
    return ToolCall(name=known, args={**args}, id=None, type="tool_call")
