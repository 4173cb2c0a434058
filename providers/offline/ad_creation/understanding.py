"""What a turn's message asks in the light of the turns before: "yes", "a bit more", "from now on"."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from providers.offline.ad_creation import line_edits, remembered, speech, version_edits
from providers.offline.ad_creation.changes import ACTING
from providers.offline.ad_creation.clauses import clauses
from providers.offline.ad_creation.conversation import Conversation, Turn
from providers.offline.ad_creation.edits import (
    STREAM,
    AddLine,
    Again,
    ChangeEffects,
    Chat,
    Edit,
    Keep,
    Pace,
    Recast,
    ReplaceMusic,
    Resize,
    Retone,
    ShapeMusic,
    Spacing,
    Trait,
    Translate,
    Unclear,
    Variations,
    Walk,
)
from providers.offline.ad_creation.history import STREAM_OF, Ad, Step, focus
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.ad_creation.reading import READ_CHARS, Reading, keeps, read, releases
from providers.offline.ad_creation.scene import Scene
from providers.offline.ad_creation.script import duration_s
from providers.offline.ad_creation.suggestions import suggested
from providers.offline.ad_creation.tracks import named
from state.ad import Stream

_REPEATABLE = (Pace, ShapeMusic, ReplaceMusic, Resize, Spacing, ChangeEffects, Recast, Variations, Retone)
"""Edits that mean something when they are asked for again."""
_TOO_SHORT = 0.7
"""Share of a spot below which a script is lengthened when the spot changed."""


@dataclass(frozen=True)
class Understood:
    """A message, understood."""

    language: str
    """The language it is in."""
    edits: tuple[Edit, ...]
    keeps: tuple[Keep, ...]
    """What stays, now and from earlier turns."""

    def of(self, *kinds: type) -> list[Edit]:
        """Return the edits of some kinds."""
        return [edit for edit in self.edits if isinstance(edit, kinds)]

    @property
    def acting(self) -> list[Edit]:
        """The edits that write a version."""
        return self.of(*ACTING)


def understood(conversation: Conversation, ad: Ad) -> Understood:
    """Return what the person asks now, of the ad as it stands."""
    earlier = conversation.turns[:-1]
    language = language_of(conversation.turns, ad.language)
    stream = focus(earlier)
    scene = Scene(ad, language, stream, _focused(earlier, stream, ad), _choices(earlier))
    reading = read(conversation.turn.text, scene)
    reading = _corrected(_accepted(reading, scene, earlier), scene, conversation)
    edits = (*_repeated(reading, scene, conversation), *_by_request(reading, conversation, ad))
    asked = tuple(one for one in edits if isinstance(one, Keep))
    return Understood(language, edits, (*asked, *_standing(conversation, edits)))


def language_of(turns: Sequence[Turn], ad: str) -> str:
    """Return the language of the last message; where it does not tell, the one the person used before."""
    language = "english"
    for turn in turns:
        if not turn.brief:
            language = speech.language_of(turn.text[:READ_CHARS], language, ad)
    return language


def _accepted(reading: Reading, scene: Scene, earlier: Sequence[Turn]) -> Reading:
    """Return what was suggested, where the person said yes to it."""
    agreed = any(isinstance(one, Chat) and one.kind == "yes" for one in reading.edits)
    offered = suggested(earlier) if agreed and not reading.of(*ACTING) else ""
    if not offered:
        return reading
    taken = read(offered, replace(scene, language=speech.language_of(offered, scene.language)))
    # "Give me a phone number" asks for what a yes does not tell.
    return taken if taken.of(*ACTING) and not taken.of(AddLine) else reading


def _corrected(reading: Reading, scene: Scene, conversation: Conversation) -> Reading:
    """Return what was asked last, for the voice that was meant: "no, I meant the second one"."""
    text, earlier = conversation.turn.text[:READ_CHARS], conversation.turns[:-1]
    said = [one for one in clauses(text, lexicon(scene.language, text)) if one.has("particle.meant")]
    tracks = named(said[0], scene.ad, plural=False).tracks if said else ()
    if not tracks or reading.of(*ACTING) or not earlier or not earlier[-1].versions() or earlier[-1].brief:
        return reading
    last = earlier[-1].text[:READ_CHARS]
    before = read(last, replace(scene, language=speech.language_of(last, scene.language))).edits
    aimed: list[Edit] = [replace(one, tracks=tracks) for one in before if isinstance(one, (Recast, Pace))]
    return Reading((Walk(Step("undo")), *aimed)) if len(aimed) == len(before) else reading


def renamed(turns: Sequence[Turn]) -> str:
    """Return the name the person gave the client last, or empty."""
    said = (turn.text[:READ_CHARS] for turn in reversed(turns) if not turn.brief)
    found = (
        name
        for text in said
        for clause in clauses(text, lexicon(speech.language_of(text), text))
        if (name := line_edits.called(clause))
    )
    return next(found, "")


def _repeated(reading: Reading, scene: Scene, conversation: Conversation) -> list[Edit]:
    """Return the edits, "a bit more" in terms of what the last changing turn asked for."""
    again = [one for one in reading.edits if isinstance(one, Again)]
    edits: list[Edit] = [one for one in reading.edits if not isinstance(one, Again)]
    if not again:
        return edits
    last = _last_changing(conversation.turns[:-1])
    lost: list[Edit] = [Unclear(conversation.turn.text.strip())]
    if last is None:
        return edits + lost
    before = read(
        last.text, replace(scene, language=speech.language_of(last.text[:READ_CHARS], scene.language))
    ).edits
    if any(one.less for one in again):
        return edits + _taken_back(before)
    return [*edits, *([one for one in before if isinstance(one, _REPEATABLE)] or lost)]


def _taken_back(before: Sequence[Edit]) -> list[Edit]:
    """Return half of what was asked taken back; wholly undone where there are no halves."""
    softer: list[Edit] = [
        replace(one, add=tuple(Trait(trait.concept, f"slightly {trait.words}") for trait in one.add))
        for one in before
        if isinstance(one, ShapeMusic) and one.add
    ]
    half: list[Edit] = [
        replace(one, factor=1 / one.factor**0.5)
        for one in before
        if isinstance(one, Pace) and one.factor != 1.0
    ]
    return softer or half or [Walk(Step("undo"))]


def _by_request(reading: Reading, conversation: Conversation, ad: Ad) -> list[Edit]:
    """Return what the request itself changed: the ad's language, or the spot's length."""
    turn, edits = conversation.turn, list[Edit]()
    if turn.language_changed and not reading.of(Translate) and ad.tracks:
        edits.append(Translate(conversation.language))
    if turn.spot_changed and not reading.of(Resize) and ad.tracks:
        length = duration_s(ad, ad.tracks)
        if length > conversation.spot_s or length < _TOO_SHORT * conversation.spot_s:
            edits.append(Resize(conversation.spot_s, longer=length < conversation.spot_s))
    return edits


def _standing(conversation: Conversation, edits: Sequence[Edit]) -> list[Keep]:
    """Return what was to be kept for good and is neither named now nor allowed since."""
    held: frozenset[str] = frozenset()
    said = (turn.text for turn in conversation.turns[:-1] if not turn.brief)
    for text in (*remembered.asked(conversation.summary), *said):
        held = (held - _released(text)) | _kept_for_good(text)
    named_now = {str(STREAM[type(one)]) for one in edits if type(one) in STREAM}
    left = held - named_now - _released(conversation.turn.text)
    return [Keep(tuple(sorted(left)))] if left else []


@lru_cache(maxsize=1024)
def _kept_for_good(message: str) -> frozenset[str]:
    text = message[:READ_CHARS]
    return frozenset(name for one in keeps(text, speech.language_of(text)) for name in one.streams)


@lru_cache(maxsize=1024)
def _released(message: str) -> frozenset[str]:
    text = message[:READ_CHARS]
    return frozenset(releases(text, speech.language_of(text)))


@lru_cache(maxsize=1024)
def steps(message: str) -> tuple[Step, ...]:
    """Return the ways through the history a message took. Pure, and asked again for every later turn."""
    text = message[:READ_CHARS]
    return tuple(version_edits.steps(text, lexicon(speech.language_of(text), text)))


def _last_changing(turns: Sequence[Turn]) -> Turn | None:
    return next((turn for turn in reversed(turns) if turn.versions() and not turn.brief), None)


def _focused(turns: Sequence[Turn], stream: Stream | None, ad: Ad) -> tuple[int, ...]:
    """Return the tracks the last changing turn named, when it changed how some are spoken."""
    last = _last_changing(turns)
    if stream != "voices" or last is None:
        return ()
    text = last.text[:READ_CHARS]
    edits = read(text, Scene(ad, speech.language_of(text))).of(Recast, Pace, Spacing)
    tracks = {at for edit in edits for at in getattr(edit, "tracks", ())}
    return tuple(sorted(tracks)) if 0 < len(tracks) < len(ad.tracks) and _names_tracks(text, ad) else ()


def _names_tracks(text: str, ad: Ad) -> bool:
    words = lexicon(speech.language_of(text), text)
    found = (named(clause, ad, plural=False) for clause in clauses(text, words))
    return any(one.tracks and not one.everyone for one in found)


def _choices(turns: Sequence[Turn]) -> tuple[Stream, int] | None:
    """Return the stream and number of the variations the last changing turn made."""
    changing = next((turn for turn in reversed(turns) if turn.versions()), None)
    drafted = changing.exchanges if changing else ()
    made = [STREAM_OF[one.name] for one in drafted if one.name in STREAM_OF and one.version]
    several = next((stream for stream in made if made.count(stream) > 1), None)
    return (several, made.count(several)) if several else None
