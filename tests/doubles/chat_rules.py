"""Rules of vendors' Chat Completions: a request's form, its history, its tools (X12)."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_MOST_TOOLS = 128
_LONGEST_ID = 40
_KNOWN = {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "n",
    "stop",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "user",
}


_MESSAGE = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"}
PARSE_ERROR = "Failed to parse tool call arguments as JSON"
"""llama.cpp answers it with 500."""


def broken_rule(body: Mapping[str, Any], vendor: str = "openai") -> str | None:
    """Return the first rule of `vendor` that `body` breaks, in the API's own words where known, or None.

    `vendor` is openai, qwen, kimi, vllm or llama.cpp. All refuse what breaks a conversation: a call without
    its answer, an answer without its call, a tool without a name.
    """
    checks = (_form, *_VENDORS[vendor], _history, _tools)
    return next((rule for check in checks for rule in check(body)), None)


def _form(body: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "you must provide a model parameter"
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
    if "stream_options" in body and not body.get("stream"):
        yield "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    for name in ("tool_choice", "parallel_tool_calls"):
        if name in body and not body.get("tools"):
            yield f"'{name}' is only allowed when 'tools' are specified."


def _history(body: Mapping[str, Any]) -> Iterator[str]:
    open_calls: list[str] = []
    for at, message in enumerate(body["messages"]):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                yield (
                    f"Invalid parameter: messages[{at}] with role 'tool' must be a response to a preceding "
                    "message with 'tool_calls'."
                )
            else:
                open_calls.remove(message["tool_call_id"])
        elif open_calls:
            yield _missing_answers(open_calls)
        yield from _message(at, message)
        if role == "assistant":
            open_calls = [call.get("id", "") for call in message.get("tool_calls") or ()]
    if open_calls:
        yield _missing_answers(open_calls)


def _missing_answers(open_calls: Sequence[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
    )


def _message(at: int, message: Mapping[str, Any]) -> Iterator[str]:
    role = message.get("role")
    if role not in {"system", "developer", "user", "assistant", "tool"}:
        yield f"Invalid value for messages[{at}].role: {role!r}"
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        yield f"Invalid type for 'messages[{at}].content'"
    if not content and role in {"system", "developer", "user"}:
        yield f"messages[{at}] with role {role!r} must not be empty"
    if role == "tool" and content is None:
        yield f"Invalid value for 'content': expected a string, got null. (messages[{at}])"
    if role == "assistant":
        if not content and not message.get("tool_calls"):
            yield f"messages[{at}] with role 'assistant' must not be empty"
        yield from _calls(at, message)


def _calls(at: int, message: Mapping[str, Any]) -> Iterator[str]:
    if "tool_calls" not in message:
        return
    calls = message["tool_calls"]
    if not calls:
        yield f"Invalid 'messages[{at}].tool_calls': empty array. Expected an array with minimum length 1."
    ids = [call.get("id") for call in calls]
    if len(set(ids)) < len(ids) or not all(isinstance(one, str) and one for one in ids):
        yield f"messages[{at}].tool_calls need ids, each a different one"
    for call in calls:
        function = call.get("function") or {}
        if call.get("type") != "function" or not _NAME.fullmatch(function.get("name") or ""):
            yield f"Invalid 'messages[{at}].tool_calls[].function.name'"
        if not isinstance(function.get("arguments"), str):
            yield f"Invalid type for 'messages[{at}].tool_calls[].function.arguments': expected a string"


def _tools(body: Mapping[str, Any]) -> Iterator[str]:
    if "tools" not in body:
        return
    tools = body["tools"]
    if not tools or len(tools) > _MOST_TOOLS:
        yield f"Invalid 'tools': expected an array of 1 to {_MOST_TOOLS}"
    names = [(one.get("function") or {}).get("name") or "" for one in tools]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    for tool, name in zip(tools, names, strict=True):
        if tool.get("type") != "function" or not _NAME.fullmatch(name):
            yield f"Invalid 'tools[].function.name': {name!r}"
        parameters = tool["function"].get("parameters", {"type": "object", "properties": {}})
        if parameters.get("type") != "object":
            yield f"Invalid schema for function {name!r}: schema must be a JSON Schema of 'type: \"object\"'"
        yield from _schema(name, parameters)
    yield from _choice(body.get("tool_choice", "auto"), names)


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    kind = schema.get("type")
    if kind is not None and not {kind} <= _TYPES if not isinstance(kind, list) else not set(kind) <= _TYPES:
        yield f"Invalid schema for function {name!r}: {kind!r} is not a type"
    properties = schema.get("properties", {})
    if kind == "object" and not set(schema.get("required", ())) <= set(properties):
        yield f"Invalid schema for function {name!r}: 'required' names a property that is not there"
    if kind == "array" and "items" not in schema:
        yield f"Invalid schema for function {name!r}: array schema missing items"
    nested = [*properties.values(), *schema.get("anyOf", ()), schema.get("items")]
    for inner in nested:
        if isinstance(inner, Mapping):
            yield from _schema(name, inner)


def _choice(choice: object, names: Sequence[str]) -> Iterator[str]:
    if isinstance(choice, Mapping):
        if (choice.get("function") or {}).get("name") not in names:
            yield "Invalid value: 'tool_choice' names a function that is not in 'tools'."
    elif choice not in {"auto", "none", "required"}:
        yield f"Invalid value: {choice!r}. Supported values are: 'none', 'auto', and 'required'."


def _strict(body: Mapping[str, Any]) -> Iterator[str]:
    """OpenAI: no unknown field, and no long id.

    https://platform.openai.com/docs/api-reference/chat/create ; https://github.com/microsoft/autogen/issues/6377
    """
    for name in sorted(set(body) - _KNOWN):
        yield f"Unrecognized request argument supplied: {name}"
    for at, message in enumerate(body["messages"]):
        for name in sorted(set(message) - _MESSAGE):
            yield f"Additional properties are not allowed ({name!r} was unexpected) - 'messages.{at}'"
        for call in message.get("tool_calls") or ():
            if len(str(call.get("id"))) > _LONGEST_ID:
                yield (
                    f"Invalid 'messages[{at}].tool_calls[].id': "
                    f"expected a string with maximum length {_LONGEST_ID}"
                )


def _one_system(body: Mapping[str, Any]) -> Iterator[str]:
    """Qwen's template, wherever it is served: https://github.com/vllm-project/vllm/issues/41114."""
    if any(message.get("role") == "system" for message in body["messages"][1:]):
        yield "System message must be at the beginning."


