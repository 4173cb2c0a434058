"""Checks of versions, music, effects, timing and reply, and the table of all of `tests/sentence_score.py`."""

import json
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.sentence_turn import (
    MARKERS,
    Check,
    Data,
    Turn,
    chosen,
    contains_all,
    contains_any,
    data,
    effects,
    found,
    lacks,
    measure,
    near,
    norm,
    prompt,
    tracks,
    version,
    words,
)
from tests.sentence_voice_checks import VOICE_CHECKS, voice_of

STREAMS = ("music", "sfx", "voices")
_NEGATED = re.compile(
    r"\b(?:no|not|without|less|never|avoid\w*|minus|zero|don't)\b(?:(?!\b(?:but|with)\b|[,.;]).)*"
    r"|\w+less\b|\w+ free\b"
)
_PLACES = {"beforeVoices": "start"}


def _changed(turn: Turn, want: Any) -> str:
    made = Counter(one["stream"] for one in turn.created)
    may = {*want, *turn.expect.get("may_change", ())}
    many = turn.expect.get("versions_created", {})
    wrong = [f"no new {stream}" for stream in want if not made[stream]]
    for stream in STREAMS:
        same = data(turn.before, stream) == data(turn.after, stream)
        if made[stream] and stream not in may:
            wrong.append(f"new {stream}")
        if made[stream] and same:
            wrong.append(f"{stream} says what it said")
        if not made[stream] and not same:
            wrong.append(f"{stream} differs without a new version")
        if made[stream] > many.get(stream, 1):
            wrong.append(f"{made[stream]} versions of {stream}")
    return ", ".join(wrong)


def _versions_created(turn: Turn, want: Any) -> str:
    made = {stream: [json.dumps(one, sort_keys=True) for one in turn.made(stream)] for stream in want}
    counts = {stream: (len(made[stream]), len(set(made[stream]))) for stream in want}
    return "" if all(counts[stream] == (n, n) for stream, n in want.items()) else f"made, different: {counts}"


def _equals_version(turn: Turn, want: Any) -> str:
    pairs = [(data(turn.after, stream), version(turn.before, stream, name)) for stream, name in want.items()]
    return "; ".join(f"{new} is not {old}" for new, old in pairs if new != old)


def _music_keeps(turn: Turn, want: Any) -> str:
    asked = want if isinstance(want, dict) else {"share": want}
    name = asked.get("version")
    old = version(turn.before, "music", name)["musicPrompt"] if name else prompt(turn.before)
    kept, all_of = {*words(old).split()} & {*words(prompt(turn.after)).split()}, {*words(old).split()}
    return "" if len(kept) >= asked["share"] * len(all_of) else f"{old!r} → {prompt(turn.after)!r}"


def _provider(turn: Turn, want: Any) -> str:
    has = data(turn.after, "music").get("musicProvider")
    return "" if has == want else repr(has)


def _music_asks(turn: Turn) -> str:
    return _NEGATED.sub(" ", norm(prompt(turn.after)))


def _described(turn: Turn) -> str:
    return " / ".join(str(effect["description"]) for effect in effects(turn.after))


def _kept_except(turn: Turn, want: Any) -> str:
    free = [] if want is True else want
    left = effects(turn.after)
    gone = []
    # What was written by hand may have 4 where a tool writes 4.0.
    for effect in effects(turn.before):
        if any(found(str(effect["description"]), word) for word in free):
            continue
        if effect in left:
            left.remove(effect)
        else:
            gone.append(effect)
    return f"gone or different: {gone}" if gone else ""


def _sfx_has(turn: Turn, want: Any) -> str:
    asked = [want] if isinstance(want, dict) else want
    absent = [one for one in asked if not any(_is(effect, one) for effect in effects(turn.after))]
    return f"no {absent} in {effects(turn.after)}" if absent else ""


def _is(effect: Data, want: Data) -> bool:
    place = effect["placement"]
    return (
        any(found(str(effect["description"]), word) for word in want["description_any"])
        and want.get("placement") in (None, _PLACES.get(place["type"], place["type"]))
        and want.get("index") in (None, place.get("index"))
        and ("duration" not in want or near(float(effect["duration"]), want["duration"]))
    )


def _spans(state: Data) -> list[Data]:
    return list(state["timeline"]["voices"])


def _duration(state: Data) -> float:
    return float(state["timeline"]["durationSeconds"])


def _longer(turn: Turn) -> float:
    return _duration(turn.after) - _duration(turn.before)


def _filled(turn: Turn) -> float:
    return float(max(span["end"] for span in _spans(turn.after)) / turn.after["timeline"]["spotSeconds"])


