"""Requests about sound effects: what a clause asks for, and the effects after it."""

from collections.abc import Iterable, Mapping
from typing import Any

from providers.offline.amounts import figure, seconds
from providers.offline.clauses import Clause
from providers.offline.edits import AddEffect, ChangeEffects, Edit, Note, Outcome, RemoveEffects, Unclear
from providers.offline.history import Ad
from providers.offline.lexicon import Mark, fold, lexicon, tokens
from providers.offline.places import Place, place
from providers.offline.qualities import asked, qualities
from state.ad import DEFAULT_SFX_S, MAX_SFX_S, Placement

SHORTEST_S = 0.5
"""Seconds of the shortest effect that an edit makes."""
_LONGER, _SHORTER = 1.6, 0.6
_EDGE = frozenset(
    "a an the some of with and or to for at in on please it that this my our one un una el la o um uma jakis "
    "nejaky sound sounds effect effects sfx noise like little bit more another new also too here there quick".split()
) - {"quick"}
_TWO = 2
_STEM = 5
_ANY = frozenset({"a", "an", "another", "some", "un", "una", "um", "uma"})
_SOUNDING = {"sound", "sounds", "effect", "effects", "sfx", "noise", "noises"}


def read(clause: Clause, ad: Ad) -> list[Edit]:
    """Return what `clause`, which is about effects, asks for; empty when nothing is recognised."""
    swap = only_kept(clause, ad) or _places_swapped(clause, ad) or _swapped(clause, ad)
    if swap:
        return swap
    existing = matching(clause, ad)
    gone = _fetched(clause, ad) if clause.has("verb.back", "verb.undo") and not existing else []
    if gone:
        return gone
    if _removes(clause):
        return _removal(clause, ad, existing)
    if existing and not _adds(clause):
        found = change(clause, ad, existing)
        if found:
            return [found]
    return _additions(clause, ad)


