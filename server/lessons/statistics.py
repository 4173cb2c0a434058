"""What a session took: tools, agents, tokens and money (B66)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage

from callsheet.server.artefacts.turns import usage
from callsheet.server.lessons.edits import Lesson
from callsheet.state.lessons.agents import AGENTS
from callsheet.state.pricing import cost
from callsheet.storage import tool_calls
from callsheet.storage.tool_calls import CallFilter
from callsheet.tools.guard import guard

_MOST: Final = 1_000
"""Calls of a session that are looked at, the newest."""
_DIGITS: Final = 8


async def session_statistics(about: Lesson, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return how often tools were called and went well, and what everything cost; calls of 30 days count.

    What failed attempts of a model cost is not known and not in it.
    """
    wanted = CallFilter(thread=about.thread.id)
    found = await tool_calls.list_calls(about.storage, about.thread.owner, wanted, _MOST)
    by_tool = _grouped(found)
    made = await about.artefact.receipt_results()
    spent = {name: _spent(made, stream) for stream, name in _STREAMS.items()}
    talk = conversation_cost(state.get("messages", ()))
    return {
        "sessionId": about.thread.id,
        "tools": {name: _tool(some) for name, some in sorted(by_tool.items())},
        "agents": {agent: _tool(by_tool.get(tool, ())) | spent[agent] for tool, agent in AGENTS.items()},
        "conversation": {**usage(state), "cost": talk},
        "cost": round(talk + sum(one["cost"] for one in spent.values()), _DIGITS),
    }


_STREAMS: Final = {"facts_extracted": "FactExtractionAgent", "script_generated": "NarrativeBuilderAgent"}
"""What a result makes of its lesson, and the agent that gave it."""


def conversation_cost(messages: Iterable[AnyMessage]) -> float:
    """Return what the model's own messages cost, in US dollars."""
    told = (one for one in messages if isinstance(one, AIMessage) and one.usage_metadata)
    return round(sum(_cost(one) for one in told), _DIGITS)


def _cost(one: AIMessage) -> float:
    used, model = one.usage_metadata, str(one.response_metadata.get("model_name", ""))
    return cost(model, used["input_tokens"], used["output_tokens"], guard.policy.prices) if used else 0.0


def _grouped(found: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    by_tool: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in found:
        by_tool[str(one.get("toolName"))].append(one)
    return by_tool


def _tool(some: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    over = [one for one in some if "endMs" in one]
    good = sum(one["status"] == "completed" for one in over)
    took = [(one["endMs"] - one["startMs"]) / 1000 for one in over]
    return {
        "calls": len(some),
        "succeeded": good,
        "failed": len(over) - good,
        "successRate": round(good / len(over), 4) if over else None,
        "averageSeconds": round(sum(took) / len(took), 3) if took else None,
    }


def _spent(made: Iterable[Mapping[str, Any]], status: str) -> dict[str, Any]:
    costs = [float(one.get("cost", 0)) for one in made if one.get("status") == status]
    return {"cost": round(sum(costs), _DIGITS)}
