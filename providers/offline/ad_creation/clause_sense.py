"""What a clause is before it is read: which meaning of a word is meant, whether it says anything."""

from dataclasses import replace

from providers.offline.ad_creation.clauses import TARGETS, Clause
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.effect_names import PEOPLE
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.qualities import asked
from providers.offline.ad_creation.tracks import spoken_of
from providers.offline.lexicon import Mark

KINDS = {
    "noun.music": "music", "noun.effect": "effect", "noun.voice": "voice", "noun.announcer": "voice",
    "noun.track": "voice", "noun.text": "text", "noun.line": "text", "noun.ad": "ad",
}  # fmt: skip
"""What kind of thing each noun names."""
TEMPO = frozenset({"fast", "slow"})
"""Qualities of how fast somebody speaks."""
_VERBLIKE = frozenset({"sound", "sounds"})


def settled(clause: Clause) -> Clause:
    """Return the clause with "sound" as a verb where something else sounds: "make the music sound bigger"."""
    clause = _without_people(_told_apart(_toned(_edges(_lines(_placed(clause))))))
    others = [mark for mark in clause.all(*TARGETS) if mark.concept != "noun.effect"]
    verbs = [
        mark
        for mark in clause.all("noun.effect")
        if clause.tokens[mark.first].word in _VERBLIKE
        and (clause.has("quality") or any(one.last <= mark.first for one in others))
        and not clause.has("verb.add", "verb.remove", "sound")
    ]
    dropped = {id(mark) for mark in verbs}
    return replace(clause, marks=tuple(mark for mark in clause.marks if id(mark) not in dropped))


def _placed(clause: Clause) -> Clause:
    """Return the clause with a jingle at a place as a sound: music plays throughout."""
    jingles = {(mark.first, mark.last) for mark in clause.all("noun.jingle")}
    if not (jingles and clause.has("verb.add", "verb.put") and clause.has("place")):
        return clause
    marks = (
        Mark("noun.effect", mark.first, mark.last)
        if mark.concept == "noun.music" and (mark.first, mark.last) in jingles
        else mark
        for mark in clause.marks
    )
    return replace(clause, marks=tuple(marks))


def _lines(clause: Clause) -> Clause:
    """Return the clause with a word for both a line and speaking taken for the one that is meant: "fala"."""
    lines = {(mark.first, mark.last) for mark in clause.all("noun.line")}
    both = {(mark.first, mark.last) for mark in clause.all("verb.speak")} & lines
    numbered = {mark.last for mark in clause.all("ordinal", "number")}
    wrong = {("verb.speak" if place[0] in numbered else "noun.line", *place) for place in both}
    kept = (mark for mark in clause.marks if (mark.concept, mark.first, mark.last) not in wrong)
    return replace(clause, marks=tuple(kept)) if wrong else clause


def _edges(clause: Clause) -> Clause:
    """Return the clause with "the ending" as the last line where something is to become of its words."""
    acting = clause.has("verb.dislike", "verb.change", "verb.write", "pronoun.different")
    other = clause.has("noun.music", "noun.effect", "sound", "noun.voice")
    if not acting or other:
        return clause
    lines = [
        Mark(concept, mark.first, mark.last)
        for noun, number in (("noun.opening", "1"), ("noun.ending", "-1"))
        for mark in clause.all(noun)
        for concept in ("noun.line", f"ordinal.{number}")
    ]
    # "Another opener" is one more wording, and no way back to the first version.
    kept = (mark for mark in clause.without(lines).marks if mark.concept != "particle.again")
    marks = sorted([*kept, *lines], key=lambda mark: mark.first)
    return replace(clause, marks=tuple(marks)) if lines else clause


def _without_people(clause: Clause) -> Clause:
    """Return the clause without a sound that only says who somebody is: "the dog owner"."""
    people = [
        mark
        for mark in clause.all("sound")
        if mark.last < clause.last and clause.tokens[mark.last].word in PEOPLE
    ]
    return clause.without(people) if people else clause


def _toned(clause: Clause) -> Clause:
    """Return the clause with a word for both sound and mood (German "Ton") taken for what can be meant.

    A sound stands somewhere, or is put or taken away; a mood is changed.
    """
    moods = {(mark.first, mark.last) for mark in clause.all("noun.mood")}
    both = {(mark.first, mark.last) for mark in clause.all("noun.effect")} & moods
    if not both:
        return clause
    handled = clause.has("verb.add", "verb.remove", "verb.move", "place") and not clause.has(
        "quality", *(one for one in TARGETS if one != "noun.effect")
    )
    wrong = "noun.mood" if handled else "noun.effect"
    marks = (mark for mark in clause.marks if not (mark.concept == wrong and (mark.first, mark.last) in both))
    return replace(clause, marks=tuple(marks))


