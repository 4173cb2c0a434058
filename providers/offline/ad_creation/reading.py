"""A message read: which edits it asks for, in order."""

from dataclasses import dataclass, replace

from providers.offline.ad_creation import version_edits
from providers.offline.ad_creation.amounts import seconds
from providers.offline.ad_creation.clause_reading import read_clause
from providers.offline.ad_creation.clause_sense import settled
from providers.offline.ad_creation.clauses import Clause, clauses
from providers.offline.ad_creation.edits import (
    STREAM,
    AddEffect,
    Ask,
    ChangeEffects,
    Chat,
    Edit,
    Keep,
    Recast,
    RemoveEffects,
    ReplaceWords,
    Restore,
    RestoreCast,
    Rewrite,
    Unclear,
    Walk,
)
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.ad_creation.places import place
from providers.offline.ad_creation.scene import Scene
from providers.offline.ad_creation.script import duration_s
from providers.offline.lexicon import Mark

READ_CHARS = 4000
"""Characters of a message that are read; what comes after is said to be unread."""


@dataclass(frozen=True)
class Reading:
    """What a message asks for."""

    edits: tuple[Edit, ...]

    def of(self, *kinds: type) -> list[Edit]:
        """Return the edits of some kinds."""
        return [edit for edit in self.edits if isinstance(edit, kinds)]


def read(message: str, scene: Scene) -> Reading:
    """Return everything `message` asks for; what means nothing comes back as `Unclear`."""
    edits: list[Edit] = []
    complaint = 0
    asked: Clause | None = None
    for spoken in clauses(message[:READ_CHARS], lexicon(scene.language, message)):
        clause = settled(spoken)
        if _supplements(clause, edits, scene) or clause.has("particle.otherwise"):
            continue
        freed = version_edits.streams_in(clause) if _releases(clause) else []
        if freed:
            scene = replace(scene, focus=freed[0])
            continue
        if _holds_not(clause, scene.ad):
            return Reading((Keep(()),))
        if any(isinstance(one, Walk) for one in edits) and _only_refuses(clause):
            continue
        taken = _taken_up(asked, clause) if asked else None
        edits = edits[:-1] if taken else edits
        found = read_clause(taken or clause, scene)
        asked = clause if len(found) == 1 and isinstance(found[0], (Ask, Unclear)) else None
        others = clause.has("pronoun.other", "pronoun.else") and any(
            isinstance(one, RemoveEffects) for one in edits
        )
        found = [one for one in found if not (others and isinstance(one, (RemoveEffects, Unclear)))]
        if found == [Rewrite(())] and edits and isinstance(edits[-1], Rewrite):
            continue  # "Write another one" goes on about the part that was named before.
        edits = [*_superseded(edits, found, clause, complaint), *found]
        bare = clause.has("verb.dislike") and not clause.has("noun", "sound", "topic", "genre", "instrument")
        complaint = len(found) if bare else 0
        stream = next((STREAM[type(one)] for one in found if type(one) in STREAM), None)
        if stream:
            named = next((one.places for one in found if isinstance(one, ChangeEffects)), ())
            scene = replace(scene, focus=stream, focused=_tracks(found) or scene.focused, effects=named)
    return Reading(tuple(_tidied(edits)))


def _taken_up(asked: Clause, clause: Clause) -> Clause | None:
    """Return "what is the sound at the end for? bin it" as one request: to remove what was named before."""
    groups = {mark.concept.partition(".")[0] for mark in clause.marks if mark.concept != "verb.remove"}
    bare = clause.has("verb.remove") and groups <= {"pronoun", "skip", "join"} and not clause.rest()
    if not bare or not asked.has("noun.effect", "noun.sentence", "sound") or asked.has("negation"):
        return None
    told = {"question", "verb", "pronoun", "particle"}
    marks = (mark for mark in asked.marks if mark.concept.partition(".")[0] not in told)
    return replace(asked, marks=(Mark("verb.remove", asked.first, asked.first), *marks), asking=False)


