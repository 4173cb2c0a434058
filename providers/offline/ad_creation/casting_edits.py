"""Requests about who speaks: how many, another, which gender, accent, style or name."""

import re

from providers.offline.ad_creation.amounts import figure
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.edits import (
    CopyVoice,
    Edit,
    Recast,
    Speakers,
    Wish,
)
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.qualities import asked, qualities
from providers.offline.ad_creation.tracks import Named, gender_of, named
from providers.offline.lexicon import Mark, fold

TWO = 2
TEMPO = {"fast", "slow"}
VOLUME = {"loud", "quiet"}
_LENGTH = {"short", "long"}
_NAME = re.compile(r"[^\W\d_]{3,}")
_SEVERAL = range(1, 7)
_SOMEONE = frozenset({"someone", "somebody"})


def speakers(clause: Clause, ad: Ad) -> list[Edit]:
    """Return how many people shall speak: "three different people", "one narrator is enough"."""
    nouns = clause.all("noun.voice", "noun.announcer")
    if not nouns or clause.has(
        "verb.add",
        "verb.remove",
        "noun.version",
        "noun.variation",
        "verb.replace",
        "gender",
        "accent",
        "noun.pause",
        "noun.overlap",
        "noun.speed",
    ):
        return []
    mark = next(
        (one for one in clause.all("number") if any(0 <= noun.first - one.last <= TWO for noun in nouns)),
        None,
    )
    value = (
        int(float(mark.concept.partition(".")[2]))
        if mark
        else _counted(clause, nouns) or _sole(clause, nouns)
    )
    selected = named(clause.without(clause.all("noun.announcer")), ad, plural=False).tracks
    if value is None or value not in _SEVERAL or selected:
        return []
    if value == 1:
        alone = clause.has(
            "degree.enough", "particle.only", "verb.use", "verb.make", "verb.put", "verb.keep", "pronoun.same"
        )
        return [Speakers(1)] if alone else []
    meant = clause.has(
        "pronoun.different", "verb.use", "verb.make", "verb.put", "verb.say", "verb.speak"
    ) and not clause.has("quality")
    return [Speakers(value)] if meant else []


def _sole(clause: Clause, nouns: list[Mark]) -> int | None:
    """Return 1 for "uma voz só basta", where an article counts."""
    enough = clause.has("degree.enough", "particle.only")
    before = any(noun.first - one.last in {0, 1} for noun in nouns for one in clause.all("pronoun.one"))
    return 1 if enough and before else None


def _counted(clause: Clause, nouns: list[Mark]) -> int | None:
    """Return a number in digits right before a noun, a word between allowed: "3 different voices"."""
    for noun in nouns:
        for at in (noun.first - 1, noun.first - 2):
            value = figure(clause.tokens[at].word) if at >= clause.first else None
            if value is not None:
                return int(value)
    return None


