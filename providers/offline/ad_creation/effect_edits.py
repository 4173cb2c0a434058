"""Requests about sound effects: what a clause asks for, and the effects after it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import cast

from providers.offline.ad_creation.amounts import seconds
from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.edits import AddEffect, ChangeEffects, Edit, RemoveEffects, Unclear
from providers.offline.ad_creation.effect_names import TWO, by_name, by_number, matching, onward
from providers.offline.ad_creation.effect_words import described
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.places import Place, place
from providers.offline.ad_creation.qualities import asked, qualities
from providers.offline.lexicon import fold
from state.ad import Placement

_CLOSE = 3
"""Tokens between "between" and the joining word that belongs to it."""
_LONGER, _SHORTER = 1.6, 0.6
_LENGTHS = {"", "long", "in length", "each"}
"""What stands behind seconds and says nothing of another sound."""
_ANY = frozenset({"a", "an", "another", "some", "un", "una", "um", "uma"})


def read(clause: Clause, ad: Ad) -> list[Edit]:
    """Return what `clause`, which is about effects, asks for; empty when nothing is recognised."""
    swap = only_kept(clause, ad) or _places_swapped(clause, ad) or _swapped(clause, ad)
    if swap:
        return swap
    parts = _items(clause)
    if len(parts) > 1 and all(part.has("sound") and place(part, ad) for part in parts):
        return [edit for part in parts for edit in read(part, ad)]
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
        for at in by_name(clause, before):
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


def only_kept(clause: Clause, ad: Ad) -> list[Edit]:
    """Return "only keep the bell": every other effect goes."""
    if not (clause.has("verb.keep") and clause.has("particle.only") and clause.has("sound", "noun.effect")):
        return []
    staying = by_name(clause, ad)
    gone = tuple(at for at in range(len(ad.effects)) if at not in staying)
    return [RemoveEffects(gone)] if staying and gone else []


def _removal(clause: Clause, ad: Ad, existing: tuple[int, ...]) -> list[Edit]:
    if existing and not (clause.has("pronoun.all") and not clause.has("sound")):
        return [RemoveEffects(existing)]
    if clause.has("sound"):
        return [Unclear(clause.rest(keep=("sound",)), "cannot.no_effect")]
    named = described(clause.without(clause.all("pronoun")), None)
    nouns = {fold(clause.words(mark.first, mark.last)) for mark in clause.all("noun.effect")}
    plain = fold(named) in nouns or fold(named).partition(" ")[2] in nouns
    if clause.has("noun.effect") and named and not plain and not clause.has("pronoun.all"):
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
        or len(sounds) != TWO
        or clause.has("particle.with", "particle.for", "particle.to", "particle.instead")
    ):
        return []
    one, other = (by_name(clause.part(mark.first, mark.last), ad) for mark in sounds)
    if len(one) != 1 or len(other) != 1 or one == other:
        return []
    first, second = (
        cast("Placement", ad.effects[at[0]].get("placement") or {"type": "end"}) for at in (one, other)
    )
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
    places = by_number(old, ad) or by_name(old, ad)
    if not places and old.has("noun.effect") and len(ad.effects) == 1:
        places = (0,)
    where = place(new, ad)
    description = described(new, where)
    if not places or not description:
        return []
    return [ChangeEffects(places, description, where.placement if where else None, seconds(new))]


def change(clause: Clause, ad: Ad, existing: tuple[int, ...]) -> Edit | None:
    """Return what `clause` wants other about effects that are there, or None."""
    where = place(onward(clause), ad)
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
    if clause.has("negation", "verb.move", "verb.replace", "verb.back") and not clause.has("verb.add"):
        return []
    asks = clause.has("verb.add", "verb.put", "verb.create", "verb.make", "verb.use") or (
        place(clause, ad) is not None and clause.has("sound", "noun.effect")
    )
    sound = clause.get("sound")
    definite = bool(sound and sound.first > clause.first and clause.tokens[sound.first - 1].word == "the")
    if (definite or not sound) and not asks and not _labelled(clause):
        return []
    noun = clause.get("noun.effect")
    parts = _items(clause.part(noun.last + 1, clause.last) if noun and _labelled(clause) else clause)
    found: list[tuple[str, Place | None, float | None]] = []
    for part in parts:
        where = place(part, ad)
        found.append((described(part, where), where, seconds(part)))
    result: list[Edit] = []
    for at, (description, where, length) in enumerate(found):
        last = result[-1] if result else None
        if length and isinstance(last, AddEffect) and not last.seconds and fold(description) in _LENGTHS:
            result[-1] = replace(last, seconds=length)
            continue
        if not description or _bare(parts[at], description):
            continue
        led = found[at - 1][1] if at and not found[at - 1][0] else None
        spot = where or led or next((one for _, one, _ in found[at + 1 :] if one), None)
        if spot and spot.missing is not None:
            return [Unclear(str(spot.missing), "cannot.no_track")]
        result.append(AddEffect(description, spot.placement if spot else None, length))
    return result


def _bare(part: Clause, description: str) -> bool:
    """Whether nothing but "a sound" is said of an effect."""
    return fold(description) in {fold(part.words(mark.first, mark.last)) for mark in part.all("noun.effect")}


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
            mark.first < one.first and one.first - mark.last <= _CLOSE for mark in clause.all("place.between")
        )
    ]
    bounds = [clause.first, *(one.first for one in joins), clause.last]
    return [clause.part(first, last) for first, last in pairwise(bounds) if last > first]