def _json_arguments(body: Mapping[str, Any]) -> Iterator[str]:
    """llama.cpp and vLLM parse the arguments of the history for the template."""
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            try:
                parsed = json.loads(call["function"]["arguments"])
            except ValueError:
                parsed = None
            if not isinstance(parsed, dict):
                yield PARSE_ERROR


def _qwen(body: Mapping[str, Any]) -> Iterator[str]:
    """https://www.alibabacloud.com/help/model-studio/error-code ."""
    thinks = body.get("enable_thinking") or "thinking" in body["model"]
    if thinks and not body.get("stream"):
        yield "parameter.enable_thinking must be set to false for non-streaming calls"
    if thinks and (isinstance(body.get("tool_choice"), Mapping) or body.get("tool_choice") == "required"):
        yield "The tool_choice parameter does not support being set to required or object in thinking mode"
    if body["model"] == "qwen-max" and body.get("stream") and body.get("tools"):
        yield "The incremental_output parameter must be true when stream and tools are used"


def _kimi(body: Mapping[str, Any]) -> Iterator[str]:
    """https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model and /docs/api/models-overview ."""
    if body["model"].startswith("moonshot-"):
        return
    if body.get("temperature", 1) != 1:
        yield "invalid temperature: only 1 is allowed for this model"
    if (body.get("thinking") or {}).get("type") == "disabled":
        return
    if isinstance(body.get("tool_choice"), Mapping) or body.get("tool_choice") == "required":
        yield "tool_choice 'specified' is incompatible with thinking enabled"
    for at, message in enumerate(body["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            yield (
                "thinking is enabled but reasoning_content is missing in assistant tool call message "
                f"at index {at}"
            )


Check = Callable[[Mapping[str, Any]], Iterator[str]]
_VENDORS: Mapping[str, tuple[Check, ...]] = {
    "openai": (_strict,),
    "qwen": (_one_system, _qwen),
    "kimi": (_kimi,),
    "vllm": (_one_system, _json_arguments),
    "llama.cpp": (_one_system, _json_arguments),
}