def tracks_of(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> tuple[int, ...]:
    """Return the tracks a clause means: those it names, those in focus for a pronoun, else all."""
    which = named(clause, ad)
    if focused and _someone(clause, which):
        return focused
    if clause.has("pronoun.other") and focused and (which.everyone or not which.tracks):
        return tuple(at for at in range(len(ad.tracks)) if at not in focused)
    return which.tracks or focused or tuple(range(len(ad.tracks)))


def _someone(clause: Clause, which: Named) -> bool:
    """Whether nobody is told from the others: "get someone with more energy"."""
    spoken = {clause.words(mark.first, mark.last).lower() for mark in which.marks}
    return which.everyone and spoken <= _SOMEONE


def shared(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "the same voice for all", "use the first voice for the second line too"."""
    if clause.has("noun.gender"):
        return []
    everyone = clause.has("pronoun.all", "pronoun.both", "noun.ad")
    single = clause.has("pronoun.same") or (
        clause.has("number.1") and clause.has("noun.voice") and clause.has("particle.only")
    )
    genders = {mark.first for mark in clause.all("gender")}
    # "One woman for all of it": the number before her counts.
    single = single or (everyone and any(one.last in genders for one in clause.all("number.1")))
    which = named(clause, ad, plural=False)
    goal = clause.get("particle.for")
    if goal and clause.has("verb.use") and not wanted_voice(clause, ad):
        source = named(clause.part(clause.first, goal.first), ad, plural=False).tracks
        target = named(clause.part(goal.last, clause.last), ad).tracks or tuple(range(len(ad.tracks)))
        if len(source) == 1 and set(target) - set(source):
            return [CopyVoice(source[0], tuple(at for at in target if at != source[0]))]
    if not (single or everyone) or not clause.has("noun.voice", "gender", "noun.announcer", "verb.use"):
        return []
    every = tuple(range(len(ad.tracks)))
    wish = wish_in(clause, ad)
    if (single or clause.has("verb.use")) and not wish.empty and _singular(clause):
        return [Recast(every, wish, shared=True)]
    if single and wish.empty and not clause.has("negation"):
        source = which.tracks or (0,)
        return [CopyVoice(source[0], tuple(at for at in every if at != source[0]))]
    return []


def _singular(clause: Clause) -> bool:
    one = clause.get("gender", "noun.voice")
    return (
        bool(
            clause.has("pronoun.same", "number.1")
            or (
                one
                and one.first > clause.first
                and clause.tokens[one.first - 1].word in {"a", "an", "single", "one"}
            )
        )
        or not one
    )


def exchanged(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "a woman instead of the man", "replace Jenny with Ryan"."""
    instead = clause.get("particle.instead")
    if instead:
        old, new = clause.part(instead.last, clause.last), clause.part(clause.first, instead.first)
        return _for_whom(*(_fronted(old) if wish_in(new, ad).empty else (old, new)), ad)
    verb = clause.get("verb.replace", "verb.change", "verb.use", "verb.make")
    turn = next(
        (one for one in clause.all("particle.to", "particle.with") if verb and one.first > verb.last), None
    )
    if not verb or not turn:
        return []
    old = clause.part(verb.last, turn.first)
    return [] if _someone(old, named(old, ad)) else _for_whom(old, clause.part(turn.last, clause.last), ad)


def _fronted(clause: Clause) -> tuple[Clause, Clause]:
    """Return whom and what of "(instead of) the lady at the start a deep male voice"."""
    someone = clause.get("gender", "noun.voice", "noun.announcer")
    until = someone.last if someone else clause.first
    beside = (mark for mark in clause.all("place") if until <= mark.first <= until + 1)
    until = max((mark.last for mark in beside), default=until)
    return clause.part(clause.first, until), clause.part(until, clause.last)


def _for_whom(old: Clause, new: Clause, ad: Ad) -> list[Edit]:
    which = _speaking(old, ad)
    wish = wish_in(new, ad, named_ok=True)
    someone = named(new, ad, plural=False)
    other = someone.tracks
    plain = wish.empty and not old.has("gender", "accent", "quality", "pronoun.different")
    if which and len(other) == 1 and plain and set(which) - set(other):
        return [CopyVoice(other[0], which)]
    there = other and someone.marks == tuple(new.all("gender")) and not (wish.accent or wish.styles)
    if there and not set(which) & set(other):
        return [CopyVoice(other[0], which)]
    return [Recast(which, wish)] if which and not wish.empty else []


def _speaking(old: Clause, ad: Ad) -> tuple[int, ...]:
    which = named(old, ad)
    gender = next(iter(old.names("gender")), "")
    fitting = tuple(i for i, track in enumerate(ad.tracks) if gender and gender_of(ad, track) == gender)
    found = which.tracks if which.tracks and not which.everyone else fitting or which.tracks
    return found[:1] if old.has("place.start") else found[-1:] if old.has("place.end") else found


def recast(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return "a British woman for voice 2", "someone else": other voices for the tracks that are meant."""
    couple = _couple(clause, ad)
    if couple:
        return couple
    wish = wish_in(clause, ad)
    anew = clause.has("verb.dislike", "pronoun.different", "verb.replace", "pronoun.other") or (
        clause.has("verb.change") and wish.empty
    )
    if wish.empty and not anew:
        return []
    if clause.has("negation") and not anew and not wish.styles:
        wish = _opposite(wish)
    target = clause.without(_wish_marks(clause, ad))
    tracks = tracks_of(target, ad, focused)
    return [Recast(_unmet(tracks, wish, ad, anew=anew), wish)] if tracks else []


def _couple(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "a man and a woman", "one male and the other female"."""
    genders = list(dict.fromkeys(mark.concept.partition(".")[2] for mark in clause.all("gender")))
    if (
        len(genders) != TWO
        or clause.has("particle.instead", "particle.to", "particle.with")
        or len(ad.tracks) < TWO
    ):
        return []
    tracks = range(len(ad.tracks))
    first, second = tuple(at for at in tracks if at % 2 == 0), tuple(at for at in tracks if at % 2)
    return [
        Recast(_unmet(first, Wish(genders[0]), ad, anew=False), Wish(genders[0]), shared=True),
        Recast(_unmet(second, Wish(genders[1]), ad, anew=False), Wish(genders[1]), shared=True),
    ]


def _opposite(wish: Wish) -> Wish:
    other = {"male": "female", "female": "male"}.get(wish.gender, "")
    return Wish(gender=other, name="")


def _unmet(tracks: tuple[int, ...], wish: Wish, ad: Ad, *, anew: bool) -> tuple[int, ...]:
    """Return those of `tracks` whose voice is not already what is wished; who fits stays."""
    if anew or wish.styles or wish.accent or wish.name or not wish.gender:
        return tracks
    return tuple(at for at in tracks if gender_of(ad, ad.tracks[at]) != wish.gender)


def wish_in(clause: Clause, ad: Ad, *, named_ok: bool = False) -> Wish:
    """Return what kind of voice `clause` wishes for."""
    marks = {id(mark) for mark in _selecting(clause, ad)} if not named_ok else set()
    genders = [mark for mark in clause.all("gender") if id(mark) not in marks]
    styles = tuple(one.name for one in asked(clause) if one.more and one.name not in TEMPO | VOLUME | _LENGTH)
    less = tuple(
        qualities()[one.name].counter
        for one in asked(clause)
        if not one.more and one.name not in TEMPO | VOLUME | _LENGTH
    )
    return Wish(
        gender=genders[-1].concept.partition(".")[2] if genders else "",
        accent=next(iter(clause.names("accent")), "") or _other_accent(clause),
        styles=tuple(one for one in (*styles, *less) if one),
        name="" if clause.has("noun.accent") else wanted_voice(clause, ad),
    )


def _other_accent(clause: Clause) -> str:
    """Return an accent the vocabulary does not know, in the person's words ("New York"), or empty."""
    mark = clause.get("noun.accent")
    if not mark:
        return ""
    covered = {at for one in clause.marks if one is not mark for at in range(one.first, one.last)}
    first = mark.first
    while (
        first > clause.first
        and clause.tokens[first - 1].word.isalpha()
        and (first - 1 not in covered or clause.source[clause.tokens[first - 1].start].isupper())
    ):
        first -= 1
    return clause.words(first, mark.first)


def _selecting(clause: Clause, ad: Ad) -> tuple[Mark, ...]:
    """Return the marks that say whose voice is meant rather than what it should be."""
    return named(clause, ad, plural=False).marks


def _wish_marks(clause: Clause, ad: Ad) -> list[Mark]:
    selecting = set(_selecting(clause, ad))
    return [mark for mark in clause.all("gender", "accent") if mark not in selecting]


def wanted_voice(clause: Clause, ad: Ad) -> str:
    """Return the name of the voice `clause` wants: a known one, else a capitalised word; or empty."""
    known = {fold(str(voice.get("name", ""))).split(" ")[0]: voice for voice in ad.voices.values()}
    cast = {fold(ad.name(str(track.get("voiceId")))).split(" ")[0] for track in ad.tracks}
    covered = {place for mark in clause.marks for place in range(mark.first, mark.last)}
    verb = clause.get(
        "verb.use", "verb.change", "verb.replace", "verb.make", "particle.to", "particle.with", "verb.put"
    )
    fallback = ""
    for at in range(clause.first, clause.last):
        token = clause.tokens[at]
        written = clause.source[token.start : token.end]
        if token.word in known and token.word not in cast:
            return str(known[token.word]["name"])
        if (
            verb
            and at >= verb.last
            and at not in covered
            and written[:1].isupper()
            and _NAME.fullmatch(written)
            and not token.quoted
        ):
            fallback = fallback or (written if token.word not in cast else "")
    return fallback