def _only_refuses(clause: Clause) -> bool:
    """Whether a clause refuses without saying what: "undo that, I don't want it"."""
    groups = {mark.concept.partition(".")[0] for mark in clause.marks}
    return clause.has("negation") and groups <= {"negation", "chat", "skip", "join", "pronoun", "degree"}


def _holds_not(clause: Clause, ad: Ad) -> bool:
    """Whether a condition on the ad's length is not met: "if it is longer than 30 seconds …"."""
    condition = clause.get("particle.if")
    if not condition or not clause.has("quality.long", "question.fit", "verb.fit"):
        return False
    return duration_s(ad, ad.tracks) <= (seconds(clause) or ad.spot_s) + 0.05


def _supplements(clause: Clause, edits: list[Edit], scene: Scene) -> bool:
    """Give the effect just added the length or place that follows: "a bell. Maybe 4 seconds"."""
    last = edits[-1] if edits else None
    silent = not clause.has(
        "verb", "noun", "sound", "quality", "negation", "question", "instrument", "genre", "tongue"
    )
    if not isinstance(last, AddEffect) or not silent:
        return False
    where, length = place(clause, scene.ad), seconds(clause)
    if not length and not where:
        return False
    edits[-1] = replace(
        last,
        seconds=length or last.seconds,
        placement=where.placement if where and where.missing is None else last.placement,
    )
    return True


def _superseded(edits: list[Edit], found: list[Edit], clause: Clause, complaint: int = 0) -> list[Edit]:
    """Return the edits without a complaint that the next clause meets: "it is too long, halve it".

    `complaint`: how many of the last edits came of a bare "I don't like it".
    """
    if complaint and any(isinstance(one, (Restore, RestoreCast, Walk)) for one in found):
        return edits[:-complaint]
    wrong = edits and isinstance(edits[-1], Unclear) and clause.has("pronoun.it")
    if wrong and any(isinstance(one, ReplaceWords) for one in found):
        return edits[:-1]
    if edits and found and _asked_better(edits[-1], found[0]):
        return edits[:-1]
    if not edits or not found or type(edits[-1]) is not type(found[0]) or clause.has("sound"):
        return edits
    if (
        isinstance(found[0], ChangeEffects)
        and isinstance(edits[-1], ChangeEffects)
        and found[0].factor
        and edits[-1].factor
    ):
        return edits[:-1]
    return edits


def _asked_better(before: Edit, after: Edit) -> bool:
    """Whether a complaint is followed by what is wanted: "the guy sounds bored, get someone livelier"."""
    if isinstance(before, Rewrite) and isinstance(after, Rewrite):
        return before.tracks == after.tracks and not before.text
    return isinstance(before, Recast) and isinstance(after, Recast) and before.tracks == after.tracks


def _tracks(found: list[Edit]) -> tuple[int, ...]:
    return next((tracks for one in found if (tracks := getattr(one, "tracks", ()))), ())


def _tidied(edits: list[Edit]) -> list[Edit]:
    """Return the edits without remarks where something is asked for, and without doubles."""
    busy = any(not isinstance(one, (Chat, Unclear)) for one in edits)
    kept = [one for one in edits if not (busy and isinstance(one, Chat))]
    return [one for at, one in enumerate(kept) if one not in kept[:at]]


def _releases(clause: Clause) -> bool:
    """Whether a clause allows a change again: "you may touch the music again"."""
    return (
        clause.has("verb.touch")
        and clause.has("particle.again", "particle.now")
        and not clause.has("negation", "verb.keep", "quality")
    )


def keeps(message: str, language: str) -> list[Keep]:
    """Return what a message wants kept for good ("the music must never change")."""
    if not message.strip():
        return []
    nobody = Ad("english", 0.0)
    found = (
        version_edits.kept(clause, nobody)
        for clause in clauses(message, lexicon(language, message))
        if clause.has("particle.always")
    )
    return [one for one in found if one and one.always]


def releases(message: str, language: str) -> set[str]:
    """Return the streams a message allows to be changed again."""
    return {
        stream
        for clause in clauses(message, lexicon(language, message))
        if _releases(clause)
        for stream in version_edits.streams_in(clause)
    }