def _fetched(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "bring back the sizzle": an effect that an earlier version had."""
    for data in reversed(list(ad.held.get("sfx", {}).values())):
        before = ad.holding("sfx", data)
        for at in _by_name(clause, before):
            one = before.effects[at]
            return [AddEffect(str(one.get("description")), one.get("placement"), one.get("duration"))]
    return []


def _removes(clause: Clause) -> bool:
    if clause.has("verb.remove", "verb.dislike", "negation.no"):
        return not clause.has("negation.not") or clause.has("verb.dislike")
    return False


def _adds(clause: Clause) -> bool:
    """Whether something new is meant: "add", or "a bell at the end" rather than "the bell to the end"."""
    if clause.has("verb.add") or (
        clause.has("pronoun.different", "degree.more") and clause.has("verb.create")
    ):
        return True
    sound = clause.get("sound", "noun.effect")
    return bool(sound and sound.first > clause.first and clause.tokens[sound.first - 1].word in _ANY)


def matching(clause: Clause, ad: Ad) -> tuple[int, ...]:
    """Return the effects `clause` names: by number, by what they sound like, or by where they are."""
    return _by_number(clause, ad) or _by_name(clause, ad) or _by_place(clause, ad)


def _by_number(clause: Clause, ad: Ad) -> tuple[int, ...]:
    size = len(ad.effects)
    for noun in clause.all("noun.effect"):
        values = [
            int(float(mark.concept.partition(".")[2]))
            for mark in clause.all("ordinal", "number")
            if 0 <= noun.first - mark.last <= 1
            and mark.concept.startswith("ordinal.")
            or mark.first == noun.last
        ]
        if noun.last < clause.last:
            value = figure(clause.tokens[noun.last].word)
            values += [int(value)] if value else []
        found = tuple(at for at in ((one - 1 if one > 0 else size + one) for one in values) if 0 <= at < size)
        if found:
            return found
    return ()


def _by_name(clause: Clause, ad: Ad) -> tuple[int, ...]:
    sounds = {mark.concept for mark in clause.all("sound")}
    words = {token.word for token in clause.own if len(token.word) > 2} - _SOUNDING - _EDGE  # noqa: PLR2004 - shorter words name nothing
    exact = tuple(i for i, one in enumerate(ad.effects) if sounds & _sounds(str(one.get("description"))))
    if exact:
        return exact
    words |= {word for concept in sounds for word in concept.partition(".")[2].split()}
    scores = [_overlap(words, str(one.get("description"))) for one in ad.effects]
    best = max(scores, default=0.0)
    return tuple(i for i, score in enumerate(scores) if score == best) if best > 0 else ()


def _sounds(description: str) -> set[str]:
    return {
        mark.concept
        for mark in lexicon("english").marks(tokens(description))
        if mark.concept.startswith("sound.")
    }


def _overlap(words: set[str], description: str) -> float:
    """Return the share of a description's words that `words` hold, plurals and inflections forgiven."""
    own = [word for word in (fold(one) for one in description.split()) if len(word) > 2 and word not in _EDGE]  # noqa: PLR2004 - as above
    hits = sum(any(_alike(word, other) for other in words) for word in own)
    return hits / len(own) if own else 0.0


def _alike(one: str, other: str) -> bool:
    """Whether two words are forms of one: "owl" and "owls", "sizzle" and "sizzling"."""
    shared = min(len(one), len(other), _STEM)
    near = abs(len(one) - len(other)) <= _TWO or shared == _STEM
    return one == other or (shared > _TWO and near and one[:shared] == other[:shared])


def named(clause: Clause, ad: Ad) -> bool:
    """Return whether `clause` does something with an effect that it calls by its own words."""
    acting = clause.has(
        "verb.make",
        "verb.change",
        "verb.remove",
        "verb.move",
        "verb.replace",
        "verb.dislike",
        "verb.shorten",
        "verb.lengthen",
        "verb.put",
    )
    words = {token.word for token in clause.own if len(token.word) > _TWO} - _EDGE - _SOUNDING
    return acting and any(_overlap(words, str(one.get("description"))) for one in ad.effects)


def _by_place(clause: Clause, ad: Ad) -> tuple[int, ...]:
    """Return the effects that play where the clause says: "the sound at the end"."""
    noun = clause.get("noun.effect")
    where = place(clause, ad)
    if (
        not noun
        or not where
        or not clause.has("verb", "negation")
        or clause.has("verb.add", "verb.put", "verb.move", "sound")
    ):
        return ()
    return tuple(i for i, one in enumerate(ad.effects) if _kind(one) == _kind({"placement": where.placement}))


def _kind(effect: Mapping[str, Any]) -> tuple[str, int | None]:
    where = effect.get("placement") or {"type": "end"}
    kind = "start" if where.get("type") == "beforeVoices" else str(where.get("type"))
    return kind, where.get("index")


def only_kept(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "only keep the bell": every other effect goes."""
    if not (clause.has("verb.keep") and clause.has("particle.only") and clause.has("sound", "noun.effect")):
        return []
    staying = _by_name(clause, ad)
    gone = tuple(at for at in range(len(ad.effects)) if at not in staying)
    return [RemoveEffects(gone)] if staying and gone else []


def _removal(clause: Clause, ad: Ad, existing: tuple[int, ...]) -> list[Edit]:
    if existing and not (clause.has("pronoun.all") and not clause.has("sound")):
        return [RemoveEffects(existing)]
    if clause.has("sound"):
        return [Unclear(clause.rest(keep=("sound",)), "cannot.no_effect")]
    named = described(clause.without(clause.all("pronoun")), None)
    if clause.has("noun.effect") and named and not clause.has("pronoun.all"):
        return [Unclear(named, "cannot.no_effect")]
    if clause.has("noun.effect"):
        return (
            [RemoveEffects(tuple(range(len(ad.effects))))]
            if ad.effects
            else [Unclear("", "cannot.no_effects")]
        )
    return []


def _places_swapped(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "swap the whoosh and the ding": two effects change places."""
    sounds = clause.all("sound")
    if (
        not clause.has("verb.replace")
        or len(sounds) != _TWO
        or clause.has("particle.with", "particle.for", "particle.to", "particle.instead")
    ):
        return []
    one, other = (_by_name(clause.part(mark.first, mark.last), ad) for mark in sounds)
    if len(one) != 1 or len(other) != 1 or one == other:
        return []
    first, second = (ad.effects[at[0]].get("placement") or {"type": "end"} for at in (one, other))
    return [ChangeEffects(one, placement=second), ChangeEffects(other, placement=first)]


def _swapped(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "swap the door bell for a coffee machine", "a gong instead of the bell"."""
    instead = clause.get("particle.instead")
    if instead:
        old, new = clause.part(instead.last, clause.last), clause.part(clause.first, instead.first)
        return _exchange(new, old, ad)
    verb = clause.get("verb.replace", "verb.change", "verb.make")
    turn = next(
        (
            one
            for one in clause.all("particle.to", "particle.with", "particle.for")
            if verb and one.first > verb.last
        ),
        None,
    )
    if not verb or not turn:
        return []
    old, new = clause.part(verb.last, turn.first), clause.part(turn.last, clause.last)
    if old.has("noun.effect") and old.has("pronoun.all") and ad.effects:
        everything: list[Edit] = [RemoveEffects(tuple(range(len(ad.effects))))]
        added = _additions(new, ad) or [AddEffect(described(new, place(new, ad)))]
        return [*everything, *added]
    if verb.concept == "verb.make" and not new.has("sound"):
        return []
    return _exchange(new, old, ad)


def _exchange(new: Clause, old: Clause, ad: Ad) -> list[Edit]:
    places = _by_number(old, ad) or _by_name(old, ad)
    if not places and old.has("noun.effect") and len(ad.effects) == 1:
        places = (0,)
    where = place(new, ad)
    description = described(new, where)
    if not places or not description:
        return []
    return [ChangeEffects(places, description, where.placement if where else None, seconds(new))]


def change(clause: Clause, ad: Ad, existing: tuple[int, ...]) -> Edit | None:
    """Return what `clause` wants other about effects that are there, or None."""
    where = place(clause, ad)
    length = seconds(clause)
    wanted = {one.name: one.more for one in asked(clause)}
    factor = None
    if "long" in wanted or "short" in wanted or clause.has("verb.shorten", "verb.lengthen"):
        longer = (
            wanted.get("long", False)
            or ("short" in wanted and not wanted["short"])
            or clause.has("verb.lengthen")
        )
        factor = _LONGER if longer else 0.5 if clause.has("number.0.5") else _SHORTER
    sound = _coloured(ad, existing[0], wanted)
    if not (length or factor or sound or where):
        return None
    if where and where.missing is not None:
        return Unclear(str(where.missing), "cannot.no_track")
    return ChangeEffects(
        existing, sound, where.placement if where else None, length, None if length else factor
    )


def _coloured(ad: Ad, index: int, wanted: Mapping[str, bool]) -> str | None:
    """Return an effect's description with a quality ("softer bell"), or None when none is asked for."""
    names = [name for name in wanted if name not in {"long", "short"}]
    if not names:
        return None
    description = str(ad.effects[index].get("description"))
    words = " ".join(
        qualities()[name].say.partition(",")[0] if wanted[name] else qualities()[name].less for name in names
    )
    return f"{words} {description}"


def _additions(clause: Clause, ad: Ad) -> list[Edit]:
    if clause.has("negation", "verb.move") and not clause.has("verb.add"):
        return []
    asks = (
        clause.has("verb.add", "verb.put", "verb.create", "verb.make", "verb.use")
        or place(clause, ad) is not None
    )
    sound = clause.get("sound")
    definite = bool(sound and sound.first > clause.first and clause.tokens[sound.first - 1].word == "the")
    if (definite or not sound) and not asks and not _labelled(clause):
        return []
    parts = _items(clause)
    found: list[tuple[str, Place | None, float | None]] = []
    for part in parts:
        where = place(part, ad)
        found.append((described(part, where), where, seconds(part)))
    result: list[Edit] = []
    for at, (description, where, length) in enumerate(found):
        if not description:
            continue
        spot = where or next((one for _, one, _ in found[at + 1 :] if one), None)
        if spot and spot.missing is not None:
            return [Unclear(str(spot.missing), "cannot.no_track")]
        result.append(AddEffect(description, spot.placement if spot else None, length))
    return result


def _labelled(clause: Clause) -> bool:
    """Whether the clause is an entry of a list: "sfx: phone buzzing"."""
    noun = clause.get("noun.effect")
    return bool(noun and noun.last < clause.last and clause.tokens[noun.last].word in {":", "：", "-"})


def _items(clause: Clause) -> list[Clause]:
    """Return the parts of an enumeration; "between voice 1 and 2" is no enumeration."""
    joins = [
        one
        for one in clause.all("join.and")
        if not any(
            mark.first < one.first and one.first - mark.last <= 3 for mark in clause.all("place.between")
        )  # noqa: PLR2004 - "between voice 1 and 2"
    ]
    bounds = [clause.first, *(one.first for one in joins), clause.last]
    return [clause.part(first, last) for first, last in zip(bounds, bounds[1:], strict=False) if last > first]


def described(part: Clause, where: Place | None) -> str:
    """Return the English description of the effect a clause names: its own words, or the vocabulary's."""
    if part.quotes:
        return part.quotes[0]
    bare = part.without(where.marks) if where else part
    sounds = bare.names("sound")
    words = _own_words(part, bare, where)
    if sounds and not (words and _english(words, sounds)):
        moods = [
            qualities()[one.name].say for one in asked(bare) if one.more and one.name not in {"long", "short"}
        ]
        return " ".join([*moods[:1], ", ".join(sounds)])
    return words


def _english(words: str, sounds: Iterable[str]) -> bool:
    wanted, spoken = {f"sound.{name}" for name in sounds}, tokens(words)
    english = lexicon("english")
    return any(
        mark.concept in wanted and all(english.knows(one.word) for one in spoken[mark.first : mark.last])
        for mark in english.marks(spoken)
    )


def _own_words(part: Clause, bare: Clause, where: Place | None) -> str:
    """Return the words that say which effect is meant, without verbs, places, lengths and articles."""
    dropped: set[int] = {at for mark in (where.marks if where else ()) for at in range(mark.first, mark.last)}
    kept = (
        "sound",
        "quality",
        "instrument",
        "genre",
        "skip",
        "degree",
        "noun",
        "chat",
        "gender",
        "accent",
        "ordinal",
        "pronoun",
        "unit.word",
    )
    for mark in bare.marks:
        if (
            mark.concept.split(".")[0] not in kept
            or mark.concept.startswith("skip")
            and _politeness(bare, mark)
        ):
            dropped |= set(range(mark.first, mark.last))
    dropped -= {at for mark in bare.all("sound") for at in range(mark.first, mark.last)}
    dropped |= {at for at in range(part.first, part.last) if _measure(part, at)}
    runs = _runs(part, dropped)
    return max((_stripped(run) for run in runs), key=len, default="")


def _politeness(clause: Clause, mark: Mark) -> bool:
    return mark.last - mark.first > 1 or clause.words(mark.first, mark.last).lower() not in _EDGE


def _measure(part: Clause, at: int) -> bool:
    unit = any(
        one.first <= at + 2 and at < one.last and one.first >= at
        for one in part.all("unit.second", "unit.minute")
    )
    return unit and (
        figure(part.tokens[at].word) is not None
        or part.tokens[at].word in {"s", "sec", "second", "seconds", "-", "secs"}
    )


def _runs(part: Clause, dropped: set[int]) -> list[str]:
    runs: list[str] = []
    first = part.first
    for at in range(part.first, part.last + 1):
        if at == part.last or at in dropped:
            runs.append(part.words(first, at))
            first = at + 1
    return [run for run in runs if run]


def _stripped(run: str) -> str:
    words = run.split()
    while words and fold(words[0]).strip(".,") in _EDGE:
        words.pop(0)
    while words and fold(words[-1]).strip(".,") in _EDGE:
        words.pop()
    return " ".join(words)


def _entry(effect: Mapping[str, Any]) -> dict[str, Any]:
    return dict(effect)


def apply_add(edit: AddEffect, ad: Ad) -> Outcome:
    """Return the ad with one effect more; the others stay as they are."""
    where: Placement = edit.placement or {"type": "end"}
    length = min(max(edit.seconds or _natural_s(edit.description, where), SHORTEST_S), MAX_SFX_S)
    new = {"description": edit.description, "placement": where, "duration": length}
    note = Note("done.effect_added", {"effect": edit.description, "where": _where(where)})
    return _with(ad, [*map(_entry, ad.effects), new], note)


def _natural_s(description: str, where: Placement) -> float:
    """Return a fitting length: accents that hold up the voices are short."""
    if where["type"] == "withFirstVoice":
        return DEFAULT_SFX_S + 2
    return 1.5 if where["type"] in {"start", "beforeVoices"} and len(description.split()) < 4 else 2.0  # noqa: PLR2004 - a long description is a scene


def _where(where: Placement) -> str:
    return f"{where['type']}:{where['index'] + 1}" if where["type"] == "afterVoice" else where["type"]


def apply_remove(edit: RemoveEffects, ad: Ad) -> Outcome:
    """Return the ad without some effects."""
    gone = ", ".join(str(ad.effects[at].get("description")) for at in edit.places if at < len(ad.effects))
    kept = [one for at, one in enumerate(ad.effects) if at not in edit.places]
    return _with(ad, kept, Note("done.effects_removed", {"effects": gone}))


def apply_change(edit: ChangeEffects, ad: Ad) -> Outcome:
    """Return the ad with some effects changed; what was not asked for stays."""
    changed = list(ad.effects)
    notes = []
    for at in edit.places:
        effect = _entry(changed[at])
        old = str(effect.get("description"))
        if edit.description:
            effect["description"] = edit.description
            notes.append(Note("done.effect_swapped", {"old": old, "effect": edit.description}))
        if edit.placement:
            effect["placement"] = edit.placement
            effect.pop("playAfter", None)
            notes.append(
                Note("done.effect_moved", {"effect": effect["description"], "where": _where(edit.placement)})
            )
        length = _length(edit, effect)
        if length:
            effect["duration"] = length
            notes.append(
                Note("done.effect_length", {"effect": effect["description"], "seconds": f"{length:g}"})
            )
        changed[at] = effect
    return _with(ad, changed, *notes)


def _length(edit: ChangeEffects, effect: Mapping[str, Any]) -> float | None:
    if edit.seconds:
        return min(max(edit.seconds, SHORTEST_S), MAX_SFX_S)
    if edit.factor:
        return min(
            max(round(float(effect.get("duration") or DEFAULT_SFX_S) * edit.factor, 1), SHORTEST_S), MAX_SFX_S
        )
    return None


def _with(ad: Ad, effects: Iterable[Mapping[str, Any]], *notes: Note) -> Outcome:
    return Outcome(ad.holding("sfx", {"soundFxPrompts": list(effects)}), notes)
