"""What shows that a sentence defines, explains, or only talks: tables for some languages, numbers for all."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_NEVER = re.compile(r"(?!)")
_FLAGS = re.IGNORECASE | re.UNICODE


@dataclass(frozen=True)
class Cues:
    """One language's table; a pattern that never matches stands for what it has not."""

    language: str
    known: bool
    """Whether there is a table of the language."""
    stop: frozenset[str]
    """Words that name nothing."""
    small: frozenset[str]
    """Words that a heading or a concept does not begin or end with."""
    defines: tuple[re.Pattern[str], ...]
    names: tuple[re.Pattern[str], ...]
    subject: re.Pattern[str]
    """What a sentence begins with that it speaks of, as its group `term`, where that shows."""
    causes: re.Pattern[str]
    meta: re.Pattern[str]
    asides: re.Pattern[str]
    openers: re.Pattern[str]
    points_back: re.Pattern[str]
    subordinate: re.Pattern[str]
    joined: re.Pattern[str]
    """What stands between two sentences that could stand alone."""
    conditions: re.Pattern[str]
    unfinished: re.Pattern[str]
    """An end that no sentence has."""
    sheds: tuple[str, ...]
    """What a clause begins with that may be left out, after its comma."""
    noise: re.Pattern[str]
    orders: re.Pattern[str]

    def term(self, sentence: str) -> str:
        """Return the thing that a sentence defines or names; empty where it does neither."""
        for pattern in (*self.names, *self.defines):
            found = pattern.search(sentence)
            if found and not self.points_back.match(found["term"]):
                return found["term"].strip()
        return ""


@cache
def cues(language: str) -> Cues:
    """Return the table of a language; one that only knows what all languages share where there is none."""
    tables = _tables()
    table, common = tables.get(language, {}), tables["any"]
    return Cues(
        language=language,
        known=language in tables,
        stop=frozenset(str(table.get("stop", "")).split()),
        small=frozenset(str(table.get("small_words", "")).split()),
        defines=tuple(re.compile(one, _FLAGS) for one in table.get("defines", ())),
        names=tuple(re.compile(one, _FLAGS) for one in table.get("names", ())),
        subject=_pattern(table.get("subject")),
        causes=_words(table.get("causes")),
        meta=_pattern(table.get("meta")),
        asides=_pattern(table.get("asides")),
        openers=_pattern(table.get("openers")),
        points_back=_pattern(table.get("points_back")),
        subordinate=_pattern(table.get("subordinate")),
        joined=_pattern(table.get("joined")),
        conditions=_words(table.get("conditions")),
        unfinished=_pattern(table.get("unfinished")),
        sheds=tuple(table.get("sheds", ())),
        noise=_pattern("|".join([*common["noise"], *table.get("noise", ())])),
        orders=_pattern("|".join(common["orders"])),
    )


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("providers.offline.fact_narration").joinpath("cues.toml").read_text("utf-8"))


def _pattern(text: object) -> re.Pattern[str]:
    return re.compile(str(text), _FLAGS) if text else _NEVER


def _words(text: object) -> re.Pattern[str]:
    # Boundaries are for scripts that part words.
    parted = bool(text) and str(text)[0].isascii()
    return _pattern(rf"\b(?:{text})\b" if parted else text)
