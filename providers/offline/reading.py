"""A message read: which edits it asks for, in order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from providers.offline import effect_edits, music_edits, questions, text_edits, version_edits, voice_edits
from providers.offline.amounts import seconds
from providers.offline.clauses import TARGETS, Clause, clauses
from providers.offline.edits import (
    STREAM,
    AddEffect,
    Again,
    Beyond,
    ChangeEffects,
    Chat,
    Edit,
    Keep,
    RemoveEffects,
    Retone,
    Translate,
    Unclear,
    Variations,
)
from providers.offline.history import Ad
from providers.offline.lexicon import lexicon
from providers.offline.places import place
from providers.offline.script import duration_s
from providers.offline.qualities import asked, qualities
from providers.offline.version_edits import Choices
from state.ad import Stream

READ_CHARS = 4000
"""Characters of a message that are read; what comes after is said to be unread."""
_KINDS = {
    "noun.music": "music", "noun.effect": "effect", "noun.voice": "voice", "noun.announcer": "voice",
    "noun.track": "voice", "noun.text": "text", "noun.line": "text", "noun.ad": "ad",
}  # fmt: skip
_FOCUS_KIND = {"voices": "voice", "music": "music", "sfx": "effect"}
_SPOKEN = (
    "noun.voice",
    "noun.announcer",
    "noun.track",
    "noun.pause",
    "noun.overlap",
    "gender",
    "accent",
    "ordinal",
)
_VERBLIKE = frozenset({"sound", "sounds"})
_TEMPO = {"fast", "slow"}
_SIZE = {"short", "long"}
_VOLUME = {"loud", "quiet"}


@dataclass(frozen=True)
class Scene:
    """What a message is read against."""

    ad: Ad
    language: str = "english"
    """The language of the message."""
    focus: Stream | None = None
    """What "it" means: the stream the last turn changed."""
    focused: tuple[int, ...] = ()
    """The tracks the last turn changed."""
    choices: Choices = None
    """Variations that were just made."""
    effects: tuple[int, ...] = ()
    """The effects the clause before named."""


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
    for clause in clauses(message[:READ_CHARS], lexicon(scene.language, message)):
        clause = _settled(clause)
        if _supplements(clause, edits, scene) or clause.has("particle.otherwise"):
            continue
        freed = version_edits.streams_in(clause) if _releases(clause) else []
        if freed:
            scene = replace(scene, focus=freed[0])
            continue
        if _holds_not(clause, scene.ad):
            return Reading((Keep(()),))
        found = _read_clause(clause, scene)
        others = clause.has("pronoun.other", "pronoun.else") and any(
            isinstance(one, RemoveEffects) for one in edits
        )
        found = [one for one in found if not (others and isinstance(one, (RemoveEffects, Unclear)))]
        edits = [*_superseded(edits, found, clause), *found]
        stream = next((STREAM[type(one)] for one in found if type(one) in STREAM), None)
        if stream:
            named = next((one.places for one in found if isinstance(one, ChangeEffects)), ())
            scene = replace(scene, focus=stream, focused=_tracks(found) or scene.focused, effects=named)
    return Reading(tuple(_tidied(edits)))


def _holds_not(clause: Clause, ad: Ad) -> bool:
    """Whether a condition on the ad's length is not met: "if it is longer than 30 seconds …"."""
    condition = clause.get("particle.if")
    if not condition or not clause.has("quality.long", "question.fit", "verb.fit"):
        return False
    return duration_s(ad, ad.tracks) <= (seconds(clause) or ad.spot_s) + 0.05


def _supplements(clause: Clause, edits: list[Edit], scene: Scene) -> bool:
    """Give the effect that was just added the length or place that follows: "a bell at the end. Maybe 4 seconds"."""
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


def _superseded(edits: list[Edit], found: list[Edit], clause: Clause) -> list[Edit]:
    """Return the edits without a complaint that the next clause says how to meet: "it is too long, halve it"."""
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


def _tracks(found: list[Edit]) -> tuple[int, ...]:
    return next((tracks for one in found if (tracks := getattr(one, "tracks", ()))), ())


def _tidied(edits: list[Edit]) -> list[Edit]:
    """Return the edits without remarks where something is asked for, and without doubles."""
    busy = any(not isinstance(one, (Chat, Unclear)) for one in edits)
    kept = [one for one in edits if not (busy and isinstance(one, Chat))]
    return [one for at, one in enumerate(kept) if one not in kept[:at]]


