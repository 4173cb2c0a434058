"""One answer to a teacher: calls for what is wholly understood, then what their receipts say."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from callsheet.providers.offline.conversation import Answer, Call, Conversation, Request
from callsheet.providers.offline.decline import declined
from callsheet.providers.offline.grammar import MAX_CHARS, Match, match, number
from callsheet.providers.offline.lessons.facts import sheet
from callsheet.providers.offline.lessons.forms import FORMS
from callsheet.providers.offline.lessons.labels import content
from callsheet.providers.offline.lessons.script import script
from callsheet.providers.offline.lessons.sentences import spans
from callsheet.state.lessons.narration import DEFAULT_S, KINDS, clamped

_START: Final = (
    "Paste lesson material of a few sentences, or upload a file and say “find the facts”. I find its facts,"
    " you choose which to tell, and I write a narration. It helps to know: “My student is 9 and loves chess”."
)
_GO_ON: Final = (
    "I can answer what the facts say (“What is …?”), find other facts (“more about the leaves”), and change"
    " the narration (“make it 90 seconds”, “make the hook shorter”, “rewrite the conclusion”)."
)
_BESIDE: Final = [one for one in FORMS if one.name.startswith(("student.", "source.", "narration.length"))]
"""Requests that may stand in front of material or after it, in sentences of their own."""
_READING: Final = {*(one.name for one in _BESIDE), "help", "narration.write"}
"""Requests that reading a material covers: a person chooses its facts, and then the narration is written."""
_TALK: Final = re.compile(
    r"\b(?:please|(?:can|could) you|my (?:student|class)|narration|thanks)\b", re.IGNORECASE
)
_LENGTH: Final = re.compile(r"\| narration \| v\d+ \|[^|\n]*\| (\d+) s about")
"""Length of the newest narration in the summary of earlier turns."""
_LEAST_CHARS, _LEAST_SENTENCES, _LEAST_LETTERS = 120, 3, 60
_FACTOR: Final = {"longer": 1.5, "shorter": 0.75}


def answer(conversation: Conversation) -> Answer:
    """Return the form to fill in, the calls a message asks for, or what to say."""
    turn = conversation.turn
    if "FactSheet" in conversation.tools:
        return _calls("FactSheet", sheet(json.loads(turn.text)))
    if "NarrationScript" in conversation.tools:
        return _calls("NarrationScript", script(json.loads(turn.text)))
    if receipts := [_receipt(call) for call in turn.calls if call.result is not None]:
        return Answer("\n\n".join(receipts))
    matches, material = _read(turn.text)
    if not matches and not material:
        return Answer(declined(turn.text))
    forms = {one.form for one in matches}
    reads = material or ("source.facts" in forms and forms <= _READING)
    steps = _reading(matches, material) if reads else [_step(one, conversation) for one in matches]
    calls = tuple(call for step in steps for call in step.calls)
    texts = dict.fromkeys(
        one.text for one in steps if one.text and not (calls and one.text in {_START, _GO_ON})
    )
    if forbidden := sorted({call.name for call in calls} - conversation.tools):
        return Answer(
            f"I may not call {' or '.join(forbidden)} in this turn, so I changed nothing; ask again."
        )
    return Answer("\n\n".join(texts), calls)


def _read(text: str) -> tuple[list[Match], str]:
    """Return the requests of a message and its material; neither where any of it is not understood."""
    if "\n" not in text.strip() and (whole := match(text, FORMS)):
        return [*whole], ""
    pieces = spans(text)
    understood = [match(text[start:end], FORMS) for start, end in pieces]
    if all(understood):
        return [one for each in understood for one in each], ""
    found: list[Match] = []
    for at in (0, -1):
        while beside := match(text[slice(*pieces[at])], _BESIDE):
            found += beside
            del pieces[at]
    material = text[pieces[0][0] : pieces[-1][1]]
    announced = any(one.form == "source.text" for one in found)
    return (found, material) if announced or _is_material(material) else ([], "")


def _is_material(text: str) -> bool:
    foreign = sum(char >= "\u0e00" for char in text) >= _LEAST_LETTERS
    enough = len(spans(text)) >= _LEAST_SENTENCES and len(text) >= _LEAST_CHARS
    return (enough or foreign) and (len(text) > MAX_CHARS or not _TALK.search(text))


def _reading(matches: Sequence[Match], material: str) -> list[Answer]:
    """Return the calls that read a material, or the uploaded one, beside what is said of the student."""
    lasts = [{"target_duration": _seconds(one)} for one in matches if one.form == "narration.length"]
    students = [_student(one) for one in matches if one.form.startswith("student.")]
    return [*students, _calls("extractFactsTool", {"content": material, **(lasts[0] if lasts else {})})]


def _step(one: Match, conversation: Conversation) -> Answer:
    """Return what a request leads to: calls or a text."""
    kind, _, name = one.form.partition(".")
    if kind == "student":
        return _student(one)
    if kind == "narration":
        return _narration(one, conversation)
    if kind == "facts":
        return _calls("extractFactsTool", {"content": "", "guidance": one.slots.get("names", "other facts")})
    if "address" in one.slots or name == "facts":
        return _calls("extractFactsTool", {"content": one.slots.get("address", "")})
    facts = _facts(conversation)
    helps = _GO_ON if facts else _START
    return Answer(_explained(one.slots["question"], facts) if kind == "question" and facts else helps)


def _student(one: Match) -> Answer:
    likes = f"learns best {one.slots['words']}" if "words" in one.slots else one.slots.get("names")
    news = {"child_age": one.slots.get("age"), "child_interest": likes}
    return _calls("saveStudentInfoTool", {name: value for name, value in news.items() if value})


def _narration(one: Match, conversation: Conversation) -> Answer:
    """Return the calls that write the narration, or a part of it, as a request wants it."""
    wish: dict[str, Any] = {"facts": []}
    change = one.slots.get("change", "").casefold()
    if part := one.slots.get("part", "").casefold():
        about = f'about "{one.slots["quote"]}"' if "quote" in one.slots else "in other words"
        wish |= {"segments": [kind for kind in KINDS if part in kind], "guidance": change or about}
    elif change in _FACTOR:
        wish["target_duration"] = clamped(_length(conversation) * _FACTOR[change])
    elif change:
        wish["guidance"] = change
    elif "number" in one.slots:
        wish["target_duration"] = _seconds(one)
    told = _calls("generateNarrationTool", wish).calls
    return Answer("", (*_student(one).calls, *told) if "age" in one.slots else told)


def _calls(name: str, args: dict[str, Any]) -> Answer:
    return Answer("", (Request(name, args),))


def _seconds(one: Match) -> float:
    return number(one.slots["number"]) * (60 if one.slots["unit"].casefold().startswith("minute") else 1)


def _length(conversation: Conversation) -> int:
    """Return the seconds of the newest narration, from its receipt or the summary of earlier turns."""
    made = [(call.result or {}).get("narration") for turn in conversation.turns for call in turn.calls]
    known = [*_LENGTH.findall(conversation.system), *(one["total_duration"] for one in made if one)]
    return int(known[-1]) if known else DEFAULT_S


def _facts(conversation: Conversation) -> Sequence[Mapping[str, Any]]:
    """Return the facts that were proposed last, those a person added among them."""
    calls = [call for turn in conversation.turns for call in turn.calls if not call.failed]
    found = [one for call in calls if (one := (call.result or {}).get("facts"))]
    return found[-1] if found else ()


def _explained(question: str, facts: Sequence[Mapping[str, Any]]) -> str:
    """Return the fact whose name the question has, or that has all words of the question."""
    asked = set(content(question))
    named = [one for one in facts if (name := set(content(one["concept"]))) and name <= asked]
    holding = [one for one in facts if asked and asked <= set(content(f"{one['concept']} {one['details']}"))]
    found = [f"{one['concept']}: {one['details']}" for one in (*named, *holding)]
    return found[0] if found else "The facts say nothing about that, and I know no more than they do."


def _receipt(call: Call) -> str:
    result = call.result or {}
    if call.failed:
        remedy = str(result.get("suggestion") or "")
        return f"That did not work: {result['error']}. {remedy[:1].upper()}{remedy[1:]}".strip()
    return " ".join(
        [str(result.get("message", "")), *(f"Note: {one}." for one in result.get("warnings", ()))]
    )
