"""The offline model's part for landing pages: look at the page, edit it, and report from the receipts."""

import re
from collections.abc import Sequence
from typing import Final

from callsheet.providers.offline.conversation import Answer, Call, Conversation, Request, Turn
from callsheet.providers.offline.decline import declined
from callsheet.providers.offline.grammar import Match, match
from callsheet.providers.offline.pages.edits import Draft, Edit, draft
from callsheet.providers.offline.pages.forms import FORMS
from callsheet.providers.offline.pages.outline import Outline, Unclear, outline

__all__ = ["FORMS", "answer"]
_SENTENCES: Final = {
    "help": "You can say, for example: " + "; ".join(form.example for form in FORMS) + ".",
    "redo": "I cannot redo: say again what shall be different, or restore a version over REST.",
}
"""Answers that need no page."""
_VERBS: Final = {
    "modify_element": ("changed", "change"),
    "create_element": ("added", "add"),
    "delete_element": ("removed", "remove"),
    "clear_page": ("removed", "remove"),
    "move_element": ("moved", "move"),
    "apply_theme": ("applied", "apply"),
    "undo": ("took back", "take back"),
}
_HEAD: Final = re.compile(r"^[a-z]+-\d+(?: \(.*?\))?: ")
"""Name of the element at the head of a line about it."""


def answer(conversation: Conversation) -> Answer:
    """Return the calls to make next, or the last word of the turn."""
    requests = match(conversation.turn.text, FORMS)
    fixed = [_SENTENCES[one.form] for one in requests if one.form in _SENTENCES]
    if fixed and len(requests) == 1:
        return Answer(fixed[0])
    if fixed or not requests:
        return Answer(declined(conversation.turn.text))
    try:
        return _edited(conversation, requests)
    except Unclear as unclear:
        return Answer(f"I changed nothing, because {unclear}.")


def _edited(conversation: Conversation, requests: Sequence[Match]) -> Answer:
    """Look at the page and at what the edits depend on, then make them all at once, then report."""
    turn, earlier = conversation.turn, conversation.turns[:-1]
    listed = [call.result for call in turn.answered("list_elements") if call.result and not call.failed]
    if not listed:
        return _look(conversation, Request("list_elements", {}))
    page = outline(listed[0])
    reads = [call for call in turn.answered("read_element") if not call.failed]
    read = {str(call.args["elementId"]): call.result or {} for call in reads}
    made = draft(Draft(page, read, _recent(earlier), _undoable(earlier, page)), requests)
    if made.unread:
        return _look(conversation, *(Request("read_element", {"elementId": name}) for name in made.unread))
    due = tuple(request for request, _ in made.edits if _is_due(turn, request))
    if due and all(one.name in conversation.tools for one in due):
        return Answer("", due)
    return Answer(_report(turn, made))


def _look(conversation: Conversation, *looks: Request) -> Answer:
    """Return the calls that look, or the reason why there is nothing to see."""
    if looks[0].name not in conversation.tools:
        return Answer(f"I may not call {looks[0].name} now, so I changed nothing.")
    if due := tuple(one for one in looks if _is_due(conversation.turn, one)):
        return Answer("", due)
    error = str((_calls(conversation.turn, looks[0])[-1].result or {}).get("error", "no answer")).rstrip(".")
    return Answer(f"I changed nothing, because I could not look at the page: {error}.")


def _report(turn: Turn, made: Draft) -> str:
    """Return what was answered, made and not made, and the version the page has now."""
    calls = [_calls(turn, request) for request, _ in made.edits]
    lines = [*made.notes, *map(_line, made.edits, calls)]
    versions = [call.version for several in calls for call in several if call.version]
    if made.edits:
        newest = max(versions, key=lambda name: int(name[1:]), default="")
        lines.append(f"The page is {newest} now." if newest else "Nothing was changed.")
    return " ".join(lines)


def _line(edit: Edit, calls: Sequence[Call]) -> str:
    request, about = edit
    done, undone = _VERBS[request.name]
    result = (calls[-1].result if calls else None) or {"error": f"I may not call {request.name} now"}
    if "error" in result:
        error = str(result["error"]).rstrip(".")
        rejected = result.get("details", {}).get("rejected")
        return f"You said no, so {about} stays." if rejected else f"I could not {undone} {about}: {error}."
    named = request.args.get("elementId")
    if named and result["elementId"] != named:
        about = result["elementId"]  # A person who was asked for leave named another one.
    changes = ", ".join(_HEAD.sub("", line) for line in result["changes"])
    return f"I {done} {about}" + (f": {changes}." if request.name == "modify_element" else ".")


def _is_due(turn: Turn, request: Request) -> bool:
    """Return true for a request not called yet in this turn, or once with a failure that may pass."""
    calls = _calls(turn, request)
    return not calls or (len(calls) == 1 and (calls[0].result or {}).get("retryable") is True)


def _calls(turn: Turn, request: Request) -> list[Call]:
    return [one for one in turn.calls if one.name == request.name and one.args == request.args]


def _made(turn: Turn) -> list[Call]:
    """Return the calls that changed the page; a look-up names a version, too, but no changes."""
    return [call for call in turn.calls if call.version and "changes" in (call.result or {})]


def _recent(turns: Sequence[Turn]) -> str:
    """Return the id of the element that was changed last, empty for none."""
    made = [call.result or {} for turn in turns for call in _made(turn)]
    return str(made[-1].get("elementId", "")) if made else ""


def _undoable(turns: Sequence[Turn], page: Outline) -> int:
    """Return how many versions the newest edits made, if the page is still as they left it; else 1."""
    newest = next((made for turn in reversed(turns) if (made := _made(turn))), [])
    return len(newest) if newest and newest[-1].version == page.version else 1