def _voice_later(turn: Turn) -> float:
    old, new = _spans(turn.before)[0], _spans(turn.after)[0]
    return float(new["start"] - old["start"])


def _gap(holds: Callable[[float, float], bool]) -> Check:
    def check(turn: Turn, want: Any) -> str:
        spans = _spans(turn.after)
        gaps = {key: round(spans[int(key) - 1]["start"] - spans[int(key) - 2]["end"], 2) for key in want}
        return "" if all(holds(gaps[key], value) for key, value in want.items()) else str(gaps)

    return check


def _starts_together(turn: Turn, want: Any) -> str:
    starts = [span["start"] for span in chosen(_spans(turn.after), want)]
    return "" if max(starts) - min(starts) <= 0.1 else str(starts)


def _numbers(turn: Turn, count: int) -> list[str]:
    spelled = [names[count] for names in MARKERS["numbers"].values() if count < len(names)]
    return [str(count), *spelled]


def _reply_states(turn: Turn, want: Any) -> str:
    absent = [fact for fact in want if not _stated(turn, *fact.partition(":")[::2])]
    return f"no {absent} in {turn.reply!r}" if absent else ""


def _stated(turn: Turn, fact: str, which: str) -> bool:
    if fact == "duration":
        told = [float(one.replace(",", ".")) for one in re.findall(r"\d+(?:[.,]\d+)?", turn.reply)]
        return any(abs(one - _duration(turn.after)) <= 0.6 for one in told)
    if fact == "sfx_count":
        return any(found(turn.reply, one) for one in _numbers(turn, len(effects(turn.after))))
    if fact == "music_prompt":
        music = version(turn.after, "music", which) if which else data(turn.after, "music")
        return words(music["musicPrompt"])[:40] in words(turn.reply)
    line = chosen(tracks(turn.after), [which])[0]
    if fact == "track_text":
        return words(line["text"]) in words(turn.reply)
    names = [voice["name"] for voice in turn.after["catalogue"] if voice["id"] == voice_of(line)]
    return any(norm(name) in norm(turn.reply) for name in [voice_of(line), *names])


def _admits(turn: Turn, _want: Any) -> str:
    ways = {*MARKERS["admits"]["english"], *MARKERS["admits"][turn.case.lang]}
    reply = norm(turn.reply)
    for phrase in MARKERS["polite"][turn.case.lang]:
        reply = reply.replace(norm(phrase), " ")
    return "" if any(norm(way) in reply for way in ways) else repr(turn.reply)


def _asks_or_admits(turn: Turn, want: Any) -> str:
    return "" if "?" in norm(turn.reply) else _admits(turn, want)


def _reply(turn: Turn) -> str:
    return turn.reply


CHECKS: Mapping[str, Check] = {
    **VOICE_CHECKS,
    "changed": _changed,
    "versions_created": _versions_created,
    "equals_version": _equals_version,
    "music_contains_any": contains_any(lambda turn: prompt(turn.after)),
    "music_contains_all": contains_all(lambda turn: prompt(turn.after)),
    "music_lacks": lacks(_music_asks),
    "music_keeps": _music_keeps,
    "music_provider": _provider,
    "music_duration_s": measure(lambda turn: float(data(turn.after, "music")["duration"]), near),
    "sfx_min": measure(lambda turn: len(effects(turn.after)), operator.ge),
    "sfx_total": measure(lambda turn: len(effects(turn.after)), operator.eq),
    "sfx_delta": measure(lambda turn: len(effects(turn.after)) - len(effects(turn.before)), operator.eq),
    "sfx_kept": _kept_except,
    "sfx_kept_except": _kept_except,
    "sfx_lacks": lacks(_described),
    "sfx_has": _sfx_has,
    "spot_s": measure(lambda turn: float(turn.after["timeline"]["spotSeconds"]), near),
    "fits": measure(lambda turn: turn.after["timeline"]["fits"], operator.eq),
    "duration_max_s": measure(lambda turn: _duration(turn.after), operator.le),
    "duration_lt_before": measure(_longer, lambda value, _want: value < 0),
    "duration_gt_before": measure(_longer, lambda value, _want: value > 0),
    "first_voice_later_s": measure(_voice_later, operator.ge),
    "fills": measure(_filled, operator.ge),
    "gap_min_s": _gap(operator.ge),
    "gap_max_s": _gap(operator.le),
    "starts_together": _starts_together,
    "reply_contains_any": contains_any(_reply),
    "reply_contains_all": contains_all(_reply),
    "reply_states": _reply_states,
    "admits": _admits,
    "asks_or_admits": _asks_or_admits,
}
"""Every expectation but `any_of`, which the scorer itself resolves."""
