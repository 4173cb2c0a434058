"""The workflow `fact_narration`: a lesson's forms filled in, and one answer to a teacher's conversation."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from providers.offline.answer import Answer, Calls, Request, Say
from providers.offline.exchange import Exchange, results, step
from providers.offline.fact_narration.cues import cues
from providers.offline.fact_narration.ranking import content_words
from providers.offline.fact_narration.rewrites import Rewrite, rewrite
from providers.offline.fact_narration.script import script
from providers.offline.fact_narration.sheet import sheet
from providers.offline.fact_narration.wishes import Message, taken_apart
from state.errors import Invalid
from state.narration import DEFAULT_S, clamped

_FORMS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "FactSheet": sheet,
    "NarrationScript": script,
}
_STUDENT: Final = "saveStudentInfoTool"
_EXTRACT: Final = "extractFactsTool"
_NARRATE: Final = "generateNarrationTool"
_START: Final = (
    "Give me lesson material: paste a text, upload a PDF, or send a web page's address. I find its facts, "
    "you choose which to tell, and I write a narration for your student. It helps to know their age and what "
    "they like."
)
_GO_ON: Final = (
    "I can find other facts (“more about the leaves”), write the narration, make it longer or shorter (“90 "
    "seconds”), or write a part of it again (“rewrite the conclusion”). New material is welcome at any time."
)
_ASKS: Final = re.compile(r"[?？]\s*$|^\s*(?:what|why|how|where|when|who|explain|tell me)\b", re.IGNORECASE)


def answer(messages: Sequence[BaseMessage], allowed: frozenset[str]) -> Answer | None:
    """Return the filled-in form that is asked for, or what to say or call next; None before anybody spoke.

    A form is asked for with JSON in the last message of the user, which is read as data whatever it says.
    """
    places = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
    if not places:
        return None
    said = str(messages[places[-1]].text)
    form = next((name for name in _FORMS if name in allowed), None)
    if form is not None:
        return Calls((Request(form, _FORMS[form](_request(said))),))
    done = _exchanges(messages[places[-1] :])
    if done:
        return Say("\n\n".join(_told(one) for one in done))
    return _first(taken_apart(said), said, _exchanges(messages), allowed)


def _first(message: Message, said: str, before: Sequence[Exchange], allowed: frozenset[str]) -> Answer:
    """Return the calls a message asks for, or what to say to it."""
    facts, narrated = _last(before, _EXTRACT), _last(before, _NARRATE)
    wish = rewrite(said, message) if narrated and not message.content and not message.facts else None
    calls = [*_student(message, wish), *_lesson(message, facts, narrated, wish)]
    possible = tuple(call for call in calls if call.name in allowed)
    if possible:
        return Calls(possible)
    if calls:
        return Say("I may not call that tool any more in this turn. Say “go on”, and I will.")
    if facts and "fact" in said.casefold():
        found = [str(fact["concept"]) for fact in (facts.result or {}).get("facts", ())]
        return Say(f"These are the facts so far: {', '.join(found)}. {_GO_ON}")
    explained = _explained(said, facts.result or {}) if facts else ""
    return Say(explained or (_GO_ON if facts else _START))


def _explained(said: str, found: Mapping[str, Any]) -> str:
    """Return what the facts say to a question; empty where they say nothing, or nothing is asked."""
    if not _ASKS.search(said):
        return ""
    table = cues("english")
    wanted = set(content_words(said, table))
    about = [one for one in found.get("facts", ()) if wanted & set(content_words(str(one["concept"]), table))]
    told = [f"{one['concept']}: {one['details']}" for one in about[:2] if "details" in one]
    return "\n\n".join(told)


def _student(message: Message, wish: Rewrite | None) -> list[Request]:
    likes = message.interest or (wish.interest if wish else "")
    news = {
        "child_age": message.age or (wish.age if wish else ""),
        "child_interest": ", ".join(one for one in (likes, message.style) if one),
    }
    known = {name: value for name, value in news.items() if value}
    return [Request(_STUDENT, known)] if known else []


def _lesson(
    message: Message, facts: Exchange | None, narrated: Exchange | None, wish: Rewrite | None
) -> list[Request]:
    if message.content:
        lasts = {"target_duration": message.seconds} if message.seconds else {}
        return [Request(_EXTRACT, {"content": message.content, **lasts})]
    if facts and message.facts and not message.parts:
        return [Request(_EXTRACT, {"content": "", "guidance": message.guidance or "other facts"})]
    if facts and (message.script or wish):
        return [Request(_NARRATE, _narration(message, narrated, wish or Rewrite()))]
    return [Request(_EXTRACT, {"content": ""})] if message.uploaded else []


def _narration(message: Message, narrated: Exchange | None, wish: Rewrite) -> dict[str, Any]:
    wanted: dict[str, Any] = {"facts": []}
    if narrated and (wish.parts or message.parts):
        wanted["segments"] = list(wish.parts or message.parts)
    if wish.guidance:
        wanted["guidance"] = wish.guidance
    if message.seconds:
        wanted["target_duration"] = message.seconds
    elif narrated and wish.factor != 1:
        whole = (narrated.result or {}).get("narration", {}).get("total_duration", DEFAULT_S)
        wanted["target_duration"] = clamped(whole * wish.factor)
    return wanted


def _exchanges(messages: Sequence[BaseMessage]) -> list[Exchange]:
    answers = results(messages)
    steps = [step(message, answers) for message in messages if isinstance(message, AIMessage)]
    return [one for each in steps for one in each.exchanges if one.result is not None]


def _last(exchanges: Sequence[Exchange], name: str) -> Exchange | None:
    return next((one for one in reversed(exchanges) if one.name == name and not one.failed), None)


def _told(one: Exchange) -> str:
    result = one.result or {}
    if one.failed:
        return f"{result['error']}. {str(result.get('suggestion') or '').capitalize()}".strip()
    warnings = [f"Note: {warning}." for warning in result.get("warnings", ())]
    return " ".join([str(result.get("message", "Done.")), *warnings])


def _request(text: str) -> Mapping[str, Any]:
    try:
        request = json.loads(text)
    except ValueError as broken:
        raise Invalid("the request for a lesson is not JSON", remedy="ask with a JSON object") from broken
    if not isinstance(request, dict):
        raise Invalid("the request for a lesson is not a JSON object", remedy="ask with a JSON object")
    return request
