"""The conversation as the offline model reads it, and the answer it gives: text or tool calls."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage


@dataclass(frozen=True)
class Call:
    """A tool call of the model and its result."""

    id: str
    name: str
    args: Mapping[str, Any]
    result: Mapping[str, Any] | None = None
    """The parsed JSON object; `{"error": text}` if it was none; None while unanswered."""

    @property
    def failed(self) -> bool:
        """Whether the tool answered with an error."""
        return self.result is not None and "error" in self.result

    @property
    def version(self) -> str | None:
        """The version the call made ("v2"), or None."""
        made = (self.result or {}).get("versionId")
        return made if isinstance(made, str) and not self.failed else None


@dataclass(frozen=True)
class Turn:
    """A message of a person and the calls that followed it."""

    text: str
    calls: tuple[Call, ...] = ()
    reply: str = ""
    """The model's last text; what it proposed there may be agreed to in the next turn."""

    def answered(self, name: str) -> list[Call]:
        """Return the answered calls of one tool, oldest first."""
        return [call for call in self.calls if call.name == name and call.result is not None]


@dataclass(frozen=True)
class Conversation:
    """The turns the model is sent; earlier ones may have been summarised away."""

    turns: tuple[Turn, ...]
    """At least one, oldest first."""
    tools: frozenset[str]
    """Names of the tools that may be called now."""
    system: str = ""
    """Text of the system messages."""

    @property
    def turn(self) -> Turn:
        """The newest turn."""
        return self.turns[-1]


@dataclass(frozen=True)
class Request:
    """A tool call to make."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """Tool calls to make now, in order, and a text before them; without calls, the turn's last word."""

    text: str
    calls: tuple[Request, ...] = ()


def read(messages: Sequence[BaseMessage], tools: frozenset[str]) -> Conversation | None:
    """Return the conversation; None before a person has written."""
    results = {one.tool_call_id: _result(one) for one in messages if isinstance(one, ToolMessage)}
    turns: list[Turn] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            turns.append(Turn(str(message.text)))
        elif isinstance(message, AIMessage) and turns:
            calls = [
                Call(str(call["id"]), call["name"], call["args"], results.get(str(call["id"])))
                for call in message.tool_calls
            ]
            turns[-1] = Turn(turns[-1].text, (*turns[-1].calls, *calls), str(message.text))
    system = "\n".join(str(message.text) for message in messages if message.type == "system")
    return Conversation(tuple(turns), tools, system) if turns else None


def _result(message: ToolMessage) -> Mapping[str, Any]:
    text = str(message.text)
    try:
        parsed = json.loads(text)
    except ValueError:
        return {"error": text}
    return parsed if isinstance(parsed, dict) else {"error": text}
