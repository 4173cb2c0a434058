"""Summarizer: ends a turn with its drafts and a closing message, and compacts a long conversation."""

import re
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from callsheet import storage
from callsheet.nodes.compacting import compaction_update
from callsheet.nodes.node import Node
from callsheet.nodes.workflow import WorkflowSpec
from callsheet.state import conversation
from callsheet.state.context import Context
from callsheet.state.sentences import split_sentences
from callsheet.state.workflow import DraftMade, Workflow
from callsheet.storage.artefacts.artefacts import Artefact, Stream

_VERSION = re.compile(r"\bv[1-9]\d{0,5}\b")
_NO_ANSWER = "The model gave no answer, and nothing was changed. Say it again, or choose another model."
_NO_DRAFTS = "(No draft was made"
_OFFER = re.compile(r"[?？]|ไหม|มั้ย|吗|呢")
"""Marks of a question: "Should I create v2?" claims nothing."""


def summarizer_node(workflow: WorkflowSpec[Any]) -> Node[Workflow]:
    """Return the node that ends a turn.

    `drafts` holds the last version of each stream that this turn wrote. The messages stay complete;
    compaction changes only the planner's next input.
    """

    async def summarizer(state: Workflow, *, runtime: Runtime[Context]) -> dict[str, Any]:
        scope = workflow.scope(state, runtime)
        artefact = Artefact(await storage.current(), scope.kind, scope.artefact, scope.owner)
        streams = await artefact.streams(await workflow.artefact.streams_of(artefact))
        created = state.get("created", [])
        changed: dict[str, Any] = {"drafts": {draft["stream"]: draft["versionId"] for draft in created}}
        lacks_drafts = not state.get("rejected") and bool(
            workflow.turn.nudge(state, state["messages"], created)
        )
        closing = _closing_message(state, streams, created, lacks_drafts=lacks_drafts)
        closing = _with_note(workflow, state, closing)
        if closing := closing or _without_end_space(state["messages"][-1]):
            changed["messages"] = [closing]
        return changed | await compaction_update(workflow, state, runtime, scope)

    return summarizer


def _closing_message(
    state: Workflow, streams: dict[str, Stream], created: list[DraftMade], *, lacks_drafts: bool
) -> AIMessage | None:
    """Return a closing message if the model wrote none, or the model's with a correction of its versions.

    A version that does not exist, and a turn that made none, are claims that receipts can check for certain.
    """
    last = state["messages"][-1]
    text = last.text.rstrip() if isinstance(last, AIMessage) else ""
    if not text:
        return AIMessage(
            _tool_messages(state) or _created_text(created), id=last.id if _has_no_calls(last) else None
        )
    if lacks_drafts and _has_no_calls(last) and _NO_DRAFTS not in text:
        note = f"{_NO_DRAFTS}{_last_error(state)}.)"
        return AIMessage(f"{text}\n\n{note}", id=last.id, response_metadata=last.response_metadata)
    if not streams:
        return None
    known = {version.id for stream in streams.values() for version in stream.versions}
    stated = (part for part in split_sentences(text) if not _OFFER.search(part))
    invented = sorted({name for part in stated for name in _VERSION.findall(part)} - known)
    if not invented or not _has_no_calls(last):
        return None
    there = ", ".join(
        f"{name} {stream.versions[-1].id}" for name, stream in streams.items() if stream.versions
    )
    note = f"(There is no {', '.join(invented)}; the newest versions are: {there or 'none yet'}.)"
    return AIMessage(f"{text}\n\n{note}", id=last.id, response_metadata=last.response_metadata)


def _with_note(workflow: WorkflowSpec[Any], state: Workflow, closing: AIMessage | None) -> AIMessage | None:
    """Return the closing message with the workflow's note, if there is one; None for an unchanged message."""
    last = closing or state["messages"][-1]
    note = workflow.turn.closing_note(state) if _has_no_calls(last) else ""
    if not note or note in last.text:
        return closing
    return AIMessage(f"{last.text.rstrip()}\n\n{note}", id=last.id, response_metadata=last.response_metadata)


def _without_end_space(last: Any) -> AIMessage | None:
    """Return a model's last message without the whitespace at its end; None if there is none to trim."""
    if not _has_no_calls(last):
        return None
    content = last.content
    if isinstance(content, str):
        trimmed: Any = content.rstrip()
    elif content and isinstance(content[-1], dict) and isinstance(text := content[-1].get("text"), str):
        trimmed = [*content[:-1], {**content[-1], "text": text.rstrip()}]
    else:
        return None
    return None if trimmed == content else last.model_copy(update={"content": trimmed})


def _last_error(state: Workflow) -> str:
    """Return the newest error of a tool in this turn, as the end of a sentence."""
    errors = [result["output"]["error"] for result in state.get("results", ()) if "error" in result["output"]]
    return f"; the last step failed: {str(errors[-1]).rstrip('.')}" if errors else ""


def _tool_messages(state: Workflow) -> str:
    """Return the messages of the tools in a turn without a model."""
    outputs = [result["output"] for result in state.get("results", ())] if state.get("decided") else []
    errors = (f"{output['error']}: {output['suggestion']}." for output in outputs if "error" in output)
    notes = (f"Note: {note}." for output in outputs for note in output.get("warnings", ()))
    return " ".join([*(str(one["message"]) for one in outputs if "message" in one), *errors, *notes])


def _created_text(created: list[DraftMade]) -> str:
    versions = ", ".join(f"{item['stream']} {item['versionId']}" for item in created)
    return f"Made {versions}." if versions else _NO_ANSWER


def _has_no_calls(message: Any) -> bool:
    return isinstance(message, AIMessage) and not conversation.calls_of(message)
