"""Compaction of a thread's model input at the end of a turn; the messages stay complete."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from callsheet.nodes.asking import ask_plainly, routing_request
from callsheet.nodes.node import run_context
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers import OFFLINE
from callsheet.providers.routing import DEFAULT_WINDOW
from callsheet.state import compaction, conversation
from callsheet.state.answers import sum_of_usage
from callsheet.state.compaction import View
from callsheet.state.context import Context
from callsheet.state.errors import CallsheetError, Fenced, StorageDown
from callsheet.state.tokens import shorten
from callsheet.state.workflow import Usage, Workflow
from callsheet.storage.spending import Account
from callsheet.tools.call import Scope
from callsheet.tools.models.calls import charge
from callsheet.tools.prompts import FOLDER, read_prompt

_QUOTES: Final = "\n\nThe person's own words:\n"


def view_of(state: Workflow) -> View:
    """Return what is left out of the model's input."""
    return View(state.get("summary", ""), state.get("summary_upto", ""), state.get("cleared_upto", ""))


def lookups_of(workflow: WorkflowSpec[Any]) -> frozenset[str]:
    """Return the names of the tools that only read."""
    return frozenset(name for name, tool in workflow.tools.items() if not tool.writes)


def pinned_text(workflow: WorkflowSpec[Any], state: Workflow, messages: Sequence[AnyMessage]) -> str:
    """Return what a summary of `messages` leaves word for word; a long text in its beginning and end."""
    covered = _covered_messages(messages, state.get("summary_upto", ""))
    most = compaction.within(compaction.MAX_PINNED, _budget(state))
    return shorten(workflow.view.pinned_text(state, covered), most)


async def compaction_update(
    workflow: WorkflowSpec[Any], state: Workflow, runtime: Runtime[Context], scope: Scope
) -> dict[str, Any]:
    """Return the state update of the compaction that is due, if any."""
    room = state.get("context_tokens") or compaction.ContextTokens(used=0, budget=0)
    messages = [workflow.view.message(state, one) for one in state["messages"]]
    most = workflow.turn.max_results
    due = compaction.compaction(messages, view_of(state), room, lookups_of(workflow), most)
    if due is None:
        return {}
    update: dict[str, Any] = {"cleared_upto": due.cleared_upto}
    if not due.summarised:
        return update
    before = state.get("summary", "").split(_QUOTES)[0]
    account = Account(scope.owner, scope.thread, conversation.turn_id(messages))
    with charge(account):
        text, usage = await _summary(runtime, scope, before, due.summarised, room["budget"])
    upto = str(due.summarised[-1].id)
    pinned = pinned_text(workflow, {**state, "summary_upto": upto}, messages)
    quotes = compaction.lost_sentences(
        _covered_messages(messages, upto),
        f"{pinned}\n{text}",
        compaction.within(compaction.MAX_QUOTES, room["budget"]),
    )
    return update | {
        "summary": text + (_QUOTES + "\n".join(quotes) if quotes else ""),
        "summary_upto": upto,
        **({"usage": usage} if usage else {}),
    }


def _covered_messages(messages: Sequence[AnyMessage], upto: str) -> list[AnyMessage]:
    """Return the messages up to the one with this id, which summaries cover; none if none has it."""
    return list(messages[: len(messages) - len(conversation.messages_after(messages, upto))])


def _budget(state: Workflow) -> int:
    room = state.get("context_tokens")
    return room["budget"] if room else 0


async def _summary(
    runtime: Runtime[Context], scope: Scope, before: str, messages: Sequence[AnyMessage], budget: int
) -> tuple[str, Usage | None]:
    """Return the summary by the model, or a plain one where it fails or is the offline model."""
    most = compaction.within(compaction.MAX_SUMMARY, budget)
    before = shorten(before, most)
    text = compaction.transcript(messages, (budget or DEFAULT_WINDOW) // 2)
    material = f"Summary of what came before:\n{before}\n\n{text}" if before else text
    sent: list[AnyMessage] = [SystemMessage(_prompt()), HumanMessage(material)]
    plain = "\n".join(part for part in (before, compaction.plain_summary(messages)) if part)
    plain = shorten(plain, most)
    try:
        route, answer = await ask_plainly(routing_request(run_context(runtime), scope), sent)
    except (StorageDown, Fenced):
        raise
    except CallsheetError:
        # The turn is done, and its result is worth more than a good summary of earlier ones.
        return plain, None
    if route.provider == OFFLINE:
        return plain, None
    written = compaction.limited_summary(answer.text.strip(), most)
    return written or plain, Usage(**sum_of_usage([answer]))  # type: ignore[typeddict-item]


@cache
def _prompt() -> str:
    return read_prompt(files("callsheet.nodes").joinpath(FOLDER), "summary")
