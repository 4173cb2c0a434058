"""A narration as slides: one file of HTML without scripts, to show and to print."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Final

from callsheet.state.languages import find
from callsheet.state.lessons.narration import Narration, Segment

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content policy of the file, and of the reply that carries it. It loads nothing."""
_RIGHT_TO_LEFT: Final = frozenset({"ar", "fa", "he", "ur"})
_STYLE: Final = """\
*{box-sizing:border-box;margin:0}
html{scroll-snap-type:x mandatory;scroll-behavior:smooth}
main{display:flex;width:max-content}
body{font:clamp(18px,2.2vw,30px)/1.45 system-ui,sans-serif;color:#0f172a;background:#f8fafc}
section{width:100vw;height:100vh;overflow-y:auto;padding:6vh 8vw;display:grid;gap:3vh;position:relative;
align-content:safe center;scroll-snap-align:start;scroll-snap-stop:always;border-inline-end:1px solid #cbd5e1}
section:nth-of-type(odd){background:#eef2ff}
h1{font-size:2.6em;line-height:1.15}h2{font-size:1.9em;line-height:1.2}
ul{padding-inline-start:1.2em;display:grid;gap:.5em}
details{font-size:.7em;color:#1e293b}summary{cursor:pointer}details p{margin-block-start:.5em}
nav{position:absolute;inset-inline-end:3vw;bottom:3vh;display:flex;gap:1em;font-size:.7em}
a{color:#1d4ed8}
@media print{@page{size:landscape}html{scroll-snap-type:none}nav{display:none}main{display:block;width:auto}
section{width:auto;overflow:visible;break-after:page;break-inside:avoid;border:0}
details::details-content{content-visibility:visible}}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
"""


def slides(narration: Narration, seconds: Sequence[float] | None = None) -> str:
    """Return a title slide and a slide for each segment: its concepts, and notes for the speaker.

    Each slide lasts so many `seconds`, else as planned.

    The slides lie side by side and snap, so that the arrow keys turn them without a script. The notes are the
    words and what to show; they are folded, and printed.
    """
    spec = find(narration.language)
    code = spec.code if spec else "en"
    direction = ' dir="rtl"' if code in _RIGHT_TO_LEFT else ""
    lasts = seconds or [one.duration for one in narration.segments]
    sections = [_title_slide(narration), *map(partial(_slide, narration.topic), narration.segments, lasts)]
    pages = "\n".join(
        f'<section id="slide-{number}">\n{inner}\n{_links(number, len(sections))}\n</section>'
        for number, inner in enumerate(sections, 1)
    )
    return (
        f'<!doctype html>\n<html lang="{code}"{direction}>\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(narration.topic)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n{pages}\n</main>\n</body>\n</html>\n"
    )


def _title_slide(narration: Narration) -> str:
    concepts = dict.fromkeys(one for segment in narration.segments for one in segment.key_concepts)
    return f"<h1>{escape(narration.topic)}</h1>\n{_list(concepts)}".rstrip()


def _slide(topic: str, segment: Segment, lasts: float) -> str:
    return "\n".join(part for part in _parts(topic, segment, lasts) if part)


def _parts(topic: str, segment: Segment, lasts: float) -> Iterator[str]:
    yield f"<h2>{escape(segment.key_concepts[0] if segment.key_concepts else topic)}</h2>"
    yield _list(segment.key_concepts[1:])
    notes = "".join(f"<p>{escape(note)}</p>" for note in (segment.narration, segment.visual_guidance) if note)
    if notes:
        yield f"<details><summary>{lasts:g} s</summary>{notes}</details>"


def _list(items: Iterable[str]) -> str:
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{lines}</ul>" if lines else ""


def _links(number: int, count: int) -> str:
    before = f'<a href="#slide-{number - 1}" rel="prev">←</a>' if number > 1 else ""
    after = f'<a href="#slide-{number + 1}" rel="next">→</a>' if number < count else ""
    return f"<nav>{before}<span>{number}/{count}</span>{after}</nav>"
