"""What a brief wishes of voices, music and effects."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from providers.offline.ad_creation.wording import Lexicon, data, folded, found, has, mention, mentions

_COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4}
_SINGLE = re.compile(
    r"\b(?:voice|narrator|announcer|głos|lektor|lektorka|voz|locutora?|hlas|voce|man|woman|female|male|stimme|sprecher|sprecherin|frauenstimme|männerstimme|mann|frau|voix|narrateur|narratrice|comédien|comédienne|homme|femme)\b|suara|giọng|เสียง|女声|男声"
)
"""A wish in the singular: one voice is meant, not one of two."""
_NAMED_CHARS, _MOST = 3, 3
_SHORT_WORDS = 5
_EFFECT = re.compile(
    r"(?:sound effects?|sfx|effects?|sounds?)\s*(?:of|:|like|such as|with|including)\s*"
    r"(?P<after>[^.;\n]{3,80})"
    r"|(?:with|add|use|hear)\s(?:an?|the|some)?\s?(?P<before>[^.,;\n]{3,40}?)"
    r"\s(?:sound effects?|sounds?|sfx)\b"
)
_TALKERS = re.compile(
    r"\b(?:two|2|dwie|dwaj|dos|duas|dva|două|dua|hai|zwei|deux)\s"
    r"(?:people|friends|speakers|persons|colleagues|neighbou?rs|osoby"
    r"|amie?s|personnes|collègues|voisine?s|leute|freund\w*|personen|menschen|kolleg\w*|nachbar\w*|personas|pessoas|lidé|oameni|orang|người)\b|สองคน|两个人|两人"
)
"""Two who are people, and not only voices, talk to each other."""
_PROVIDERS = ("mubert", "loudly")
_FOR = re.compile(r"(?:for|aimed at|targeting|para|dla|untuk|pro|pentru|cho|für|pour)\s|สำหรับ|给|为")
"""Whom the ad is for, which says nothing of who speaks."""
_EDGE = re.compile(
    r"(?P<verb>open|start|begin|close|end)\swith\s(?:the\s(?:sound|sounds)\sof\s|an?\s|the\s)?"
    r"(?P<name>[\w' -]{3,40})"
)
_FIRST = ("open", "start", "begin")
_MUSIC_WORDS = re.compile(
    r"\b(?:background|music|from|mubert|loudly|soundtrack|jingle|song|please|with|and|use|an?|the|some|of|in|style|bed|should|be|like|i|we|want|would|kind)\b"
)


@dataclass(frozen=True)
class Wishes:
    """Wishes as far as they were said; empty values were not."""

    genders: tuple[str, ...] = ()
    """In the order said: ("female",) or ("male", "female")."""
    accent: str = ""
    style: str = ""
    """A tone's name, wished of the voice itself."""
    voices: int | None = None
    """How many voices."""
    dialogue: bool = False
    age: str = ""
    """The client's word for an age, which no catalogue publishes."""
    slow: bool = False
    music: str = ""
    """English words for a generator."""
    music_level: Literal["", "bed", "none"] = ""
    """A wish for next to no music ("bed") or for none whatever."""
    effects: tuple[str, ...] = ()
    """Effects by name, in the client's words."""
    no_effects: bool = False
    takes: int = 1
    """How many takes of the voices are wished at once."""
    provider: str = ""
    """The music provider asked for by name."""


def wishes(clauses: Sequence[str]) -> Wishes:
    """Return what the clauses of a brief wish for; later wishes add to earlier ones."""
    voiced = [clause for clause in clauses if _of_voice(clause)]
    whole = "\n".join(clauses)
    topics = set(found("cues/briefs", whole[:_SCAN_CHARS]))
    dialogue = "dialogue" in topics or bool(_TALKERS.search(folded(whole[:_SCAN_CHARS])))
    genders = _genders(voiced)
    single = len(genders) == 1 and any(_SINGLE.search(folded(clause)) for clause in voiced)
    return Wishes(
        genders=genders,
        accent=_accent(voiced),
        style=next((tone for clause in voiced for tone in found("cues/tones", clause)), ""),
        voices=_count(whole[:_SCAN_CHARS]) or (2 if dialogue else 1 if single else None),
        dialogue=dialogue,
        age=_age(voiced),
        slow=has("cues/voices", "slow", whole[:_SCAN_CHARS]),
        music=_music(clauses),
        music_level="none" if "no_music_at_all" in topics else "bed" if "no_music" in topics else "",
        effects=_effects(clauses),
        no_effects="no_effects" in topics,
        takes=_takes(clauses),
        provider=next((name for name in _PROVIDERS if name in folded(whole[:_SCAN_CHARS])), ""),
    )


