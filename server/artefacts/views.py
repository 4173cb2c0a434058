"""Views of turns, their use of models, and the locks of artefacts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from langchain_core.messages import AIMessage, HumanMessage

from callsheet.nodes.workflow import ArtefactSpec
from callsheet.server.artefacts.schemas import Outcome
from callsheet.server.artefacts.service import question_type
from callsheet.server.engine.execution import BuildReply
from callsheet.state import conversation, questions
from callsheet.state.budgets import RAISE_BUDGET
from callsheet.state.differences import one_line
from callsheet.state.errors import Conflict
from callsheet.state.times import iso_time_or_none
from callsheet.state.versions import Version, version_fields
from callsheet.storage import spending
from callsheet.storage.artefacts.artefacts import Artefact, StreamHead
from callsheet.storage.redis.connection import Storage
from callsheet.storage.runs.records import Run
from callsheet.storage.spending import Account, ModelUsage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread

VERSION_LIMIT: Final = 50
"""Default number of versions in a list."""


@dataclass(frozen=True)
class VersionPage:
    """Part of a list of versions, as a route's query asks for it."""

    before: Annotated[str | None, Query(max_length=80, description="Only versions older than this")] = None
    limit: Annotated[int, Query(ge=1, le=200)] = VERSION_LIMIT


VersionQuery = Annotated[VersionPage, Depends()]


async def lock(artefact: Artefact, part: str, name: str, by: str) -> dict[str, Any]:
    """Lock a part against every change and return all locks, each with its name under `part`."""
    await artefact.lock(name, by)
    return {"locks": await locks_view(artefact, part)}


async def unlock(artefact: Artefact, part: str, name: str) -> dict[str, Any]:
    """Unlock a part, locked or not, and return all locks."""
    await artefact.unlock(name)
    return {"locks": await locks_view(artefact, part)}


async def locks_view(artefact: Artefact, part: str) -> list[dict[str, Any]]:
    """Return the locks: each part's name under `part`, its owner and its time."""
    locks = await artefact.locks()
    return [
        {part: name, "by": entry["by"], "at": iso_time_or_none(entry["at_ms"])}
        for name, entry in locks.items()
    ]


async def version_view(
    spec: ArtefactSpec[Any], artefact: Artefact, version: Version, newest: Version
) -> dict[str, Any]:
    """Return a version without its data, with a summary and the difference to its parent.

    `newest` is the newest version of its stream.
    """
    return (await _version_views(spec, artefact, [version], newest))[0]


async def _version_views(
    spec: ArtefactSpec[Any], artefact: Artefact, versions: Sequence[Version], newest: Version
) -> list[dict[str, Any]]:
    known = {version.id: version for version in versions}
    parents = {version.parent for version in versions if version.parent} - known.keys()
    # A parent may have been deleted.
    known |= {version.id: version for version in await artefact.existing(newest.stream, parents)}

    def compare() -> list[dict[str, Any]]:
        return [
            {
                **version_fields(version, newest),
                "summary": spec.summary(version.stream, version.data),
                "change": _change(spec, version, known.get(version.parent or "")),
            }
            for version in versions
        ]

    # In a thread, because long materials take a while to compare.
    return await asyncio.to_thread(compare)


def _change(spec: ArtefactSpec[Any], version: Version, parent: Version | None) -> str | None:
    if parent is None:
        return None
    lines = spec.change_lines(parent, version)
    return one_line(lines) if lines else f"the same as {parent.id}"


async def version_list(
    spec: ArtefactSpec[Any], artefact: Artefact, name: str, page: VersionPage
) -> dict[str, Any]:
    """Return a page of the versions of a stream, newest last, and the active one.

    `before` asks for the next page; it is None if there are no older versions.
    """
    stream = await artefact.older(name, page.before, page.limit)
    newest = stream.newest()
    shown = await _version_views(spec, artefact, stream.versions, newest) if newest else []
    return {
        "versions": shown,
        "active": stream.active,
        "before": stream.versions[0].id if stream.older else None,
    }


def require_newest(head: StreamHead, version: str, name: str) -> None:
    """Raise `Conflict` if `version` is not the newest one of the stream."""
    newest = head.newest.id if head.newest else ""
    if newest != version:
        raise Conflict(
            f"the newest version of {name} is {newest or 'not there yet'}, not {version!r:.80}",
            remedy="look at the newest version and repeat the edit",
            details={"newest": newest},
        )


async def diff_view(
    spec: ArtefactSpec[Any], artefact: Artefact, stream: str, old: str, new: str
) -> dict[str, Any]:
    """Return the differences from one version of a stream to another; raise `Missing` for an unknown one."""
    before, after = await asyncio.gather(*(artefact.version(stream, name) for name in (old, new)))
    changes = await asyncio.to_thread(spec.differences, stream, before.data, after.data)
    text = "\n".join(change["text"] for change in changes)
    return {"stream": stream, "from": old, "to": new, "changes": changes, "text": text}


