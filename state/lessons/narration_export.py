"""Export of a narration as Markdown, SRT, WebVTT, JSON or slides."""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from callsheet.state.errors import Invalid
from callsheet.state.languages import find
from callsheet.state.lessons.narration import Narration, Segment, kind_name, length
from callsheet.state.lessons.slides import slides

_LINE: Final = 42
"""Maximum characters in a line of subtitles; half for wide characters."""
_LINES: Final = 2
TIMED: Final = frozenset({"srt", "vtt"})
"""Forms with times."""
_MEASURED: Final = "Times measured on the rendered speech"
_WRITTEN: Final = "Times for which the narration was written"
LONGEST_CUE_MS: Final = 7_000
"""Longest time that a cue of a rendered narration is shown."""
_SHORTEST_CUE_MS: Final = 1_000
"""A shorter cue is joined with its neighbour where both have room in one."""
_BOUND: Final = "\N{NO-BREAK SPACE}"
_ABBREVIATED: Final = re.compile(r"(\b\w{1,6}\.) ")


class Cue(NamedTuple):
    """One subtitle."""

    start_ms: int
    end_ms: int
    text: str


Times = Sequence[tuple[float, float]]
"""Start and end of each sentence in seconds, as it was rendered; in the order of the narration."""


def export(narration: Narration, form: str, times: Times = (), length: str = "") -> str:
    """Return the narration as text; `form` is md, srt, vtt, json or slides, or `Invalid` is raised.

    All but JSON follow `times` where they are known, else the times for which the narration was written.
    `length` is that of the narration in words.
    """
    write = _WRITERS.get(form)
    if write is None:
        raise Invalid(
            f"a narration cannot be exported as {form!r}", remedy=f"use one of {', '.join(_WRITERS)}"
        )
    return write(narration, times, length)


def segment_times(narration: Narration, times: Times) -> list[tuple[float, float]]:
    """Return start and end of each segment, given those of its sentences."""
    each = iter(times)
    spans = [[next(each) for _ in segment.sentences] for segment in narration.segments]
    return [(span[0][0], span[-1][1]) for span in spans]


def cues(narration: Narration, times: Times = ()) -> list[Cue]:
    """Return subtitles; a sentence longer than two lines gets several.

    Without `times` they have no gaps; with them, a cue lasts for seven seconds at most.
    """
    language, spans, shown = narration.language, iter(times), list[Cue]()
    for segment in narration.segments:
        timed = zip(segment.sentences, spans, strict=False) if times else ()
        measured = [cue for sentence, span in timed for cue in _measured_cues(sentence.text, span, language)]
        shown += _without_short(measured or _cues(segment, language), language)
    return shown


def _without_short(cues: Iterable[Cue], language: str) -> list[Cue]:
    """Return the cues with short ones joined with the one before or behind them."""
    joined: list[Cue] = []
    for cue in cues:
        both = _join(joined[-1], cue, language) if joined else None
        joined[-1:] = [both] if both else [*joined[-1:], cue]
    return joined


def _join(first: Cue, second: Cue, language: str) -> Cue | None:
    """Return two cues as one if one of them is short, and one cue has room for both; else None."""
    if min(first.end_ms - first.start_ms, second.end_ms - second.start_ms) >= _SHORTEST_CUE_MS:
        return None
    spec = find(language)
    blank = "" if spec and spec.unit == "character" else " "
    parts = _parts(f"{first.text}{blank}{second.text}".replace("\n", blank), language)
    is_long = second.end_ms - first.start_ms > LONGEST_CUE_MS
    return None if len(parts) > 1 or is_long else Cue(first.start_ms, second.end_ms, parts[0])


