"""The conversation as the offline model reads it, and its answer: text or tool calls."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from callsheet.state.state_block import split_block


@dataclass(frozen=True)
class PastCall:
    """A tool call of the model, with its result."""

    name: str
    args: Mapping[str, Any]
    result: Mapping[str, Any] | None = None
    """The parsed JSON object; `{"error": text}` for any other result; None while unanswered."""

    @property
    def failed(self) -> bool:
        """True if the tool answered with an error."""
        return self.result is not None and "error" in self.result

    @property
    def version(self) -> str | None:
        """The version that the call created ("v2"), or None."""
        version = (self.result or {}).get("versionId")
        return version if isinstance(version, str) and not self.failed else None


@dataclass(frozen=True)
class PastTurn:
    """A message of a person and the calls that followed it."""

    text: str
    calls: tuple[PastCall, ...] = ()
    reply: str = ""
    """The model's last text; the next turn may agree to a suggestion in it."""

    def calls_to(self, name: str) -> list[PastCall]:
        """Return the answered calls of one tool, oldest first."""
        return [call for call in self.calls if call.name == name and call.result is not None]


@dataclass(frozen=True)
class OfflineConversation:
    """The turns in the request; earlier ones may have been replaced by a summary."""

    turns: tuple[PastTurn, ...]  # at least one, oldest first
    tools: frozenset[str]
    """Names of the tools that may be called now."""
    system: str = ""
    """Text of the system messages."""
    state: str = ""
    """The state block: the artefact as it is now."""

    @property
    def turn(self) -> PastTurn:
        """The newest turn."""
        return self.turns[-1]


@dataclass(frozen=True)
class PlannedCall:
    """A tool call to make."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True)
class OfflineReply:
    """Text, and the tool calls to make after it; without calls the turn ends."""

    text: str
    calls: tuple[PlannedCall, ...] = ()
    refused: bool = False
    """True if it declines the request."""


def read(messages: Sequence[BaseMessage], tools: frozenset[str]) -> OfflineConversation | None:
    """Return the conversation, or None before a person has written."""
    results = {each.tool_call_id: _result(each) for each in messages if isinstance(each, ToolMessage)}
    turns: list[PastTurn] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            turns.append(PastTurn(split_block(str(message.text))[0]))
        elif isinstance(message, AIMessage) and turns:
            calls = [
                PastCall(call["name"], call["args"], results.get(str(call["id"])))
                for call in message.tool_calls
            ]
            turns[-1] = PastTurn(turns[-1].text, (*turns[-1].calls, *calls), str(message.text))
    system = "\n".join(str(message.text) for message in messages if message.type == "system")
    state = split_block(str(messages[-1].text))[1] if messages else ""
    return OfflineConversation(tuple(turns), tools, system, state) if turns else None


def _result(message: ToolMessage) -> Mapping[str, Any]:
    text, _ = split_block(str(message.text))
    try:
        result = json.loads(text)
    except ValueError:
        return {"error": text}
    return result if isinstance(result, dict) else {"error": text}
