"""Several versions of one stream side by side, each in another manner (A77)."""

from dataclasses import dataclass, replace

from providers.offline.ad_creation import copywriter, sound
from providers.offline.ad_creation.desk import Desk
from providers.offline.ad_creation.edits import Pace, ShapeMusic, Trait, Variations, Wish
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.music_prompt import shaped
from providers.offline.ad_creation.qualities import qualities
from providers.offline.ad_creation.recasting import Offers, choose, presented
from providers.offline.ad_creation.script_after import evened, with_texts
from providers.offline.ad_creation.tracks import gender_of
from providers.offline.ad_creation.tracks_after import apply_pace

_GENDERS = {"male", "female"}
MANNERS = ("warm", "energetic", "calm", "serious", "friendly")
"""The manners of variations, in the order in which they are offered."""


@dataclass(frozen=True)
class Variation:
    """One of them."""

    manner: str
    ad: Ad
    what: str
    """What is different, as the reply says it: voices, or the music's description."""


def variations(edit: Variations, ad: Ad, desk: Desk) -> list[Variation]:
    """Return the variations, each unlike the ad and the rest; fewer when there is no more."""
    found: list[Variation] = []
    for manner in edit.genders or MANNERS[: edit.count]:
        one = _one(edit, ad, desk, manner, len(found))
        known = [ad.data(edit.stream), *(other.ad.data(edit.stream) for other in found)]
        if one and one.ad.data(edit.stream) not in known:
            found.append(one)
    return found


def _one(edit: Variations, ad: Ad, desk: Desk, manner: str, number: int) -> Variation | None:
    if edit.stream == "music":
        return _music(ad, desk, manner, number)
    if edit.stream == "sfx":
        return _effects(ad, manner)
    if edit.texts:
        return _texts(ad, desk, manner, number)
    return _cast(ad, desk.offers, manner)


def _music(ad: Ad, desk: Desk, manner: str, number: int) -> Variation:
    old = str((ad.music or {}).get("musicPrompt", ""))
    prompt = (
        sound.music_prompt(desk.brief, manner, seconds=ad.spot_s, variant=number + 1) if desk.brief else old
    )
    trait = Trait(f"quality.{manner}", qualities()[manner].say)
    prompt = prompt if prompt != old and desk.brief else shaped(old, ShapeMusic((trait,)))
    after = ad.holding("music", {**(ad.music or {"musicProvider": "loudly"}), "musicPrompt": prompt})
    return Variation(manner, after, prompt)


def _effects(ad: Ad, manner: str) -> Variation | None:
    word = {
        "warm": "soft",
        "energetic": "punchy",
        "calm": "distant",
        "serious": "deep",
        "friendly": "bright",
    }[manner]
    changed = [{**one, "description": f"{word} {one.get('description')}"} for one in ad.effects]
    return Variation(manner, ad.holding("sfx", {"soundFxPrompts": changed}), word) if changed else None


def _texts(ad: Ad, desk: Desk, manner: str, number: int) -> Variation | None:
    if desk.brief is None:
        return None
    texts = copywriter.write(
        desk.brief,
        language=ad.language,
        seconds=ad.spot_s,
        tone=manner,
        voices=len(ad.tracks),
        variant=desk.variant + number,
    )
    kept, tracks = with_texts(ad, evened(texts, len(ad.tracks), ad.language))
    return Variation(manner, kept.holding("voices", {"voiceTracks": tracks}), " ".join(texts)[:120])


def _cast(ad: Ad, offers: Offers, manner: str) -> Variation | None:
    """Return the same script in another cast and pace; who was heard comes again when nobody else is left."""
    roles = list(dict.fromkeys(str(track.get("voiceId")) for track in ad.tracks))
    cast: dict[str, str] = {}
    names: list[str] = []
    for role in roles:
        track = next(one for one in ad.tracks if str(one.get("voiceId")) == role)
        wish = Wish(gender=manner) if manner in _GENDERS else Wish(styles=(manner,))
        voice, _ = choose(wish, offers, Wish(gender_of(ad, track)))
        if voice is None:
            again = replace(offers, rejected=frozenset(), taken=set(cast.values()) | {role})
            voice, _ = choose(wish, again, Wish(gender_of(ad, track)))
        if voice is None:
            return None
        cast[role] = str(voice["id"])
        offers.taken.add(str(voice["id"]))
        names.append(presented(voice))
    tracks = [{**one, "voiceId": cast[str(one.get("voiceId"))]} for one in ad.tracks]
    after = ad.holding("voices", {"voiceTracks": tracks})
    pace = qualities()[manner].pace if manner in qualities() else 1.0
    if pace != 1.0:
        after = apply_pace(Pace(tuple(range(len(tracks))), factor=pace), after).ad
    return Variation(manner, after, ", ".join(names))
