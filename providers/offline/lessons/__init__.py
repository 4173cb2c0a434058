"""The offline model on lessons: tool calls for a message that it understands, then their results."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from callsheet.providers.offline.conversation import OfflineConversation, OfflineReply, PastCall, PlannedCall
from callsheet.providers.offline.grammar import MAX_CHARS, SLOTS, Form, FormMatch, decline, match, number
from callsheet.providers.offline.lessons.facts import ENGLISH, sheet, spans, stems
from callsheet.providers.offline.lessons.script import script
from callsheet.state.figures import TEENS, TO_TWELVE
from callsheet.state.lessons.narration import DEFAULT_S, KINDS, clamp_length
from callsheet.state.lessons.outline import CHOICE_PENDING, STORED, TEXT, UNREAD, is_aside

_WORD: Final = (
    rf"(?!(?:{'|'.join(ENGLISH['stop_words'].split())}|{ENGLISH['dislikes']})\b)[a-zà-ÿ][\w'’-]{{1,30}}"
)
_NAME: Final = rf"(?:the )?{_WORD}(?: {_WORD})?"
_SLOTS: Final = {
    "who": "my students?|my pupils?|my son|my daughter|our class|she|he|they",
    "age": rf"\d{{1,2}}|{'|'.join((*TEENS, *TO_TWELVE))}",
    "names": rf"{_NAME}(?:(?:, and |, | and ){_NAME}){{0,3}}",
    "address": r"https?://\S{1,2000}",
    "part": "hook|introduction|explanation|conclusion",
    "length": rf"(?:{SLOTS['number']}) (?:seconds?|minutes?)",
    "change": "longer|shorter|easier|harder",
    "ease": "shorter|longer|easier",
    "question": r"[^?\n]{3,200}",
}
_TABLE: Final = (
    ("student.age", "{who} (is|are) {age}[ years old][ and (loves|likes|enjoys) {names}]",
     "My student is 9 and loves football"),
    ("student.interest", "{who} (loves|likes|enjoys) {names}", "She loves chess and horses"),
    ("source.text", "(here is |use |)(the|my|another|this) (text|lesson|material)[:]", "Here is the text:"),
    ("source.file", "find the facts[ in (the|my) (file|pdf|text)[ I uploaded]]",
     "Find the facts in the file"),
    ("source.page", "(here is the lesson: |use this page: |){address}", "https://example.org/rivers"),
    ("facts.more",
     "((tell me |)more about {names}|(find |give me |)(other|more) facts[ about {topic:names}])",
     "More about the roots"),
    ("narration.write", "write the (narration|script)", "Write the narration"),
    ("narration.length", "[make it ]{length}[ long]", "Make it 30 seconds"),
    ("narration.change", "make it {change}", "Make it shorter"),
    ("narration.student", "make it for a {age}(-| )year(-| )old", "Make it for a 6-year-old"),
    ("narration.part", "(make the {part} {change:ease}|rewrite the {again:part})", "Make the hook shorter"),
    ("help", "(hello|hi|help|thanks|thank you|what can you do)", "What can you do?"),
    ("question", "(what|why|how) (is|are|was|does|do|did) {question}", "What does chlorophyll do?"),
)  # fmt: skip
FORMS: Final = tuple(Form(name, pattern, example, _SLOTS) for name, pattern, example in _TABLE)
"""A message can also hold material: three sentences, or any text after `source.text`."""
_HELP: Final = (
    "Paste lesson material of a few sentences, or upload a file and say “find the facts”. I find its facts,"
    " you choose which to tell, and I write a narration. It helps to know: “My student is 9 and loves chess”."
    " Then I can find other facts (“more about the leaves”) and change the narration (“make it 30 seconds”)."
)
_HOW_TO_CHOOSE: Final = "choose by number, such as “1 and 3”, or say “all”; "
_KEPT: Final = "your text is kept, so you can say “find the facts in the text”; "
_AROUND_MATERIAL: Final = [
    form for form in FORMS if form.name.startswith(("student.", "source.", "narration.length"))
]
"""Requests that may stand before or after material, in sentences of their own."""
_WITH_FILE: Final = {*(form.name for form in _AROUND_MATERIAL), "help", "narration.write"}
"""Requests beside "find the facts": a person chooses facts next, and then the narration is written."""
_CHAT: Final = re.compile(
    r"\b(?:please|(?:can|could) you|my (?:student|class)|narration|thanks)\b", re.IGNORECASE
)
_ANNOUNCED: Final = re.compile(
    r"(?:please )?(?:(?:here(?: is|['’]s)|use|take|read|below is) )?(?:the|my|our|another|this|an?) "
    rf"(?:following )?{TEXT}(?: for (?:the|my|our|this|today['’]s|tomorrow['’]s) (?:lesson|class))?"
    r"(?: below)?:\s+(?=\S)",
    re.IGNORECASE,
)
"""Words before material, in its first line."""
_LENGTH: Final = re.compile(r"^Narration v\d++[^:\n]*+: (\d+) s,", re.MULTILINE)
"""Length of the newest narration in the state block."""
_MIN_CHARS, _MIN_SENTENCES, _MIN_LETTERS = 120, 3, 60
_SHIFTS, _FACTORS = {"easier": -2, "harder": 2}, {"longer": 1.5, "shorter": 0.75}


def answer(conversation: OfflineConversation) -> OfflineReply:
    """Return the filled-in form, the tool calls of a message, or a text."""
    turn = conversation.turn
    if "FactSheet" in conversation.tools:
        # A sheet that is sent back is as good as these rules can make it.
        corrected = len(conversation.turns) > 1
        empty = {"topic": "", "learningObjective": "", "facts": []}
        return _call("FactSheet", empty if corrected else _sheet(json.loads(turn.text)))
    if "NarrationScript" in conversation.tools:
        return _call("NarrationScript", script(json.loads(turn.text)))
    results = [_report(call) for call in turn.calls if call.result is not None]
    reply = OfflineReply("\n\n".join(results)) if results else _start(conversation)
    if reply.calls or turn.calls_to("extractFactsTool"):
        return reply
    unread = [line for line in conversation.state.splitlines() if line.endswith(UNREAD)]
    return replace(reply, text="\n\n".join([reply.text, *unread]))


def _start(conversation: OfflineConversation) -> OfflineReply:
    """Return the calls or the text for a message without results yet."""
    turn = conversation.turn
    requests, material = _read(turn.text)
    if not requests and not material:
        advice = _HOW_TO_CHOOSE * (CHOICE_PENDING in conversation.state)
        advice += _KEPT * bool(STORED.search(turn.text))
        return OfflineReply(decline(" ".join(_orders(turn.text)) or turn.text, advice, FORMS), refused=True)
    people = {request.slots.get("who", "").casefold() for request in requests}
    if {"she", "he"} <= people or sum("age" in request.slots for request in requests) > 1:
        return OfflineReply("I know one student in a conversation, so I changed nothing.", refused=True)
    forms = {request.form for request in requests}
    if material or ("source.file" in forms and forms <= _WITH_FILE):
        steps = _read_material(requests, material)
    else:
        steps = [_step(request, conversation) for request in requests]
    calls = tuple(call for step in steps for call in step.calls)
    if forbidden := sorted({call.name for call in calls} - conversation.tools):
        return OfflineReply(f"I may not call {' or '.join(forbidden)} now, so I changed nothing; ask again.")
    return OfflineReply("" if calls else "\n\n".join(dict.fromkeys(step.text for step in steps)), calls)


def _sheet(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a material; one that is a stored message may have requests around it."""
    _, material = _read_around(str(request["material"]))
    return sheet({**request, "material": material or request["material"]})


