"""Requests about versions: undo, redo, back to an earlier one, several to choose from, what must stay."""

from providers.offline.ad_creation.amounts import count, figure
from providers.offline.ad_creation.clauses import Clause, clauses
from providers.offline.ad_creation.edits import Edit, Keep, Restore, RestoreCast, Variations, Walk
from providers.offline.ad_creation.history import Ad, Step
from providers.offline.ad_creation.tracks import named
from providers.offline.lexicon import Lexicon, Mark
from state.ad import STREAMS, Stream

_TWO = 2
_REACH = 3
"""Tokens between a version and its number, at most."""
MOST_VARIATIONS = 5
"""Versions made at once, at most."""
_USUAL_VARIATIONS = 3
_SMALL = 3
"""Letters of a preposition or an article, at most."""
_PREVIOUS = -2
_NOUNS: dict[str, Stream] = {
    "noun.music": "music", "genre": "music", "instrument": "music", "noun.effect": "sfx", "sound": "sfx",
    "noun.voice": "voices", "noun.announcer": "voices", "noun.text": "voices", "noun.line": "voices",
    "noun.track": "voices",
}  # fmt: skip
Choices = tuple[Stream, int] | None
"""The stream and the number of the variations that were just made."""
_WORDS = ("noun.text", "noun.line")


def streams_in(clause: Clause) -> list[Stream]:
    """Return the streams a clause names, without doubles."""
    named = (_NOUNS.get(mark.concept) or _NOUNS.get(mark.concept.split(".")[0]) for mark in clause.marks)
    return list(dict.fromkeys(stream for stream in named if stream))


def read(clause: Clause, choices: Choices, focus: Stream | None = None) -> list[Edit]:
    """Return what `clause` asks about versions.

    `choices`: variations that were just made; `focus`: the stream "it" means.
    """
    for find in (_chosen, _variations, _walked, _cast):
        edit = find(clause, choices)
        if edit:
            return [edit]
    restored = _restored(clause, focus)
    return [restored] if restored else []


def _cast(clause: Clause, _choices: Choices) -> RestoreCast | None:
    """Return "the original voice again", "go back to the previous voices"."""
    if not clause.has("noun.voice", "noun.announcer") or clause.has("noun.version", "noun.text", "negation"):
        return None
    if clause.has("pronoun.original"):
        return RestoreCast(1)
    back = clause.has("verb.back", "particle.again")
    return RestoreCast(_PREVIOUS) if back and clause.has("ordinal.-2") else None


def _variations(clause: Clause, _choices: Choices) -> Variations | None:
    plural = clause.has("noun.variation") and not _one_so(clause)
    amount = count(clause)
    genders = clause.names("gender")
    if (
        clause.has("noun.version", "noun.variation")
        and len(genders) == _TWO
        and clause.has("number.1", "number.2")
    ):
        return Variations(2, genders=tuple(genders))
    several = amount is not None and amount > 1 and (_counted(clause) or _versions_of(clause))
    if not ((plural and (amount is None or amount > 1)) or several) or clause.has("verb.back", "verb.undo"):
        return None
    if amount is None and not (
        _many(clause) and clause.has("verb.create", "verb.add", "verb.put", "question.show")
    ):
        return None
    streams = [one for one in streams_in(clause) if one]
    stream: Stream = streams[0] if streams else "voices"
    first = clause.get(*_WORDS, "noun.voice")
    texts = first is not None and first.concept in _WORDS
    return Variations(min(max(amount or _USUAL_VARIATIONS, 2), MOST_VARIATIONS), stream, texts)


def _one_so(clause: Clause) -> bool:
    """Whether the word for variations says how it shall be: Thai "the lively kind, please"."""
    qualities = {mark.first for mark in clause.all("quality")}
    return any(
        mark.last in qualities and not clause.tokens[mark.first].word.isascii()
        for mark in clause.all("noun.variation")
        if mark.last - mark.first > 1 and " " not in clause.words(mark.first, mark.last)
    )


def _versions_of(clause: Clause) -> bool:
    """Whether a number counts versions to be made: "4 versions of the script", not "version 4"."""
    noun = clause.get("noun.version")
    if (
        not noun
        or clause.has("verb.back", "verb.remove")
        or any(mark.concept != "question.show" for mark in clause.all("question"))
        or not clause.has("verb.create", "verb.put", "verb.make")
    ):
        return False
    numbers = {mark.last for mark in clause.all("number")} | {
        at + 1 for at in range(clause.first, noun.first) if figure(clause.tokens[at].word) is not None
    }
    return noun.first in numbers


