"""Who speaks: what to ask the catalogue for, and which of the voices found take the roles."""

from collections.abc import Mapping, Sequence
from typing import Any

from providers.offline.ad_creation.wishes import Wishes
from providers.offline.ad_creation.wording import folded

_COUNT = 10
_STYLES = {
    "warm": ("warm", "friendly", "soft"), "energetic": ("energetic", "upbeat", "lively"),
    "urgent": ("energetic", "intense"),
    "funny": ("playful", "funny", "expressive"), "luxurious": ("elegant", "smooth", "sophisticated"),
    "calm": ("calm", "soothing", "gentle", "soft"),
    "serious": ("professional", "serious", "authoritative", "news"),
    "friendly": ("friendly", "casual", "conversational"), "inspiring": ("inspiring", "confident", "warm"),
}  # fmt: skip


def queries(language: str, wishes: Wishes, roles: int) -> list[dict[str, Any]]:
    """Return the searches to make first: the wishes as filters, one search for each gender that is wished."""
    base: dict[str, Any] = {"language": language}
    if wishes.accent:
        base["accent"] = wishes.accent
    if wishes.style:
        base["style"] = _STYLES[wishes.style][0]
    genders = wishes.genders[: max(roles, 1)]
    asked = [{**base, "gender": gender, "count": _COUNT} for gender in genders]
    return asked or [{**base, "count": _COUNT}]


def broader(query: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return ever broader forms of a search that found nobody: without style, accent, then gender."""
    said = [name for name in ("style", "accent", "gender") if query.get(name) is not None]
    return [
        {name: value for name, value in query.items() if name not in said[:dropped]}
        for dropped in range(1, len(said) + 1)
    ]


def pick(voices: Sequence[Mapping[str, Any]], *, wishes: Wishes, exclude: set[str], roles: int) -> list[str]:
    """Return the ids of the voices for `roles` roles, best first; a voice in `exclude` is never taken.

    The catalogue's order is kept among equals. Roles alternate in gender unless a gender is wished; with
    fewer voices than roles they take turns. Empty when no voice is left.
    """
    usable = [voice for voice in voices if voice.get("id") and str(voice["id"]) not in exclude]
    ranked = sorted(usable, key=lambda voice: -_fit(voice, wishes))
    unique = list({str(voice["id"]): voice for voice in ranked}.values())
    chosen: list[Mapping[str, Any]] = []
    while unique and len(chosen) < roles:
        best = max(unique, key=lambda voice: _role_fit(voice, chosen, wishes))
        chosen.append(best)
        unique.remove(best)
    ids = [str(voice["id"]) for voice in chosen]
    return [ids[index % len(ids)] for index in range(roles)] if ids else []


def _fit(voice: Mapping[str, Any], wishes: Wishes) -> int:
    accent = bool(wishes.accent) and folded(wishes.accent) in folded(str(voice.get("accent", "")))
    style = folded(str(voice.get("style", "")))
    styled = bool(wishes.style) and any(word in style for word in _STYLES[wishes.style])
    return 3 * accent + styled + (0 if voice.get("multilingual") else 2)


def _role_fit(
    voice: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]], wishes: Wishes
) -> tuple[int, int]:
    gender = folded(str(voice.get("gender", "")))
    if wishes.genders:
        wanted = wishes.genders[len(chosen) % len(wishes.genders)]
        return int(gender == wanted), _fit(voice, wishes)
    other = bool(chosen) and gender != folded(str(chosen[-1].get("gender", "")))
    return int(other), _fit(voice, wishes)
