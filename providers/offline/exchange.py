"""What the model called in a conversation and what came of it, read from the messages alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage


@dataclass(frozen=True)
class Exchange:
    """One tool call of the model and its result."""

    id: str
    name: str
    args: Mapping[str, Any]
    result: Mapping[str, Any] | None = None
    """The parsed JSON object; `{"error": text}` when it was no JSON object; None when unanswered."""

    @property
    def failed(self) -> bool:
        """Whether the tool answered with an error."""
        return self.result is not None and "error" in self.result

    @property
    def version(self) -> str | None:
        """The version a draft tool made ("v2"), or None."""
        made = (self.result or {}).get("versionId")
        return made if isinstance(made, str) and not self.failed else None


@dataclass(frozen=True)
class Step:
    """One message of the model within a turn: what it said and what it called."""

    text: str
    exchanges: tuple[Exchange, ...] = ()


def results(messages: Sequence[BaseMessage]) -> dict[str, Mapping[str, Any]]:
    """Return what tools answered, by the ids of the calls."""
    return {one.tool_call_id: _result(one) for one in messages if isinstance(one, ToolMessage)}


def step(message: AIMessage, results: Mapping[str, Mapping[str, Any]]) -> Step:
    """Return what a message of the model said and called, with what the calls were answered."""
    exchanges = tuple(
        Exchange(str(call["id"]), call["name"], call["args"], results.get(str(call["id"])))
        for call in message.tool_calls
    )
    return Step(str(message.text), exchanges)


def _result(message: ToolMessage) -> Mapping[str, Any]:
    text = str(message.text)
    try:
        parsed = json.loads(text)
    except ValueError:
        return {"error": text}
    return parsed if isinstance(parsed, dict) else {"error": text}
