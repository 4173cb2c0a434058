"""Requests about voices: who speaks, how fast, in which order and with which pauses."""

from dataclasses import replace

from providers.offline.ad_creation.amounts import before, figure, seconds
from providers.offline.ad_creation.casting_edits import (
    TEMPO,
    TWO,
    VOLUME,
    exchanged,
    recast,
    shared,
    speakers,
    tracks_of,
    wish_in,
)
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.edits import (
    AddTrack,
    Beyond,
    Edit,
    Pace,
    RemoveTracks,
    Reorder,
    Spacing,
    SwapVoices,
    Together,
    Unclear,
)
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.qualities import Asked, asked
from providers.offline.ad_creation.tracks import Named, named
from providers.offline.lexicon import Mark

_AT_ONCE = {
    "at the same time",
    "simultaneously",
    "at once",
    "in unison",
    "like a choir",
    "together at once",
    "gleichzeitig",
    "en même temps",
    "zur gleichen zeit",
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
_SLOWEST, _FASTEST = 0.25, 4.0
"""What can be meant as a speed."""
_LESS_S = 0.3
PAUSE_S = 0.5
"""Seconds of a pause or an overlap whose length was not given."""
_FACTOR_SIGNS = {"x", "×"}


def read(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return what `clause`, which is about voices, asks for; `focused` tracks are what "it" means."""
    which = named(clause, ad, plural=False)
    if which.missing is not None and not clause.has("verb.add"):
        return [Unclear(str(which.missing), "cannot.no_track")]
    for find in (speakers, _together, _shifted, _spacing, _added, _ordered, _removed, shared, exchanged):
        found = find(clause, ad)
        if found:
            return found
    return _manner(clause, ad, focused)


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
        if len(which) == TWO
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
    return [Spacing(which, change=length if clause.has("place.later") else -length, may_overlap=True)]


def _manner(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    if clause.has("noun.volume"):
        return [Beyond("volume")]
    paced = pace(clause, ad, focused)
    cast = recast(clause, ad, focused)
    if paced or cast:
        return [*paced, *cast]
    if {one.name for one in asked(clause)} & VOLUME:
        return [Beyond("volume")]
    return []


def _spacing(clause: Clause, ad: Ad) -> list[Edit]:
    if not clause.has("noun.pause", "noun.overlap"):
        return []
    tracks, length = _spaced(clause, ad), seconds(clause)
    if clause.has("verb.remove", "negation.no") or (clause.has("noun.overlap") and clause.has("negation")):
        return [Spacing(tracks, 0.0)]
    if clause.has("noun.overlap"):
        return [Spacing(tracks, -(length or PAUSE_S))]
    if length:
        return [Spacing(tracks, length)]
    shorter = any(one.name == "short" and one.more for one in asked(clause))
    shorter = shorter or clause.has("degree.less", "verb.shorten")
    return [Spacing(tracks, change=-_LESS_S if shorter else PAUSE_S)]


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
        tuple(range(size)) if size == TWO and clause.has("noun.voice", "noun.track", "noun.line") else ()
    )
    roles = list(dict.fromkeys(str(track.get("voiceId")) for track in ad.tracks))
    if (
        swapping
        and not which.tracks
        and len(roles) == TWO
        and clause.has("noun.voice")
        and not clause.has("pronoun.different", "particle.with", "particle.to")
    ):
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
        "sound",
        "noun.effect",
        "particle.for",
        "accent",
        "quality",
        "noun.pause",
        "verb.change",
        "verb.replace",
    )
    talking = clause.has("verb.speak") and not clause.has("quality")
    speaking = clause.has("verb.move") or talking or putting
    if not speaking or not (edge or first):
        return []
    to_start = edge.concept == "place.start" if edge else _first(clause, first)
    moving = [at for at in which.tracks if len(which.tracks) == 1 or at != (0 if to_start else size - 1)]
    if not moving:
        return []
    rest = [at for at in range(size) if at not in moving]
    return [Reorder(tuple([*moving, *rest] if to_start else [*rest, *moving]))]


def _first(clause: Clause, ordinals: list[Mark]) -> bool:
    """Whether something is to come first: in "the last line comes first" what is after the verb tells."""
    verb = max(mark.first for mark in clause.all("verb"))
    aim = [mark for mark in ordinals if mark.first >= verb]
    if aim:
        return aim[-1].concept == "ordinal.1"
    return clause.has("verb.speak") or ordinals[-1].concept == "ordinal.1"


def _removed(clause: Clause, ad: Ad) -> list[Edit]:
    if not clause.has("verb.remove") or clause.has("negation.not", "particle.instead", "quality"):
        return []
    which = named(clause, ad, plural=False)
    return [RemoveTracks(which.tracks)] if which.tracks else []


def pace(clause: Clause, ad: Ad, focused: tuple[int, ...]) -> list[Edit]:
    """Return the change of speed a clause asks of voices: "20% faster", "slow down", "speed 1.2"."""
    clause = _phrasal(clause)
    speed = _speed(clause)
    if speed:
        return [Pace(tracks_of(clause, ad, focused), speed=speed)]
    tempo = next((one for one in asked(clause) if one.name in TEMPO), None)
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
            and _SLOWEST <= value <= _FASTEST
            and (after in _FACTOR_SIGNS or (clause.has("noun.speed") and "." in clause.tokens[at].word))
        ):
            return value
    return None


def _factor(clause: Clause, tempo: Asked | None, *, faster: bool) -> float:
    percent = next((before(clause, mark.first) for mark in clause.all("unit.percent")), None)
    if percent and 0 < percent < 100:  # noqa: PLR2004 - a share
        return 1 + percent / 100 if faster else 1 - percent / 100
    step = 0.07 if clause.has("degree.little") or (tempo and tempo.slightly) else 0.14
    step = 0.28 if clause.has("degree.much") else step
    return round(1 + step if faster else 1 - step, 2)
