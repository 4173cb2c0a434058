"""Shortening of a script to its spot: pauses first, then pace, then sentences, and words last."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from callsheet.state.ads.ad import VoiceTrack
from callsheet.state.ads.timeline import build_timeline

MAX_PACE: Final = 1.1
"""Factor by which voices speed up before words are cut."""
_SENTENCES: Final = re.compile(
    r"[^.!?…。！？\n]+(?:[.!?…。！？\n]+(?=[\d.])[^.!?…。！？\n]+)*[.!?…。！？\n]*\s*"
)


def tighten(
    tracks: Sequence[VoiceTrack], *, language: str, spot_s: float, effects: Sequence[dict[str, Any]] = ()
) -> tuple[list[VoiceTrack], list[str]]:
    """Return tracks shortened to fit into `spot_s`, and a note for each kind of change.

    The ad's first sentence and its last (the call to action) are never dropped, only shortened.
    """

    def fits(candidate: Sequence[VoiceTrack]) -> bool:
        return build_timeline(candidate, effects, language=language, spot_s=spot_s)["fits"]

    current, notes = list(tracks), list[str]()
    if fits(current):
        return current, notes
    for change, note in ((_close_gaps, "closed the pauses"), (_speed_up, "raised the pace by a tenth")):
        changed = change(current)
        if changed != current:
            current = changed
            notes.append(note)
        if fits(current):
            return current, notes
    return _shorten(current, fits, notes)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text with their punctuation; a decimal point does not end one."""
    return [part for part in _SENTENCES.findall(text) if part.strip()] or [text]


def _close_gaps(tracks: Sequence[VoiceTrack]) -> list[VoiceTrack]:
    return [{**track, "overlap": max(0.0, track["overlap"])} for track in tracks]


def _speed_up(tracks: Sequence[VoiceTrack]) -> list[VoiceTrack]:
    return [{**track, "speed": min(2.0, round(track["speed"] * MAX_PACE, 3))} for track in tracks]


def _shorten(
    tracks: list[VoiceTrack], fits: Callable[[Sequence[VoiceTrack]], bool], notes: list[str]
) -> tuple[list[VoiceTrack], list[str]]:
    parts = [sentences(track["text"]) for track in tracks]
    dropped = 0
    while not fits(tracks) and (position := _next_to_drop(parts)):
        track, sentence = position
        del parts[track][sentence]
        tracks = _with_text(tracks, track, "".join(parts[track]).strip())
        dropped += 1
    if dropped:
        notes.append(f"left out {dropped} sentence{'s' * (dropped > 1)}")
    shortened = False
    while tracks and not fits(tracks):
        longest = max(range(len(tracks)), key=lambda i: len(tracks[i]["text"]))
        text = _trim_text(tracks[longest]["text"])
        if text == tracks[longest]["text"]:
            break
        tracks, shortened = _with_text(tracks, longest, text), True
    return tracks, [*notes, "shortened the longest sentences"] if shortened else notes


def _next_to_drop(parts: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Return the track and sentence to drop next, from the track with the most sentences, or None."""
    last = len(parts) - 1
    candidates = [
        (len(track), i, s)
        for i, track in enumerate(parts)
        for s in range(len(track))
        if len(track) > 1 and (i, s) not in {(0, 0), (last, len(track) - 1)}
    ]
    if not candidates:
        return None
    most = max(count for count, _, _ in candidates)
    _, track, sentence = max(candidate for candidate in candidates if candidate[0] == most)
    return track, sentence


def _trim_text(text: str) -> str:
    """Return the text without its last clause, or without its last word if it has only one clause."""
    end = text[-1] if text[-1:] in "!?.。！？…" else ""
    body = text.removesuffix(end) if end else text
    for separator in (", ", "，", "; ", " – ", " "):
        head, match, _ = body.rpartition(separator)
        if match and len(head) * 2 >= len(body):
            return head.rstrip(" ,;:") + end
    head = body[: max(1, len(body) * 9 // 10)].rstrip(" ,;:")
    return head + end if head != body else text


def _with_text(tracks: Sequence[VoiceTrack], index: int, text: str) -> list[VoiceTrack]:
    return [{**track, "text": text} if i == index else track for i, track in enumerate(tracks)]
