"""The voice tracks after an edit of pace, pauses or order; what was not asked about stays."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from providers.offline.ad_creation.edits import (
    CopyVoice,
    Note,
    Outcome,
    Pace,
    RemoveTracks,
    Reorder,
    Spacing,
    SwapVoices,
    Together,
)
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.script import fits

SLOWEST, FASTEST = 0.5, 2.0
"""Bounds of a track's speed (A13)."""
LONGEST_PAUSE_S = 10.0
"""Seconds of the longest pause or overlap an edit makes."""
_TIMING = {"speed": 1.0, "overlap": 0.0}
"""What says when a track ends, and its usual value."""
Track = Mapping[str, Any]


def people(tracks: Iterable[int]) -> str:
    """Return tracks as people number them: "1, 3"."""
    return ", ".join(str(at + 1) for at in sorted(tracks))


def with_tracks(ad: Ad, tracks: Sequence[Track], *notes: Note) -> Outcome:
    """Return the ad with these tracks, and what to say."""
    return Outcome(ad.holding("voices", {"voiceTracks": list(tracks)}), notes)


def edited(ad: Ad, tracks: Iterable[int], **change: object) -> list[Track]:
    """Return the ad's tracks with `change` made to some."""
    chosen = set(tracks)
    return [{**track, **change} if at in chosen else track for at, track in enumerate(ad.tracks)]


def apply_pace(edit: Pace, ad: Ad) -> Outcome:
    """Return the ad with some tracks spoken faster or slower (A78)."""
    result: list[Track] = list(ad.tracks)
    for at in edit.tracks:
        now = float(result[at].get("speed") or 1.0)
        speed = edit.speed or now * edit.factor
        result[at] = {**result[at], "speed": round(min(max(speed, SLOWEST), FASTEST), 2)}
    if result == list(ad.tracks):
        return Outcome(ad, (Note("cannot.speed_limit", {"tracks": people(edit.tracks)}),))
    fitting = _fitting(ad, result)
    if fitting is None:
        return Outcome(ad, (Note("cannot.no_room_slow"),))
    limited = (Note("done.pace_limited"),) if fitting != result else ()
    result = fitting
    speeds = ", ".join(dict.fromkeys(f"{result[at]['speed']:g}" for at in edit.tracks))
    return with_tracks(
        ad, result, Note("done.pace", {"tracks": people(edit.tracks), "speed": speeds}), *limited
    )


def _fitting(ad: Ad, wanted: Sequence[Track]) -> list[Track] | None:
    """Return the largest part of a change of pace or pauses that fits the spot; None when there is none.

    An ad that was too long before is not held back.
    """
    if fits(ad, wanted) or not fits(ad, ad.tracks):
        return list(wanted)
    for part in (0.8, 0.6, 0.4, 0.25, 0.12):
        between = [
            {
                **new,
                **{
                    key: round(_number(old, key) + (_number(new, key) - _number(old, key)) * part, 2)
                    for key in _TIMING
                },
            }
            if new != old
            else new
            for old, new in zip(ad.tracks, wanted, strict=True)
        ]
        if fits(ad, between):
            return list[Track](between)
    return None


def _number(track: Track, key: str) -> float:
    value = track.get(key)
    return float(value) if value is not None else _TIMING[key]


def apply_spacing(edit: Spacing, ad: Ad) -> Outcome:
    """Return the ad with other pauses before some tracks; a positive overlap starts earlier (A-R6)."""
    if not edit.tracks:
        return Outcome(ad, (Note("cannot.one_track"),))
    result: list[Track] = list(ad.tracks)
    for at in edit.tracks:
        now = -float(result[at].get("overlap") or 0.0)
        pause = edit.seconds if edit.seconds is not None else now + edit.change
        pause = pause if edit.may_overlap or edit.seconds is not None else max(pause, 0.0)
        bounded = min(max(pause, -LONGEST_PAUSE_S), LONGEST_PAUSE_S)
        result[at] = {**result[at], "overlap": round(-bounded, 2) or 0.0}
    if result == list(ad.tracks):
        return Outcome(ad, (Note("kept.already"),))
    fitting = _fitting(ad, result)
    if fitting is None:
        return Outcome(ad, (Note("cannot.no_room_pause"),))
    limited = (Note("done.pause_limited"),) if fitting != result else ()
    result = fitting
    pause = -float(result[edit.tracks[0]]["overlap"])
    key = "done.overlap" if pause < 0 else "done.pause" if pause else "done.no_pause"
    note = Note(key, {"tracks": people(edit.tracks), "seconds": f"{abs(pause):g}"})
    return with_tracks(ad, result, note, *limited)


