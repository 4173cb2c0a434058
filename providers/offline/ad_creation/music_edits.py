"""Requests about the music: what a clause asks for."""

import re

from providers.offline.ad_creation.amounts import before, seconds
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.edits import (
    Edit,
    MusicSource,
    ReplaceMusic,
    ShapeMusic,
    SilenceMusic,
    Trait,
    Unclear,
)
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.ad_creation.qualities import asked, qualities
from providers.offline.lexicon import Mark, fold, tokens

CHARACTER = ("quality", "genre", "instrument", "unit.bpm", "noun.vocals", "noun.instrumental")
"""What describes music."""
_PARTS = ("genre", "instrument", "quality")
_EDGE = {
    "and", "with", "but", "a", "an", "the", "of", "to", "be", "is", "it", "in", "for", "into", "please",
    "pour", "du", "des", "de", "la", "le", "les", "un", "une", "et", "avec", "para", "por", "con", "com",
    "el", "y", "e", "o", "una", "um", "uma", "do", "da", "que",
}  # fmt: skip
_HOLLOW = {
    "one",
    "something",
    "music",
    "thing",
    "way",
    "again",
    "please",
    "version",
    "ones",
    "bit",
    "little",
    "same",
    "different",
    "more",
    "less",
    "too",
    "now",
    "here",
    "it",
    "that",
    "than",
    "need",
}


def read(clause: Clause) -> list[Edit]:
    """Return what `clause`, which is about the music, asks for; empty when nothing is recognised."""
    if clause.has("place.later", "place.earlier"):
        # It plays throughout, so there is no time at which it begins.
        return [Unclear(clause.text)]
    source = _source(clause)
    if source:
        return [source]
    if _silences(clause):
        return [SilenceMusic()]
    edit = _swapped(clause) or _fresh(clause) or _shape(clause)
    return [edit] if edit else []


def _source(clause: Clause) -> MusicSource | None:
    provider = next(iter(clause.names("provider")), None)
    # Seconds after which the music is to begin are no length of it.
    length = None if clause.has("place.after", "place.later", "place.earlier") else seconds(clause)
    return MusicSource(provider, length) if provider or length else None


def _silences(clause: Clause) -> bool:
    if (
        clause.has(
            *CHARACTER,
            "verb.slow",
            "verb.quicken",
            "verb.touch",
            "verb.keep",
            "verb.change",
            "pronoun.different",
        )
        or clause.quotes
    ):
        return False
    denied = clause.all("negation.no", "verb.remove")
    music = clause.get("noun.music")
    if not denied:
        return clause.has("negation.not") and clause.has("verb.add", "verb.make")
    return not clause.has("negation.not") or bool(music and denied[0].last <= music.first)


def _swapped(clause: Clause) -> ShapeMusic | None:
    """Return "jazz instead of rock", "swap the guitar for a piano"."""
    parts = [mark for mark in clause.all(*_PARTS) if mark.concept != "quality.boring"]
    instead = clause.get("particle.instead")
    if instead:
        wanted = [mark for mark in parts if mark.last <= instead.first]
        unwanted = [mark for mark in parts if mark.first >= instead.last]
        if not wanted:
            wanted, unwanted = _fronted(unwanted)
        return _exchange(clause, wanted, unwanted)
    if not clause.has("verb.replace", "verb.change") or not parts:
        return None
    turning = clause.all("particle.to", "particle.with", "particle.for")
    verb = clause.all("verb.replace", "verb.change")[0]
    turn = next((mark for mark in turning if mark.first >= verb.last), None)
    if turn is None:
        return None
    unwanted = [mark for mark in parts if mark.last <= turn.first]
    wanted = [mark for mark in parts if mark.first >= turn.last]
    return _exchange(clause, wanted, unwanted)


def _fronted(parts: list[Mark]) -> tuple[list[Mark], list[Mark]]:
    """Return what is wanted and what is not of "instead of the loud guitar a piano"."""
    things = (at for at, mark in enumerate(parts, 1) if not mark.concept.startswith("quality."))
    until = next(things, 1)
    return parts[until:], parts[:until]


def _exchange(clause: Clause, wanted: list[Mark], unwanted: list[Mark]) -> ShapeMusic | None:
    if not (wanted and unwanted):
        return None
    return ShapeMusic(_traits(clause, wanted), tuple(one.concept for one in unwanted))


