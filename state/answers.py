"""Answers of models: whether one is whole, and the form in which it is kept.

A kept answer has tool calls with legal names and with ids that are unique in the thread, because every vendor
that continues the conversation reads them. Calls written as text, as by small local models whose server knows
no form of theirs, are a JSON object with a name and arguments, or a tool's name with its arguments behind it:
fenced, tagged, listed, numbered, between the marks of Kimi, Llama, Mistral or DeepSeek, or with outer braces
doubled, as a template of Qwen 2.5 shows them. Qwen 3 Coder writes a tag for each argument.
"""

import json
import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall

from callsheet.state.conversation import calls_of
from callsheet.state.unicode import utf8_safe_value

_SPACER: Final = re.compile(
    r"\s+|</?tool(?:s|_calls?)>|</function>|```[\w-]*|<\|\w{1,40}\|>|<｜[\w▁]{1,40}｜>"
    r"|\[(?:TOOL_CALLS|ARGS)\]|[,;)\]\[]"
)
"""Whatever may be between calls."""
_NAME: Final = re.compile(
    r"(?:#{1,6} |[-*] |\d{1,2}[.)] |function<｜tool▁sep｜>|<function=)?[`*]{0,3}(?:functions\.)?([\w-]{1,64})"
    r"[`*]{0,3}(?::\d{1,3})?[:(>]{0,2}"
)
_PARAMETER: Final = re.compile(r"\s{0,8}<parameter=([\w-]{1,64})>")
_PARAMETER_END: Final = "</parameter>"
_NAME_KEYS: Final = ("name", "tool", "function")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input")
FLAT_TOOL: Final = "tool"
"""Key of the tool's name in a call whose other keys are its arguments."""
_DECODER: Final = json.JSONDecoder(strict=False)
_MAX_TRIES: Final = 50
"""Objects of a text that are read."""


class _WrittenCall(NamedTuple):
    """A call in a text."""

    name: str
    """A known tool."""
    args: dict[str, Any]


def _calls_in_text(text: str, known: Callable[[str], str | None]) -> list[_WrittenCall]:
    """Return the calls of a text that consists of calls alone, in order; none for any other text.

    `known` returns the tool that a name stands for.
    """
    calls: list[_WrittenCall] = []
    at = 0
    while at < len(text):
        if spacer := _SPACER.match(text, at):
            at = spacer.end()
            continue
        read = _read_call(text, at, known)
        if read is None:
            return []
        call, at = read
        calls.append(call)
    return calls


def _mentions_call(text: str, known: Callable[[str], str | None]) -> bool:
    """Return whether a text has a call beside other words."""
    starts = (match.start() for match in re.finditer(r"^(?=[^{\n]{0,80}\{)|\{", text, re.MULTILINE))
    return any(_read_call(text, start, known) for start, _ in zip(starts, range(_MAX_TRIES), strict=False))


def _read_call(text: str, at: int, known: Callable[[str], str | None]) -> tuple[_WrittenCall, int] | None:
    """Return the call that begins at `at`, and where it ends."""
    named = _NAME.match(text, at)
    tool = known(named[1]) if named else None
    if named and tool:
        at = named.end()
        while spacer := _SPACER.match(text, at):
            at = spacer.end()
        if tagged := _read_parameters(text, at):
            return _WrittenCall(tool, tagged[0]), tagged[1]
    read = _read_object(text, at)
    if read is None:
        return None
    data, end = read
    name = next((data[key] for key in _NAME_KEYS if isinstance(data.get(key), str)), None)
    args = next((data[key] for key in _ARGUMENT_KEYS if isinstance(data.get(key), Mapping)), None)
    if name is not None and args is not None and (called := known(name)):
        return _WrittenCall(called, {**args}), end
    if isinstance(flat := data.pop(FLAT_TOOL, None), str) and (called := known(flat)):
        return _WrittenCall(called, data), end
    return (_WrittenCall(tool, data), end) if tool else None


def _read_parameters(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the arguments that are written as tags at `at`, and where they end; None for none."""
    args: dict[str, Any] = {}
    while (begin := _PARAMETER.match(text, at)) and (end := text.find(_PARAMETER_END, begin.end())) >= 0:
        value = text[begin.end() : end].strip("\n")
        read = _read_object(value, 0)
        args[begin[1]] = read[0] if read and read[1] == len(value) else value
        at = end + len(_PARAMETER_END)
    return (args, at) if args else None


def _read_object(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the JSON object at `at`, and where it ends; its outer braces may be doubled."""
    if not text.startswith("{", at):
        return None
    doubled = text.startswith("{{", at)
    try:
        data, end = _DECODER.raw_decode(text, at + doubled)
    except (ValueError, RecursionError):
        return None
    return data, end + (doubled and text.startswith("}", end))


Verdict = Literal["whole", "cut text", "cut calls", "refused", "filtered", "empty"]
MAX_ID: Final = 40
"""Characters of a call's id that OpenAI accepts."""
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,40}")
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME: Final = 64
_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens"})


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

    A vendor's id is kept if it is legal and new in the thread. An answer that is nothing but calls of known
    tools, written as text, becomes those calls.
    """
    written = [] if calls_of(answer) else written_calls(answer.text, tools)
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


def written_calls(text: str, tools: Collection[str]) -> list[ToolCall]:
    """Return the calls of a text that consists of calls of known tools alone; none for any other text."""
    return [
        ToolCall(name=one.name, args=utf8_safe_value(one.args), id=_id(None, set()), type="tool_call")
        for one in _calls_in_text(text, partial(_known, tools))
    ]


def has_written_call(answer: AIMessage, tools: Collection[str]) -> bool:
    """Return whether an answer without calls has one in its text, beside other words."""
    return not calls_of(answer) and _mentions_call(answer.text, partial(_known, tools))


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
    return _known(tools, name) or legal_name(name)


def _known(tools: Collection[str], name: str) -> str | None:
    candidates = (name, name.rpartition(".")[2], name.strip())
    return next((one for one in candidates if one in tools), None)


def _id(given: str | None, taken: set[str]) -> str:
    known = str(given or "")
    name = known if _ID.fullmatch(known) and known not in taken else f"call_{uuid.uuid4().hex[:24]}"
    taken.add(name)
    return name