def apply_together(edit: Together, ad: Ad) -> Outcome:
    """Return the ad with two tracks that start together, after the same track (A-R7)."""
    first = ad.tracks[edit.first]
    result: list[Track] = list(ad.tracks)
    result[edit.second] = {
        **result[edit.second],
        "playAfter": first["playAfter"],
        "overlap": first.get("overlap") or 0.0,
    }
    values = {"first": str(edit.first + 1), "second": str(edit.second + 1)}
    return with_tracks(ad, result, Note("done.together", values))


def apply_copy(edit: CopyVoice, ad: Ad) -> Outcome:
    """Return the ad with one track's voice on others."""
    voice = str(ad.tracks[edit.source]["voiceId"])
    note = Note("done.recast", {"tracks": people(edit.tracks), "voice": ad.name(voice)})
    return with_tracks(ad, edited(ad, edit.tracks, voiceId=voice), note)


def apply_swap(edit: SwapVoices, ad: Ad) -> Outcome:
    """Return the ad with two tracks' voices exchanged; each voice keeps its pace."""
    result: list[Track] = list(ad.tracks)
    one, other = result[edit.first], result[edit.second]
    if edit.everywhere:
        turned = {str(one["voiceId"]): other["voiceId"], str(other["voiceId"]): one["voiceId"]}
        result = [
            {**track, "voiceId": turned.get(str(track["voiceId"]), track["voiceId"])} for track in ad.tracks
        ]
        return with_tracks(
            ad,
            result,
            Note(
                "done.cast_swapped", {"first": ad.name(one["voiceId"]), "second": ad.name(other["voiceId"])}
            ),
        )
    result[edit.first] = {**one, "voiceId": other["voiceId"], "speed": other.get("speed", 1.0)}
    result[edit.second] = {**other, "voiceId": one["voiceId"], "speed": one.get("speed", 1.0)}
    note = Note("done.voices_swapped", {"first": str(edit.first + 1), "second": str(edit.second + 1)})
    return with_tracks(ad, result, note)


def apply_reorder(edit: Reorder, ad: Ad) -> Outcome:
    """Return the ad with its tracks in another order; effects after a track follow it."""
    after = rearranged(ad, edit.order)
    return Outcome(after, (Note("done.order", {"order": ", ".join(str(at + 1) for at in edit.order)}),))


def apply_remove_tracks(edit: RemoveTracks, ad: Ad) -> Outcome:
    """Return the ad without some tracks; the last one stays, for an ad must say something."""
    kept = [at for at in range(len(ad.tracks)) if at not in edit.tracks]
    if not kept:
        return Outcome(ad, (Note("cannot.last_track"),))
    return Outcome(rearranged(ad, kept), (Note("done.tracks_removed", {"tracks": people(edit.tracks)}),))


def rearranged(ad: Ad, order: Sequence[int]) -> Ad:
    """Return the ad with the tracks of `order`, chained anew; effects keep their neighbours."""
    moved = {old: new for new, old in enumerate(order)}
    tracks = [chained(ad.tracks[old], new, moved) for new, old in enumerate(order)]
    after = ad.holding("voices", {"voiceTracks": tracks})
    effects = [_following(one, moved) for one in ad.effects]
    return after.holding("sfx", {"soundFxPrompts": effects}) if effects != list(ad.effects) else after


def chained(track: Track, place: int, moved: Mapping[int, int]) -> Track:
    """Return `track` at a new place, after the one before it, unless it deliberately plays after another."""
    target = str(track.get("playAfter") or "")
    old = int(target.removeprefix("track-")) if target.removeprefix("track-").isdecimal() else None
    kept = moved.get(old) if old is not None else None
    play_after = "start" if place == 0 else f"track-{place - 1}"
    if kept is not None and kept < place and all(new == at for at, new in moved.items() if at <= (old or 0)):
        play_after = f"track-{kept}" if target != f"track-{place - 1}" else play_after
    overlap = 0.0 if place == 0 else track.get("overlap", 0.0)
    return {**track, "id": f"track-{place}", "playAfter": play_after, "overlap": overlap}


def _following(effect: Mapping[str, Any], moved: Mapping[int, int]) -> Mapping[str, Any]:
    where = effect.get("placement") or {}
    if where.get("type") != "afterVoice" or not isinstance(where.get("index"), int):
        return effect
    new = moved.get(where["index"])
    if new == where["index"]:
        return effect
    placement = {"type": "end"} if new is None else {"type": "afterVoice", "index": new}
    return {key: value for key, value in effect.items() if key != "playAfter"} | {"placement": placement}