def _cues(segment: Segment, language: str) -> Iterator[Cue]:
    parts = [part for sentence in segment.sentences for part in _parts(sentence.text, language)]
    weights = [max(1, length(part, language)) for part in parts]
    begin_ms, length_ms = round(segment.start_time * 1000), round(segment.duration * 1000)
    before = 0
    for part, weight in zip(parts, weights, strict=True):
        start = begin_ms + length_ms * before // sum(weights)
        before += weight
        yield Cue(start, begin_ms + length_ms * before // sum(weights), part)


def _measured_cues(text: str, span: tuple[float, float], language: str) -> Iterator[Cue]:
    """Return the cues of a rendered sentence, of one line each where two last too long."""
    begin_ms, length_ms = round(span[0] * 1000), round((span[1] - span[0]) * 1000)
    parts = _parts(text, language)
    if length_ms > len(parts) * LONGEST_CUE_MS:
        parts = _parts(text, language, lines_at_once=1)
    weights = [max(1, length(part, language)) for part in parts]
    before = 0
    for part, weight in zip(parts, weights, strict=True):
        start = begin_ms + length_ms * before // sum(weights)
        before += weight
        end = begin_ms + length_ms * before // sum(weights)
        yield Cue(start, min(end, start + LONGEST_CUE_MS), part)


def _parts(text: str, language: str, lines_at_once: int = _LINES) -> list[str]:
    """Return the text in parts of so many lines each, about equally long."""
    spec = find(language)
    wide = spec is not None and spec.unit == "character" and spec.name != "thai"
    # A dot within a sentence is that of an abbreviation or ordinal number, which stays with the next word.
    bound = _ABBREVIATED.sub(r"\1" + _BOUND, " ".join(text.split()))
    most = _LINE // 2 if wide else _LINE
    count = len(textwrap.wrap(bound, most))
    if count > lines_at_once:
        # The narrowest lines that need no further part leave no single word for the last one.
        room = math.ceil(count / lines_at_once) * lines_at_once
        word = 0 if wide else max(map(len, bound.split(" ")))
        widths = range(min(most, max(word, most // 2)), most + 1)
        most = next(width for width in widths if _fits(bound, width, room))
    lines = [line.replace(_BOUND, " ") for line in textwrap.wrap(bound, most)]
    return ["\n".join(lines[at : at + lines_at_once]) for at in range(0, len(lines), lines_at_once)]


def _fits(text: str, width: int, lines: int) -> bool:
    return len(textwrap.wrap(text, width)) <= lines


def _markdown(narration: Narration, times: Times, length: str) -> str:
    spans = [(round(start), round(end)) for start, end in segment_times(narration, times)] if times else None
    planned = [(one.start_time, one.start_time + one.duration) for one in narration.segments]
    facts = f"{narration.level_words} · {narration.key_terms_count} key terms"
    head = [f"# {escape_markdown(narration.topic)}", f"{length or narration.length_words()} · {facts}"]
    sections = map(_section, narration.segments, spans or planned)
    return "\n\n".join([*head, *sections]) + "\n"


def _section(segment: Segment, span: tuple[float, float]) -> str:
    title = kind_name(segment.type).capitalize()
    lines = [
        f"## {title} ({_clock(span[0])}–{_clock(span[1])})",
        escape_markdown(segment.narration),
        f"*On screen:* {escape_markdown(segment.visual_guidance)}" if segment.visual_guidance else "",
        f"*Key concepts:* {escape_markdown(', '.join(segment.key_concepts))}" if segment.key_concepts else "",
        f"*Purpose:* {escape_markdown(segment.educational_purpose)}",
    ]
    return "\n\n".join(line for line in lines if line)


def escape_markdown(text: str) -> str:
    """Return the text with Markdown's special characters escaped."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|!" else char for char in " ".join(text.split()))


def _clock(at_s: float) -> str:
    minutes, seconds = divmod(at_s, 60)
    return f"{int(minutes)}:{seconds:05.2f}".removesuffix(".00")


def _srt(narration: Narration, times: Times, _length: str) -> str:
    return "\n".join(
        f"{number}\n{_times(cue, ',')}\n{_without_tags(cue.text)}\n"
        for number, cue in enumerate(cues(narration, times), start=1)
    )


def _vtt(narration: Narration, times: Times, _length: str) -> str:
    subtitles = "\n".join(f"{_times(cue, '.')}\n{_escape(cue.text)}\n" for cue in cues(narration, times))
    return f"WEBVTT\n\nNOTE\n{_MEASURED if times else _WRITTEN}\n\n{subtitles}"


def _without_tags(text: str) -> str:
    # Players interpret tags in SRT, and SRT has no escapes.
    return text.replace("<", "‹").replace(">", "›")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _times(cue: Cue, point: str) -> str:
    return f"{_timestamp(cue.start_ms, point)} --> {_timestamp(cue.end_ms, point)}"


def _timestamp(at_ms: int, point: str) -> str:
    seconds, ms = divmod(at_ms, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{ms:03}"


def _slides(narration: Narration, times: Times, _length: str) -> str:
    spans = segment_times(narration, times) if times else None
    return slides(narration, [round(end - start, 1) for start, end in spans] if spans else None)


def _json(narration: Narration, _times: Times, _length: str) -> str:
    return narration.model_dump_json(indent=2) + "\n"


_WRITERS: Final[Mapping[str, Callable[[Narration, Times, str], str]]] = {
    "md": _markdown,
    "srt": _srt,
    "vtt": _vtt,
    "json": _json,
    "slides": _slides,
}