def _told_apart(clause: Clause) -> Clause:
    """Return the clause with a word for both voice and sound taken for the one that is meant."""
    voices = {(mark.first, mark.last) for mark in clause.all("noun.voice")}
    both = {(mark.first, mark.last) for mark in clause.all("noun.effect")} & voices
    if not both:
        return clause
    spoken_of = clause.has(
        "gender", "accent", "ordinal", "pronoun.both", "pronoun.same", "noun.announcer", "verb.say"
    )
    sounding = clause.has("sound") or (clause.has("verb.add") and not spoken_of)
    wrong = "noun.voice" if sounding and not clause.has("gender") else "noun.effect"
    marks = (mark for mark in clause.marks if not (mark.concept == wrong and (mark.first, mark.last) in both))
    return replace(clause, marks=tuple(marks))


def repeats(clause: Clause) -> bool:
    """Whether a clause only says "a bit more", "again", "too much"."""
    refused = clause.has("negation", "chat.no") and clause.has("pronoun.one")
    if not (clause.has("degree", "particle.again") or refused) or clause.has("degree.enough"):
        return False
    allowed = {
        "degree",
        "skip",
        "join",
        "chat",
        "particle",
        "pronoun",
        "verb",
        "number",
        "question",
        "negation",
    }
    if any(mark.concept.split(".")[0] not in allowed for mark in clause.marks) or clause.has(
        "verb.undo",
        "verb.redo",
        "verb.dislike",
        "verb.back",
        "pronoun.different",
        "verb.say",
        "verb.mention",
        "question.able",
        "verb.slow",
        "verb.quicken",
    ):
        return False
    covered = {at for mark in clause.marks for at in range(mark.first, mark.last)}
    return all(at in covered or not clause.words(at, at + 1) for at in range(clause.first, clause.last))


def says_nothing(clause: Clause) -> bool:
    """Whether a clause only gives a reason or is polite."""
    if clause.has("skip.reason"):
        return True
    silent = {
        at for mark in clause.all("skip", "join", "chat.greeting") for at in range(mark.first, mark.last)
    }
    return all(
        at in silent or (not clause.tokens[at].word.isalnum() and not clause.tokens[at].quoted)
        for at in range(clause.first, clause.last)
    )


def within_tracks(clause: Clause, ad: Ad) -> bool:
    """Whether sentences are to change places, or to have a pause: only tracks can."""
    moved = clause.has("noun.pause") or (
        clause.has("verb.replace", "verb.move") and len(clause.all("ordinal")) > 1
    )
    longer = any(len(sentences(str(one.get("text")))) > 1 for one in ad.tracks)
    return clause.has("noun.sentence") and moved and longer and not clause.quotes


def numbers_one(clause: Clause) -> bool:
    """Whether a clause is about "the second one" and the like."""
    edges = {mark.first for mark in clause.all("place")}
    numbering = any(mark.first not in edges for mark in clause.all("ordinal"))
    return numbering and clause.has("pronoun.one", "quality", "verb.replace", "verb.dislike")


def paced(clause: Clause) -> bool:
    """Whether "say" is about how fast somebody speaks: "say it slower"."""
    names = {one.name for one in asked(clause)}
    return bool(names) and names <= TEMPO and not clause.quotes and not clause.has("verb.mention", "topic")


def kinds_of(clause: Clause, inner: Clause) -> list[str]:
    """Return the kinds of thing `clause` names, what is meant first; `inner` is the clause without its place.

    What is named beside the whole ad is meant, and music beside an instrument ("the drums in the music").
    """
    kinds = sorted(dict.fromkeys(KINDS[mark.concept] for mark in inner.all(*KINDS)), key="ad".__eq__)
    if clause.has("sound"):
        if not clause.has("verb.mention") and not {"music", "text"} & set(kinds):
            kinds.insert(0, "effect")
    elif clause.has("instrument", "genre"):
        kinds.sort(key=lambda kind: kind != "music")
    if not kinds and clause.has("quality") and spoken_of(clause):
        kinds.append("voice")
    return kinds
