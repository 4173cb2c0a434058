"""One clause read: which edits it asks for."""

from collections.abc import Callable, Iterable

from providers.offline.ad_creation import (
    casting_edits,
    effect_edits,
    effect_names,
    music_edits,
    questions,
    text_edits,
    version_edits,
    voice_edits,
)
from providers.offline.ad_creation.clause_sense import (
    KINDS,
    TEMPO,
    kinds_of,
    numbers_one,
    paced,
    repeats,
    says_nothing,
    within_tracks,
)
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.edits import (
    AddEffect,
    Again,
    Beyond,
    Edit,
    RemoveEffects,
    Rename,
    Retone,
    SilenceMusic,
    Unclear,
    Variations,
)
from providers.offline.ad_creation.line_edits import called
from providers.offline.ad_creation.places import place
from providers.offline.ad_creation.qualities import asked, qualities
from providers.offline.ad_creation.scene import Scene

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
_SIZE = {"short", "long"}
_VOLUME = {"loud", "quiet"}
_EXCHANGING = (
    "particle.instead",
    "verb.replace",
    "verb.remove",
    "verb.change",
    "verb.dislike",
    "verb.move",
)
_WORDING = (
    "verb.mention",
    "verb.say",
    "verb.write",
    "verb.shorten",
    "verb.lengthen",
    "verb.fit",
    "verb.replace",
    "verb.change",
    "verb.remove",
    "verb.correct",
    "particle.instead",
    "noun.countdown",
    "noun.spelling",
    "topic",
)
_CLOSE = 3
"""Tokens between two things that are named together: "the voices and the music"."""