def _counted(clause: Clause) -> bool:
    """Whether a number counts different ones: "3 different voices", not "a different voice 3"."""
    ends = {mark.last for mark in clause.all("number")} | {
        at + 1 for at in range(clause.first, clause.last) if figure(clause.tokens[at].word) is not None
    }
    # In "voice 2, another one" the number belongs to the noun before it.
    ends -= {mark.last + 1 for mark in clause.all("noun.voice", "noun.version", "noun.track")}
    # Romance languages set it behind the noun: "3 accroches différentes".
    ends |= {mark.last for mark in clause.all("noun.text", "noun.line", "noun.music") if mark.first in ends}
    made = clause.has("verb.create") and not clause.has("verb.put")
    things = (
        clause.has("noun.version", "noun.text", "noun.music")
        or (made and clause.has("noun.line"))
        or (clause.has("noun.voice") and clause.has("verb.create") and not clause.has("verb.put"))
    )
    return things and any(mark.first in ends for mark in clause.all("pronoun.different"))


def _many(clause: Clause) -> bool:
    """Whether variations are asked for in the plural; languages without plurals count as plural."""
    mark = clause.get("noun.variation")
    word = clause.tokens[mark.first].word if mark else ""
    return word not in {"variation", "variant", "alternative", "option"}


def _chosen(clause: Clause, choices: Choices) -> Restore | None:
    """Return the pick of one of the variations that were just made: "I'll take the second one"."""
    if (
        choices is None
        or clause.has("negation", "verb.dislike")
        or (clause.has("verb.make", "verb.remove", "quality") and not clause.has("noun.variation"))
    ):
        return None
    noun = clause.get("noun.variation")
    if (
        noun
        and not clause.has("ordinal")
        and not any(
            token.word.isalnum()
            for token in clause.tokens[noun.last : noun.last + 1]
            if clause.last > noun.last
        )
    ):
        return None
    picked = clause.has("pronoun.one", "noun.variation", "verb.use", "verb.back", "verb.keep")
    ones = {mark.first for mark in clause.all("pronoun.one")}
    mark = next((one for one in clause.all("ordinal", "number") if one.first not in ones), None)
    value = int(float(mark.concept.partition(".")[2])) if mark else _digit(clause)
    if not picked or value is None or clause.has("noun.version", "noun.track", "noun.line", "noun.voice"):
        return None
    # Counted among the newest, from the end: the last of three variations is -1.
    stream, size = choices
    place = value if value < 0 else value - size - 1
    return Restore(stream, place) if -size <= place < 0 else None


def _digit(clause: Clause) -> int | None:
    return next((int(value) for token in clause.own if (value := figure(token.word)) is not None), None)


def _walked(clause: Clause, _choices: Choices) -> Walk | None:
    redo = clause.has("verb.redo")
    back = clause.has("verb.undo") or (clause.has("verb.back") and clause.has("particle.twice"))
    if not (redo or back) or clause.has("noun.pause"):
        return None
    version = version_in(clause)
    if (version is not None and version != _PREVIOUS) or clause.has("negation.not"):
        return None
    if clause.has("pronoun.all", "noun.ad", "pronoun.else"):
        return Walk(Step("redo" if redo else "undo", times=99))
    amount = 2 if clause.has("particle.twice") else count(clause) or 1
    stream = next(iter(streams_in(clause)), None)
    return Walk(Step("redo" if redo else "undo", max(1, min(amount, 99)), stream))


def version_in(clause: Clause) -> int | None:
    """Return the version a clause names ("v2", "the first version"); from the end when negative."""
    for noun in clause.all("noun.version"):
        for at in range(noun.last, min(noun.last + 3, clause.last)):
            value = figure(clause.tokens[at].word)
            if value is not None:
                return int(value)
        near = [
            mark
            for mark in clause.all("ordinal", "number")
            if -_REACH <= mark.last - noun.first <= 0 or 0 <= mark.first - noun.last <= 1
        ]
        if near:
            return _number(near[0])
    if clause.has("verb.back") and any(mark.last == clause.last for mark in clause.all("place.before")):
        return _PREVIOUS
    mark = (
        clause.get("ordinal.1", "ordinal.-2")
        if clause.has("verb.back", "particle.again", "verb.undo")
        else None
    )
    return _number(mark) if mark else None


def _number(mark: Mark) -> int:
    value = int(float(mark.concept.partition(".")[2]))
    return _PREVIOUS if value == -1 else value


