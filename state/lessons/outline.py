"""A lesson as the planner's model reads it: a few lines with every message, long materials by reference."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from callsheet.state.lessons.selection import fact_offer
from callsheet.state.sentences import split_sentences
from callsheet.state.state_block import StateLine, fit
from callsheet.state.versions import Version, created_by_model

LONG_MESSAGE: Final = 4_000
"""Characters beyond which a message is stored as a material."""
STORED: Final = re.compile(
    r"\n\[(?:… \d+ characters in all\. )?The whole message is stored as (source-\d+): name it in source_ids, "
    r"and do not copy it\.(?: It ends with:)?\](?:\n|$)"
)
"""The note in a message that is stored; its group is the id."""
PASTED: Final = 300
"""Characters beyond which a pasted text is stored as a material."""
_HEADS: Final = re.compile(r"([^\n]{1,300}?)(?:\n\s*\n|:\s*\n|: (?=[^\n]{300}))")
"""A request before a pasted text: a paragraph or a line of its own, or words before a colon."""
_PLAIN_HEAD: Final = re.compile(
    r"(?:please |can you |could you )?(?:find|get|extract|pull out|list)(?: me)?(?: the| all)?(?: key| main)?"
    r" facts(?: (?:in|of|from|about)(?: this| the)?(?: text| material| article| page| lesson)?)?"
    r"(?:,? please)?[.:!?]?",
    re.IGNORECASE,
)
"""A request for facts and nothing else."""
_TO_SOMEONE: Final = re.compile(r"[?？؟]|\b(?:I|I'm|my|me|please|you|your)\b", re.IGNORECASE)
_REMARK: Final = re.compile(
    r"(?i:\A(?:she|he|hello|hi)\b|\b(?:students?|pupils?|mis?|minhas?|meus?|mon|ma|mes|mein\w{0,2}|mój|moja|moje|saya)\b)"
    r"|我|ผม|ฉัน"
)
"""A sentence before or after a material that is about a student or the person, in the product's languages."""
TEXT: Final = r"(?:text|lesson|material|article|passage|chapter|notes)"
"""Names of a material, as a regular expression."""
_ASIDE: Final = re.compile(
    r"(?:please |(?:can|could|would) you |i (?:want|need) |i['’]d like )?"
    r"(?:make|write|find|create|give|explain|teach|turn|summari[sz]e|tell|help|draw|add|show|translate|use)\b"
    r"[^.!?]{0,200}\b(?:lesson|text|narration|script|facts?|quiz|student|class|slides|summary|questions|worksheet|"
    r"pictures?|song|video|words|story|language)\b"
    r"|(?:my|our) (?:\w{1,20} ){0,2}(?:student|pupil|son|daughter|class|child|children|kid|group|niece)s?\b"
    r"|(?:she|he) (?:is (?:\w{1,12} and|\d)|likes|loves|hates|enjoys)\b|i (?:teach|have|am|need|want)\b"
    r"|(?:please )?(?:focus|concentrate|stick to|ignore|skip|omit|exclude|leave out)\b"
    rf"|(?:here|use|read|take|please|below|this is|i)\b[^.:!?\n]{{0,100}}\b{TEXT}\b[^.:!?\n]{{0,60}}:",
    re.IGNORECASE,
)
"""A sentence beside a material that is none of it: an order, or about the student or the teacher."""
_LEAST_SENTENCES: Final = 3
_MOST_TO_SOMEONE: Final = 1 / 3
"""Share of sentences in a material that may ask something or address somebody."""
_SHOWN_BEGINNING: Final = 1_200
_SHOWN_END: Final = 400


def material_id(version: str) -> str:
    """Return the id by which a model names the material of a version: v2 is source-2."""
    return f"source-{version.removeprefix('v')}"


def by_reference(message: AnyMessage, known: Mapping[str, str]) -> AnyMessage:
    """Return a message as a model is shown it: a stored one with its id, of a long one beginning and end."""
    if not isinstance(message, HumanMessage) or str(message.id) not in known:
        return message
    text, name = message.text, known[str(message.id)]
    if len(text) <= LONG_MESSAGE:
        note = f"[The whole message is stored as {name}: name it in source_ids, and do not copy it.]"
        return message.model_copy(update={"content": f"{text}\n{note}"})
    note = (
        f"[… {len(text)} characters in all. The whole message is stored as {name}: name it in source_ids, "
        "and do not copy it. It ends with:]"
    )
    shown = f"{text[:_SHOWN_BEGINNING]}\n{note}\n{text[-_SHOWN_END:]}"
    return message.model_copy(update={"content": shown})


def is_material(text: str, *, is_first: bool) -> bool:
    """Return True if a message holds a text to make a lesson of.

    `is_first` is true while no material is stored: later on, a text without a request before it may be a long
    request itself.
    """
    if len(text) > LONG_MESSAGE:
        return True
    head, body = _split_head(text)
    return len(body) > PASTED and bool(head or is_first) and _is_prose(body)


def asks_for_facts_alone(text: str) -> bool:
    """Return True for a material with nothing before it but a request for its facts, if that."""
    head, body = _split_head(text)
    if head and not _PLAIN_HEAD.fullmatch(head.strip()):
        return False
    ends = itemgetter(0, -1)(split_sentences(body) or [""])
    return _is_prose(body) and not any(
        _TO_SOMEONE.search(one) or _REMARK.search(one) or is_aside(one) for one in ends
    )


def is_aside(sentence: str) -> bool:
    """Return True for a sentence before or after a material that gives an order, or says for whom it is."""
    return bool(_ASIDE.match(sentence))