def turn_outcome(state: Mapping[str, Any]) -> Outcome:
    """Return the outcome of the newest turn, from the state it ended in."""
    if interrupts := state.get("__interrupt__"):
        return "over_budget" if question_type(interrupts[0].value) == RAISE_BUDGET else "waiting"
    if state.get("created"):
        return "made"
    newest = next((one for one in reversed(state.get("messages", ())) if one.type in {"ai", "human"}), None)
    # Vendors' policies and the offline model refuse in this form.
    return "refused" if newest and newest.additional_kwargs.get("refusal") else "nothing_made"


def turn_fields(
    state: Mapping[str, Any], shorten: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
) -> dict[str, Any]:
    """Return the fields of every turn's reply; `shorten` turns a tool's output into its `result`."""
    return {
        "outcome": turn_outcome(state),
        "created": [dict(draft) for draft in state.get("created", ())],
        "receipt": state.get("receipt"),
        "truncated": bool(state.get("truncated")),
        "provider": state.get("provider", ""),
        "providerReason": state.get("provider_reason", ""),
        "toolCalls": tool_calls(state, shorten),
        "usage": usage(state),
    }


def turn_view(thread: Thread, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn's changes and message, from the state it ended in; JSON.

    `drafts` has the newest version of each stream that the turn changed, `toolCalls` its calls in order,
    `question` the pending interrupt, or None; with one, `message` is its words.
    """
    interrupts = state.get("__interrupt__") or ()
    return {
        "conversationId": thread.id,
        "artefactId": thread.artefact.partition(":")[2],
        "drafts": {draft["stream"]: draft["versionId"] for draft in state.get("created", ())},
        "message": turn_message(state),
        "question": {"id": interrupts[0].id, "value": interrupts[0].value} if interrupts else None,
        **turn_fields(state),
    }


def reply_builder(
    storage: Storage, view: Callable[[Thread, Mapping[str, Any]], dict[str, Any]] = turn_view
) -> BuildReply:
    """Return the function that builds the reply to a run: its `view`, and its use of models."""

    async def build(run: Run, state: Mapping[str, Any]) -> dict[str, Any]:
        thread, used = await asyncio.gather(
            threads.get(storage, run.thread, run.owner), turn_use(storage, run.owner, run.thread, state)
        )
        reply: dict[str, Any] = view(thread, state) | used
        return reply

    return build


def turn_message(state: Mapping[str, Any]) -> str:
    """Return the words of the pending question; without one those of the model."""
    interrupts = state.get("__interrupt__") or ()
    return question_text(interrupts[0].value) if interrupts else last_message(state)


def question_text(question: Any) -> str:
    """Return a question in words; empty for a question of another form."""
    if not isinstance(question, Mapping):
        return question if isinstance(question, str) else ""
    return questions.full_text(question)


def last_message(state: Mapping[str, Any]) -> str:
    """Return the text of the newest turn's last message of the model; empty for none."""
    return last_answer(state).text


def last_answer(state: Mapping[str, Any]) -> AIMessage:
    """Return the newest turn's last message of the model without tool calls; an empty one for none."""
    for message in reversed(state.get("messages", ())):
        if isinstance(message, HumanMessage):
            break
        if isinstance(message, AIMessage) and not conversation.calls_of(message):
            return message
    return AIMessage("")


def usage(state: Mapping[str, Any]) -> dict[str, int]:
    """Return the tokens of the whole conversation."""
    counted = state.get("usage") or {}
    return {
        "inputTokens": counted.get("input_tokens", 0),
        "outputTokens": counted.get("output_tokens", 0),
        "cachedTokens": counted.get("cached_tokens", 0),
        "modelCalls": counted.get("calls", 0),
    }


async def turn_use(storage: Storage, owner: str, thread: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return `turnUsage`: use of models in the newest turn, its tools included."""
    account = Account(owner, thread, conversation.turn_id(state.get("messages", ())))
    return {"turnUsage": use_view(spending.total(await spending.read_usage(storage, account, "turn")))}


def use_view(used: ModelUsage) -> dict[str, Any]:
    """Return the use of models as the API shows it."""
    return {
        "modelCalls": used.calls,
        "inputTokens": used.input,
        "cachedTokens": used.cached,
        "outputTokens": used.output,
        "costUsd": None if used.unpriced else round(used.cost, 9),
        "estimatedCalls": used.estimated,
    }


def tool_calls(
    state: Mapping[str, Any], shorten: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest turn's tool calls in order: `{id, name, arguments, status, result, durationSeconds}`.

    `shorten` turns a tool's output into `result`.
    """
    # Some vendors repeat call ids from message to message, so the key includes the message's id.
    arguments = {
        (message.id, call["id"]): call["args"]
        for message in state.get("messages", ())
        for call in conversation.calls_of(message)
    }
    return [
        {
            "id": result["id"],
            "name": result["tool"],
            "arguments": arguments.get((result["plan"], result["id"]), {}),
            "status": result["status"],
            "result": shorten(result["output"]),
            "durationSeconds": result["duration_s"],
        }
        for result in state.get("results", ())
    ]
