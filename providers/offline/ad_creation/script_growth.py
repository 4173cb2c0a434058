"""A track more, and the whole ad in another language."""

from collections.abc import Mapping, Sequence
from typing import Any

from providers.offline.ad_creation import copywriter
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.desk import Desk
from providers.offline.ad_creation.edits import AddTrack, Note, Outcome, Translate, Wish
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.kinds import WRITTEN
from providers.offline.ad_creation.recasting import Voice, choose, described, presented
from providers.offline.ad_creation.script import joined, lead_s, roomy
from providers.offline.ad_creation.script_after import evened
from providers.offline.ad_creation.tracks import gender_of
from providers.offline.ad_creation.tracks_after import people, rearranged, with_tracks
from providers.offline.lexicon import fold

_SHORTEST_S = 3.0
"""Seconds of the shortest script that is written."""


def apply_track(edit: AddTrack, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad with one track more in a new voice; without words it takes the end of the script."""
    voice, _ = choose(edit.wish, desk.offers)
    if voice is None:
        values = {
            "wish": described(edit.wish),
            "tracks": str(len(ad.tracks) + 1),
            "language": desk.offers.language,
        }
        return Outcome(ad, (Note("cannot.no_voice", values),))
    desk.offers.taken.add(str(voice["id"]))
    text = edit.text.strip()
    if not text:
        return _split(ad, voice)
    place = len(ad.tracks)
    new = {
        "id": f"track-{place}",
        "voiceId": str(voice["id"]),
        "text": text,
        "playAfter": f"track-{place - 1}" if place else "start",
        "overlap": 0.0,
        "speed": 1.0,
    }
    tracks, gone = roomy(ad, [*ad.tracks, new], text)
    after = ad.holding("voices", {"voiceTracks": tracks})
    after = rearranged(after, [place, *range(place)]) if edit.at_start else after
    notes = [
        Note(
            "done.track_added",
            {"tracks": str(1 if edit.at_start else place + 1), "words": f"{presented(voice)} – {text}"},
        )
    ]
    notes += [Note("done.room", {"words": " ".join(gone)})] if gone else []
    return Outcome(after, tuple(notes))


def _split(ad: Ad, voice: Voice) -> Outcome:
    """Return the ad with its last sentence, or its last track, given to another voice."""
    place = len(ad.tracks)
    shared = place > 1 and ad.tracks[-1]["voiceId"] == ad.tracks[-2]["voiceId"]
    parts = sentences(str(ad.tracks[-1]["text"])) if ad.tracks else []
    if shared:
        tracks = [*ad.tracks[:-1], {**ad.tracks[-1], "voiceId": str(voice["id"])}]
    elif len(parts) > 1:
        half = (len(parts) + 1) // 2
        last = {**ad.tracks[-1], "text": joined(parts[:half], ad.language)}
        new = {
            **last,
            "id": f"track-{place}",
            "voiceId": str(voice["id"]),
            "text": joined(parts[half:], ad.language),
            "playAfter": f"track-{place - 1}",
            "overlap": 0.0,
            "speed": 1.0,
        }
        tracks = [*ad.tracks[:-1], last, new]
    else:
        return Outcome(ad, (Note("cannot.no_words"),))
    at = people([len(tracks) - 1])
    return with_tracks(
        ad,
        tracks,
        Note("done.recast", {"tracks": at, "voice": presented(voice)}),
        Note("done.track_split", {"tracks": at}),
    )


def apply_translate(edit: Translate, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad in another language: a new script of the same brief and a cast that speaks it."""
    if edit.language not in WRITTEN:
        return Outcome(ad, (Note("cannot.other_language", {"language": edit.language}),))
    if desk.brief is None:
        return Outcome(ad, (Note("cannot.no_brief"),))
    count = max(len(ad.tracks), 1)
    cast = _cast(ad, desk)
    if not cast:
        values = {"wish": edit.language, "tracks": people(range(count)), "language": edit.language}
        return Outcome(ad, (Note("cannot.no_voice", values),))
    room = max(ad.spot_s - lead_s(ad), _SHORTEST_S)
    texts = copywriter.write(
        desk.brief, language=edit.language, seconds=room, voices=count, variant=desk.variant
    )
    texts = evened(texts, count, edit.language)
    kept = ad if len(texts) >= len(ad.tracks) else rearranged(ad, range(len(texts)))
    tracks = [_recited(track, text, cast) for track, text in zip(kept.tracks, texts, strict=False)]
    return with_tracks(kept, tracks, *_translation_notes(edit, ad, desk, tracks, cast))


def _recited(track: Mapping[str, Any], text: str, cast: Mapping[str, Voice]) -> dict[str, Any]:
    voice = cast.get(str(track.get("voiceId"))) or next(iter(cast.values()))
    return {**track, "text": text, "voiceId": str(voice["id"]), "speed": 1.0}


def _translation_notes(
    edit: Translate, ad: Ad, desk: Desk, tracks: Sequence[Mapping[str, Any]], cast: Mapping[str, Voice]
) -> list[Note]:
    notes = [Note("done.translated", {"language": edit.language})]
    for voice in cast.values():
        spoken = people(at for at, one in enumerate(tracks) if one["voiceId"] == voice["id"])
        notes.append(Note("done.recast", {"tracks": spoken, "voice": presented(voice)}))
    script = (one for track in ad.tracks for one in sentences(str(track["text"])))
    written = fold("\n".join(str(track["text"]) for track in tracks))
    told = {fold(claim) for claim in desk.brief.claims} if desk.brief else set[str]()
    bare = {one: fold(one).strip(" .!?") for one in script}
    own = [one for one, said in bare.items() if said not in written and (said in desk.said or said in told)]
    return notes + ([Note("done.own_left_out", {"words": " ".join(own)})] if own else [])


def _cast(ad: Ad, desk: Desk) -> dict[str, Voice]:
    """Return a new voice for each old one, of the same gender where that is known."""
    cast: dict[str, Voice] = {}
    for track in ad.tracks:
        old = str(track.get("voiceId"))
        if old not in cast:
            voice, _ = choose(Wish(), desk.offers, Wish(gender_of(ad, track)))
            if voice:
                desk.offers.taken.add(str(voice["id"]))
                cast[old] = voice
    return cast