_SCAN_CHARS = 3000


def _of_voice(clause: str) -> bool:
    said = set(found("cues/voices", clause))
    if _FOR.match(folded(clause)):
        return False
    if "voice" in said or {"female", "male"} <= said or re.search(r"\baccents?\b", folded(clause)):
        return True
    if said & {"female", "male"} and has("cues/briefs", "dialogue", clause):
        return True
    few, gendered = len(clause.split()), bool(said & {"female", "male"})
    accents = _accents().mentions(clause)
    toned = gendered and few <= _SHORT_WORDS and bool(found("cues/tones", clause) or accents)
    bare = bool(accents) and accents[0].end - accents[0].start == len(clause.strip(" ."))
    return toned or bare or (gendered and few <= len(("a", "man")))


def _genders(voiced: Sequence[str]) -> tuple[str, ...]:
    order = found("cues/voices", " \n ".join(voiced))
    return tuple(gender for gender in order if gender in {"female", "male"})


@cache
def _accents() -> Lexicon:
    return Lexicon(data("cues/voices")["accents"])


def _accent(clauses: Sequence[str]) -> str:
    hits = _accents().mentions(" \n ".join(clauses))
    return hits[0].concept if hits else ""


def _count(text: str) -> int | None:
    said = {hit.concept for hit in mentions("cues/voices", text)}
    return next((n for word, n in _COUNTS.items() if word in said), None)


def _takes(clauses: Sequence[str]) -> int:
    asked = [clause for clause in clauses if has("cues/briefs", "takes", clause)]
    numbers = [int(number) for clause in asked for number in found("cues/numbers", clause)]
    return numbers[0] if numbers else 1


def _age(voiced: Sequence[str]) -> str:
    text = " \n ".join(voiced)
    hit = mention("cues/voices", "age", text)
    return text[hit.start : hit.end] if hit else ""


def _music(clauses: Sequence[str]) -> str:
    spoken = [clause for clause in clauses if has("cues/briefs", "music", clause)]
    genres = [key for clause in clauses for key in found("cues/music", clause)] if spoken else []
    tones = [tone for clause in spoken for tone in found("cues/tones", clause)]
    words = dict.fromkeys([*(word for clause in spoken for word in _english(clause)), *tones, *genres])
    joined = ", ".join(words)
    return joined[:160]


def _english(clause: str) -> list[str]:
    """Return the clause's own words when they are plain English letters and say how the music is."""
    if not clause.isascii() or not re.search(r"\b(?:music|soundtrack|jingle|song|beat)\b", folded(clause)):
        return []
    if re.search(r"\bno\b|\bwithout\b|n't", folded(clause)):
        return []
    text = re.sub(r"\s{2,}", " ", _MUSIC_WORDS.sub(" ", folded(clause))).strip(" .,:;-")
    return [text] if text and not re.search(r"[\d<>{}\[\]]", text) else []


def _effects(clauses: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for clause in clauses:
        edge = _EDGE.fullmatch(folded(clause).strip(" ."))
        if edge and not has("cues/briefs", "music", clause):
            names.append(f"{edge.group('name')} at the {'start' if edge.group('verb') in _FIRST else 'end'}")
        for match in _EFFECT.finditer(folded(clause)):
            names += re.split(r",|\band\b|\+", match.group("after") or match.group("before") or "")
    kept = [name.strip(" .\"'“”:-") for name in names]
    return tuple(dict.fromkeys(name for name in kept if len(name) >= _NAMED_CHARS))[:_MOST]
