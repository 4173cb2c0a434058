"""A narration as files: Markdown to read, SRT and WebVTT to show under a video, JSON to go on with."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from callsheet.state.errors import Invalid
from callsheet.state.languages import find
from callsheet.state.lessons.narration import Narration, Segment, length

Format = Literal["md", "srt", "vtt", "json"]
_LINE: Final = 42
"""Characters in a line of subtitles, at most; half of that where letters are twice as wide."""
_LINES: Final = 2


class Cue(NamedTuple):
    """Some words and when they are shown, in milliseconds."""

    start_ms: int
    end_ms: int
    text: str


def export(narration: Narration, form: str) -> str:
    """Return the narration as a text file; raises `Invalid` for a form that is not md, srt, vtt or json."""
    write = _WRITERS.get(form)
    if write is None:
        raise Invalid(
            f"a narration cannot be exported as {form!r}", remedy=f"use one of {', '.join(_WRITERS)}"
        )
    return write(narration)


def cues(narration: Narration) -> list[Cue]:
    """Return every sentence with its time, cut where it is longer than two lines; they leave no gap."""
    return [cue for segment in narration.segments for cue in _cues(segment, narration.language)]


def _cues(segment: Segment, language: str) -> Iterator[Cue]:
    parts = [part for sentence in segment.sentences for part in _parts(sentence.text, language)]
    weights = [max(1, length(part, language)) for part in parts]
    begin_ms, length_ms = round(segment.start_time * 1000), round(segment.duration * 1000)
    before = 0
    for part, weight in zip(parts, weights, strict=True):
        start = begin_ms + length_ms * before // sum(weights)
        before += weight
        yield Cue(start, begin_ms + length_ms * before // sum(weights), part)


def _parts(text: str, language: str) -> list[str]:
    """Return the text in pieces of two lines each."""
    spec = find(language)
    wide = spec is not None and spec.unit == "character" and spec.name != "thai"
    lines = textwrap.wrap(" ".join(text.split()), _LINE // 2 if wide else _LINE)
    # As even as can be: four lines are two and two, three are two and one.
    return ["\n".join(lines[at : at + _LINES]) for at in range(0, len(lines), _LINES)]


def _markdown(narration: Narration) -> str:
    facts = f"reading level {narration.reading_level} · {narration.key_terms_count} key terms"
    head = [f"# {_escape_markdown(narration.topic)}", f"{narration.total_duration} s · {facts}"]
    return "\n\n".join([*head, *(_section(segment) for segment in narration.segments)]) + "\n"


def _section(segment: Segment) -> str:
    title = segment.type.replace("_", " ").capitalize()
    lines = [
        f"## {title} ({_clock(segment.start_time)}–{_clock(segment.start_time + segment.duration)})",
        _escape_markdown(segment.narration),
        f"*On screen:* {_escape_markdown(segment.visual_guidance)}" if segment.visual_guidance else "",
        f"*Key concepts:* {_escape_markdown(', '.join(segment.key_concepts))}"
        if segment.key_concepts
        else "",
        f"*Purpose:* {_escape_markdown(segment.educational_purpose)}",
    ]
    return "\n\n".join(line for line in lines if line)


def _escape_markdown(text: str) -> str:
    """Return the text so that Markdown shows it as it is, links and tags too."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|!" else char for char in " ".join(text.split()))


def _clock(at_s: float) -> str:
    minutes, seconds = divmod(at_s, 60)
    return f"{int(minutes)}:{seconds:05.2f}".removesuffix(".00")


def _srt(narration: Narration) -> str:
    return "\n".join(
        f"{number}\n{_timestamp(cue.start_ms, ',')} --> {_timestamp(cue.end_ms, ',')}\n{_without_tags(cue.text)}\n"
        for number, cue in enumerate(cues(narration), start=1)
    )


def _vtt(narration: Narration) -> str:
    shown = "\n".join(
        f"{_timestamp(cue.start_ms, '.')} --> {_timestamp(cue.end_ms, '.')}\n{_escape(cue.text)}\n"
        for cue in cues(narration)
    )
    return f"WEBVTT\n\n{shown}"


def _without_tags(text: str) -> str:
    # Players read tags in SRT, and there is no way to escape one.
    return text.replace("<", "‹").replace(">", "›")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _timestamp(at_ms: int, point: str) -> str:
    seconds, ms = divmod(at_ms, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{ms:03}"


def _json(narration: Narration) -> str:
    return narration.model_dump_json(indent=2) + "\n"


_WRITERS: Final[Mapping[str, Callable[[Narration], str]]] = {
    "md": _markdown,
    "srt": _srt,
    "vtt": _vtt,
    "json": _json,
}
