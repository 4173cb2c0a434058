"""Requests about voices: who speaks, how fast, in which order and with which pauses."""

import re
from dataclasses import replace

from providers.offline.amounts import before, figure, seconds
from providers.offline.clauses import Clause
from providers.offline.edits import (
    AddTrack,
    Beyond,
    CopyVoice,
    Edit,
    Pace,
    Recast,
    RemoveTracks,
    Reorder,
    Spacing,
    Speakers,
    SwapVoices,
    Together,
    Unclear,
    Wish,
)
from providers.offline.history import Ad
from providers.offline.lexicon import Mark, fold
from providers.offline.qualities import Asked, asked, qualities
from providers.offline.tracks import Named, gender_of, named

_TWO = 2
_AT_ONCE = {
    "at the same time",
    "simultaneously",
    "at once",
    "in unison",
    "like a choir",
    "together at once",
    "zároveň",
    "současně",
    "jednocześnie",
    "a la vez",
    "al mismo tiempo",
    "ao mesmo tempo",
    "bersamaan",
    "cùng lúc",
    "în același timp",
    "simultan",
    "พร้อมกัน",
    "同时说",
}
PAUSE_S = 0.5
"""Seconds of a pause or an overlap whose length was not given."""
_TEMPO = {"fast", "slow"}
_VOLUME = {"loud", "quiet"}
_LENGTH = {"short", "long"}
_NAME = re.compile(r"[^\W\d_]{3,}")
_FACTOR_SIGNS = {"x", "×"}