def read_clause(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what `clause` asks for; `Unclear` when it means nothing to the rules."""
    if repeats(clause):
        return [Again(less=clause.has("degree.less", "degree.too"))]
    if clause.has("skip.story") or within_tracks(clause, scene.ad):
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
    return [] if says_nothing(clause) else [Unclear(clause.text, acting=acting)]


def _talk(clause: Clause, _scene: Scene) -> list[Edit]:
    if called(clause):
        return [Rename(called(clause))]
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


def _asked(clause: Clause, scene: Scene) -> list[Edit]:
    return questions.read(clause, scene.ad)


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
    kinds = kinds_of(clause, inner)
    if _silences_all(inner, kinds) and _both(inner, kinds):
        every = tuple(range(len(scene.ad.effects)))
        gone: Edit = RemoveEffects(every) if every else Unclear("", "cannot.no_effects")
        return [SilenceMusic(), gone]
    if len(kinds) > 1 and _both(inner, kinds):
        return [edit for kind in kinds for edit in _by_kind(kind, _alone(clause, kind), scene)]
    for kind in kinds:
        found = _by_kind(kind, clause, scene)
        if found:
            return found
    return []


def _silences_all(clause: Clause, kinds: list[str]) -> bool:
    """Whether music and effects shall both go."""
    return set(kinds) == {"music", "effect"} and clause.has("verb.remove", "negation.no")


def _both(clause: Clause, kinds: list[str]) -> bool:
    """Whether several things are to change alike: "make the voices and the music slower"."""
    nouns = [mark for mark in clause.all(*KINDS) if KINDS[mark.concept] in kinds]
    if len(nouns) < 2:  # noqa: PLR2004 - two things
        return False
    joined = any(nouns[0].last <= mark.first < nouns[1].first for mark in clause.all("join.and"))
    alike = joined and not clause.has(
        "verb.replace", "particle.instead", "verb.mention", "verb.add", "verb.say"
    )
    return (
        alike
        and nouns[1].first - nouns[0].last <= _CLOSE
        and (
            clause.has(
                "quality", "verb.dislike", "pronoun.different", "verb.slow", "verb.quicken", "verb.change"
            )
            or _silences_all(clause, kinds)
        )
    )


def _alone(clause: Clause, kind: str) -> Clause:
    others = [mark for mark in clause.all(*KINDS) if KINDS[mark.concept] != kind]
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

    several = casting_edits.speakers(clause, scene.ad)
    if several:
        return several
    worded = bool(clause.quotes) or (
        clause.has("verb.say", "verb.mention", "verb.write", "verb.shorten", "verb.lengthen")
        and not paced(clause)
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
    if {one.name for one in asked(clause)} & TEMPO or clause.has("verb.slow", "verb.quicken"):
        return voice_edits.pace(clause, scene.ad, ())
    return text_edits.read(clause, scene.ad, ()) or _generally(clause, scene)


def _untargeted(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause asks that does not name what to change."""
    for find in (
        _by_last_effect, _by_effect, _by_music, _by_words, _by_stranger, _by_wish, _by_pause, _in_focus,
        _by_add,
    ):  # fmt: skip
        found = find(clause, scene)
        if found:
            return found
    return _generally(clause, scene)


def _by_last_effect(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause does with the effects that the one before named: "… is too long, halve it"."""
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
        if not worded
        and not clause.quotes
        and effect_names.named(clause, scene.ad)
        and not text_edits.exchanges(clause, scene.ad)
        else []
    )


def _by_words(clause: Clause, scene: Scene) -> list[Edit]:
    exchanged = text_edits.exchanges(clause, scene.ad)
    if clause.has(*_EXCHANGING) and not exchanged and effect_names.matching(clause, scene.ad):
        swap = effect_edits.read(clause, scene.ad)
        if swap:
            return swap
    if not (clause.has(*_WORDING) or clause.quotes or exchanged) or (not exchanged and paced(clause)):
        return []
    if clause.has("instrument", "genre", "unit.bpm") and not clause.quotes:
        return []
    return [one for one in text_edits.read(clause, scene.ad, scene.focused) if not isinstance(one, Retone)]


def _by_music(clause: Clause, scene: Scene) -> list[Edit]:
    if not clause.has("instrument", "genre", "unit.bpm", "provider", "noun.vocals", "noun.instrumental"):
        return []
    if clause.has("instrument") and clause.has("verb.add", "verb.put") and place(clause, scene.ad):
        return effect_edits.read(clause, scene.ad)
    return music_edits.read(clause)


def _by_stranger(clause: Clause, _scene: Scene) -> list[Edit]:
    """Return that nothing is known of what a quality is asked of: "make the disclaimer faster"."""
    strange = (
        clause.has("quality") and clause.has("verb.make", "verb.change", "verb.use") and clause.unknown_thing
    )
    return [Unclear(clause.text)] if strange else []


def _by_wish(clause: Clause, scene: Scene) -> list[Edit]:
    named = casting_edits.wanted_voice(clause, scene.ad)
    known = named and any(one.get("name") == named for one in scene.ad.voices.values())
    if clause.has("gender", "accent") or known or (named and clause.has("verb.use", "verb.replace")):
        return voice_edits.read(clause, scene.ad, scene.focused)
    return []


def _by_pause(clause: Clause, scene: Scene) -> list[Edit]:
    if not clause.has(
        "noun.pause", "noun.overlap", "noun.order", "noun.speed", "verb.slow", "verb.quicken", "verb.speak"
    ) and not numbers_one(clause):
        return []
    kind = _FOCUS_KIND.get(scene.focus or "")
    if (
        kind == "music"
        and clause.has("noun.speed", "verb.slow", "verb.quicken", "pronoun.it")
        and not clause.has("noun.pause")
    ):
        return music_edits.read(clause)
    return voice_edits.read(clause, scene.ad, scene.focused if clause.has("pronoun.it") else ())


def _in_focus(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a clause asks of what was spoken of last."""
    names = {one.name for one in asked(clause)}
    kind = _FOCUS_KIND.get(scene.focus or "")
    if kind is None or (names & _SIZE and kind != "effect"):
        return []
    if kind == "effect":
        return _last_effect(clause, scene)
    if kind == "voice" and names and not names & (TEMPO | _VOLUME) and not scene.focused:
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
    if worded or (clause.has("topic") and not clause.has("sound", "noun.effect")):
        return worded
    line = text_edits.opening_or_closing(clause)
    if line:
        return [line]
    sounding = clause.has("verb.add", "sound", "noun.effect") and not clause.has("quality")
    return effect_edits.read(clause, scene.ad) if sounding or place(clause, scene.ad) else []


def _generally(clause: Clause, scene: Scene) -> list[Edit]:
    """Return what a quality asks of the ad as a whole."""
    wanted = asked(clause)
    names = {one.name for one in wanted}
    if names & _VOLUME:
        return [Beyond("volume")]
    if names & TEMPO:
        return voice_edits.pace(clause, scene.ad, ())
    found = text_edits.read(clause, scene.ad, ())
    if found:
        return found
    return music_edits.read(clause) if any(qualities()[name].poles for name in names) else []
