"""What a person wants different about a narration that is there: which part, how, for whom."""

import re
from dataclasses import dataclass

from providers.offline.fact_narration.wishes import Message, first_of, segments
from state.narration import Kind

_SHORTER = re.compile(
    r"\b(?:short\w*|brief\w*|fewer words|too long|less text|trim\w*|tight\w*|más (?:cort[oa]|breve)|kürzer\w*"
    r"|plus (?:courte?|bref|brève))\b|短一?点|更短|太长|สั้นลง|สั้นกว่า",
    re.IGNORECASE,
)
_LONGER = re.compile(
    r"\b(?:longer|lengthen\w*|too short|more detail\w*|más larg[oa]|länger\w*|plus longue?)\b"
    r"|长一?点|更长|太短|ยาวขึ้น|ยาวกว่า",
    re.IGNORECASE,
)
_EASIER = re.compile(
    r"\b(?:easier|simpl\w+|too (?:hard|difficult|complicated)|plainer|más (?:fácil|sencill[oa])|einfacher\w*"
    r"|leichter\w*|plus facile)\b|简单一?点|更简单|太难|ง่ายขึ้น|ง่ายกว่า",
    re.IGNORECASE,
)
_LIVELIER = re.compile(
    r"\b(?:funnier|livelier|clearer|harder|más (?:divertid[oa]|clar[oa])|lustiger|klarer"
    r"|plus (?:drôle|claire?))\b",
    re.IGNORECASE,
)
_MOST_BARE = 5
"""Words of a wish that says no more than how it shall be: "shorter, please"."""
_OTHERWISE = re.compile(
    r"\b(?:different\w*|more \w+|less \w+|funnier|livelier|clearer|better|harder|boring|another|again|new)\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:make|do|write|rewrite|redo|change|adapt|use|start|begin|end|should|shorten|simplify|too)\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"\b(?:it|this|that|everything|(?:the )?(?:whole|narration|script|text|lesson|thing))\b", re.IGNORECASE
)
_ANEW = re.compile(r"\b(?:make|write|rewrite|redo|change|adapt|do) (?:it|this|that|the \w+)\b", re.IGNORECASE)
_FOR_AGE = re.compile(
    r"\bfor\b.*?(\w+)[\s-]*(?:years?[\s-]olds?|yrs?\b)|\bfor\b.*?\b(\w+ grade)rs?\b", re.IGNORECASE
)
_INSTEAD = re.compile(r"\b(?:use|with|about|take) (.{2,60}?) (?:instead of|rather than)\b", re.IGNORECASE)
_FIRST_PART = re.compile(r"\b(?:start|begin)\b", re.IGNORECASE)
_LAST_PART = re.compile(r"\bend it\b", re.IGNORECASE)
_SHORTENED, _LENGTHENED = 0.75, 1.5


@dataclass(frozen=True)
class Rewrite:
    """One wish about a narration."""

    parts: tuple[Kind, ...] = ()
    """Segments to write again; empty for all."""
    guidance: str = ""
    """How, in the person's words."""
    factor: float = 1.0
    """How many times as long the whole shall be."""
    age: str = ""
    interest: str = ""


def rewrite(text: str, message: Message) -> Rewrite | None:
    """Return what a text wants different about a narration, or None where it wants nothing of the kind."""
    age, instead = first_of(_FOR_AGE.search(text)), _INSTEAD.search(text)
    if (age or instead or message.age or message.interest) and (_ANEW.search(text) or instead):
        return Rewrite(age=message.age or age, interest=message.interest or (instead[1] if instead else ""))
    how = _SHORTER.search(text) or _LONGER.search(text) or _EASIER.search(text) or _LIVELIER.search(text)
    bare = bool(how) and len(text.split()) <= _MOST_BARE and not text.rstrip().endswith(("?", "？"))
    if not bare and not ((how or _OTHERWISE.search(text)) and _VERB.search(text)):
        return None
    parts = message.parts or segments(text) or _named(text)
    if not parts and not bare and not _WHOLE.search(text):
        return None
    if not parts and _SHORTER.search(text):
        return Rewrite(factor=_SHORTENED)
    if not parts and _LONGER.search(text):
        return Rewrite(factor=_LENGTHENED)
    return Rewrite(parts=parts, guidance=" ".join(text.split())[:1000])


def shorter(guidance: str) -> bool:
    """Return whether fewer words are wanted."""
    return _SHORTER.search(guidance) is not None


def easier(guidance: str) -> bool:
    """Return whether easier words are wanted."""
    return _EASIER.search(guidance) is not None


def _named(text: str) -> tuple[Kind, ...]:
    if _FIRST_PART.search(text):
        return ("hook",)
    return ("conclusion",) if _LAST_PART.search(text) else ()