def _split_head(text: str) -> tuple[str, str]:
    """Return the request before a pasted text, empty for none, and the text."""
    match = _HEADS.match(text.strip())
    return (match[1], text.strip()[match.end() :]) if match else ("", text.strip())


def _is_prose(text: str) -> bool:
    """Return True for a text of several sentences, few of which ask something or address somebody."""
    sentences = split_sentences(text)
    addressed = sum(1 for one in sentences if _TO_SOMEONE.search(one))
    return len(sentences) >= _LEAST_SENTENCES and addressed <= _MOST_TO_SOMEONE * len(sentences)


_EXTRACT: Final = "extractFactsTool"
_SHOWN_ELSEWHERE: Final = frozenset({_EXTRACT, "generateNarrationTool"})


def without_repetition(message: AnyMessage) -> AnyMessage:
    """Return a message as a model is sent it.

    A narration is in the state block; the passages that prove facts are for people and for checks.
    """
    if not isinstance(message, ToolMessage) or message.name not in _SHOWN_ELSEWHERE:
        return message
    try:
        output = json.loads(message.text)
    except ValueError:
        # A client may have replaced it.
        return message
    if not isinstance(output, dict) or not output.keys() & {"narration", "facts"}:
        return message
    return message.model_copy(update={"content": json.dumps(_short(output), ensure_ascii=False)})


def _short(output: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in output.items() if name != "narration"}
    if facts := output.get("facts"):
        kept["facts"] = [{name: one.get(name) for name in ("id", "concept", "details")} for one in facts]
    kept.pop("earlierFacts", None)
    return kept


_BEGINNING: Final = 160
"""Characters of a text that are shown."""
UNREAD: Final = " is not read yet: say “find the facts in the file”."
"""End of the sentence about a file whose facts were not asked for."""
CHOICE_PENDING: Final = "Open question: the person is asked which facts the lesson tells."
MAX_MATERIALS: Final = 20
"""Earlier materials that are shown."""
_MORE: Final = "facts"


def outline(newest: Mapping[str, Version], *, choosing: bool, reviewing: bool) -> str:
    """Return student, material, facts and narration.

    A person is asked for a choice of facts while `choosing`, and for an approval while `reviewing`.
    """
    lines = [
        StateLine(_student(newest.get("student"))),
        *_material(newest.get("source"), newest.get("facts")),
        *_facts(newest.get("facts"), newest.get("confirmed"), details=choosing),
        *_narration(newest.get("narration")),
    ]
    if choosing:
        lines.append(StateLine(CHOICE_PENDING))
    if reviewing:
        lines.append(StateLine("Open question: the person is asked whether the narration is right."))
    return fit(lines)


def earlier_materials(versions: Iterable[Version]) -> Iterator[str]:
    """Yield a line for each material before the newest one."""
    for version in versions:
        yield f"Earlier material {material_id(version.id)}: {''.join(_title(version.data))}"


def _student(version: Version | None) -> str:
    data = version.data if version else {}
    parts = (("age", "child_age"), ("likes", "child_interest"), ("learns best", "learning_style"))
    listed = [f"{name} {_begin(str(data[key]))}" for name, key in parts if data.get(key)]
    return f"Student: {', '.join(listed) or 'nothing known yet'}"


def _material(version: Version | None, facts: Version | None) -> Iterator[StateLine]:
    if version:
        head, text = _title(version.data)
        yield StateLine(f"Material {material_id(version.id)}: {head}", text)
        is_file = version.data.get("url") and version.data["kind"] != "page"
        if is_file and (facts is None or facts.created_ms < version.created_ms):
            yield StateLine(f"{_begin(version.data['name'])}{UNREAD}")


def _facts(proposed: Version | None, confirmed: Version | None, *, details: bool) -> Iterator[StateLine]:
    if proposed is None:
        return
    chosen = {fact["id"] for fact in confirmed.data["facts"]} if confirmed else set()
    facts: Sequence[Mapping[str, Any]] = proposed.data["facts"]
    yield StateLine(f"Facts {proposed.id} about {_begin(proposed.data['topic'])}:")
    for number, fact in enumerate(facts, 1):
        about = f": {fact['details']}" if details else ""
        note = " (chosen)" if fact["id"] in chosen else ""
        yield StateLine(f"{number}. {fact['id']} {_begin(fact['concept'])}{note}", about, more=_MORE)
    for fact in fact_offer(proposed.data, confirmed.data if confirmed else {}).earlier:
        is_chosen = fact["id"] in chosen
        if is_chosen or details:
            note = f"{'chosen, ' * is_chosen}from the person or an earlier proposal"
            yield StateLine(f"{fact['number']}. {fact['id']} {_begin(fact['concept'])} ({note})", more=_MORE)


def _narration(version: Version | None) -> Iterator[StateLine]:
    if version is None:
        return
    data = version.data
    by = "" if created_by_model(version) else ", changed by the person"
    yield StateLine(
        f"Narration {version.id}{by}: {data['total_duration']} s, {data['language'] or 'language unknown'}, "
        f"reading level {data['reading_level']}"
    )
    for one in data["segments"]:
        yield StateLine(f"- {one['id']}, {one['duration']:g} s: ", _begin(one["narration"]), need=1)
    for warning in data.get("warnings", ()):
        yield StateLine("Warning: ", _begin(warning))


def _title(material: Mapping[str, Any]) -> tuple[str, str]:
    """Return name and length of a material, and its beginning."""
    text = material["text"]
    return f"{_begin(material['name'])}, {len(text)} characters, begins: ", _begin(text)


def _begin(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _BEGINNING else f"{flat[:_BEGINNING]}…"
