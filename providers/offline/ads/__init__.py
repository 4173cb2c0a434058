"""The offline model's part for audio ads: a first draft of a brief, then edits by requests of its grammar."""

import re
from collections.abc import Sequence
from typing import Final

from callsheet.providers.offline.ads import first_draft
from callsheet.providers.offline.ads.ad import (
    LOOK,
    Ad,
    Unable,
    ad_id,
    described,
    problems,
    shown,
    writes,
    written,
)
from callsheet.providers.offline.ads.brief import read
from callsheet.providers.offline.ads.edits import edited, search
from callsheet.providers.offline.ads.forms import FORMS
from callsheet.providers.offline.conversation import Answer, Conversation, Request, Turn
from callsheet.providers.offline.decline import declined
from callsheet.providers.offline.grammar import Match, match

__all__ = ["FORMS", "answer"]
_NOTES: Final = re.compile(r"\n\((?:Ad language|Spot) now: [^\n]*\)")
"""Lines that the server adds to a message."""
_SUGGESTION: Final = re.compile(r"Should I ([^?]+)\?$")
_ALONE: Final = frozenset({"variations", "undo", "show", "reply"})
"""Forms that are a message of their own."""


def answer(conversation: Conversation) -> Answer:
    """Return what the model says or calls next."""
    text = _NOTES.sub("", conversation.turn.text)
    requests = match(text, FORMS)
    if not requests and (brief := read(conversation)):
        return first_draft.answer(conversation, brief)
    if [one.form for one in requests] == ["reply"]:
        last = "".join(turn.reply for turn in conversation.turns[-2:-1])
        suggestion = _SUGGESTION.search(last) if "agreed" in requests[0].slots else None
        if not suggestion:
            return Answer("Then I change nothing.")
        requests = match(suggestion[1], FORMS)
    if not requests or (len(requests) > 1 and any(one.form in _ALONE for one in requests)):
        return Answer(declined(text))
    return _refined(conversation, requests)


def _refined(conversation: Conversation, requests: Sequence[Match]) -> Answer:
    """Return the next step of a request: a look at the ad, searches for voices, the drafts, or the report."""
    turn, name = conversation.turn, ad_id(conversation.system)
    looks = turn.answered(LOOK)
    if not looks:
        return _calls(conversation, [Request(LOOK, {"adId": name})])
    try:
        before = shown(looks[-1].result or {})
        if requests[0].form == "show":
            return Answer(described(before, {one: list(before.versions[one])[-1] for one in before.streams}))
        searches = turn.answered("search_voices")
        found = {frozenset(one.args.items()): (one.result or {}).get("voices", ()) for one in searches}
        wanted = [
            args for one in requests if (args := search(before, one)) and frozenset(args.items()) not in found
        ]
        if wanted:
            return _calls(conversation, [Request("search_voices", args) for args in wanted])
        drafts = edited(before, requests, conversation.turns[:-1], found)
    except Unable as reason:
        return Answer(f"{reason} I changed nothing.")
    if written(turn):
        return Answer(_report(turn, before, drafts))
    return _calls(conversation, [call for draft in drafts for call in writes(before, draft, name)])


def _calls(conversation: Conversation, calls: Sequence[Request]) -> Answer:
    barred = [call.name for call in calls if call.name not in conversation.tools]
    if barred or not calls:
        reason = f"I may not call {barred[0]} now" if barred else "The ad is like that already"
        return Answer(f"{reason}, so I changed nothing.")
    versions = [call for call in calls if call.name == "create_voice_draft"]
    plan = f"My plan: {len(versions)} versions of the script, each with other voices." if versions[1:] else ""
    return Answer(plan, tuple(calls))


def _report(turn: Turn, before: Ad, drafts: Sequence[Ad]) -> str:
    """Return what was made, by the receipts of this turn."""
    made = [(stream, call.version) for stream, call in written(turn) if call.version]
    said = [described(drafts[0], dict(made), before)] if made else []
    if len(drafts) > 1 and made:
        versions = ", ".join(str(version) for _, version in made)
        said = [f"{len(made)} variations are ready to review: voices {versions}."]
    return "\n".join([*said, *problems(turn)])
