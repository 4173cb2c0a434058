"""Statistics of a session: tool calls, agents, tokens and cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage

from callsheet.server.artefacts.views import usage
from callsheet.server.lessons.edits import Lesson
from callsheet.state import pricing
from callsheet.state.lessons.lesson import AGENTS
from callsheet.state.pricing import Price
from callsheet.storage import tool_calls
from callsheet.storage.spending import Account, read_usage, total
from callsheet.storage.tool_calls import CallFilter

_MAX_CALLS: Final = 1_000
"""Newest calls of a session that are counted."""
_DIGITS: Final = 8


async def session_statistics(
    lesson: Lesson, state: Mapping[str, Any], prices: Mapping[str, Price]
) -> dict[str, Any]:
    """Return counts and success rates of tools and agents over 30 days, and the cost.

    The total is that of all model calls, also of those that failed to give a usable answer.
    """
    call_filter = CallFilter(thread=lesson.thread.id)
    calls = await tool_calls.list_calls(lesson.storage, lesson.thread.owner, call_filter, _MAX_CALLS)
    by_tool = _group_by_tool(calls)
    results = await lesson.artefact.receipt_results()
    agent_costs = {name: _agent_cost(results, stream) for stream, name in _STREAMS.items()}
    account = Account(lesson.thread.owner, lesson.thread.id, "")
    spent = total(await read_usage(lesson.storage, account, "thread"))
    conversation_usd = conversation_cost(state.get("messages", ()), prices)
    return {
        "sessionId": lesson.thread.id,
        "tools": {name: _tool_statistics(group) for name, group in sorted(by_tool.items())},
        "agents": {
            agent: _tool_statistics(by_tool.get(tool, ())) | agent_costs[agent]
            for tool, agent in AGENTS.items()
        },
        "conversation": {**usage(state), "cost": conversation_usd},
        "cost": None if spent.unpriced else round(spent.cost, _DIGITS),
    }


_STREAMS: Final = {"facts_extracted": "FactExtractionAgent", "script_generated": "NarrativeBuilderAgent"}
"""Agents by the status that their results have."""


def conversation_cost(messages: Iterable[AnyMessage], prices: Mapping[str, Price]) -> float | None:
    """Return the cost of the model's messages in US dollars; None if a price is unknown."""
    answers = (message for message in messages if isinstance(message, AIMessage) and message.usage_metadata)
    return pricing.total(_message_cost(answer, prices) for answer in answers)


def _message_cost(message: AIMessage, prices: Mapping[str, Price]) -> float | None:
    tokens, model = message.usage_metadata, str(message.response_metadata.get("model_name", ""))
    if not tokens:
        return 0.0
    return pricing.cost(model, tokens["input_tokens"], tokens["output_tokens"], table=prices)


def _group_by_tool(calls: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for call in calls:
        groups[str(call.get("toolName"))].append(call)
    return groups


def _tool_statistics(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    finished = [call for call in calls if "endMs" in call]
    succeeded = sum(call["status"] == "completed" for call in finished)
    durations = [(call["endMs"] - call["startMs"]) / 1000 for call in finished]
    return {
        "calls": len(calls),
        "succeeded": succeeded,
        "failed": len(finished) - succeeded,
        "successRate": round(succeeded / len(finished), 4) if finished else None,
        "averageSeconds": round(sum(durations) / len(durations), 3) if durations else None,
    }


def _agent_cost(results: Iterable[Mapping[str, Any]], status: str) -> dict[str, Any]:
    return {"cost": pricing.total(one.get("cost", 0) for one in results if one.get("status") == status)}
