"""The offline model on audio ads: a first draft of a brief, then edits by requests of its grammar."""

import re
from collections.abc import Sequence
from typing import Final

from callsheet.providers.offline.ads.ad import LOOK, UNDO, Unable, read_ad, report, write_calls, writes
from callsheet.providers.offline.ads.edits import FORMS, URGENT, apply, search
from callsheet.providers.offline.ads.first_draft import draft, read_brief
from callsheet.providers.offline.conversation import OfflineConversation, OfflineReply, PlannedCall
from callsheet.providers.offline.grammar import FormMatch, decline, match

_SERVER_NOTES: Final = re.compile(r"\n\((?:Ad language|Spot) now: [^\n]*\)")
_SUGGESTION: Final = re.compile(r"Should I ([^?]+)\?$", re.MULTILINE)
_SINGLE: Final = frozenset({"variations", "urgent", "undo", "reply"})
_ALONE: Final = "a yes or no, “undo”, variations and “more urgent” must be the only request of a message; "
_NOTHING_OPEN: Final = f"No question is open, so I changed nothing; you can say “{FORMS[0].example}”."
_ALWAYS_OPEN: Final = [form for form in FORMS if form.name != "reply"]


def answer(conversation: OfflineConversation) -> OfflineReply:
    """Return the next tool calls, or the reply that ends the turn."""
    text = _SERVER_NOTES.sub("", conversation.turn.text)
    requests = match(text, FORMS)
    if not requests and (brief := read_brief(conversation)):
        return draft(conversation, brief)
    forms = [request.form for request in requests]
    if forms == ["reply"]:
        suggestion = _SUGGESTION.search("".join(turn.reply for turn in conversation.turns[-2:-1]))
        if not suggestion or "agreed" not in requests[0].slots:
            return OfflineReply("Then I change nothing." if suggestion else _NOTHING_OPEN)
        requests = match(suggestion[1], FORMS)
    elif forms == ["urgent"]:
        requests = match(URGENT, FORMS)
    elif not requests:
        return OfflineReply(decline(text, forms=_ALWAYS_OPEN), refused=True)
    elif len(requests) > 1 and not _SINGLE.isdisjoint(forms):
        return OfflineReply(decline(text, _ALONE), refused=True)
    try:
        return _edit(conversation, requests)
    except Unable as reason:
        return OfflineReply(f"{reason} I changed nothing.")


def _edit(conversation: OfflineConversation, requests: Sequence[FormMatch]) -> OfflineReply:
    """Return the look-up, then the voice searches, then the drafts, then the report."""
    turn = conversation.turn
    if requests[0].form == "undo":
        [*_, result] = [{}, *(call.result or {} for call in turn.calls_to(UNDO))]
        text = result.get("message") or f"I changed nothing: {result.get('error')}"
        return OfflineReply(f"{text}.") if result else _calls(conversation, [PlannedCall(UNDO, {})])
    looks = turn.calls_to(LOOK)
    if not looks:
        return _calls(conversation, [PlannedCall(LOOK, {})])
    before = read_ad(looks[-1].result or {})
    results = {
        frozenset(call.args.items()): (call.result or {}).get("voices", ())
        for call in turn.calls_to("search_voices")
    }
    searches = [args for request in requests if (args := search(before, request))]
    if missing := [args for args in searches if frozenset(args.items()) not in results]:
        return _calls(conversation, [PlannedCall("search_voices", args) for args in missing])
    if write_calls(turn):
        return OfflineReply("\n".join(report(turn)))
    calls = [call for draft in apply(before, requests, results) for call in writes(before, draft)]
    return _calls(conversation, calls)


def _calls(conversation: OfflineConversation, calls: Sequence[PlannedCall]) -> OfflineReply:
    forbidden = [call.name for call in calls if call.name not in conversation.tools]
    if forbidden or not calls:
        reason = f"I may not call {forbidden[0]} now" if forbidden else "The ad is like that already"
        return OfflineReply(f"{reason}, so I changed nothing.")
    return OfflineReply("", tuple(calls))
