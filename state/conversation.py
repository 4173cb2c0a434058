"""Pure functions of a thread's messages: open tool calls, model input, compaction and the readable form."""

import json
import re
from collections.abc import Collection, Sequence
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
"""Most user turns sent in full; beyond it the older ones are summarised (A-R12)."""
KEPT_TURNS: Final = 3
"""Turns that compaction leaves in full (A-R12)."""
MAX_TOKENS: Final = 8_000
"""Most tokens, approximately, sent in full; beyond it the older turns are summarised (A66, A67)."""
KEPT_CHARACTERS: Final = 500
"""Longest result of a look-up that is kept once its turn was summarised."""


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

    Only tool messages before the model's next message count as results: some vendors reuse call ids (C-R7).
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


def turn_id(messages: Sequence[BaseMessage]) -> str:
    """Return the id of the newest human message, which began the turn; empty for none."""
    starts = turn_starts(messages)
    return str(messages[starts[-1]].id) if starts else ""


def messages_after(messages: Sequence[AnyMessage], message_id: str) -> list[AnyMessage]:
    """Return the messages after the one with this id; all messages when none has it."""
    for index, message in enumerate(messages):
        if message_id and message.id == message_id:
            return list(messages[index + 1 :])
    return list(messages)


def model_input(
    system: str, messages: Sequence[AnyMessage], summary: str = "", upto: str = ""
) -> list[AnyMessage]:
    """Return the model's input: the system prompt, the summary if any, and the messages after `upto`.

    The beginning is the same in every turn, so that a provider's prompt cache works (A65, A68).
    """
    head: list[AnyMessage] = [SystemMessage(system)]
    if summary:
        head.append(SystemMessage(f"Previous conversation summary: {summary}"))
    return head + messages_after(messages, upto if summary else "")


def compaction_index(messages: Sequence[AnyMessage]) -> int | None:
    """Return the index before which messages must be summarised, or None while all may be sent.

    It is always the start of a user turn, so that tool results stay with their calls (A-R12).
    """
    starts = turn_starts(messages)
    if len(starts) <= KEPT_TURNS:
        return None
    if len(starts) <= MAX_TURNS and count_tokens_approximately(messages) <= MAX_TOKENS:
        return None
    return starts[-KEPT_TURNS]


def summarize_turns(messages: Sequence[AnyMessage]) -> str:
    """Return the turns' requests and answers, shortened, one line each."""
    lines = []
    for message in messages:
        if isinstance(message, HumanMessage):
            lines.append(f"- asked: {' '.join(message.text.split())[:300]}")
        elif isinstance(message, AIMessage) and not calls_of(message) and message.text:
            lines.append(f"  answered: {' '.join(message.text.split())[:200]}")
    return "\n".join(lines)


def omit_look_ups(messages: Sequence[AnyMessage], tools: Collection[str]) -> list[AnyMessage]:
    """Return replacements for the long results of these tools: a note instead of the result, the same id."""
    return [
        message.model_copy(update={"content": _omission(len(message.text))})
        for message in messages
        if isinstance(message, ToolMessage) and message.name in tools and len(message.text) > KEPT_CHARACTERS
    ]


def _omission(characters: int) -> str:
    return json.dumps({"omitted": f"{characters} characters, when the conversation was summarised"})


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with its punctuation."""
    return re.findall(r"[^.!?。！？\n]+[.!?。！？\n]*", text)


def message_entries(system: str, messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return the messages as A37 describes them: role, content, tool calls; the prompt is `cached`."""
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
