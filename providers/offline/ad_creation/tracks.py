"""Which voice tracks a clause names: "the second voice", "tracks 1 and 3", "the woman", "the last line"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.offline.ad_creation.amounts import figure
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.history import Ad
from providers.offline.lexicon import Mark, fold

_NOUNS = ("noun.voice", "noun.track", "noun.line", "noun.text", "noun.announcer", "noun.speed")
_SPOKEN = ("noun.voice", "noun.announcer")
_BETWEEN = ("skip", "gender", "accent", "quality")
_REACH = 3
"""Tokens between a noun and its number, at most."""
_NUMBERING = {"#", "'", "s", "no", "yang", "yg"}
"""What may stand between a noun and its number: "voice #2", Indonesian "suara yang kedua"."""
_ARTICLES = {
    "the",
    "her",
    "his",
    "el",
    "la",
    "los",
    "las",
    "o",
    "a",
    "os",
    "as",
    "ten",
    "ta",
    "tego",
    "te",
    "tu",
    "toho",
    "cei",
    "cele",
}
_PRONOUNS = {"her": "female", "she": "female", "him": "male", "he": "male"}
_SPEAKERS = {
    "speaker", "speaker's", "person", "actor", "actress", "narrator", "locutor", "locutora", "persona",
    "pessoa", "osoba", "mówca", "mluvčí", "vorbitor", "vorbitorul", "pembicara",
}  # fmt: skip
"""Nouns that number people rather than tracks, where somebody speaks more than one track."""
_MAX_TRACK = 99
"""No ad has more tracks; a larger number is something else."""


@dataclass(frozen=True)
class Named:
    """The tracks a clause names."""

    tracks: tuple[int, ...] = ()
    """Counted from 0, in order; empty when it names none."""
    marks: tuple[Mark, ...] = ()
    """What names them."""
    missing: int | None = None
    """A track people number so (from 1) that is not there."""
    everyone: bool = False
    """All were meant: "both voices", "the voices"."""


def named(clause: Clause, ad: Ad, *, plural: bool = True) -> Named:
    """Return the tracks `clause` names; a bare noun ("the voices") means all where `plural` says so."""
    for find in (_numbered, _called, _gendered, _placed, _announced):
        found = find(clause, ad)
        if found:
            return found
    return _everyone(clause, ad) if plural else Named()


def _numbered(clause: Clause, ad: Ad) -> Named | None:
    nouns = clause.all(*_NOUNS)
    marks: list[Mark] = []
    numbers: list[int] = []
    for mark in clause.all("ordinal", "number"):
        if _is_duration(clause, mark) or not (_beside(clause, mark, nouns) or _stands_alone(clause, mark)):
            continue
        if mark.concept.count(".") > 1:
            continue
        numbers.append(int(mark.concept.partition(".")[2]))
        marks.append(mark)
    for place, value in _figures(clause, nouns):
        numbers.append(value)
        marks.append(Mark("number", place, place + 1))
    if not numbers:
        return None
    touched = [*marks, *(one for one in nouns if _touches(one, marks))]
    people = any(clause.tokens[one.first].word in _SPEAKERS for one in touched)
    return (_of_people(numbers, touched, ad) if people else None) or _resolved(numbers, touched, ad)


def _of_people(numbers: list[int], marks: list[Mark], ad: Ad) -> Named | None:
    """Return all the tracks of "the second speaker"; None when so many do not speak."""
    cast = list(dict.fromkeys(track.get("voiceId") for track in ad.tracks))
    chosen = {cast[value - 1 if value > 0 else value] for value in numbers if 0 < abs(value) <= len(cast)}
    known = tuple(at for at, track in enumerate(ad.tracks) if track.get("voiceId") in chosen)
    return Named(known, tuple(marks)) if len(chosen) == len(set(numbers)) else None


def _resolved(numbers: list[int], marks: list[Mark], ad: Ad) -> Named:
    size = len(ad.tracks)
    places = [value - 1 if value > 0 else size + value for value in numbers]
    absent = next((value for value, at in zip(numbers, places, strict=True) if not 0 <= at < size), None)
    known = tuple(sorted({at for at in places if 0 <= at < size}))
    return Named(known, tuple(marks), absent)


def _is_duration(clause: Clause, mark: Mark) -> bool:
    """Whether a number counts seconds, or is the unit itself ("two second pause")."""
    following = {one.first for one in clause.all("unit") if one.concept != "unit.time"}
    same = [one for one in clause.all("unit.second") if one.first == mark.first]
    if same:
        before = mark.first - 1
        counted = before >= clause.first and figure(clause.tokens[before].word) is not None
        return counted or any(0 <= mark.first - one.last <= 1 for one in clause.all("number"))
    return mark.last in following and not clause.has("noun.line") and mark.concept.startswith("number.")


def _beside(clause: Clause, mark: Mark, nouns: list[Mark]) -> bool:
    """Whether a number belongs to a noun: "second voice", "voice two", "voices one and two".

    One word may be both: German "Einstieg" is the first line.
    """
    if any((noun.first, noun.last) == (mark.first, mark.last) for noun in nouns):
        return True
    for noun in nouns:
        if (mark.first, mark.last) == (noun.first, noun.last):
            return True
        low, high = (mark.last, noun.first) if mark.last <= noun.first else (noun.last, mark.first)
        if mark.last <= noun.first and mark.concept.startswith("number.") and high - low <= 1:
            return mark.concept == "number.1" and noun.concept == "noun.line"
        if 0 <= high - low <= _REACH and _only_listing(clause, low, high, close=mark.first >= noun.last):
            return True
    return False


def _only_listing(clause: Clause, first: int, last: int, *, close: bool = False) -> bool:
    allowed = {
        place
        for mark in clause.all(
            "join", "ordinal", "number", "unit.second", "particle.only", *(() if close else _BETWEEN)
        )
        for place in range(mark.first, mark.last)
    }
    return all(
        place in allowed or clause.tokens[place].word in _NUMBERING or figure(clause.tokens[place].word)
        for place in range(first, last)
    )


def _stands_alone(clause: Clause, mark: Mark) -> bool:
    """Whether "the second" or "the second one" stands without a noun."""
    if not mark.concept.startswith("ordinal.") or clause.has(
        "noun.effect", "sound", "noun.version", "noun.music"
    ):
        return False
    one = any(other.first == mark.last for other in clause.all("pronoun.one"))
    follows = clause.last == mark.last or clause.tokens[mark.last].word in {"slower", "faster", "to", "with"}
    article = mark.first > clause.first and clause.tokens[mark.first - 1].word in _ARTICLES
    return one or (article and follows)


def _figures(clause: Clause, nouns: list[Mark]) -> list[tuple[int, int]]:
    """Return digits that number a noun: place and value."""
    found: list[tuple[int, int]] = []
    for noun in nouns:
        at = noun.last
        while at < clause.last and (_only_listing(clause, at, at + 1) or figure(clause.tokens[at].word)):
            value = figure(clause.tokens[at].word)
            unit = any(one.first == at + 1 and one.concept != "unit.time" for one in clause.all("unit"))
            if value is not None and not unit and value == int(value) and 0 < value <= _MAX_TRACK:
                found.append((at, int(value)))
            at += 1
    return found


def _touches(noun: Mark, marks: list[Mark]) -> bool:
    return any(
        abs(noun.first - mark.last) <= _REACH or abs(mark.first - noun.last) <= _REACH for mark in marks
    )


def _called(clause: Clause, ad: Ad) -> Named | None:
    """Return the tracks of a voice that is called by its name."""
    words = {token.word: place for place, token in enumerate(clause.own, clause.first) if len(token.word) > 2}  # noqa: PLR2004 - shorter words are no names
    for index, track in enumerate(ad.tracks):
        name = fold(ad.name(str(track.get("voiceId")))).split(" ")[0].split("(")[0]
        at = words.get(name, words.get(name + "'s"))
        if at is not None and not _after_turn(clause, at):
            same = tuple(
                i
                for i, one in enumerate(ad.tracks)
                if i >= index and one.get("voiceId") == track.get("voiceId")
            )
            return Named(same, (Mark("name", at, at + 1),))
    return None


def _after_turn(clause: Clause, place: int) -> bool:
    """Whether a token follows "to" or "with": then it is what should be, not what is."""
    return any(mark.last <= place for mark in clause.all("particle.to", "particle.with")) or any(
        mark.first >= place for mark in clause.all("particle.instead")
    )


def _gendered(clause: Clause, ad: Ad) -> Named | None:
    """Return the tracks of "the woman": a gender after an article, if someone of it speaks now."""
    pronoun = _pronoun(clause)
    for mark in (*clause.all("gender"), *([pronoun] if pronoun else [])):
        first = mark.first - 1 if mark.last - mark.first == 1 else mark.first
        article = first >= clause.first and clause.tokens[first].word in _ARTICLES - {"a"}
        if not (article or mark is pronoun) or _after_turn(clause, mark.first):
            continue
        gender = mark.concept.partition(".")[2]
        known = tuple(i for i, track in enumerate(ad.tracks) if gender_of(ad, track) == gender)
        if known:
            return Named(known, (mark, *(one for one in clause.all(*_SPOKEN) if one.first == mark.last)))
    return None


def _pronoun(clause: Clause) -> Mark | None:
    """Return the person a clause is about: "make her sound happier"."""
    words = enumerate(clause.own, clause.first)
    return next(
        (Mark(f"gender.{_PRONOUNS[one.word]}", at, at + 1) for at, one in words if one.word in _PRONOUNS),
        None,
    )


def spoken_of(clause: Clause) -> bool:
    """Return whether a clause is about a person by a pronoun."""
    return _pronoun(clause) is not None


def accent_of(ad: Ad, track: Mapping[str, Any]) -> str:
    """Return the published accent of a track's voice, folded; empty when there is none."""
    return fold(str(ad.voices.get(str(track.get("voiceId")), {}).get("accent") or ""))