def _settled(clause: Clause) -> Clause:
    """Return the clause with "sound" as a verb where something else sounds: "make the music sound bigger"."""
    clause = _told_apart(clause)
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


def _read_clause(clause: Clause, scene: Scene) -> list[Edit]:
    if _repeats(clause):
        return [Again(less=clause.has("degree.less", "degree.too"))]
    if clause.has("skip.story"):
        return [Unclear(clause.text)]
    if scene.choices and clause.has("ordinal"):
        chosen = version_edits.read(clause, scene.choices)
        if chosen:
            return chosen
    for find in (_talk, _kept, _history, _asked, _targeted, _untargeted):
        found = find(clause, scene)
        if found:
            return found
    acting = clause.has(
        "verb.remove", "verb.make", "verb.change", "verb.move", "verb.replace", "verb.dislike"
    )
    return [] if _says_nothing(clause) else [Unclear(clause.text, acting=acting)]


def _repeats(clause: Clause) -> bool:
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
    ):
        return False
    covered = {at for mark in clause.marks for at in range(mark.first, mark.last)}
    return all(at in covered or not clause.words(at, at + 1) for at in range(clause.first, clause.last))


def _says_nothing(clause: Clause) -> bool:
    """Whether a clause only gives a reason or is polite."""
    if clause.has("skip.reason"):
        return True
    silent = {
        at for mark in clause.all("skip", "join", "chat.greeting") for at in range(mark.first, mark.last)
    }
    return all(
        at in silent or not clause.tokens[at].word.isalnum() and not clause.tokens[at].quoted
        for at in range(clause.first, clause.last)
    )


def _talk(clause: Clause, _scene: Scene) -> list[Edit]:
    beyond = questions.limit(clause)
    if beyond:
        return [beyond]
    talk = questions.chat(clause)
    return [talk] if talk else []


def _kept(clause: Clause, scene: Scene) -> list[Edit]:
    alone = effect_edits.only_kept(clause, scene.ad)
    if alone:
        return alone
    keep = version_edits.kept(clause, scene.ad)
    if keep:
        return [keep]
    restricted = version_edits.only(clause)
    if not restricted:
        return []
    rest = _targeted(clause, scene)
    return [restricted, *rest]


def _history(clause: Clause, scene: Scene) -> list[Edit]:
    found = version_edits.read(clause, scene.choices, scene.focus)
    wondering = clause.asking and clause.has("question") and not clause.has("verb.undo", "verb.redo")
    return [one for one in found if isinstance(one, Variations) or not wondering]


def _asked(clause: Clause, _scene: Scene) -> list[Edit]:
    return questions.read(clause)


