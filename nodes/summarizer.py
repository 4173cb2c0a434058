"""Summarizer: ends a turn with drafts, receipt and closing message, and compacts a long conversation."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.budget import STOPPED
from callsheet.nodes.compacting import compaction_update
from callsheet.nodes.node import Node
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.providers import OFFLINE
from callsheet.state import conversation, receipts
from callsheet.state.context import Context
from callsheet.state.plan import StepResult, is_same_target, is_unchanged
from callsheet.state.receipts import RECEIPT, Effects, Receipt, ReceiptChange
from callsheet.state.sentences import is_question
from callsheet.state.workflow import Workflow
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.tools.guard.outcome import is_unknown
from callsheet.tools.registry import Tool

_NO_ANSWER: Final = (
    "The model gave no answer, and nothing was changed. Say it again, or choose another model."
)


def summarizer_node(workflow: WorkflowSpec[Any]) -> Node[Workflow]:
    """Return the node that ends a turn.

    `drafts` holds the last version of each stream that this turn wrote. The messages stay complete, and the
    model's words as they are; compaction changes only the planner's next input.
    """

    async def summarizer(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        scope = workflow.scope(state, runtime)
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        created = state.get("created", [])
        changed: dict[str, Any] = {"drafts": {draft["stream"]: draft["versionId"] for draft in created}}
        written = await _turn_receipt(workflow, state, artefact)
        if closing := _closing_message(workflow, state, written):
            changed["messages"] = [closing]
        if written:
            changed[RECEIPT] = written
            runtime.stream_writer({"type": RECEIPT, **written})
        return changed | await compaction_update(workflow, state, runtime, scope)

    return summarizer


async def _turn_receipt(workflow: WorkflowSpec[Any], state: Workflow, artefact: Artefact) -> Receipt | None:
    """Return the receipt of the turn; None where no tool can change anything."""
    tools = {**workflow.allowed_tools(state), **workflow.internal_tools}
    if not any(tool.writes or tool.outside for tool in tools.values()):
        return None
    created, results = state.get("created", []), state.get("results", [])
    heads = await artefact.stream_heads({draft["stream"] for draft in created})
    outputs = {str(result["id"]): result["output"] for result in results}
    changes = [
        ReceiptChange(
            name=workflow.turn.change_name(
                draft["stream"], outputs.get(draft["toolCallId"], {}), heads[draft["stream"]].newest
            ),
            stream=draft["stream"],
            versionId=draft["versionId"],
        )
        for draft in created
    ]
    open_results = _open_results(tools, results, state["messages"])
    unknown = [_error(one) for one in open_results if is_unknown(one["output"])]
    effects = Effects(
        problems=[_error(one) for one in open_results if not is_unknown(one["output"])],
        done=[tools[one["tool"]].display for one in _outside(tools, results)],
        unknown=unknown,
        unchanged=sum(is_unchanged(one["status"], one["output"]) for one in results),
    )
    notes, language = workflow.turn.closing_notes(state), receipts.person_language(state["messages"])
    rounds = _rounds(state) if workflow.turn.has_variations else []
    return receipts.receipt(changes, effects, notes, language, rounds=rounds)


def _rounds(state: Workflow) -> list[int]:
    """Return the message that made each version of the turn, by its place."""
    messages = enumerate(state["messages"])
    rounds = {call["id"]: at for at, one in messages if isinstance(one, AIMessage) for call in one.tool_calls}
    return [rounds.get(draft["toolCallId"], -1 - at) for at, draft in enumerate(state.get("created", []))]


def _outside(tools: Mapping[str, Tool], results: Sequence[StepResult]) -> list[StepResult]:
    """Return the completed calls with an effect outside our storage."""
    completed = (one for one in results if one["status"] == "completed" and one["tool"] in tools)
    return [one for one in completed if tools[one["tool"]].outside]


def _open_results(
    tools: Mapping[str, Tool], results: Sequence[StepResult], messages: Sequence[AnyMessage]
) -> list[StepResult]:
    """Return the failed calls with an effect that no later call with the same target made good.

    A call that repeats the completed one right before it is done, whatever its error says.
    """
    answers = [one for one in messages if isinstance(one, AIMessage)]
    calls: dict[str, Any] = {str(one["id"]): one["args"] for each in answers for one in each.tool_calls}
    calls |= {str(one["id"]): one["args"] for each in answers for one in each.invalid_tool_calls}
    failed: list[StepResult] = []
    newest: tuple[str, Any] | None = None
    for result in results:
        tool = tools.get(result["tool"])
        given = calls.get(str(result["id"]))
        if result["status"] == "completed":
            newest = (result["tool"], given) if tool is None or tool.writes or tool.outside else newest
            failed = [
                one
                for one in failed
                if one["tool"] != result["tool"]
                or not is_same_target(calls.get(str(one["id"])), given, tool.subject if tool else None)
            ]
        elif result["status"] == "error" and (tool is None or tool.writes or tool.outside):
            failed += [] if given and newest == (result["tool"], given) else [result]
    return failed


def _error(result: StepResult) -> str:
    return str(result["output"].get("error", "it was not carried out"))


def _closing_message(
    workflow: WorkflowSpec[Any], state: Workflow, written: Receipt | None
) -> AIMessage | None:
    """Return the turn's last message with its receipt, or a message where the model wrote none."""
    last = state["messages"][-1]
    if isinstance(last, AIMessage) and last.text.strip():
        own = _without_end_space(last)
        if written and _has_no_calls(last):
            return receipts.with_receipt(own, written, shown=_must_be_read(workflow, state, written))
        return None if own is last else own
    name = last.id if _has_no_calls(last) else None
    closing = AIMessage(_tool_messages(state) or _created_text(written), id=name)
    return receipts.with_receipt(closing, written, shown=False) if written else closing


