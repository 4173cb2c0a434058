"""Edits carried out on an ad, one after another; what must stay is put back at the end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from providers.offline.ad_creation import (
    effects_after,
    music_prompt,
    recasting,
    script_after,
    script_growth,
    tone_after,
    tracks_after,
    version_changes,
)
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.desk import Desk
from providers.offline.ad_creation.edits import (
    STREAM,
    AddEffect,
    AddLine,
    AddTrack,
    ChangeEffects,
    CopyVoice,
    Edit,
    Keep,
    MusicSource,
    Note,
    OpenWithQuestion,
    Outcome,
    Pace,
    Recast,
    RemoveEffects,
    RemoveLine,
    RemoveTracks,
    Rename,
    Reorder,
    ReplaceMusic,
    ReplaceWords,
    Resize,
    Restore,
    RestoreCast,
    Retone,
    Rewrite,
    ShapeMusic,
    SilenceMusic,
    Spacing,
    Speakers,
    SwapVoices,
    Together,
    Translate,
    Unclear,
    Variations,
    Walk,
)
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.script import joined
from providers.offline.ad_creation.tracks_after import people
from state.ad import STREAMS, Stream

Apply = Callable[[Any, Ad, Desk], Outcome]
_TEXTS = (Resize, ReplaceWords, Rename, AddLine, RemoveLine, RemoveTracks, Rewrite, Translate, Retone)


def _plain(apply: Callable[[Any, Ad], Outcome]) -> Apply:
    return lambda edit, ad, _desk: apply(edit, ad)


_APPLY: Mapping[type, Apply] = {
    ShapeMusic: _plain(music_prompt.apply_shape),
    ReplaceMusic: _plain(music_prompt.apply_replace),
    MusicSource: _plain(music_prompt.apply_source),
    SilenceMusic: _plain(music_prompt.apply_silence),
    AddEffect: _plain(effects_after.apply_add),
    RemoveEffects: _plain(effects_after.apply_remove),
    ChangeEffects: _plain(effects_after.apply_change),
    Recast: lambda edit, ad, desk: recasting.apply_recast(edit, ad, desk.offers),
    CopyVoice: _plain(tracks_after.apply_copy),
    SwapVoices: _plain(tracks_after.apply_swap),
    Speakers: lambda edit, ad, desk: recasting.apply_speakers(edit, ad, desk.offers),
    RestoreCast: _plain(version_changes.apply_cast),
    Together: _plain(tracks_after.apply_together),
    Pace: _plain(tracks_after.apply_pace),
    Spacing: _plain(tracks_after.apply_spacing),
    Reorder: _plain(tracks_after.apply_reorder),
    RemoveTracks: _plain(tracks_after.apply_remove_tracks),
    ReplaceWords: script_after.apply_words,
    Rename: script_after.apply_name,
    AddLine: script_after.apply_line,
    RemoveLine: script_after.apply_less,
    Rewrite: script_after.apply_rewrite,
    OpenWithQuestion: script_after.apply_opening,
    Resize: script_after.apply_resize,
    Retone: tone_after.apply_tone,
    AddTrack: script_growth.apply_track,
    Translate: script_growth.apply_translate,
    Restore: _plain(version_changes.apply_restore),
    Walk: version_changes.apply_walk,
}
ACTING: tuple[type, ...] = (*_APPLY, Variations)
"""Edits that write a version."""


def carry_out(edits: Sequence[Edit], ad: Ad, desk: Desk, keeps: Sequence[Keep]) -> Outcome:
    """Return the ad after all `edits`, and what to say about each; what `keeps` hold stays as it was."""
    locks = {name for keep in keeps if not keep.tracks for name in keep.streams}
    after, notes = ad, list[Note]()
    for edit in edits:
        if isinstance(edit, Unclear):
            notes.append(
                Note(edit.key, {"words": edit.words, "count": str(len(ad.tracks)), "language": edit.words})
            )
        apply = _APPLY.get(type(edit))
        if apply is None:
            continue
        barred = _barred(edit, locks)
        if barred:
            notes.append(Note("kept.locked", {"streams": barred}))
            continue
        missing = _missing(edit, after)
        if missing:
            notes.append(Note("cannot.no_stream", {"stream": missing}))
            continue
        outcome = apply(edit, after, desk)
        after, notes = outcome.ad, [*notes, *outcome.notes]
    after = _parts_put_back(ad, _put_back(ad, after, locks), keeps)
    return Outcome(after, tuple(_as_it_came_out(note, ad, after) for note in notes))


def _as_it_came_out(note: Note, before: Ad, after: Ad) -> Note:
    """Return a note of what was rewritten without the tracks that were put back."""
    if note.key != "done.rewritten" or len(before.tracks) != len(after.tracks):
        return note
    pairs = zip(before.tracks, after.tracks, strict=True)
    anew = [at for at, (old, new) in enumerate(pairs) if old["text"] != new["text"]]
    return Note(note.key, {"tracks": people(anew)}) if anew else Note("cannot.longer")


def _barred(edit: Edit, locks: set[str]) -> str:
    """Return the stream a lock keeps an edit from, or empty."""
    stream = STREAM.get(type(edit))
    if stream in locks:
        return str(stream)
    return (
        "voices"
        if "texts" in locks and isinstance(edit, _TEXTS) and not getattr(edit, "whole", False)
        else ""
    )


def _missing(edit: Edit, ad: Ad) -> Stream | None:
    """Return the stream an edit needs that was never written; effects and music can begin with an edit."""
    if STREAM.get(type(edit)) == "voices" and not ad.tracks:
        return "voices"
    return "music" if isinstance(edit, MusicSource) and not ad.music else None


def _put_back(before: Ad, after: Ad, locks: Iterable[str]) -> Ad:
    for stream in STREAMS:
        if stream in locks:
            after = after.holding(stream, before.data(stream))
    if "texts" in locks and len(before.tracks) == len(after.tracks):
        tracks = [{**new, "text": old["text"]} for old, new in zip(before.tracks, after.tracks, strict=True)]
        after = after.holding("voices", {"voiceTracks": tracks})
    return after


def _parts_put_back(before: Ad, after: Ad, keeps: Iterable[Keep]) -> Ad:
    """Return the ad with single tracks, and the last sentence, as they were where that was asked."""
    held = {at for keep in keeps for at in keep.tracks if at < len(before.tracks)}
    if held and len(before.tracks) == len(after.tracks):
        tracks = [before.tracks[at] if at in held else track for at, track in enumerate(after.tracks)]
        after = after.holding("voices", {"voiceTracks": tracks})
    if any(keep.last_sentence for keep in keeps) and before.tracks and after.tracks:
        last = sentences(str(before.tracks[-1]["text"]))[-1]
        own = sentences(str(after.tracks[-1]["text"]))
        if last not in own[-1:]:
            text = joined([*(one for one in own if one != last), last], after.language)
            after = after.holding(
                "voices", {"voiceTracks": [*after.tracks[:-1], {**after.tracks[-1], "text": text}]}
            )
    return after


def changed(before: Ad, after: Ad) -> list[Stream]:
    """Return the streams to write, in an order in which effects never point at a track that is not there."""
    streams = [stream for stream in STREAMS if before.data(stream) != after.data(stream)]
    if len(after.tracks) < len(before.tracks):
        streams.sort(key=("sfx", "voices", "music").index)
    return streams