def read(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return what `clause`, which is about voices, asks for; `focused` tracks are what "it" means."""
    which = named(clause, ad, plural=False)
    if which.missing is not None and not clause.has("verb.add"):
        return [Unclear(str(which.missing), "cannot.no_track")]
    for find in (speakers, _together, _shifted, _spacing, _added, _ordered, _removed, _shared, _exchanged):
        found = find(clause, ad)
        if found:
            return found
    return _manner(clause, ad, focused)


_SEVERAL = range(1, 7)


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
        (one for one in clause.all("number") if any(0 <= noun.first - one.last <= _TWO for noun in nouns)),
        None,
    )
    value = int(float(mark.concept.partition(".")[2])) if mark else _counted(clause, nouns)
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


def _counted(clause: Clause, nouns: list[Mark]) -> int | None:
    """Return a number in digits right before a noun, a word between allowed: "3 different voices"."""
    for noun in nouns:
        for at in (noun.first - 1, noun.first - 2):
            value = figure(clause.tokens[at].word) if at >= clause.first else None
            if value is not None:
                return int(value)
    return None


def _together(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "the first two voices speak at the same time"."""
    if (
        not clause.has("noun.overlap")
        or seconds(clause)
        or clause.has("negation", "verb.remove", "degree.little")
    ):
        return []
    which = named(clause, ad, plural=False).tracks
    together = any(
        clause.words(mark.first, mark.last).lower() in _AT_ONCE for mark in clause.all("noun.overlap")
    )
    pair = (
        which
        if len(which) == _TWO
        else (0, 1)
        if clause.has("number.2", "pronoun.both") and len(ad.tracks) > 1
        else ()
    )
    return [Together(pair[0], pair[1])] if together and pair else []


def _shifted(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "let the voice start two seconds later": a pause before it, the first one's included."""
    if not clause.has("place.later", "place.earlier"):
        return []
    length = seconds(clause) or PAUSE_S
    which = named(clause, ad, plural=False).tracks or (0,)
    return [Spacing(which, change=length if clause.has("place.later") else -length)]


def _manner(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    paced = pace(clause, ad, focused)
    cast = _recast(clause, ad, focused)
    if paced or cast:
        return [*paced, *cast]
    if {one.name for one in asked(clause)} & _VOLUME or clause.has("noun.volume"):
        return [Beyond("volume")]
    return []


def tracks_of(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> tuple[int, ...]:
    """Return the tracks a clause means: those it names, those in focus for a pronoun, else all."""
    which = named(clause, ad)
    if which.tracks:
        return which.tracks
    if clause.has("pronoun.other") and len(focused) < len(ad.tracks) and focused:
        return tuple(at for at in range(len(ad.tracks)) if at not in focused)
    return focused or tuple(range(len(ad.tracks)))


def _spacing(clause: Clause, ad: Ad) -> list[Edit]:
    if not clause.has("noun.pause", "noun.overlap"):
        return []
    tracks = _spaced(clause, ad)
    length = seconds(clause)
    wanted = {one.name: one.more for one in asked(clause)}
    if clause.has("noun.overlap"):
        if clause.has("negation", "verb.remove"):
            return [Spacing(tracks, 0.0)]
        return [Spacing(tracks, -(length or PAUSE_S))]
    if clause.has("verb.remove", "negation.no"):
        return [Spacing(tracks, 0.0)]
    if length:
        return [Spacing(tracks, length)]
    if "short" in wanted or clause.has("degree.less", "verb.shorten"):
        return [Spacing(tracks, change=-0.3)]
    return [Spacing(tracks, change=PAUSE_S)]


def _spaced(clause: Clause, ad: Ad) -> tuple[int, ...]:
    """Return the tracks before which the pause is."""
    rest = tuple(range(1, len(ad.tracks)))
    which = named(clause, ad, plural=False)
    if not which.tracks:
        return (0,) if clause.has("place.start") else rest
    if clause.has("place.between", "particle.between") and len(which.tracks) > 1:
        return which.tracks[1:]
    if clause.has("place.start") or (clause.has("place.before") and 0 in which.tracks):
        return (0,)
    if clause.has("place.after"):
        return tuple(at + 1 for at in which.tracks if at + 1 < len(ad.tracks)) or rest[-1:]
    return tuple(at for at in which.tracks if at > 0) or which.tracks


def _added(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "add a third voice that says …"; a wish for the voice may stand beside it."""
    if not clause.has("verb.add", "verb.put") or not clause.has(
        "noun.voice", "noun.track", "noun.announcer", "gender"
    ):
        return []
    speaking = clause.has("noun.voice", "noun.announcer", "gender", "noun.track")
    new = clause.has("verb.add") or _new_ordinal(clause, ad)
    if not speaking or not new or clause.has("degree", "noun.effect", "noun.line"):
        return []
    text = clause.quotes[0] if clause.quotes else _after_say(clause)
    return [AddTrack(text, wish_in(clause, ad), clause.has("place.start"))]


def _new_ordinal(clause: Clause, ad: Ad) -> bool:
    return any(int(mark.concept.partition(".")[2]) > len(ad.tracks) for mark in clause.all("ordinal"))


def _after_say(clause: Clause) -> str:
    say = clause.get("verb.say")
    return clause.words(say.last, clause.last) if say else ""


def _ordered(clause: Clause, ad: Ad) -> list[Edit]:
    size = len(ad.tracks)
    which = named(clause, ad, plural=False)
    swapping = clause.has("verb.replace", "noun.order") and not clause.has("gender", "accent", "quality")
    places = which.tracks or (
        tuple(range(size)) if size == 2 and clause.has("noun.voice", "noun.track", "noun.line") else ()
    )  # noqa: PLR2004 - two can only change with each other
    roles = list(dict.fromkeys(str(track.get("voiceId")) for track in ad.tracks))
    if (
        swapping
        and not which.tracks
        and len(roles) == 2
        and clause.has("noun.voice")
        and not clause.has("pronoun.different", "particle.with", "particle.to")
    ):  # noqa: PLR2004 - two speakers
        second_role = next(at for at, track in enumerate(ad.tracks) if track.get("voiceId") == roles[1])
        return [SwapVoices(0, second_role, everywhere=True)]
    if swapping and len(places) == 2 and not clause.has("pronoun.different"):  # noqa: PLR2004 - as above
        first, second = places
        if clause.has("noun.track", "noun.line", "noun.text", "noun.order"):
            return [Reorder(_swapped_order(size, first, second))]
        return [SwapVoices(first, second)]
    if clause.has("noun.order") and size > 1 and not which.tracks:
        return [Reorder(tuple(range(size - 1, -1, -1)))]
    return _moved(clause, size, which)


def _swapped_order(size: int, first: int, second: int) -> tuple[int, ...]:
    order = list(range(size))
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _moved(clause: Clause, size: int, which: Named) -> list[Edit]:
    """Return "move the second voice to the start", "let the woman speak first"."""
    edge = clause.get("place.start", "place.end")
    first = clause.all("ordinal.1", "ordinal.-1")
    putting = clause.has("verb.put") and not clause.has(
        "sound", "noun.effect", "particle.for", "accent", "quality", "noun.pause"
    )
    speaking = clause.has("verb.move", "verb.speak") or putting
    if not speaking or not (edge or first):
        return []
    to_start = edge.concept == "place.start" if edge else first[-1].concept == "ordinal.1"
    moving = [at for at in which.tracks if len(which.tracks) == 1 or at != (0 if to_start else size - 1)]
    if not moving:
        return []
    rest = [at for at in range(size) if at not in moving]
    return [Reorder(tuple([*moving, *rest] if to_start else [*rest, *moving]))]


def _removed(clause: Clause, ad: Ad) -> list[Edit]:
    if not clause.has("verb.remove") or clause.has("negation.not", "particle.instead", "quality"):
        return []
    which = named(clause, ad, plural=False)
    return [RemoveTracks(which.tracks)] if which.tracks else []


def _shared(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "the same voice for all", "use only one voice", "use the first voice for the second line too"."""
    if clause.has("noun.gender"):
        return []
    everyone = clause.has("pronoun.all", "pronoun.both", "noun.ad")
    single = clause.has("pronoun.same") or (
        clause.has("number.1") and clause.has("noun.voice") and clause.has("particle.only")
    )
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


def _exchanged(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "a woman instead of the man", "replace Jenny with Ryan", "change the male voice to a female one"."""
    instead = clause.get("particle.instead")
    if instead:
        old, new = clause.part(instead.last, clause.last), clause.part(clause.first, instead.first)
        return _for_whom(old, new, ad)
    verb = clause.get("verb.replace", "verb.change", "verb.use", "verb.make")
    turn = next(
        (one for one in clause.all("particle.to", "particle.with") if verb and one.first > verb.last), None
    )
    if not verb or not turn:
        return []
    return _for_whom(clause.part(verb.last, turn.first), clause.part(turn.last, clause.last), ad)


def _for_whom(old: Clause, new: Clause, ad: Ad) -> list[Edit]:
    which = _speaking(old, ad)
    wish = wish_in(new, ad, named_ok=True)
    if not which or wish.empty:
        return []
    other = named(new, ad, plural=False)
    if len(other.tracks) == 1 and not (wish.gender or wish.styles or wish.accent) and not wish.name:
        return [CopyVoice(other.tracks[0], which)]
    return [Recast(which, wish)]


def _speaking(old: Clause, ad: Ad) -> tuple[int, ...]:
    which = named(old, ad)
    if which.tracks and not which.everyone:
        return which.tracks
    gender = next(iter(old.names("gender")), "")
    fitting = tuple(i for i, track in enumerate(ad.tracks) if gender and gender_of(ad, track) == gender)
    return fitting or which.tracks


def pace(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return the change of speed a clause asks of voices: "20% faster", "slow down", "speed 1.2"."""
    clause = _phrasal(clause)
    speed = _speed(clause)
    if speed:
        return [Pace(tracks_of(clause, ad, focused), speed=speed)]
    tempo = next((one for one in asked(clause) if one.name in _TEMPO), None)
    graded = clause.has("noun.speed") and clause.has("degree.more", "degree.less")
    if tempo is None and not graded and not clause.has("verb.slow", "verb.quicken"):
        return []
    quicker = clause.has("verb.quicken") or (graded and clause.has("degree.more"))
    faster = (tempo.name == "fast") == tempo.more if tempo else quicker
    return [Pace(tracks_of(clause, ad, focused), factor=_factor(clause, tempo, faster=faster))]


def _phrasal(clause: Clause) -> Clause:
    """Return the clause with "speed … up" and "slow … down" as the verbs they are."""
    up, down = clause.get("particle.up"), clause.get("particle.down")
    verb = clause.get("noun.speed", "quality.slow", "quality.fast")
    if verb and up and verb.concept == "noun.speed" and up.first > verb.last:
        return replace(clause, marks=(*clause.marks, Mark("verb.quicken", verb.first, verb.last)))
    if verb and down and verb.concept == "noun.speed":
        return replace(clause, marks=(*clause.marks, Mark("verb.slow", verb.first, verb.last)))
    return clause


def _speed(clause: Clause) -> float | None:
    for at in range(clause.first, clause.last):
        value = figure(clause.tokens[at].word)
        after = clause.tokens[at + 1].word if at + 1 < clause.last else ""
        if (
            value
            and 0.25 <= value <= 4
            and (after in _FACTOR_SIGNS or (clause.has("noun.speed") and "." in clause.tokens[at].word))
        ):  # noqa: PLR2004 - what can be meant as a speed
            return value
    return None


def _factor(clause: Clause, tempo: Asked | None, *, faster: bool) -> float:
    percent = next((before(clause, mark.first) for mark in clause.all("unit.percent")), None)
    if percent and 0 < percent < 100:  # noqa: PLR2004 - a share
        return 1 + percent / 100 if faster else 1 - percent / 100
    step = 0.07 if clause.has("degree.little") or (tempo and tempo.slightly) else 0.14
    step = 0.28 if clause.has("degree.much") else step
    return round(1 + step if faster else 1 - step, 2)


def _recast(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
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
        len(genders) != 2
        or clause.has("particle.instead", "particle.to", "particle.with")
        or len(ad.tracks) < 2
    ):  # noqa: PLR2004 - a couple
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
    styles = tuple(
        one.name for one in asked(clause) if one.more and one.name not in _TEMPO | _VOLUME | _LENGTH
    )
    less = tuple(
        qualities()[one.name].counter
        for one in asked(clause)
        if not one.more and one.name not in _TEMPO | _VOLUME | _LENGTH
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
    """Return the name of a voice that `clause` wants: one of the catalogue as far as known, or a capitalised word."""
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
