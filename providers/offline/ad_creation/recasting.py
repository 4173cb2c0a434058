"""Who speaks instead: voices chosen from what a search offered, never one that was rejected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from providers.offline.ad_creation.edits import Note, Outcome, Recast, Speakers, Wish
from providers.offline.ad_creation.history import Ad, heard, offered
from providers.offline.ad_creation.qualities import qualities
from providers.offline.ad_creation.tracks import accent_of, gender_of
from providers.offline.ad_creation.tracks_after import edited, people, with_tracks
from providers.offline.exchange import Exchange
from providers.offline.lexicon import fold

NOBODY = Wish()
MANY = 50
"""Voices asked for where the choice has to be made here (A6's largest count)."""
Voice = Mapping[str, Any]


@dataclass(frozen=True)
class Offers:
    """What the searches of a turn found."""

    searches: tuple[Exchange, ...] = ()
    language: str = ""
    """The language to cast in."""
    rejected: frozenset[str] = frozenset()
    """Voices that were heard and replaced, or would be now."""
    taken: set[str] = field(default_factory=set)
    """Voices given to someone in this turn."""

    def of(self, accent: str = "") -> list[Voice]:
        """Return the voices found, without doubles; only those of `accent` when it is given."""
        found: dict[str, Voice] = {}
        for search in self.searches:
            if search.args.get("language") != self.language:
                continue
            by_accent = fold(str(search.args.get("accent", ""))) == fold(accent)
            for voice in offered(search):
                if not accent or by_accent or fold(accent) in fold(str(voice.get("accent", ""))):
                    found.setdefault(str(voice["id"]), voice)
        return list(found.values())


def searches(wish: Wish, language: str) -> list[dict[str, Any]]:
    """Return the arguments of the searches `wish` needs: the exact one first, then a broad one."""
    exact: dict[str, Any] = {"language": language}
    if wish.gender:
        exact["gender"] = wish.gender
    broad = {**exact, "count": MANY}
    if wish.accent:
        exact["accent"] = wish.accent
    style = next((style for name in wish.styles for style in qualities()[name].styles), "")
    if style and not wish.name:
        exact["style"] = style
    if wish.name:
        return [{"language": language, "count": MANY}]
    if exact.keys() == {"language"}:
        return [broad]
    exact["count"] = 20
    accented = {key: value for key, value in exact.items() if key != "style"} | {"count": MANY}
    return [exact, accented if wish.accent and style else broad]


def choose(wish: Wish, offers: Offers, like: Wish = NOBODY) -> tuple[Voice | None, bool]:
    """Return the best voice for `wish`, and whether its style is published as wished; None when nobody fits.

    `like` is the gender and the accent to keep where none is wished.
    """
    pool = offers.of(wish.accent)
    if wish.name:
        key = fold(wish.name)
        named = [
            voice
            for voice in pool
            if key in fold(str(voice.get("name", ""))) or key in fold(str(voice["id"]))
        ]
        return (named[0], True) if named else (None, False)
    able = [voice for voice in pool if str(voice["id"]) not in offers.rejected | offers.taken]
    if wish.gender:
        able = [voice for voice in able if str(voice.get("gender", "")).lower() == wish.gender]
    if not able:
        return None, False
    styles = [style for name in wish.styles for style in qualities()[name].styles]
    ranked = sorted(enumerate(able), key=lambda one: (*_rank(one[1], styles, like), one[0]))
    best = ranked[0][1]
    return best, not styles or _rank(best, styles, like)[1] < len(styles)


def _rank(voice: Voice, styles: Sequence[str], like: Wish) -> tuple[int, int, int, int]:
    style = fold(str(voice.get("style", "")))
    fit = next((at for at, one in enumerate(styles) if one in style), len(styles))
    gender = 0 if not like.gender or str(voice.get("gender", "")).lower() == like.gender else 1
    accent = 0 if not like.accent or fold(str(voice.get("accent", ""))) == like.accent else 1
    return gender, fit, accent, 1 if voice.get("multilingual") else 0


def rejected(ad: Ad) -> frozenset[str]:
    """Return the voices nobody wants to be offered again: all that were cast so far."""
    return frozenset(heard(ad) | {str(track.get("voiceId")) for track in ad.tracks})


def apply_recast(edit: Recast, ad: Ad, offers: Offers) -> Outcome:
    """Return the ad with other voices on some tracks; texts, pace and order stay."""
    if not edit.tracks:
        return Outcome(ad, (Note("kept.already"),))
    tracks: Sequence[Mapping[str, Any]] = ad.tracks
    notes: list[Note] = []
    for group in _groups(edit, ad):
        like = Wish(gender_of(ad, ad.tracks[group[0]]), accent_of(ad, ad.tracks[group[0]]))
        voice, styled = choose(edit.wish, offers, like)
        if voice is None:
            key = "cannot.no_name" if edit.wish.name else "cannot.no_voice"
            notes.append(
                Note(
                    key, {"wish": described(edit.wish), "tracks": people(group), "language": offers.language}
                )
            )
            continue
        offers.taken.add(str(voice["id"]))
        tracks = edited(ad.holding("voices", {"voiceTracks": tracks}), group, voiceId=str(voice["id"]))
        notes.append(Note("done.recast", {"tracks": people(group), "voice": presented(voice)}))
        if not styled:
            notes.append(Note("done.style_unknown", {"style": ", ".join(edit.wish.styles)}))
    return with_tracks(ad, tracks, *notes) if tracks is not ad.tracks else Outcome(ad, tuple(notes))


def _groups(edit: Recast, ad: Ad) -> list[tuple[int, ...]]:
    """Return the tracks that get one voice together: those that share one now, or all."""
    if edit.shared or edit.wish.name:
        return [edit.tracks]
    groups: dict[str, list[int]] = {}
    for at in edit.tracks:
        groups.setdefault(str(ad.tracks[at].get("voiceId")), []).append(at)
    return [tuple(group) for group in groups.values()]


def apply_speakers(edit: Speakers, ad: Ad, offers: Offers) -> Outcome:
    """Return the ad with so many different voices, one after the other; those of now come first."""
    roles = list(dict.fromkeys(str(track.get("voiceId")) for track in ad.tracks))[: edit.count]
    while len(roles) < min(edit.count, len(ad.tracks)):
        spoken = [gender_of(ad, track) for track in ad.tracks]
        fewer = "female" if spoken.count("male") > spoken.count("female") else "male"
        voice, _ = choose(Wish(), offers, Wish(fewer))
        if voice is None:
            break
        offers.taken.add(str(voice["id"]))
        roles.append(str(voice["id"]))
    if len(ad.tracks) < edit.count:
        return Outcome(ad, (Note("cannot.few_tracks", {"count": str(len(ad.tracks))}),))
    tracks = [{**track, "voiceId": roles[at % len(roles)]} for at, track in enumerate(ad.tracks)]
    known = {str(voice["id"]): voice for voice in offers.of()}
    names = [presented(known[role]) if role in known else ad.name(role) for role in roles]
    return with_tracks(ad, tracks, Note("done.speakers", {"list": ", ".join(names)}))


def presented(voice: Voice) -> str:
    """Return a voice as a reply names it: "Ryan (male, British)"."""
    facts = [str(voice[key]) for key in ("gender", "accent") if voice.get(key)]
    # A catalogue may publish a dozen styles of one voice; two tell enough.
    facts += [one.strip() for one in str(voice.get("style") or "").split(",")[:2] if one.strip()]
    return f"{voice.get('name') or voice['id']}" + (f" ({', '.join(facts)})" if facts else "")


def described(wish: Wish) -> str:
    """Return a wish in a few words."""
    parts: Iterable[str] = (wish.name, *wish.styles, wish.accent, wish.gender)
    return ", ".join(part for part in parts if part)
