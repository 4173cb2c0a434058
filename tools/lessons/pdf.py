"""Text of PDFs in paragraphs, without running heads."""

import io
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from pypdf import PageObject, PasswordType, PdfReader
from pypdf.errors import PyPdfError

from callsheet.state.errors import Invalid, Oversized, TooLarge
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, run_task
from callsheet.tools.lessons.sources import MAX_CHARS, Source, check_size, reflow

MAX_PAGES: Final = 500
_GAP: Final = 1.4
"""A gap of this many usual gaps separates paragraphs."""
_REPEATED: Final = 0.5
_MIN_PAGES: Final = 3
"""Least number of pages for running heads: lines on half of the pages."""
_LETTERS_A_PAGE: Final = 20
_NUMBER: Final = re.compile(
    r"\W{0,9}(?:(?:page|p\.|seite|página|第)\s{0,9})?\d{1,4}(?:\s{0,9}(?:/|of|von|de)\s{0,9}\d{1,9})?\s{0,9}页?\W{0,9}",
    re.IGNORECASE,
)
_STOPS: Final = (".", "!", "?", "…", ":", ";", "”", '"', "。", "！", "？")


@dataclass(frozen=True)
class PdfLimits:
    """Limits of reading one PDF; a small file may unpack to more memory than a machine has."""

    memory_bytes: int = 768 * 1024 * 1024
    cpu_s: float = 20.0
    output_bytes: int = 12 * MAX_CHARS + 65_536
    """JSON needs at most twelve characters for one of the text."""


_LIMITS: Final = PdfLimits()


class PdfLine(NamedTuple):
    """One line of a page."""

    text: str
    y: float
    """Vertical position, from the bottom."""


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
    """Return a PDF as a source; a book takes seconds, and the file decides the memory.

    Raises `TooLarge` over 50 MiB or 500 pages, and `Invalid` for a file that is no PDF, encrypted or scanned.
    """
    _require_size(data, name)
    reader = _open(data, name)
    pages = []
    for number, page in enumerate(reader.pages):
        pages.append(_lines(page, name))
        report(number + 1, len(reader.pages))
    return _source(pages, name)


def _require_size(data: bytes, name: str) -> None:
    if len(data) > MAX_MATERIAL:
        raise TooLarge(
            f"{name} has {len(data) / 2**20:.0f} MiB, over {MAX_MATERIAL // 2**20}",
            remedy="send only the chapter",
        )


def _open(data: bytes, name: str) -> PdfReader:
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise Invalid(f"{name} is encrypted", remedy="send a copy that opens without a password")
        count = len(reader.pages)
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError) as broken:
        raise Invalid(
            f"{name} cannot be read as a PDF", remedy="check that the file opens, and send it again"
        ) from broken
    if not 0 < count <= MAX_PAGES:
        raise TooLarge(
            f"{name} has {count} pages; 1 to {MAX_PAGES} can be read", remedy="send only the chapter"
        )
    return reader


def _source(pages: Sequence[Sequence[PdfLine]], name: str) -> Source:
    empty = sum(
        sum(char.isalpha() for line in page for char in line.text) < _LETTERS_A_PAGE for page in pages
    )
    if empty == len(pages):
        raise Invalid(
            f"{name} was scanned: its {len(pages)} pages are pictures without text",
            remedy="send a copy with text (run it through OCR), or paste the text",
        )
    heads = _running_heads(pages)
    text = _join_pages([_text(_content(page, heads)) for page in pages])
    scanned = f"{empty} of the {len(pages)} pages have no text; if they were scanned, they were not read"
    return check_size(
        Source(
            "pdf",
            name,
            reflow(text),
            pages=len(pages),
            warnings=(scanned,) if empty > len(pages) // 4 else (),
        )
    )


def _lines(page: PageObject, name: str) -> list[PdfLine]:
    """Return the lines of a page in the order in which they were written."""
    lines: list[PdfLine] = []

    def seen(text: str, cm: Sequence[float], tm: Sequence[float], _font: Any, size: float) -> None:
        y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
        for part in re.split(r"(\n)", text):
            if part == "\n":
                lines.append(PdfLine("", 0))
            elif part.strip():
                _append_to_line(lines, part, y, size)

    try:
        page.extract_text(visitor_text=seen)
    except (PyPdfError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as broken:
        raise Invalid(
            f"a page of {name} is damaged", remedy="save the PDF anew, or paste the text"
        ) from broken
    return [line for line in lines if line.text.strip()]


def _append_to_line(lines: list[PdfLine], part: str, y: float, size: float) -> None:
    """Append a piece of text to its line."""
    if lines and lines[-1].text and abs(lines[-1].y - y) < max(1.0, size / 2):
        lines[-1] = PdfLine(lines[-1].text + part, lines[-1].y)
    elif lines and not lines[-1].text:
        lines[-1] = PdfLine(part, y)
    else:
        lines.append(PdfLine(part, y))


def _running_heads(pages: Sequence[Sequence[PdfLine]]) -> frozenset[str]:
    """Return the lines at the top or bottom of at least half of the pages."""
    if len(pages) < _MIN_PAGES:
        return frozenset()
    seen = Counter(_shape(line.text) for page in pages for line in set(_edges(page)))
    return frozenset(shape for shape, times in seen.items() if times >= max(2, _REPEATED * len(pages)))


def _edges(page: Sequence[PdfLine]) -> list[PdfLine]:
    ys = sorted({line.y for line in page})
    return [line for line in page if line.y in {*ys[:1], *ys[-1:]}]


def _content(page: Sequence[PdfLine], heads: frozenset[str]) -> list[PdfLine]:
    """Return the lines that are neither running heads nor page numbers."""
    edges = set(_edges(page))
    return [line for line in page if line not in edges or _is_edge_content(line.text, heads)]


def _is_edge_content(text: str, heads: frozenset[str]) -> bool:
    return _shape(text) not in heads and not _NUMBER.fullmatch(text.strip())


def _shape(text: str) -> str:
    return re.sub(r"\d+", "#", " ".join(text.split()))


def _text(lines: Sequence[PdfLine]) -> str:
    """Return the lines as text, with a blank line at each gap."""
    gaps = [above.y - below.y for above, below in pairwise(lines) if above.y > below.y]
    usual = statistics.median(gaps) if gaps else 0.0
    return "".join(_with_breaks(lines, usual))


def _with_breaks(lines: Sequence[PdfLine], usual: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number:
            gap = lines[number - 1].y - line.y
            yield "\n\n" if gap > usual * _GAP or gap < -usual else "\n"
        yield line.text.strip()


def _join_pages(pages: Sequence[str]) -> str:
    """Return the pages as one text; a sentence may continue on the next page."""
    text = ""
    for page in pages:
        goes_on = text and not text.rstrip().endswith(_STOPS) and page[:1].islower()
        text += ("\n" if goes_on else "\n\n") + page
    return text.strip()
