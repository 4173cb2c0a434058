"""The words that say what a new effect sounds like."""

from collections.abc import Iterable

from providers.offline.ad_creation.amounts import figure
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.effect_names import EDGE
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.ad_creation.places import Place
from providers.offline.ad_creation.qualities import asked, qualities
from providers.offline.lexicon import Mark, fold, tokens

_LINKS = frozenset({"de", "del", "da", "do", "das", "dos", "du", "des"})


def described(part: Clause, where: Place | None) -> str:
    """Return the English description of the effect a clause names: its own words, or the vocabulary's."""
    if part.quotes:
        return part.quotes[0]
    bare = part.without(where.marks) if where else part
    sounds = bare.names("sound")
    words = _own_words(part, bare, where)
    if sounds and not (words and _english(words, sounds)):
        moods = [
            qualities()[one.name].say for one in asked(bare) if one.more and one.name not in {"long", "short"}
        ]
        return " ".join([*moods[:1], ", ".join(sounds)])
    return words


def _english(words: str, sounds: Iterable[str]) -> bool:
    wanted, spoken = {f"sound.{name}" for name in sounds}, tokens(words)
    english = lexicon("english")
    return any(
        mark.concept in wanted and all(english.knows(one.word) for one in spoken[mark.first : mark.last])
        for mark in english.marks(spoken)
    )


def _own_words(part: Clause, bare: Clause, where: Place | None) -> str:
    """Return the words that say which effect is meant, without verbs, places, lengths and articles."""
    dropped: set[int] = {at for mark in (where.marks if where else ()) for at in range(mark.first, mark.last)}
    kept = (
        "sound",
        "topic",
        "quality",
        "instrument",
        "genre",
        "skip",
        "degree",
        "noun",
        "chat",
        "gender",
        "accent",
        "ordinal",
        "pronoun",
        "unit.word",
    )
    for mark in bare.marks:
        if mark.concept.split(".")[0] not in kept or (
            mark.concept.startswith("skip") and _politeness(bare, mark)
        ):
            dropped |= set(range(mark.first, mark.last))
    dropped -= {at for mark in bare.all("sound") for at in range(mark.first, mark.last)}
    dropped |= {at for at in range(part.first, part.last) if _measure(part, at)}
    dropped -= {at for at in dropped if _links(part, at) and not {at - 1, at + 1} & dropped}
    runs = _runs(part, dropped)
    return max((_stripped(run) for run in runs), key=len, default="")


def _links(part: Clause, at: int) -> bool:
    """Whether a word within a name ties it together: "ruido de cristales"."""
    return part.first < at < part.last - 1 and part.tokens[at].word in _LINKS


def _politeness(clause: Clause, mark: Mark) -> bool:
    return mark.last - mark.first > 1 or clause.words(mark.first, mark.last).lower() not in EDGE


def _measure(part: Clause, at: int) -> bool:
    unit = any(
        one.first <= at + 2 and at < one.last and one.first >= at
        for one in part.all("unit.second", "unit.minute")
    )
    return unit and (
        figure(part.tokens[at].word) is not None
        or part.tokens[at].word in {"s", "sec", "second", "seconds", "-", "secs"}
    )


def _runs(part: Clause, dropped: set[int]) -> list[str]:
    runs: list[str] = []
    first = part.first
    for at in range(part.first, part.last + 1):
        if at == part.last or at in dropped:
            runs.append(part.words(first, at))
            first = at + 1
    return [run for run in runs if run]


def _stripped(run: str) -> str:
    words = run.split()
    while words and fold(words[0]).strip(".,") in EDGE:
        words.pop(0)
    while words and fold(words[-1]).strip(".,") in EDGE:
        words.pop()
    return " ".join(words)
