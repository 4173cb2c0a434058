"""Pure functions of a thread's messages: what is still unanswered, what is sent, what a reader is shown."""

import re
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.utils import count_tokens_approximately

from callsheet.state.plan import canonical_json

MAX_TURNS: Final = 10
"""User turns sent in full; one more and the older ones are summarised (A-R12)."""
KEPT_TURNS: Final = 3
"""Complete turns that stay word for word after that (A-R12)."""
MAX_TOKENS: Final = 8_000
"""Approximate tokens sent in full before the older turns are summarised (A66, A67)."""


def calls_of(message: BaseMessage) -> list[ToolCall]:
    """Return the tool calls of a message, those with broken arguments included, in call order."""
    if not isinstance(message, AIMessage):
        return []
    broken = [
        ToolCall(name=call["name"] or "", args={}, id=call["id"], type="tool_call")
        for call in message.invalid_tool_calls
    ]
    return [*message.tool_calls, *broken]


def unanswered(messages: Sequence[BaseMessage]) -> list[tuple[int, list[ToolCall]]]:
    """Return, by the index of the message that made them, the tool calls nothing answers.

    Only what follows a message before the next one of the model answers it: with some vendors call ids repeat
    from message to message (C-R7).
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
    """Return the indexes at which a person speaks."""
    return [index for index, message in enumerate(messages) if isinstance(message, HumanMessage)]


def messages_after(messages: Sequence[AnyMessage], message_id: str) -> list[AnyMessage]:
    """Return the messages after the one with this id; all of them when there is none."""
    for index, message in enumerate(messages):
        if message_id and message.id == message_id:
            return list(messages[index + 1 :])
    return list(messages)


def model_input(
    system: str, messages: Sequence[AnyMessage], summary: str = "", upto: str = ""
) -> list[AnyMessage]:
    """Return what the model is called with: the system prompt, the summary if any, and the turns after it.

    The beginning stays the same from turn to turn, so that a provider's prompt cache holds (A65, A68).
    """
    head: list[AnyMessage] = [SystemMessage(system)]
    if summary:
        head.append(SystemMessage(f"Previous conversation summary: {summary}"))
    return head + messages_after(messages, upto if summary else "")


def compaction_index(messages: Sequence[AnyMessage]) -> int | None:
    """Return the index before which messages are to be summarised now, or None while all may be sent.

    Always a user turn, so that no tool result is parted from its call (A-R12).
    """
    starts = turn_starts(messages)
    if len(starts) <= KEPT_TURNS:
        return None
    if len(starts) <= MAX_TURNS and count_tokens_approximately(messages) <= MAX_TOKENS:
        return None
    return starts[-KEPT_TURNS]


def summarize_turns(messages: Sequence[AnyMessage]) -> str:
    """Return what the turns asked for and what came of it, a line a turn, in the person's own words."""
    lines = []
    for message in messages:
        if isinstance(message, HumanMessage):
            lines.append(f"- asked: {' '.join(message.text.split())[:300]}")
        elif isinstance(message, AIMessage) and not calls_of(message) and message.text:
            lines.append(f"  answered: {' '.join(message.text.split())[:200]}")
    return "\n".join(lines)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with its end."""
    return re.findall(r"[^.!?。！？\n]+[.!?。！？\n]*", text)


def rendered(system: str, messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return the conversation as readers of A37 expect it: role, content, tool calls, the prompt `cached`."""
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