def _traits(clause: Clause, marks: list[Mark]) -> tuple[Trait, ...]:
    """Return the traits of marks; what stands side by side ("electro swing") is one."""
    result: list[Trait] = []
    for at, mark in enumerate(marks):
        trait = _trait(clause, mark)
        if at and marks[at - 1].last == mark.first and result:
            trait = Trait(result[-1].concept, f"{result.pop().words} {trait.words}")
        result.append(trait)
    return tuple(dict.fromkeys(result))


def _fresh(clause: Clause) -> ReplaceMusic | None:
    """Return a wholly new description: "use jazz piano instead", "something else", "I don't like it"."""
    whole = clause.has("particle.lieu", "particle.instead", "verb.replace") or (
        clause.has("verb.use", "verb.change", "pronoun.different")
        and clause.has("genre", "instrument")
        and not clause.has("degree")
    )
    if whole and clause.has(*_PARTS) and not clause.has("negation", "verb.remove", "degree.less"):
        return ReplaceMusic(_described(clause))
    if clause.quotes and not clause.has("verb.say"):
        return ReplaceMusic(clause.quotes[0])
    if clause.has(*CHARACTER, "verb.slow", "verb.quicken") or _own_words(clause):
        return None
    anew = ("verb.dislike", "pronoun.different", "pronoun.other", "verb.replace", "verb.change", "verb.write")
    return ReplaceMusic() if clause.has(*anew) and not clause.has("negation.no") else None


def _described(clause: Clause) -> str:
    parts = [mark for mark in clause.all(*_PARTS) if mark.concept != "quality.boring"]
    if all(_english(clause, mark) for mark in parts):
        last = clause.last
        ends = {
            mark.last: mark.first
            for mark in clause.all("skip", "particle.lieu", "noun.music", "particle.for")
        }
        floor = max(mark.last for mark in parts)
        while last > floor and (last in ends or not clause.words(last - 1, last)):
            last = max(ends.get(last, last - 1), floor)
        instead = clause.get("particle.instead")
        if instead and instead.first > parts[0].first:
            last = min(last, instead.first)
        return clause.words(min(mark.first for mark in parts), last)
    return ", ".join(dict.fromkeys(_trait(clause, mark).words for mark in parts))


def _english(clause: Clause, mark: Mark) -> bool:
    spoken = tokens(clause.words(mark.first, mark.last))
    return all(lexicon("english").knows(token.word) for token in spoken) and any(
        one.concept == mark.concept for one in lexicon("english").marks(spoken)
    )


def _trait(clause: Clause, mark: Mark) -> Trait:
    """Return what a mark says in English: a person's own English word, else the vocabulary's."""
    group, name = mark.concept.split(".", 1)
    if group == "noun":
        return Trait(mark.concept, "with vocals")
    if group != "quality":
        spoken = fold(clause.words(mark.first, mark.last))
        plain = _english(clause, mark) and not spoken.endswith(("er", "ers"))
        return Trait(mark.concept, spoken if plain else name)
    say = qualities()[name].say
    word = fold(clause.words(mark.first, mark.last))
    if (
        name in {"fast", "slow"}
        or word.startswith("less ")
        or word.endswith((" up", " down", " out"))
        or not _english(clause, mark)
    ):
        return Trait(mark.concept, say)
    return Trait(mark.concept, _positive(fold(clause.words(mark.first, mark.last)), mark.concept) or say)


def _positive(word: str, concept: str) -> str:
    """Return the plain form of an English quality ("livelier" → "lively"); empty when there is none."""
    forms = [word]
    if word.endswith("er"):
        forms = [word[:-3] + "y" if word.endswith("ier") else word[:-2], word[:-1], word[:-3]]
    for form in forms:
        marks = lexicon("english").marks(tokens(form))
        if any(mark.concept == concept for mark in marks) and lexicon("english").knows(form.split()[0]):
            return form
    return ""


