"""Earlier versions brought back, undo and redo: old content becomes a new version, nothing is overwritten."""

from collections.abc import Mapping

from providers.offline.ad_creation.desk import Desk
from providers.offline.ad_creation.edits import Note, Outcome, Restore, RestoreCast, Walk
from providers.offline.ad_creation.history import Ad
from state.ad import STREAMS, Stream


def apply_restore(edit: Restore, ad: Ad) -> Outcome:
    """Return the ad with an earlier version's content in one stream, or in all that have such a version."""
    streams = (edit.stream,) if edit.stream else STREAMS
    found = {stream: version for stream in streams if (version := _named(ad, stream, edit.version))}
    changed = {stream: version for stream, version in found.items() if version != ad.newest.get(stream)}
    if not found:
        return Outcome(
            ad,
            (Note("cannot.no_version", {"version": _spelled(edit.version), "known": _known(ad, streams)}),),
        )
    notes = []
    for stream, version in changed.items():
        data = ad.held[stream][version]
        same = data == ad.data(stream)
        key = "kept.version" if same else "done.restored"
        notes.append(Note(key, {"stream": stream, "version": version}))
        ad = ad if same else ad.holding(stream, data)
    return Outcome(ad, tuple(notes) or (Note("kept.already"),))


def apply_cast(edit: RestoreCast, ad: Ad) -> Outcome:
    """Return the ad with the voices of an earlier version, and the words of now."""
    version = _named(ad, "voices", edit.version)
    data = ad.held["voices"][version] if version else {}
    old = [str(track.get("voiceId")) for track in data.get("voiceTracks", ())]
    if not version or not old:
        known = _known(ad, ("voices",))
        return Outcome(ad, (Note("cannot.no_version", {"version": _spelled(edit.version), "known": known}),))
    tracks = [{**track, "voiceId": old[at % len(old)]} for at, track in enumerate(ad.tracks)]
    note = Note("done.cast_restored", {"version": version})
    return Outcome(ad.holding("voices", {"voiceTracks": tracks}), (note,))


def _named(ad: Ad, stream: Stream, number: int) -> str | None:
    known = list(ad.held.get(stream, {}))
    if number > 0:
        return f"v{number}" if f"v{number}" in known else None
    current = ad.newest.get(stream)
    until = known.index(current) + 1 if current in known else len(known)
    return known[until + number] if until + number >= 0 and until + number < len(known) else None


def _spelled(number: int) -> str:
    return f"v{number}" if number > 0 else str(number)


def _known(ad: Ad, streams: tuple[Stream, ...]) -> str:
    return "; ".join(f"{stream}: {', '.join(ad.held.get(stream, {})) or '–'}" for stream in streams)


def apply_walk(edit: Walk, ad: Ad, desk: Desk) -> Outcome:
    """Return the ad as it was before the last changes, or after the ones that were undone."""
    taken = desk.stacks.take(edit.step)
    undo = edit.step.kind == "undo"
    target: dict[Stream, str] = {}
    for change in taken:
        for stream, (before, after) in change.items():
            version = before if undo else after
            if version:
                target[stream] = version
    if not taken:
        # What happened before a compaction is seen in the list of versions alone.
        older = _older(ad, edit) if undo else {}
        if not older:
            return Outcome(ad, (Note(f"cannot.no_{edit.step.kind}"),))
        target = dict(older)
    return _fetched(ad, target, "done.undone" if undo else "done.redone")


def _older(ad: Ad, edit: Walk) -> Mapping[Stream, str]:
    if not ad.told or edit.step.stream is None:
        return {}
    version = _named(ad, edit.step.stream, -2)
    return {edit.step.stream: version} if version else {}


def _fetched(ad: Ad, target: Mapping[Stream, str], key: str) -> Outcome:
    notes = [Note(key)]
    for stream, version in target.items():
        data = ad.held.get(stream, {}).get(version)
        if data is None:
            known = _known(ad, (stream,))
            notes.append(Note("cannot.no_version", {"version": version, "known": known}))
            continue
        ad = ad.holding(stream, data)
        notes.append(Note("done.restored", {"stream": stream, "version": version}))
    return Outcome(ad, tuple(notes))