def _read(text: str) -> tuple[list[FormMatch], str]:
    """Return the requests of a message and its material; neither if a part is not understood."""
    note = STORED.search(text)
    text = STORED.sub("\n", text).strip()
    if "\n" not in text and (requests := match(text, FORMS)):
        return [*requests], ""
    pieces = spans(text)
    by_sentence = [match(text[start:end], FORMS) for start, end in pieces]
    if all(by_sentence):
        return [request for each in by_sentence for request in each], ""
    around, material = _read_around(text)
    announced = any(request.form == "source.text" for request in around)
    is_material = (announced or _is_material(material)) and not _orders(text)
    return (around, material + (note[0] if note else "")) if is_material else ([], "")


def _orders(text: str) -> list[str]:
    """Return the requests and remarks before and after the material of a message that no form has."""
    _, material = _read_around(STORED.sub("\n", text))
    parts = [material[slice(*piece)] for piece in spans(material)]
    ends = dict.fromkeys(parts[:2] + parts[-2:]) if len(parts) > 1 else ()
    return [one for one in ends if is_aside(one)]


def _read_around(text: str) -> tuple[list[FormMatch], str]:
    """Return the requests before and after the material of a message, and the material."""
    pieces = spans(text)
    around: list[FormMatch] = []
    for at in (0, -1):
        while pieces and (requests := match(text[slice(*pieces[at])], _AROUND_MATERIAL)):
            around += requests
            del pieces[at]
    if pieces and (announced := _ANNOUNCED.match(text, *pieces[0])):
        around.append(FormMatch("source.text", {}))
        pieces[0] = (announced.end(), pieces[0][1])
    return around, text[pieces[0][0] : pieces[-1][1]] if pieces else ""