def gender_of(ad: Ad, track: object) -> str:
    """Return the published gender of a track's voice; empty when there is none."""
    voice = ad.voices.get(str(track.get("voiceId")), {}) if isinstance(track, dict) else {}
    return str(voice.get("gender") or "").lower()


def _placed(clause: Clause, ad: Ad) -> Named | None:
    """Return the track of "the voice at the end", where nothing is to be put there."""
    places = {mark.first: mark for mark in clause.all("place.start", "place.end")}
    noun = next((one for one in clause.all(*_SPOKEN) if one.last in places), None)
    if noun is None or not ad.tracks or clause.has("verb.add", "verb.move", "noun.pause", "noun.overlap"):
        return None
    place = places[noun.last]
    return Named((0 if place.concept == "place.start" else len(ad.tracks) - 1,), (noun, place))


def _announced(clause: Clause, ad: Ad) -> Named | None:
    mark = clause.get("noun.announcer")
    if not mark or not ad.tracks or clause.has("verb.add"):
        return None
    cast = [track.get("voiceId") for track in ad.tracks]
    same = tuple(i for i, voice in enumerate(cast) if voice == cast[-1])
    return Named(same, (mark,), everyone=len(same) == len(cast))


def _everyone(clause: Clause, ad: Ad) -> Named:
    marks = tuple(clause.all("pronoun.both", "pronoun.all", *_SPOKEN, "noun.track"))
    if not marks:
        return Named()
    return Named(tuple(range(len(ad.tracks))), marks, everyone=True)