def _targeted(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause asks that names what to change."""
    translated = text_edits.translation(clause)
    if translated and not clause.has("noun.voice", "gender", "noun.announcer"):
        return (
            [translated]
            if translated.language != scene.ad.language
            else [Unclear(translated.language, "kept.language")]
        )
    where = place(clause, scene.ad)
    inner = clause.without(where.marks) if where else clause
    kinds = list(dict.fromkeys(_KINDS[mark.concept] for mark in inner.all(*_KINDS)))
    if clause.has("sound") and not {"music", "text"} & set(kinds):
        kinds.insert(0, "effect")
    if len(kinds) > 1 and _both(inner, kinds):
        return [edit for kind in kinds for edit in _by_kind(kind, _alone(clause, kind), scene)]
    for kind in kinds:
        found = _by_kind(kind, clause, scene)
        if found:
            return found
    return []


def _both(clause: Clause, kinds: list[str]) -> bool:
    """Whether several things are to change alike: "make the voices and the music slower"."""
    nouns = [mark for mark in clause.all(*_KINDS) if _KINDS[mark.concept] in kinds]
    if len(nouns) < 2:  # noqa: PLR2004 - two things
        return False
    joined = any(nouns[0].last <= mark.first < nouns[1].first for mark in clause.all("join.and"))
    alike = joined and not clause.has(
        "verb.replace", "particle.instead", "verb.mention", "verb.add", "verb.say"
    )
    return (
        alike
        and nouns[1].first - nouns[0].last <= 3
        and clause.has(
            "quality", "verb.dislike", "pronoun.different", "verb.slow", "verb.quicken", "verb.change"
        )
    )  # noqa: PLR2004 - "the voices and the music"


def _alone(clause: Clause, kind: str) -> Clause:
    others = [mark for mark in clause.all(*_KINDS) if _KINDS[mark.concept] != kind]
    return clause.without(others)


def _by_kind(kind: str, clause: Clause, scene: Scene) -> list[Edit]:
    readers: dict[str, tuple[Callable[[], list[Edit]], ...]] = {
        "music": (lambda: music_edits.read(clause),),
        "effect": (lambda: effect_edits.read(clause, scene.ad),),
        "voice": (lambda: _of_voice(clause, scene),),
        "text": (
            lambda: text_edits.read(clause, scene.ad, scene.focused),
            lambda: _of_voice(clause, scene) if clause.has(*_SPOKEN) else [],
        ),
        "ad": (lambda: _of_ad(clause, scene),),
    }
    return _first_clear(readers[kind])


def _of_voice(clause: Clause, scene: Scene) -> list[Edit]:
    def cast() -> list[Edit]:
        return voice_edits.read(clause, scene.ad, scene.focused)

    def words() -> list[Edit]:
        return text_edits.read(clause, scene.ad, scene.focused)

    several = voice_edits.speakers(clause, scene.ad)
    if several:
        return several
    worded = bool(clause.quotes) or clause.has(
        "verb.say", "verb.mention", "verb.write", "verb.shorten", "verb.lengthen"
    )
    sized = {one.name for one in asked(clause)} & _SIZE and not clause.has("noun.pause", "noun.overlap")
    words_first = (
        (worded or sized)
        and not clause.has("verb.add")
        and not (clause.has("gender", "accent") and not clause.quotes)
    )
    return _first_clear((words, cast) if words_first else (cast, words))


def _first_clear(readers: Iterable[Callable[[], list[Edit]]]) -> list[Edit]:
    """Return what the first reader understands; else what the first one could not make out."""
    unclear: list[Edit] = []
    for reader in readers:
        found = reader()
        if any(not isinstance(one, Unclear) for one in found):
            return found
        unclear = unclear or found
    return unclear


def _of_ad(clause: Clause, scene: Scene) -> list[Edit]:
    if {one.name for one in asked(clause)} & _TEMPO or clause.has("verb.slow", "verb.quicken"):
        return voice_edits.pace(clause, scene.ad, ())
    found = text_edits.read(clause, scene.ad, ())
    return found or _generally(clause, scene)


def _untargeted(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause asks that does not name what to change."""
    for find in (_by_last_effect, _by_effect, _by_music, _by_words, _by_wish, _by_pause, _in_focus, _by_add):
        found = find(clause, scene)
        if found:
            return found
    return _generally(clause, scene)


def _by_last_effect(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause does with the effects the clause before it named: "the bell is too long, halve it"."""
    acting = clause.has(
        "verb.shorten", "verb.lengthen", "quality.short", "quality.long", "verb.move", "unit.second"
    )
    if not scene.effects or not acting or clause.has("noun", "sound"):
        return []
    found = effect_edits.change(clause, scene.ad, scene.effects)
    return [found] if found else []


def _by_effect(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause does with an effect it calls by name only: "make the stairs 3 seconds"."""
    worded = clause.has("verb.mention", "verb.say", "topic", "gender", "accent", "instrument", "genre")
    return (
        effect_edits.read(clause, scene.ad)
        if not worded and not clause.quotes and effect_edits.named(clause, scene.ad)
        else []
    )


def _by_words(clause: Clause, scene: Scene) -> list[Edit]:
    swap = (
        effect_edits.read(clause, scene.ad)
        if clause.has(
            "particle.instead", "verb.replace", "verb.remove", "verb.change", "verb.dislike", "verb.move"
        )
        and effect_edits.matching(clause, scene.ad)
        else []
    )
    if swap:
        return swap
    if (
        clause.has(
            "verb.mention",
            "verb.say",
            "verb.write",
            "verb.shorten",
            "verb.lengthen",
            "verb.fit",
            "verb.replace",
            "verb.change",
            "particle.instead",
            "verb.remove",
            "topic",
            "noun.countdown",
        )
        or clause.quotes
    ):
        if clause.has("instrument", "genre", "unit.bpm") and not clause.quotes:
            return []
        return [
            one for one in text_edits.read(clause, scene.ad, scene.focused) if not isinstance(one, Retone)
        ]
    return []


def _by_music(clause: Clause, scene: Scene) -> list[Edit]:
    if not clause.has("instrument", "genre", "unit.bpm", "provider", "noun.vocals", "noun.instrumental"):
        return []
    if clause.has("instrument") and clause.has("verb.add", "verb.put") and place(clause, scene.ad):
        return effect_edits.read(clause, scene.ad)
    return music_edits.read(clause)


def _by_wish(clause: Clause, scene: Scene) -> list[Edit]:
    named = voice_edits.wanted_voice(clause, scene.ad)
    known = named and any(one.get("name") == named for one in scene.ad.voices.values())
    if clause.has("gender", "accent") or known or (named and clause.has("verb.use", "verb.replace")):
        return voice_edits.read(clause, scene.ad, scene.focused)
    return []


def _by_pause(clause: Clause, scene: Scene) -> list[Edit]:
    if not clause.has(
        "noun.pause", "noun.overlap", "noun.order", "noun.speed", "verb.slow", "verb.quicken", "verb.speak"
    ) and not _numbered(clause):
        return []
    kind = _FOCUS_KIND.get(scene.focus or "")
    if (
        kind == "music"
        and clause.has("noun.speed", "verb.slow", "verb.quicken", "pronoun.it")
        and not clause.has("noun.pause")
    ):
        return music_edits.read(clause)
    return voice_edits.read(clause, scene.ad, scene.focused if clause.has("pronoun.it") else ())


def _numbered(clause: Clause) -> bool:
    return clause.has("ordinal") and clause.has("pronoun.one", "quality", "verb.replace", "verb.dislike")


def _in_focus(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause asks of what was spoken of last."""
    names = {one.name for one in asked(clause)}
    kind = _FOCUS_KIND.get(scene.focus or "")
    if kind is None or (names & _SIZE and kind != "effect"):
        return []
    if kind == "effect":
        return _last_effect(clause, scene)
    if kind == "voice" and names and not names & (_TEMPO | _VOLUME) and not scene.focused:
        return []
    reader = _by_kind(kind, clause, scene)
    return [one for one in reader if not isinstance(one, (Unclear, Beyond))]


def _last_effect(clause: Clause, scene: Scene) -> list[Edit]:
    if not scene.ad.effects or not clause.has(
        "pronoun.it", "quality", "verb.move", "pronoun.one", "pronoun.different", "particle.again"
    ):
        return []
    if (
        clause.has("pronoun.one", "pronoun.different", "particle.again")
        and place(clause, scene.ad)
        and not clause.has("sound", "verb.move")
    ):
        where = place(clause, scene.ad)
        last = scene.ad.effects[-1]
        return [
            AddEffect(str(last.get("description")), where.placement if where else None, last.get("duration"))
        ]
    found = effect_edits.change(clause, scene.ad, (len(scene.ad.effects) - 1,))
    removed = clause.has("verb.remove", "verb.dislike") and clause.has("pronoun.it")
    if removed:
        return [RemoveEffects((len(scene.ad.effects) - 1,))]
    return [found] if found else []


def _by_add(clause: Clause, scene: Scene) -> list[Edit]:
    if not clause.has("verb.add", "verb.put", "place.start", "place.end", "place.after", "place.before"):
        return []
    worded = (
        text_edits.read(clause, scene.ad, ()) if clause.has("pronoun.we", "topic", "noun.question") else []
    )
    if worded:
        return worded
    if clause.has("quality") and not place(clause, scene.ad):
        return []
    return effect_edits.read(clause, scene.ad)


def _generally(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a quality asks of the ad as a whole."""
    wanted = asked(clause)
    names = {one.name for one in wanted}
    if names & _VOLUME:
        return [Beyond("volume")]
    if names & _TEMPO:
        return voice_edits.pace(clause, scene.ad, ())
    found = text_edits.read(clause, scene.ad, ())
    if found:
        return found
    return music_edits.read(clause) if any(qualities()[name].poles for name in names) else []


def _releases(clause: Clause) -> bool:
    """Whether a clause allows a change again: "you may touch the music again"."""
    return (
        clause.has("verb.touch")
        and clause.has("particle.again", "particle.now")
        and not clause.has("negation", "verb.keep", "quality")
    )


def translates(reading: Reading) -> bool:
    """Return whether the whole ad goes into another language."""
    return bool(reading.of(Translate))


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
