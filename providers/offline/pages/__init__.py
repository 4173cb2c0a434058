"""The offline model on landing pages: it looks at the page, edits it, and reports the results."""

import re
from collections.abc import Sequence
from typing import Final

from callsheet.providers.offline.conversation import (
    OfflineConversation,
    OfflineReply,
    PastCall,
    PastTurn,
    PlannedCall,
)
from callsheet.providers.offline.grammar import FormMatch, Unclear, decline, match
from callsheet.providers.offline.pages.edits import FORMS, EditPlan, plan
from callsheet.providers.offline.pages.outline import Outline, read

_VERBS: Final = {
    "modify_element": ("changed", "change"),
    "create_element": ("added", "add"),
    "delete_element": ("removed", "remove"),
    "clear_page": ("removed", "remove"),
    "move_element": ("moved", "move"),
    "apply_theme": ("applied", "apply"),
    "undo": ("took back", "take back"),
}
_ELEMENT_NAME: Final = re.compile(r"^[a-z]+-\d+(?: \(.*?\))?: ")
"""Name of the element at the beginning of a line about it."""


def answer(conversation: OfflineConversation) -> OfflineReply:
    """Return the next tool calls, or the reply that ends the turn."""
    text = conversation.turn.text
    requests = match(text, FORMS)
    if [request.form for request in requests] == ["help"]:
        return OfflineReply("You can say, for example: " + "; ".join(form.example for form in FORMS) + ".")
    if not requests or any(request.form == "help" for request in requests):
        return OfflineReply(decline(text, forms=FORMS), refused=True)
    try:
        return _edit(conversation, requests)
    except Unclear as reason:
        return OfflineReply(f"I changed nothing, because {reason}.")


def _edit(conversation: OfflineConversation, requests: Sequence[FormMatch]) -> OfflineReply:
    """Return the look at the page, then the look at single elements, then all edits, then the report."""
    turn, earlier = conversation.turn, conversation.turns[:-1]
    looks = [call.result for call in turn.calls_to("list_elements") if call.result and not call.failed]
    if not looks:
        return _look(conversation, [PlannedCall("list_elements", {})])
    outline = read(looks[0])
    reads = [call for call in turn.calls_to("read_element") if not call.failed]
    details = {str(call.args["elementId"]): call.result or {} for call in reads}
    draft = EditPlan(outline, details, _recent(earlier), _undoable(earlier, outline))
    plan(draft, requests)
    if draft.unread:
        return _look(conversation, draft.unread)
    due = tuple(request for request, _ in draft.edits if _is_due(turn, request))
    if due and all(request.name in conversation.tools for request in due):
        return OfflineReply("", due)
    return OfflineReply(_report(turn, draft))


def _look(conversation: OfflineConversation, looks: Sequence[PlannedCall]) -> OfflineReply:
    if looks[0].name not in conversation.tools:
        return OfflineReply(f"I may not call {looks[0].name} now, so I changed nothing.")
    errors = [
        str((call.result or {}).get("error")) for each in looks for call in _calls(conversation.turn, each)
    ]
    if errors:
        return OfflineReply(f"I changed nothing, because the page was not shown: {errors[0].rstrip('.')}.")
    return OfflineReply("", tuple(looks))


def _report(turn: PastTurn, draft: EditPlan) -> str:
    """Return the notes, the result of each edit, and the page's version."""
    calls = [_calls(turn, request) for request, _ in draft.edits]
    lines = [_line(*edit, each) for edit, each in zip(draft.edits, calls, strict=True)] + draft.notes
    versions = [call.version for each in calls for call in each if call.version]
    if draft.edits:
        newest = max(versions, key=lambda name: int(name[1:]), default="")
        lines.append(f"The page is {newest} now." if newest else "Nothing was changed.")
    return " ".join(lines)


def _line(request: PlannedCall, title: str, calls: Sequence[PastCall]) -> str:
    past, infinitive = _VERBS[request.name]
    result = (calls[-1].result if calls else None) or {"error": f"I may not call {request.name} now"}
    if "error" in result:
        error = str(result["error"]).rstrip(".")
        if result.get("details", {}).get("rejected"):
            return f"You said no, so {title} stays."
        return f"I could not {infinitive} {title}: {error}."
    if request.args.get("elementId", result.get("elementId")) != result.get("elementId"):
        title = result["elementId"]  # Whoever approved the edit chose another element.
    changes = ", ".join(_ELEMENT_NAME.sub("", line) for line in result["changes"])
    return f"I {past} {title}" + (f": {changes}." if request.name in {"modify_element", "undo"} else ".")


def _is_due(turn: PastTurn, request: PlannedCall) -> bool:
    """Return true for a request without a call in this turn, or with one retryable failure."""
    calls = _calls(turn, request)
    return not calls or (len(calls) == 1 and (calls[0].result or {}).get("retryable") is True)


def _calls(turn: PastTurn, request: PlannedCall) -> list[PastCall]:
    return [call for call in turn.calls if call.name == request.name and call.args == request.args]


def _edits(turn: PastTurn) -> list[PastCall]:
    """Return the calls that changed the page; a look-up has a version, too, but no changes."""
    return [call for call in turn.calls if call.version and "changes" in (call.result or {})]


def _recent(turns: Sequence[PastTurn]) -> str:
    """Return the id of the element that was changed last, or an empty string."""
    results = [call.result or {} for turn in turns for call in _edits(turn)]
    return str(results[-1].get("elementId", "")) if results else ""


def _undoable(turns: Sequence[PastTurn], outline: Outline) -> int:
    """Return the number of versions of the newest turn with edits, or 1 if the page has changed since."""
    newest = next((edits for turn in reversed(turns) if (edits := _edits(turn))), [])
    return len(newest) if newest and newest[-1].version == outline.version else 1