def _shape(clause: Clause) -> ShapeMusic | None:
    wanted = asked(clause)
    tempo = [
        name
        for verb, name in (("verb.quicken", "fast"), ("verb.slow", "slow"))
        if clause.has(verb) and not wanted
    ]
    add = [
        Trait(f"quality.{name}", qualities()[name].say)
        for name in (*tempo, *_turned(clause, wanted=bool(wanted)))
    ]
    add += [_quality(clause, one.name, one.mark, slightly=one.slightly) for one in wanted if one.more]
    drop = [f"quality.{one.name}" for one in wanted if not one.more]
    wanted_parts = []
    for mark in clause.all("genre", "instrument", "noun.vocals", "noun.instrumental"):
        if _refused(clause, mark) or mark.concept == "noun.instrumental":
            drop.append("noun.vocals" if mark.concept == "noun.instrumental" else mark.concept)
        else:
            wanted_parts.append(mark)
    add += _traits(clause, wanted_parts)
    bpm = next((before(clause, mark.first) for mark in clause.all("unit.bpm")), None)
    own = "" if drop and not add else _own_words(clause)
    traits = [*dict.fromkeys(add), *([Trait("", own)] if own else [])]
    if not (traits or drop or bpm):
        return None
    blend = clause.has("verb.add", "degree.little", "degree.more")
    return ShapeMusic(tuple(traits), tuple(dict.fromkeys(drop)), int(bpm) if bpm else None, blend)


def _turned(clause: Clause, *, wanted: bool) -> list[str]:
    """Return the quality of "turn the music down"."""
    if wanted or clause.has("genre", "instrument") or not clause.has("verb.make", "noun.volume"):
        return []
    return ["quiet"] if clause.has("particle.down") else ["loud"] if clause.has("particle.up") else []


def _quality(clause: Clause, name: str, mark: Mark, *, slightly: bool) -> Trait:
    """Return the trait a quality asks for; a complaint ("boring") asks for its opposite."""
    trait = (
        _trait(clause, mark)
        if mark.concept == f"quality.{name}"
        else Trait(f"quality.{name}", qualities()[name].say)
    )
    return Trait(trait.concept, f"slightly {trait.words}") if slightly else trait


def _refused(clause: Clause, mark: Mark) -> bool:
    refusing = clause.all("negation", "verb.remove", "degree.less", "verb.dislike", "degree.too")
    giving = [other.last for other in clause.all("verb.add", "verb.use") if other.last <= mark.first]
    # "La guitarra fuera" refuses what stands before it.
    behind = any(one.last == clause.last for one in clause.all("verb.remove")) or _refused_after(clause, mark)
    return behind or any(one.last <= mark.first and one.first >= max(giving, default=0) for one in refusing)


def _refused_after(clause: Clause, mark: Mark) -> bool:
    """Whether a part is named right before it is refused: Indonesian "guitar don't use in the music"."""
    refusing = clause.get("negation.not", "verb.remove", "verb.dislike")
    if not refusing or refusing.first < mark.last:
        return False
    rest, between = clause.part(refusing.last, clause.last), clause.part(mark.last, refusing.first)
    return not between.rest(keep=("noun", "verb")) and not rest.has(*_PARTS, "degree")


def _own_words(clause: Clause) -> str:
    """Return a description the vocabulary does not know ("like a summer road trip"), as it was said."""
    if clause.has("verb.dislike", "verb.remove", "degree.less") or not clause.has(
        "verb", "particle", "degree"
    ):
        return ""
    if not clause.has("verb.make", "verb.change", "verb.use", "verb.add", "verb.replace", "degree.more"):
        return ""
    known = (
        "sound",
        "pronoun.we",
        "number",
        "accent",
        "gender",
        "particle.in",
        "particle.for",
        "particle.with",
        "particle.from",
        "particle.about",
    )
    first = min((mark.last for mark in clause.all("verb", "noun.music")), default=clause.first)
    bare = trimmed(clause.rest(keep=known, first=first))
    own = trimmed(clause.rest(keep=(*known, "skip", "join.and"), first=first))
    return own if bare and bare in own else ""


def trimmed(words: str) -> str:
    """Return `words` without small words at either end; empty when nothing meaningful is left."""
    parts = re.split(r"\s+", words.strip())
    while parts and fold(parts[0]) in _EDGE:
        parts.pop(0)
    while parts and fold(parts[-1]) in _EDGE:
        parts.pop()
    return (
        " ".join(parts) if any(len(part) > 1 and fold(part) not in _HOLLOW | _EDGE for part in parts) else ""
    )
