"""Checks of what is spoken and by whom: tracks, voices and text in `tests/sentence_score.py`."""

import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.sentence_turn import (
    MARKERS,
    Check,
    Data,
    Turn,
    chosen,
    contains_all,
    found,
    lacks,
    measure,
    norm,
    sentences,
    spoken,
    tracks,
    version,
    words,
)


def _each(holds: Callable[[Data, Data], bool]) -> Check:
    """Compare chosen tracks with themselves before; true stands for all of them."""

    def check(turn: Turn, want: Any) -> str:
        if want in ("all", True):
            pairs = turn.pairs
        else:
            pairs = [*zip(chosen(tracks(turn.before), want), chosen(tracks(turn.after), want), strict=True)]
        bad = [f"{dict(old)} → {dict(new)}" for old, new in pairs if not holds(old, new)]
        return "; ".join(bad) or ("" if pairs else "no tracks")

    return check


def _by(holds: Callable[[Data, Any], bool]) -> Check:
    """Compare chosen tracks with the values wanted of them."""

    def check(turn: Turn, want: Any) -> str:
        lines = tracks(turn.after)
        asked = [(line, value) for key, value in want.items() for line in _of(lines, key)]
        bad = [str(dict(line)) for line, value in asked if not holds(line, value)]
        return "; ".join(bad) or ("" if asked else "no tracks")

    return check


def _of(lines: Sequence[Data], key: str) -> list[Data]:
    return chosen(lines, key if key == "all" else [key])


def _speed(line: Data) -> float:
    return float(line.get("speed") or 1.0)


def voice_of(line: Data) -> str:
    """Return the id of the voice that speaks a track."""
    return str(line["voiceId"])


def _voice_new(turn: Turn, want: Any) -> str:
    past = turn.before["voices"]["versions"].values()
    had = {voice_of(line) for one in past for line in one["voiceTracks"]}
    return ", ".join(voice_of(line) for line in chosen(tracks(turn.after), want) if voice_of(line) in had)


def _voices_swapped(turn: Turn, want: Any) -> str:
    old, new = (
        [voice_of(line) for line in chosen(tracks(state), want)] for state in (turn.before, turn.after)
    )
    return "" if new == old[::-1] and old[0] != old[1] else f"{old} → {new}"


def _voices_as_in(turn: Turn, want: Any) -> str:
    old = [voice_of(line) for line in version(turn.before, "voices", want)["voiceTracks"]]
    new = [voice_of(line) for line in tracks(turn.after)]
    # A track added since then is spoken by the voice that came last.
    wanted = [*old, *[old[-1]] * len(new)][: len(new)]
    return "" if new == wanted else f"{new} is not {wanted}"


def _published(turn: Turn, line: Data, key: str) -> list[str]:
    known = {voice["id"]: voice for voice in turn.after["catalogue"]}
    return re.findall(r"\w+", norm(str(known[voice_of(line)].get(key) or "")))


def _says(key: str) -> Check:
    """Compare what the catalogue publishes of voices; a value that no voice publishes is not asked for."""

    def check(turn: Turn, want: Any) -> str:
        offered = {
            one
            for voice in turn.after["catalogue"]
            for one in re.findall(r"\w+", norm(str(voice.get(key) or "")))
        }
        asked = [
            (line, {value} if isinstance(value, str) else {*value})
            for track, value in want.items()
            for line in _of(tracks(turn.after), track)
        ]
        return ", ".join(
            f"{voice_of(line)} is {_published(turn, line, key)}"
            for line, values in asked
            if values & offered and not values & {*_published(turn, line, key)}
        )

    return check


def _gender_same(turn: Turn, want: Any) -> str:
    old, new = (
        [_published(turn, line, "gender") for line in chosen(tracks(state), want)]
        for state in (turn.before, turn.after)
    )
    return "" if all(a == b for a, b in zip(old, new, strict=True) if a and b) else f"{old} → {new}"


def _versions_genders(turn: Turn, want: Any) -> str:
    made = [
        {gender for line in one["voiceTracks"] for gender in _published(turn, line, "gender")}
        for one in turn.made("voices")
    ]
    offered = {norm(str(voice.get("gender") or "")) for voice in turn.after["catalogue"]}
    absent = [gender for gender in want if gender in offered and {gender} not in made]
    return f"none only {absent} in {made}" if absent else ""


def _versions_same_voices(turn: Turn, _want: Any) -> str:
    made = [sorted({voice_of(line) for line in one["voiceTracks"]}) for one in turn.made("voices")]
    return "" if made and all(one == made[0] for one in made) else str(made)


def _openings_distinct(turn: Turn, _want: Any) -> str:
    openings = [words(sentences(spoken(one["voiceTracks"]))[0]) for one in turn.made("voices")]
    return "" if openings and len({*openings}) == len(openings) else str(openings)


def _text(turn: Turn) -> str:
    return spoken(tracks(turn.after))