def _is_material(text: str) -> bool:
    asian = sum(char >= "\u0e00" for char in text) >= _MIN_LETTERS
    enough = len(spans(text)) >= _MIN_SENTENCES and len(text) >= _MIN_CHARS
    return (enough or asian) and (len(text) > MAX_CHARS or not _CHAT.search(text))


def _read_material(requests: Sequence[FormMatch], material: str) -> list[OfflineReply]:
    """Return the calls that read pasted material, or "" for the uploaded one, and note the student.

    A long message is stored, and shown with the id of its material.
    """
    lengths = [{"target_duration": _seconds(one)} for each in requests if (one := each.slots.get("length"))]
    students = [_student(each) for each in requests if each.form.startswith("student.")]
    stored = STORED.search(material)
    args: dict[str, Any] = {"source_ids": [stored[1]]} if stored else {"content": material}
    return [*students, _call("extractFactsTool", args | (lengths[0] if lengths else {}))]


def _step(request: FormMatch, conversation: OfflineConversation) -> OfflineReply:
    """Return the calls of a request, or its answer."""
    kind, slots = request.form.partition(".")[0], request.slots
    if kind == "student":
        return _student(request)
    if kind == "narration":
        return _narration(request, conversation)
    if kind == "facts":
        guidance = slots.get("names") or slots.get("topic") or "other facts"
        return _call("extractFactsTool", {"content": "", "guidance": guidance})
    if request.form in {"source.file", "source.page"}:
        return _call("extractFactsTool", {"content": slots.get("address", "")})
    results = [call.result or {} for turn in conversation.turns for call in turn.calls if not call.failed]
    # The facts that were proposed last, with those that a person added, or that were chosen.
    seen = (result.get("facts") or result.get("confirmedFacts") for result in reversed(results))
    facts = next(filter(None, seen), ())
    return OfflineReply(_explain(slots["question"], facts) if kind == "question" and facts else _HELP)


def _student(request: FormMatch) -> OfflineReply:
    student = {"child_age": request.slots.get("age"), "child_interest": request.slots.get("names")}
    return _call("saveStudentInfoTool", {name: value for name, value in student.items() if value})


def _narration(request: FormMatch, conversation: OfflineConversation) -> OfflineReply:
    """Return the calls that write the narration, or one part of it."""
    args: dict[str, Any] = {"facts": []}
    slots, change = request.slots, request.slots.get("change", "").casefold()
    if part := (slots.get("part") or slots.get("again", "")).casefold():
        guidance = change or "in other words"
        args |= {"segments": [kind for kind in KINDS if part in kind], "guidance": guidance}
    elif change in _FACTORS:
        seconds = int([DEFAULT_S, *_LENGTH.findall(conversation.state)][-1])
        length = clamp_length(seconds * _FACTORS[change])
        args |= {"target_duration": length, "guidance": change}
    elif change:
        args["level_shift"] = _SHIFTS[change]
    elif "length" in slots:
        args["target_duration"] = _seconds(slots["length"])
    student = _student(request).calls if "age" in slots else ()
    return OfflineReply("", (*student, PlannedCall("generateNarrationTool", args)))


def _call(name: str, args: dict[str, Any]) -> OfflineReply:
    return OfflineReply("", (PlannedCall(name, args),))


def _seconds(length: str) -> float:
    return number(length.split(maxsplit=1)[0]) * (60 if "minute" in length.casefold() else 1)


def _explain(question: str, facts: Sequence[Mapping[str, Any]]) -> str:
    """Return the first fact whose name has only words of the question."""
    words = set(stems(question))
    for fact in facts:
        if (name := set(stems(fact["concept"]))) and name <= words:
            return f"I only quote the facts. {fact['concept']}: {fact['details']}"
    return "I quote a fact by its name, and none that I see has its name in that question."


def _report(call: PastCall) -> str:
    result = call.result or {}
    if call.failed:
        remedy = str(result.get("suggestion") or "")
        return f"That did not work: {result['error']}. {remedy[:1].upper()}{remedy[1:]}".strip()
    notes = (f"Note: {warning}." for warning in result.get("warnings", ()))
    return " ".join([str(result.get("message", "")), *notes])