def _must_be_read(workflow: WorkflowSpec[Any], state: Workflow, written: Receipt) -> bool:
    """Return True if the words alone could hide what the receipt says; the offline model's are code's.

    A turn without an effect says so, since its words may claim one; not where they are a question alone.
    """
    if written["notes"] or written["unchanged"]:
        return True
    last = state["messages"][-1]
    by_code = state.get("provider") == OFFLINE or state.get("decided") or last.text == STOPPED
    if by_code or written["problems"] or written.get("unknown"):
        return not by_code
    if receipts.has_effect(written) or last.additional_kwargs.get("refusal"):
        return False
    may_claim = state.get("nudged") or not workflow.turn.is_conversational
    return bool(may_claim) and not is_question(last.text)


def _without_end_space(last: AIMessage) -> AIMessage:
    """Return a model's last message without the whitespace at its end."""
    content = last.content
    if not _has_no_calls(last):
        return last
    if isinstance(content, str):
        trimmed: Any = content.rstrip()
    elif content and isinstance(content[-1], dict) and isinstance(text := content[-1].get("text"), str):
        trimmed = [*content[:-1], {**content[-1], "text": text.rstrip()}]
    else:
        return last
    return last if trimmed == content else last.model_copy(update={"content": trimmed})


def _tool_messages(state: Workflow) -> str:
    """Return the messages of the tools in a turn without a model."""
    outputs = [result["output"] for result in state.get("results", ())] if state.get("decided") else []
    errors = (f"{output['error']}: {output['suggestion']}" for output in outputs if "error" in output)
    notes = (f"Note: {note}" for output in outputs for note in output.get("warnings", ()))
    lines = [*(str(one["message"]) for one in outputs if "message" in one), *errors, *notes]
    return " ".join(line if line.endswith((".", "!", "?")) else f"{line}." for line in lines)


def _created_text(written: Receipt | None) -> str:
    changed = written["changed"] if written else []
    versions = ", ".join(f"{one['name']} {one['versionId']}" for one in changed)
    if versions:
        return f"Made {versions}."
    return written["text"] if written and receipts.has_effect(written) else _NO_ANSWER


def _has_no_calls(message: Any) -> bool:
    return isinstance(message, AIMessage) and not conversation.calls_of(message)
