"""What OpenAI's Chat Completions refuses with 400: the request's form, its history, its tools (X12)."""

import re
from collections.abc import Iterator, Mapping, Sequence
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


def broken_rule(body: Mapping[str, Any]) -> str | None:
    """Return the first rule `body` breaks, in the API's own words where it has some, or None."""
    return next((rule for rules in (_form, _history, _tools) for rule in rules(body)), None)


def _form(body: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(set(body) - _KNOWN):
        yield f"Unrecognized request argument supplied: {name}"
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
    awaited: list[str] = []
    for at, message in enumerate(body["messages"]):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in awaited:
                yield (
                    f"Invalid parameter: messages[{at}] with role 'tool' must be a response to a preceding "
                    "message with 'tool_calls'."
                )
            else:
                awaited.remove(message["tool_call_id"])
        elif awaited:
            yield _unanswered(awaited)
        yield from _message(at, message)
        if role == "assistant":
            awaited = [call.get("id", "") for call in message.get("tool_calls") or ()]
    if awaited:
        yield _unanswered(awaited)


def _unanswered(awaited: Sequence[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(awaited)}"
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
    if any(isinstance(one, str) and len(one) > _LONGEST_ID for one in ids):
        yield f"Invalid 'messages[{at}].tool_calls[].id': expected a string with maximum length {_LONGEST_ID}"
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