def _restored(clause: Clause, focus: Stream | None) -> Restore | None:
    again = clause.has("particle.again") and clause.has("verb.use", "verb.make", "verb.put")
    if not (
        clause.has("verb.back", "verb.undo")
        or again
        or _picks(clause)
        or (clause.has("noun.version", "noun.ad") and clause.has("verb.use"))
    ):
        return None
    version = version_in(clause)
    if (
        version is None
        and clause.has("verb.back", "verb.undo")
        and clause.has("place.start", "pronoun.original")
    ):
        version = 1
    streams = streams_in(clause)
    if version is None or clause.has("negation", "quality.short", "quality.long"):
        return None
    everything = clause.has("pronoun.all", "noun.ad", "pronoun.it", "place.start")
    meant = streams[0] if streams else focus if clause.has("pronoun.one") and not everything else None
    return Restore(meant, version)


def _picks(clause: Clause) -> bool:
    """Whether a clause only names a stream and a version: "rather the music of version 1"."""
    verbs = {mark.concept for mark in clause.all("verb")} - {"verb.make", "verb.put", "verb.use"}
    said = any(len(word) > _SMALL for word in clause.rest().split())
    bare = not (verbs or said or clause.has("quality", "question", "chat", "negation", "sound", "limit"))
    return clause.has("noun.version") and bool(streams_in(clause)) and bare and not clause.asking


def steps(message: str, words: Lexicon) -> list[Step]:
    """Return the ways through the history a message took; fetching a version back is none."""
    found = (_walked(clause, None) for clause in clauses(message, words))
    return [walk.step for walk in found if walk]


def kept(clause: Clause, ad: Ad) -> Keep | None:
    """Return what must not change: "leave the voices alone", "don't touch the script"."""
    if clause.has("pronoun.else") and clause.has("verb.keep", "negation", "verb.touch", "pronoun.alone"):
        return Keep(())
    streams = _targets(clause)
    if not streams and (_not_more(clause) or (clause.has("verb.keep") and clause.has("noun.accent"))):
        return Keep(())
    one = named(clause, ad, plural=False).tracks if clause.has("pronoun.one", "gender") else ()
    if not streams and one and clause.has("pronoun.alone", "verb.keep"):
        streams = ["voices"]
    if not streams or not _holds(clause) or clause.has("noun.pause", "noun.overlap"):
        return None
    always = clause.has("particle.always")
    if clause.has("noun.sentence") and clause.has("ordinal.-1"):
        return Keep((), last_sentence=True, always=always)
    which = named(clause, ad, plural=False)
    tracks = (
        which.tracks if which.tracks and not which.everyone and set(streams) <= {"voices", "texts"} else ()
    )
    return Keep(tuple(streams), tracks, always=always)


def _holds(clause: Clause) -> bool:
    acting = clause.has(
        "verb.touch", "verb.change", "verb.add", "verb.remove", "verb.replace", "verb.move", "verb.put"
    )
    plain = not clause.has("quality", "verb.say", "verb.mention", "verb.dislike")
    refused = clause.has("negation.not") and plain and (acting or clause.has("pronoun.different"))
    holding = clause.has("verb.keep") and not clause.has("quality", "degree", "limit")
    alone = clause.has("pronoun.alone") and not clause.has("verb.make", "verb.change", "negation")
    return refused or holding or alone or _not_more(clause)


def _not_more(clause: Clause) -> bool:
    """Whether a change is refused rather than less of it asked for: "don't make the music faster"."""
    if (
        not clause.has("negation.not")
        or not clause.has("verb.make")
        or clause.has("degree.less", "degree.too", "degree.enough")
    ):
        return False
    return any(clause.tokens[mark.first].word.endswith("er") for mark in clause.all("quality")) or clause.has(
        "degree.more"
    )


def _targets(clause: Clause) -> list[str]:
    """Return the streams a clause names, the words of the script apart from who speaks them."""
    names = []
    for mark in clause.marks:
        stream = _NOUNS.get(mark.concept) or _NOUNS.get(mark.concept.split(".")[0])
        if stream:
            names.append("texts" if mark.concept in _WORDS else str(stream))
    return list(dict.fromkeys(names))


def only(clause: Clause) -> Keep | None:
    """Return what stays when a clause says that only something may change."""
    mark = clause.get("particle.only")
    streams = streams_in(clause)
    if not mark or len(streams) != 1 or clause.has("number.1", "sound"):
        return None
    close = any(abs(one.first - mark.last) <= 3 for one in clause.all("noun", "verb.change", "verb.touch"))  # noqa: PLR2004 - "only change the music"
    return Keep(tuple(one for one in STREAMS if one != streams[0])) if close else None
