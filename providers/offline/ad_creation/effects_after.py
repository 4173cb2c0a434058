"""The effects after an edit: what was not asked about stays as it is."""

from collections.abc import Iterable, Mapping
from typing import Any

from providers.offline.ad_creation.edits import AddEffect, ChangeEffects, Note, Outcome, RemoveEffects
from providers.offline.ad_creation.history import Ad
from state.ad import DEFAULT_SFX_S, MAX_SFX_S, Placement

SHORTEST_S = 0.5
"""Seconds of the shortest effect that an edit makes."""


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
        if edit.placement and edit.placement == effect.get("placement"):
            notes.append(Note("kept.already"))
        elif edit.placement:
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
