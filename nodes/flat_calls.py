"""Calls of flat tools as one JSON object, for servers that keep an answer to a JSON Schema.

The tool templates of small models are often broken: a call comes without its tags, or never ends. A grammar
leaves such a model no other answer than a whole call.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolMessage,
)

from callsheet.providers.routing import failed_requests
from callsheet.state.answers import FLAT_TOOL, written_calls
from callsheet.state.conversation import calls_of
from callsheet.state.state_block import STATE_END, STATE_START, split_block
from callsheet.tools.models.calls import call_model

if TYPE_CHECKING:
    from callsheet.providers.chat import ChatModel

_KIND: Final = "flat_calls"
"""Name of this kind of request among those that a server has failed at."""
_ONCE: Final = "flat_calls, once"
_MAX_TOKENS: Final = 2_000
"""Tokens of a call where no limit is set; a small model may repeat itself without end."""
_SHOWN: Final = 12
"""Options of an argument that the prompt lists; the state has the others."""
_RESULT: Final = "Result: "
_NEXT: Final = (
    "Is everything done that the person asked for? Then call answer, and say in your own words what was "
    "done. Else call a tool for what is left, and for nothing that is done already."
)
_CUT: Final = frozenset({"length", "max_tokens"})


async def ask_flat(
    model: BaseChatModel,
    sent: Sequence[AnyMessage],
    tools: Sequence[Mapping[str, Any]],
    examples: Sequence[AnyMessage] = (),
) -> AIMessage | None:
    """Return the answer, calls of tools; None where the model's server keeps answers to no schema.

    Each of `tools` is in OpenAI's function format, and all of its arguments are required. `examples` are
    turns of a made-up conversation, which are sent first. Raises `RequestRejected` where the server refuses
    a schema.
    """
    if not getattr(model, "has_grammar", False) or _KIND in failed_requests().of(model):
        return None
    server = cast("ChatModel", model)
    schema = {"name": "call", "schema": {"anyOf": [_schema(one["function"]) for one in tools]}}
    limits: dict[str, Any] = {}
    if server.max_tokens is None:
        limits["max_tokens"] = _MAX_TOKENS
    if server.temperature is None:
        limits["temperature"] = 0
    bound = server.with_schema(schema).bind(**limits)
    messages = as_text(sent, tools, examples)
    answer = await call_model(model, messages, partial(bound.ainvoke, messages, {"tags": ["nostream"]}))
    if answer.response_metadata.get("finish_reason") in _CUT:
        cut = InvalidToolCall(name="", args=answer.text, id=_new_id(), error="", type="invalid_tool_call")
        return answer.model_copy(update={"content": "", "invalid_tool_calls": [cut]})
    calls = written_calls(answer.text, {one["function"]["name"] for one in tools})
    if not calls:
        # One answer may be an accident of the model; two are a server that ignores the schema.
        once = _ONCE in failed_requests().of(model)
        failed_requests().report(model, _KIND if once else _ONCE)
        return None
    return answer.model_copy(update={"content": "", "tool_calls": calls})


def remember_tools_alone(model: BaseChatModel) -> None:
    """Remember that this model's server ignores or refuses a schema."""
    failed_requests().report(model, _KIND)


def as_text(
    sent: Sequence[AnyMessage], tools: Sequence[Mapping[str, Any]], examples: Sequence[AnyMessage] = ()
) -> list[AnyMessage]:
    """Return a conversation in texts alone: tools in the system prompt, calls as JSON, results as words.

    The state block comes before the newest message: a small model does what it read last.
    """
    system, *rest = sent
    listed = "\n".join(_description(one["function"]) for one in tools)
    rule = f'Answer with one JSON object: the name of a tool in "{FLAT_TOOL}", and its fields.\n{listed}'
    messages: list[AnyMessage] = [SystemMessage(f"{system.text}\n\n{rule}"), *examples]
    *earlier, newest = rest
    newest_text, block = split_block(newest.text)
    for message in (*earlier, newest.model_copy(update={"content": newest_text})):
        if isinstance(message, ToolMessage):
            result = f"{_RESULT}{message.text}"
            if isinstance(messages[-1], HumanMessage) and messages[-1].text.startswith(_RESULT):
                result = f"{messages.pop().text}\n{result}"
            messages.append(HumanMessage(result))
        elif isinstance(message, AIMessage) and calls_of(message):
            calls = [{FLAT_TOOL: call["name"], **call["args"]} for call in message.tool_calls]
            messages.append(AIMessage("\n".join(json.dumps(one, ensure_ascii=False) for one in calls)))
        else:
            messages.append(message)
    text = str(messages[-1].text)
    if text.startswith(_RESULT):
        text = f"{text}\n\n{_NEXT}"
    state = f"{STATE_START}{block}{STATE_END}\n\n" if block else ""
    return [*messages[:-1], HumanMessage(f"{state}{text}")]


def example_turn(block: str, text: str, tool: str, **arguments: Any) -> list[AnyMessage]:
    """Return a turn as `as_text` writes it: a state block with a person's words, and the call."""
    call = json.dumps({FLAT_TOOL: tool, **arguments}, ensure_ascii=False)
    return [HumanMessage(f"{STATE_START}{block}{STATE_END}\n\n{text}"), AIMessage(call)]


def _schema(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a call, with the tool's name first."""
    parameters = function["parameters"]
    return {
        "type": "object",
        "properties": {FLAT_TOOL: {"const": function["name"]}, **parameters["properties"]},
        "required": [FLAT_TOOL, *parameters["required"]],
        "additionalProperties": False,
    }


def _description(function: Mapping[str, Any]) -> str:
    """Return a tool in a line. There is no example: a small model would copy it."""
    fields = [
        f"{name} ({'|'.join(map(str, options))})"
        if len(options := field.get("enum", ())) <= _SHOWN and options
        else f"{name} ({field.get('description') or 'as in <state>'})"
        for name, field in function["parameters"]["properties"].items()
    ]
    listed = f" Fields: {'; '.join(fields)}." if fields else ""
    return f"- {function['name']}: {function['description']}{listed}"


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"
