"""What qualities such as "calm" mean for music, voices and words, from `vocabulary/qualities.toml`."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from providers.offline.ad_creation.clauses import Clause
from providers.offline.lexicon import Mark

_REVERSING = {"degree.less", "degree.too", "degree.excess", "negation.not", "negation.no", "verb.dislike"}
_LEVELS = frozenset({"energy", "drama", "warmth", "urgency", "tension"})
"""Qualities named as a level that can be brought down."""
_REACH = 3
"""Tokens between a degree ("too") and the quality it belongs to, at most."""


@dataclass(frozen=True)
class Quality:
    """One quality."""

    say: str
    """English, for a music prompt."""
    less: str
    """English, for less of it."""
    poles: frozenset[str]
    """Ends of scales it is at: "energy+"."""
    clears: frozenset[str]
    """Ends of scales it cannot stand with."""
    styles: tuple[str, ...] = ()
    """What catalogues call a voice like that."""
    tone: str = ""
    """The copywriter's tone, or empty."""
    pace: float = 1.0
    """Factor of the speed of speech."""
    counter: str = ""
    """The quality of a voice that is less so."""
    opposite: str = ""
    """The quality meant when someone complains of this one."""


@cache
def qualities() -> Mapping[str, Quality]:
    """Return every quality by name."""
    text = files("providers.offline.ad_creation").joinpath("vocabulary", "qualities.toml").read_text("utf-8")
    return {name: _quality(entry) for name, entry in tomllib.loads(text).items()}


def _quality(entry: Mapping[str, object]) -> Quality:
    poles = frozenset(_texts(entry.get("poles")))
    opposed = {pole[:-1] + ("-" if pole.endswith("+") else "+") for pole in poles}
    pace = entry.get("pace", 1.0)
    return Quality(
        say=str(entry["say"]),
        less=str(entry["less"]),
        poles=poles,
        clears=frozenset(opposed | set(_texts(entry.get("clears")))),
        styles=_texts(entry.get("styles")),
        tone=str(entry.get("tone", "")),
        pace=float(pace) if isinstance(pace, (int, float)) else 1.0,
        counter=str(entry.get("counter", "")),
        opposite=str(entry.get("opposite", "")),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, Sequence) else ()


@dataclass(frozen=True)
class Asked:
    """A quality a clause asks for."""

    name: str
    more: bool
    """False: less of it."""
    slightly: bool
    mark: Mark


def asked(clause: Clause) -> list[Asked]:
    """Return the qualities `clause` asks for: "not so fast" is less of fast, "not fast enough" more."""
    result: list[Asked] = []
    for mark in clause.all("quality"):
        name = mark.concept.removeprefix("quality.")
        before = [
            one
            for one in clause.marks
            if 0 <= mark.first - one.last <= _REACH
            and _modifies(clause, one, mark)
            and not _behind_quality(clause, one)
        ]
        before += [one for one in clause.all("degree.excess") if one.first in {mark.first, mark.last}]
        enough = any(one.first - mark.last in {0, 1} for one in clause.all("degree.enough"))
        lowered = clause.has("particle.down") and clause.tokens[mark.first].word in _LEVELS
        reversed_ = (lowered or bool({one.concept for one in before} & _REVERSING)) and not enough
        if reversed_ and any(one.name == name and one.more for one in result):
            continue
        if qualities()[name].opposite:
            name, reversed_ = qualities()[name].opposite, False
        slightly = any(one.concept == "degree.little" for one in before)
        result.append(Asked(name, not reversed_, slightly, mark))
    return _without_doubles(result)


def _behind_quality(clause: Clause, degree: Mark) -> bool:
    """Whether a degree that follows what is too much has done so: Vietnamese "ồn quá", "too noisy"."""
    follows = any(one.first == degree.first for one in clause.all("degree.excess"))
    return follows and any(one.last == degree.first for one in clause.all("quality"))


def _modifies(clause: Clause, one: Mark, mark: Mark) -> bool:
    """Whether nothing but degrees stands between a degree or negation and the quality."""
    between = range(one.last, mark.first)
    plain = {
        place
        for other in clause.marks
        if other.concept.split(".")[0] in {"degree", "skip", "verb", "negation", "pronoun"}
        for place in range(other.first, other.last)
    }
    return one.concept.split(".")[0] in {"degree", "negation"} and all(at in plain for at in between)


def _without_doubles(found: list[Asked]) -> list[Asked]:
    kept: dict[str, Asked] = {}
    for one in found:
        kept.setdefault(one.name, one)
    return list(kept.values())


def said(name: str, *, more: bool) -> str:
    """Return the English words for more or less of a quality."""
    quality = qualities()[name]
    return quality.say if more else quality.less


def opposes(name: str, *, more: bool, other: str) -> bool:
    """Return whether more (or less) of quality `name` contradicts quality `other`."""
    if not more:
        return name == other
    quality, against = qualities()[name], qualities()[other]
    return name != other and bool(quality.clears & against.poles)
