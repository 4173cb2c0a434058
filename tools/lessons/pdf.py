"""Text of PDFs in reading order and in paragraphs, without running heads, watermarks and hidden text.

PDFium finds the characters; `pdf_layout` decides by where they stand what is a line, a column or an exponent.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from callsheet.state.errors import Invalid, Oversized, TooLarge
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, run_task
from callsheet.tools.lessons.pdf_layout import (
    STOPS,
    SpanGroup,
    TextSpan,
    body_size,
    group_spans,
    layout,
    lines_text,
    main_span,
    raw_text,
)
from callsheet.tools.lessons.reflow import reflow, table_warnings
from callsheet.tools.lessons.sources import MAX_CHARS, Source, check_size

MAX_PAGES: Final = 500
_LARGE: Final = 1.5
_ALMOST_ALL: Final = 0.8
_REPEATED: Final = 0.5
_MIN_PAGES: Final = 3
"""Least number of pages for running heads: lines on half of the pages."""
_HEAD_LINES: Final = 2
_APART: Final = 1.5
_SIGNS_A_PAGE: Final = 20
_YEARS: Final = range(1000, 2101)
_PAGE_NUMBER: Final = re.compile(
    r"\W{0,9}(?:(?:page|p\.|seite|página|第)\s{0,9})?\d{1,4}(?:\s{0,9}(?:/|of|von|de)\s{0,9}\d{1,9})?\s{0,9}页?\W{0,9}",
    re.IGNORECASE,
)
_NUMBER_AT_END: Final = re.compile(r"^(\d{1,4})\s{0,9}[|·•–—]|[|·•–—]\s{0,9}(\d{1,4})$")
_ROMAN_VALUES: Final = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_LONGEST_ROMAN: Final = 12


@dataclass(frozen=True)
class PdfLimits:
    """Limits of reading one PDF; a small file may unpack to more memory than a machine has."""

    memory_bytes: int = 768 * 1024 * 1024
    cpu_s: float = 20.0
    output_bytes: int = 12 * MAX_CHARS + 65_536
    """JSON needs at most twelve characters for one of the text."""


_LIMITS: Final = PdfLimits()


async def read_sandboxed(
    data: bytes,
    name: str = "the PDF",
    report: OnProgress = lambda _done, _of: None,
    limits: PdfLimits = _LIMITS,
    *,
    owner: str = "",
) -> Source:
    """Return a PDF as a source, read in the sandbox; `report` receives the pages read.

    The PDFs of an `owner` are read one at a time, so that nobody else waits for all of them.

    Raises as `read`, and `TooLarge` beyond the limits.
    """
    _require_size(data, name)
    task = SandboxTask(f"reading {name}", __name__, "read_in_sandbox", {"name": name}, data, owner)
    try:
        fields = await run_task(task, limits, report)
    except Oversized as error:
        raise TooLarge(error.message, remedy="save the PDF again, or paste the text") from error
    return Source(**{**fields, "warnings": tuple(fields["warnings"])})


def read_in_sandbox(data: bytes, report: OnProgress, name: str) -> dict[str, Any]:
    """Return the fields of the source that `read` returns; runs in the sandbox process."""
    return asdict(read(data, name, report))


def read(data: bytes, name: str = "the PDF", report: OnProgress = lambda _done, _of: None) -> Source:
    """Return a PDF as a source; a book takes seconds, and the file decides the memory. Not safe in threads.

    Raises `TooLarge` over 50 MiB or 500 pages, and `Invalid` for a file that is no PDF, encrypted, scanned,
    damaged or an archive as well.
    """
    _require_size(data, name)
    # A native library, which the server itself does not need.
    from callsheet.tools.lessons import pdf_spans  # noqa: PLC0415

    document = pdf_spans.open_document(data, name)
    _require_pages(len(document), name)
    pages = []
    for number in range(len(document)):
        pages.append(pdf_spans.page_spans(document, number, name))
        report(number + 1, len(document))
    return _source(pages, name)


def _require_size(data: bytes, name: str) -> None:
    if len(data) > MAX_MATERIAL:
        raise TooLarge(
            f"{name} has {len(data) / 2**20:.0f} MiB, over {MAX_MATERIAL // 2**20}",
            remedy="send only the chapter",
        )


def _require_pages(count: int, name: str) -> None:
    if not 0 < count <= MAX_PAGES:
        raise TooLarge(
            f"{name} has {count} pages; 1 to {MAX_PAGES} can be read", remedy="send only the chapter"
        )


def _source(pages: Sequence[Sequence[TextSpan]], name: str) -> Source:
    empty = sum(sum(char.isalnum() for span in page for char in span.text) < _SIGNS_A_PAGE for page in pages)
    if empty == len(pages):
        raise Invalid(
            f"{name} was scanned: its {_pages(pages)} {'is a picture' if len(pages) == 1 else 'are pictures'}"
            " without text",
            remedy="send a copy with text (run it through OCR), or paste the text",
        )
    groups = _without_running_heads([group_spans(page) for page in _without_watermarks(pages)])
    layouts = [layout(page) for page in groups]
    doubtful = sum(one.doubtful for one in layouts)
    places = name if doubtful == len(pages) else f"{doubtful} of the {_pages(pages)} of {name}"
    warnings = [
        (
            empty > len(pages) // 4,
            f"{empty} of the {_pages(pages)} have no text; if scanned, they were not read",
        ),
        (doubtful, f"the order of the text of {places} is not certain; compare the facts with the file"),
    ]
    text = _join_pages([lines_text(one.lines) for one in layouts])
    return check_size(
        Source(
            "pdf",
            name,
            reflow(text),
            pages=len(pages),
            warnings=(*(words for applies, words in warnings if applies), *table_warnings(text)),
        )
    )


def _pages(pages: Sequence[object]) -> str:
    return f"{len(pages)} page{'s' * (len(pages) != 1)}"


def _without_watermarks(pages: Sequence[Sequence[TextSpan]]) -> list[list[TextSpan]]:
    """Return the pages without large text at the same place of most of them."""
    if len(pages) < _MIN_PAGES:
        return [list(page) for page in pages]
    body = body_size([span for page in pages for span in page])
    seen = Counter(place for page in pages for place in {_place(span) for span in page})
    marks = {place for place, times in seen.items() if times >= _ALMOST_ALL * len(pages)}
    return [[one for one in page if one.size < _LARGE * body or _place(one) not in marks] for page in pages]


def _place(span: TextSpan) -> tuple[str, int, int]:
    return span.text.strip(), round(span.x0 / 3), round(span.y / 3)


def _without_running_heads(pages: Sequence[list[SpanGroup]]) -> list[list[SpanGroup]]:
    """Return the pages without what is repeated, or counts the pages, on their first and last lines."""
    kept = [list(page) for page in pages]
    for _ in range(_HEAD_LINES):
        edges = [
            [(group, _head(group, number, is_apart=is_apart)) for group, is_apart in _edges(page)]
            for number, page in enumerate(kept)
        ]
        seen = Counter(key for edge in edges for key in {key for _, keys in edge for key in keys})
        for number, edge in enumerate(edges):
            heads = [id(group) for group, keys in edge if _is_head(keys, seen, len(pages))]
            kept[number] = [group for group in kept[number] if id(group) not in heads]
    return kept


def _edges(page: Sequence[SpanGroup]) -> Iterator[tuple[SpanGroup, bool]]:
    """Yield what stands on the first and last line of a page, and True if a gap sets the line apart."""
    places = [main_span(group) for group in page]
    for ends in (places, [place._replace(y=-place.y) for place in places]):
        top = max(ends, key=lambda place: place.y, default=None)
        if top is not None:
            lower = [top.y - place.y for place in ends if top.y - place.y >= top.size / 2]
            is_apart = min(lower, default=math.inf) > _APART * top.size
            yield from (
                (group, is_apart)
                for group, place in zip(page, ends, strict=True)
                if top.y - place.y < top.size / 2
            )


_Head = tuple[str, int]
"""Words of a line, or its number less that of its page; and its place in steps of 3 points, -1 for any."""


def _head(group: SpanGroup, number: int, *, is_apart: bool) -> list[_Head]:
    words = " ".join(raw_text(group).split())
    match = _PAGE_NUMBER.fullmatch(words)
    value = _page_number(words if match else "", words)
    if value is not None:
        words = f"#{value - number}"
    elif match and not re.search(r"[^\W\d]", words):
        return []  # a number that stands alone and counts no pages: a year, a cell
    is_placed = is_apart or words.startswith("#")
    return [(words, -1), *([(words, round(main_span(group).y / 3))] if is_placed else [])]


def _page_number(numbered: str, words: str) -> int | None:
    """Return the number that may be a page's; years and lines with other words have none."""
    if numbered:
        value = int(re.findall(r"\d+", numbered)[0])
        return None if value in _YEARS else value
    if match := _NUMBER_AT_END.search(words):
        return int(match[1] or match[2])
    return _roman(words.strip(" -–—.")) if len(words) <= _LONGEST_ROMAN else None


def _roman(word: str) -> int | None:
    if not re.fullmatch("[ivxlc]+", word):
        return None
    values = [_ROMAN_VALUES[char] for char in word]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))


def _is_head(keys: Sequence[_Head], seen: Counter[_Head], pages: int) -> bool:
    """Return True for what is on half of the pages, or set apart at the same place of three."""
    if not keys:
        return False
    least = _MIN_PAGES - 1 if keys[0][0].startswith("#") else _MIN_PAGES
    return seen[keys[0]] >= max(least, _REPEATED * pages) or any(seen[key] >= _MIN_PAGES for key in keys[1:])


def _join_pages(pages: Sequence[str]) -> str:
    """Return the pages as one text; a sentence may continue on the next page."""
    text = ""
    for page in pages:
        goes_on = text and not text.rstrip().endswith(STOPS) and page[:1].islower()
        text += ("\n" if goes_on else "\n\n") + page
    return text.strip()