def _old_text(turn: Turn) -> str:
    return spoken(tracks(turn.before))


def _on_text(holds: Callable[[str, str, Any], bool]) -> Check:
    """Compare the text after, the text before and what is wanted."""

    def check(turn: Turn, want: Any) -> str:
        new, old = _text(turn), _old_text(turn)
        return "" if holds(new, old, want) else f"{old!r} → {new!r}"

    return check


def _last_sentence_cut(new: str, old: str, _want: Any) -> bool:
    return bool(new) and words(new) == words(" ".join(sentences(old)[:-1]))


def _starts_with_question(new: str, _old: str, _want: Any) -> bool:
    return sentences(new)[:1] != [] and sentences(new)[0].rstrip("\"'”’)").endswith(("?", "？"))


def _figures(text: str) -> set[str]:
    joined = re.sub(r"(?<=\d)[ .,:\-/](?=\d)", "", norm(text))
    return {*re.findall(r"\d+", norm(text)), *re.findall(r"\d+", joined)}


def _digits_from_brief(turn: Turn, _want: Any) -> str:
    brief = turn.case.brief["brief"]
    told = [brief.get(key) or "" for key in ("clientDescription", "targetAudience", "additionalContext")]
    known = _figures("\n".join([*told, *turn.case.said, turn.case.say or "", _old_text(turn)]))
    strange = [one for one in re.findall(r"\d+", norm(_text(turn))) if one not in known]
    return f"{strange} in {_text(turn)!r}" if strange else ""


def _script(turn: Turn, want: Any) -> str:
    names = {"Han": "CJK"}
    letters = [unicodedata.name(char, "") for char in _text(turn) if char.isalpha()]
    counts = {one: sum(name.startswith(names.get(one, one.upper())) for name in letters) for one in want}
    enough = all(counts[script] >= share * max(1, len(letters)) for script, share in want.items())
    return "" if enough else f"{counts} of {len(letters)} letters in {_text(turn)!r}"


def _language(turn: Turn, want: Any) -> str:
    said = words(_text(turn)).split()
    hits = {name: sum(word in small for word in said) for name, small in MARKERS["small_words"].items()}
    best = max(count for name, count in hits.items() if name != want)
    return "" if hits[want] >= 2 and hits[want] > best else f"{hits} in {_text(turn)!r}"


VOICE_CHECKS: Mapping[str, Check] = {
    "tracks_min": measure(lambda turn: len(tracks(turn.after)), operator.ge),
    "speakers": measure(lambda turn: len({*map(voice_of, tracks(turn.after))}), operator.eq),
    "speakers_min": measure(lambda turn: len({*map(voice_of, tracks(turn.after))}), operator.ge),
    "tracks_untouched": _each(operator.eq),
    "tracks_changed": _each(operator.ne),
    "track_voice_changed": _each(lambda old, new: voice_of(old) != voice_of(new)),
    "voices_same": _each(lambda old, new: voice_of(old) == voice_of(new)),
    "voice_new": _voice_new,
    "tracks_same_text": _each(lambda old, new: words(old["text"]) == words(new["text"])),
    "speed_lt": _each(lambda old, new: _speed(new) < _speed(old)),
    "speed_gt": _each(lambda old, new: _speed(new) > _speed(old)),
    "speed_same": _each(lambda old, new: _speed(new) == _speed(old)),
    "speed_is": _by(lambda line, want: abs(_speed(line) - want) < 0.005),
    "track_text_is": _by(lambda line, want: words(line["text"]) == words(want)),
    "track_text_starts_with": _by(lambda line, want: words(line["text"]).startswith(words(want))),
    "voices_swapped": _voices_swapped,
    "voices_as_in": _voices_as_in,
    "voice_gender": _says("gender"),
    "voice_accent": _says("accent"),
    "voice_gender_same": _gender_same,
    "versions_genders": _versions_genders,
    "versions_same_voices": _versions_same_voices,
    "openings_distinct": _openings_distinct,
    "text_contains_all": contains_all(_text),
    "text_lacks": lacks(_text),
    "text_is": _on_text(lambda new, _old, want: words(new) == words(want)),
    "text_ends_with_any": _on_text(
        lambda new, _old, want: any(words(new).endswith(words(one)) for one in want)
    ),
    "text_count_min": _on_text(lambda new, _old, want: all(found(new, one) >= n for one, n in want.items())),
    "text_shorter": _on_text(lambda new, old, _want: new.strip() != "" and len(words(new)) < len(words(old))),
    "no_new_words": _on_text(lambda new, old, _want: {*words(new).split()} <= {*words(old).split()}),
    "last_sentence_cut": _on_text(_last_sentence_cut),
    "starts_with_question": _on_text(_starts_with_question),
    "digits_from_brief": _digits_from_brief,
    "script": _script,
    "language": _language,
}
"""By their words in the file."""
