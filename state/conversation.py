"""Pure functions of a thread's messages: open tool calls, turns and the readable form."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from callsheet.state.entered import entered_text
from callsheet.state.plan import canonical_json


def calls_of(message: BaseMessage) -> list[ToolCall]:
    """Return the tool calls of a message, then those with unreadable arguments."""
    if not isinstance(message, AIMessage):
        return []
    broken = [
        ToolCall(name=call["name"] or "", args={}, id=call["id"], type="tool_call")
        for call in message.invalid_tool_calls
    ]
    return [*message.tool_calls, *broken]


def unanswered_calls(messages: Sequence[BaseMessage]) -> list[tuple[int, list[ToolCall]]]:
    """Return the tool calls without a result, with the index of their message.

    Only tool messages before the model's next message count as results: some vendors reuse call ids.
    """
    open_by_message: list[tuple[int, list[ToolCall]]] = []
    answered: set[str] = set()
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            if open_calls := [call for call in calls_of(message) if call["id"] not in answered]:
                open_by_message.append((index, open_calls))
            answered = set()
    return open_by_message[::-1]


def turn_starts(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the indexes of the human messages."""
    return [index for index, message in enumerate(messages) if isinstance(message, HumanMessage)]


def first_requests(messages: Sequence[BaseMessage]) -> list[HumanMessage]:
    """Return a person's messages before the first tool call: greetings, and what they want."""
    before = takewhile(lambda message: not calls_of(message), messages)
    return [one for one in before if isinstance(one, HumanMessage)]


def turn_id(messages: Sequence[BaseMessage]) -> str:
    """Return the id of the newest human message, which began the turn; empty for none."""
    starts = turn_starts(messages)
    return str(messages[starts[-1]].id) if starts else ""


def has_no_results(messages: Sequence[BaseMessage]) -> bool:
    """Return whether no tool has been called since the newest human message."""
    starts = turn_starts(messages)
    return not any(isinstance(one, ToolMessage) for one in messages[starts[-1] if starts else 0 :])


def turn_before(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages of the turn before the newest one, its request first; none if there is no other."""
    starts = turn_starts(messages)
    return list(messages[starts[-2] : starts[-1]]) if len(starts) > 1 else []


def newest_request(messages: Sequence[BaseMessage]) -> str:
    """Return the text of the newest human message, which began the turn; empty for none."""
    starts = turn_starts(messages)
    return messages[starts[-1]].text if starts else ""


def newest_entered(messages: Sequence[BaseMessage]) -> str:
    """Return what the person entered for the newest human message: its text, unless it was a form."""
    starts = turn_starts(messages)
    newest = messages[starts[-1]] if starts else HumanMessage("")
    return entered_text({"additional_kwargs": newest.additional_kwargs}) or newest.text


def maker_of(messages: Sequence[BaseMessage], provider: str) -> str:
    """Return `provider/model` of the newest answer of a model in this turn; empty for none.

    Answers that no model has made, as for a plan that a person decided, have no name of a model.
    """
    starts = turn_starts(messages)
    for message in reversed(messages[starts[-1] if starts else 0 :]):
        if isinstance(message, AIMessage):
            name = str(message.response_metadata.get("model_name") or "")
            return f"{provider}/{name}" if name and provider and provider != name else name
    return ""


def messages_after(messages: Sequence[AnyMessage], message_id: str) -> list[AnyMessage]:
    """Return the messages after the one with this id; all messages when none has it."""
    for index, message in enumerate(messages):
        if message_id and message.id == message_id:
            return list(messages[index + 1 :])
    return list(messages)


def message_entries(system: str, messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return the messages as clients see them: role, content, tool calls; the prompt is `cached`."""
    return [{"role": "system", "content": system, "cached": True}, *(_entry(message) for message in messages)]


def _entry(message: AnyMessage) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"role": "tool", "content": message.text, "tool_call_id": message.tool_call_id}
    role = "user" if isinstance(message, HumanMessage) else "assistant"
    entry: dict[str, Any] = {
        "role": "system" if isinstance(message, SystemMessage) else role,
        "content": message.text,
    }
    calls = calls_of(message)
    if calls:
        entry["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": canonical_json(call["args"])},
            }
            for call in calls
        ]
    return entry
