"""Compaction of a thread's model input at the end of a turn; the messages stay complete (A66-A68, A-R12)."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from callsheet.nodes.asking import ask_plainly, routing_request
from callsheet.nodes.node import run_context
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers import OFFLINE
from callsheet.state import compaction, conversation
from callsheet.state.answers import sum_of_usage
from callsheet.state.budgets import BudgetExceeded
from callsheet.state.compaction import View
from callsheet.state.context import Context
from callsheet.state.errors import Refused
from callsheet.state.workflow import Usage, Workflow
from callsheet.storage.artefacts.artefacts import Stream
from callsheet.storage.spending import Account
from callsheet.tools.guard.call import Scope
from callsheet.tools.model_calls import charge

_VERSIONS: Final = "\n\nLive versions:"
_QUOTES: Final = "\n\nThe person's own words:\n"
_RECENT: Final = 5
"""Versions of a stream in the table."""


def view_of(state: Workflow) -> View:
    """Return what is left out of the model's input."""
    return View(state.get("summary", ""), state.get("summary_upto", ""), state.get("cleared_upto", ""))


def lookups_of(workflow: WorkflowSpec) -> frozenset[str]:
    """Return the names of the tools that only read."""
    return frozenset(name for name, tool in workflow.tools.items() if not tool.writes)


async def compaction_update(
    workflow: WorkflowSpec,
    state: Workflow,
    runtime: Runtime[Context],
    scope: Scope,
    streams: Mapping[str, Stream],
) -> dict[str, Any]:
    """Return the state update of the compaction that is due, if any."""
    room = state.get("context_tokens") or compaction.ContextTokens(used=0, budget=0)
    due = compaction.compaction(state["messages"], view_of(state), room, lookups_of(workflow))
    if due is None:
        return {}
    update: dict[str, Any] = {"cleared_upto": due.cleared_upto}
    if not due.summarised:
        return update
    before = state.get("summary", "").split(_VERSIONS)[0].split(_QUOTES)[0]
    account = Account(scope.owner, scope.thread, conversation.turn_id(state["messages"]))
    with charge(account):
        text, usage = await _summary(runtime, scope, before, due.summarised)
    quotes = compaction.lost_sentences(_persons(state, due.summarised), text)
    quoted = _QUOTES + "\n".join(quotes) if quotes else ""
    return update | {
        "summary": f"{text}{quoted}{_table(workflow, streams)}",
        "summary_upto": str(due.summarised[-1].id),
        **({"usage": usage} if usage else {}),
    }


def _persons(state: Workflow, newest: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the person's messages that the new summary and the earlier ones cover."""
    end = next(index for index, one in enumerate(state["messages"]) if one.id == newest[-1].id)
    return [one for one in state["messages"][: end + 1] if isinstance(one, HumanMessage)]


async def _summary(
    runtime: Runtime[Context], scope: Scope, before: str, messages: Sequence[AnyMessage]
) -> tuple[str, Usage | None]:
    """Return the summary by the model, or a plain one where it fails or is the offline model."""
    text = compaction.transcript(messages)
    material = f"Summary of what came before:\n{before}\n\n{text}" if before else text
    sent: list[AnyMessage] = [SystemMessage(_prompt()), HumanMessage(material)]
    plain = "\n".join(part for part in (before, compaction.plain_summary(messages)) if part)
    try:
        route, answer = await ask_plainly(routing_request(run_context(runtime), scope), sent)
    except (Refused, BudgetExceeded):
        return plain, None
    if route.provider == OFFLINE:
        return plain, None
    return answer.text.strip() or plain, Usage(**sum_of_usage([answer]))  # type: ignore[typeddict-item]


def _table(workflow: WorkflowSpec, streams: Mapping[str, Stream]) -> str:
    """Return the newest versions of each stream as a table (A-R12); empty without streams."""
    if not streams:
        return ""
    rows = [
        f"| {name} | {version.id} | {'active' if version.id == stream.active else ''} "
        f"| {workflow.summary(name, version.data)} |"
        for name, stream in streams.items()
        for version in stream.versions[-_RECENT:]
    ]
    return "\n".join([_VERSIONS, "| stream | version | active | holds |", "|---|---|---|---|", *rows])


@cache
def _prompt() -> str:
    return files("callsheet.nodes").joinpath("prompts/summary.md").read_text("utf-8")
