"""Failures of one answer to a sentence of `tests/sentences/ad_creation.jsonl`: pure functions of plain dicts.

A line of the file has `id`, `group`, `lang` (of the sentence; of the ad for a brief), `brief` (the body of
POST /api/ai/generate without `adId`, or the id of a brief's case), `said` (sentences before), `say` (null:
the brief itself is the sentence), `expect`, and sometimes `outside` ({stream: data} written as new versions,
not by chat, after `said` and before `say`) and `now` ({"spot_s"} or {"language"}: what the request changes
along with `say`).

A state is `{stream: {"id", "data", "versions": {id: data}}}` for voices, music and sfx, `"timeline"` as the
draft tools return it, and `"catalogue"`: every voice search_voices lists for the ad's language, with what is
published of it. Before a brief it is `{}`. `created` lists `{"stream", "versionId"}` of this turn, in order.

What `expect` may say. TRACKS is "all" or numbers from 1, -1 the last; BY is {track or "all": value}; WORDS
are found at the start of a word, without case, hyphens and kinds of quotes; ALL is a list of words or WORDS.
  changed [streams]            exactly these have a new version, one each, that is not what the last one was
  may_change [streams]         these may have one too
  versions_created {stream:n}  so many instead of one, all different
  equals_version {stream:id}   the newest is exactly what that earlier version was
  any_of [expect, ...]         one of these holds
  tracks_min, speakers, speakers_min n                 tracks; different voices in them
  tracks_untouched, tracks_changed TRACKS              identical in everything; different in something
  track_voice_changed, voice_new TRACKS                another voice; one no earlier version had
  speed_lt, speed_gt, speed_same TRACKS; speed_is BY   compared with before; exactly
  tracks_same_text, voices_same true                   word for word; voice for voice
  voices_swapped [a,b]; voices_as_in id                voices exchanged; the voices of that version
  voice_gender, voice_accent BY; voice_gender_same TRACKS  where the catalogue publishes such a voice
  versions_genders [..], versions_same_voices, openings_distinct  across the voice versions of this turn
  text_contains_all, music_contains_all, reply_contains_all ALL; music_contains_any, reply_contains_any WORDS
  text_lacks, music_lacks, sfx_lacks WORDS             music: "no drums" lacks drums
  text_is, text_ends_with_any; track_text_is, track_text_starts_with BY    compared word by word
  text_count_min {words:n}; text_shorter, no_new_words, last_sentence_cut, starts_with_question true
  digits_from_brief true       every figure spoken was in the brief, a sentence or the text before
  script {name:share}; language name                   letters by Unicode name; most frequent small words
  music_keeps share or {version, share}                of the words of the earlier prompt
  music_provider name; music_duration_s s
  sfx_min, sfx_total, sfx_delta n; sfx_kept true; sfx_kept_except WORDS    earlier effects, value for value
  sfx_has {description_any, placement, index, duration} or a list of them
  spot_s, duration_max_s, first_voice_later_s s; fits, duration_lt_before, duration_gt_before true
  fills share                  of the spot when the last word ends
  gap_min_s, gap_max_s BY      silence before a track (negative: overlap); starts_together [a,b]
  reply_states [facts]         duration, sfx_count, music_prompt[:version], track_text:n, voice:n
  admits, asks_or_admits true  the reply says that something was not understood or cannot be; or asks back
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from tests.sentence_checks import CHECKS
from tests.sentence_turn import FOLDER, MARKERS, Case, Check, Data, Turn

__all__ = ["Case", "Scored", "load", "score", "summary"]


class Scored(Protocol):
    """A case of any workflow, in a table of scores."""

    @property
    def id(self) -> str:
        """Its name."""
        ...

    @property
    def group(self) -> str:
        """What it is counted with."""
        ...


def load(path: Path = FOLDER / "ad_creation.jsonl") -> list[Case]:
    """Return the cases of a file; ValueError for a doubled id, an unknown expectation, language or brief.

    TypeError for a field that a case does not have.
    """
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    briefs = {row["id"]: row["brief"] for row in rows if row["say"] is None}
    cases = [Case(**{**row, "brief": _brief(row["brief"], briefs)}) for row in rows]
    doubled = [name for name, times in Counter(case.id for case in cases).items() if times > 1]
    unknown = {key for case in cases for key in _keys(case.expect)} - {*CHECKS, "any_of", "may_change"}
    strange = {case.lang for case in cases} - {*MARKERS["admits"]}
    if doubled or unknown or strange:
        raise ValueError(
            f"doubled ids {doubled!r}, expectations {unknown!r}, languages {strange!r} in {path}"
        )
    return cases


def _brief(brief: Any, known: Data) -> Any:
    if isinstance(brief, str) and brief not in known:
        raise ValueError(f"brief {brief!r} is not the id of a case whose sentence is a brief")
    return known[brief] if isinstance(brief, str) else brief


def _keys(expect: Data) -> Iterable[str]:
    return (*expect, *(key for inner in expect.get("any_of", ()) for key in inner))


def score(
    case: Case, before: Data, after: Data, created: Sequence[Mapping[str, str]], reply: str
) -> list[str]:
    """Return what was expected of the turn and did not happen, one line each; an empty reply is a failure."""
    turn = Turn(case, case.expect, before, after, created, reply)
    return ([] if reply.strip() else ["the reply is empty"]) + _failures(turn)


def summary(results: Sequence[tuple[Scored, Sequence[str]]]) -> str:
    """Return a table of how many cases of each group, and of all, had no failure."""
    asked = Counter(case.group for case, _ in results)
    passed = Counter(case.group for case, failures in results if not failures)
    rows = [
        *((group, passed[group], asked[group]) for group in asked),
        ("all", passed.total(), asked.total()),
    ]
    return "\n".join(f"{group:14}{good:5d} of {of:4d}  {_percent(good, of)}" for group, good, of in rows)


def _percent(good: int, of: int) -> str:
    # Rounded down: 100 % is for nothing missing.
    return f"{100 * good // of:3d} %" if of else "  – %"


def _failures(turn: Turn) -> list[str]:
    wanted = [(key, want) for key, want in turn.expect.items() if key != "may_change"]
    seen = [
        (key, want, _seen(_any_of if key == "any_of" else CHECKS[key], turn, want)) for key, want in wanted
    ]
    return [f"{key} {json.dumps(want, ensure_ascii=False)}: {found}" for key, want, found in seen if found]


def _any_of(turn: Turn, want: Any) -> str:
    every = [_failures(replace(turn, expect=inner)) for inner in want]
    return " | ".join("; ".join(one) for one in every) if all(every) else ""


def _seen(check: Check, turn: Turn, want: Any) -> str:
    try:
        return check(turn, want)
    except LookupError as gone:
        return f"missing {gone}"
