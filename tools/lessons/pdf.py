"""A PDF's words, in paragraphs, without what stands on every page."""

import io
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from callsheet.state.errors import Invalid, Oversized, TooLarge
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, run_task
from callsheet.tools.lessons.reflow import reflow
from callsheet.tools.lessons.sources import MAX_CHARS, Source, require_size

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

MAX_PAGES: Final = 500
_GAP: Final = 1.4
"""A gap this many times as high as usual parts paragraphs."""
_REPEATED: Final = 0.5
_FEWEST_PAGES: Final = 3
"""Pages from which a line that is on half of them is a running head."""
_LETTERS_A_PAGE: Final = 20
_NUMBER: Final = re.compile(
    r"\W*(?:(?:page|p\.|seite|página|第)\s*)?\d{1,4}(?:\s*(?:/|of|von|de)\s*\d+)?\s*页?\W*", re.IGNORECASE
)
_STOPS: Final = (".", "!", "?", "…", ":", ";", "”", '"', "。", "！", "？")


@dataclass(frozen=True)
class Limits:
    """What reading one PDF may take; a small file may unpack to more than a machine has."""

    memory_bytes: int = 768 * 1024 * 1024
    cpu_s: float = 120.0
    output_bytes: int = 12 * MAX_CHARS + 65_536
    """JSON spells a character of the text with at most twelve."""


_LIMITS: Final = Limits()


class Line(NamedTuple):
    """One line of a page."""

    text: str
    y: float
    """How far up it stands."""


async def read_sandboxed(
    data: bytes,
    name: str = "the PDF",
    report: OnProgress = lambda _done, _of: None,
    limits: Limits = _LIMITS,
) -> Source:
    """Return a PDF as a source, read in a process of its own; `report` is told the pages that are read.

    Raises what `read` raises, and `TooLarge` for a PDF that takes more than the limits.
    """
    _sized(data, name)
    errand = SandboxTask(f"reading {name}", __name__, "pages_read", {"name": name}, data)
    try:
        made = await run_task(errand, limits, report)
    except Oversized as error:
        raise TooLarge(error.message, remedy="save the PDF anew, or paste the text") from error
    return Source(**{**made, "warnings": tuple(made["warnings"])})


def pages_read(data: bytes, report: OnProgress, name: str) -> dict[str, Any]:
    """Return the fields of the source that `read` returns; runs in the process of the errand."""
    return asdict(read(data, name, report))


def read(data: bytes, name: str = "the PDF", report: OnProgress = lambda _done, _of: None) -> Source:
    """Return a PDF as a source; takes seconds for a book, and memory as the file wants it.

    Raises `TooLarge` over 50 MiB or 500 pages, `Invalid` for what is no PDF, is encrypted or has pictures of
    pages instead of text.
    """
    _sized(data, name)
    reader = _opened(data, name)
    pages = []
    for number, page in enumerate(reader.pages):
        pages.append(_lines(page, name))
        report(number + 1, len(reader.pages))
    return _source(pages, name)


def _sized(data: bytes, name: str) -> None:
    if len(data) > MAX_MATERIAL:
        raise TooLarge(
            f"{name} has {len(data) / 2**20:.0f} MiB, over {MAX_MATERIAL // 2**20}",
            remedy="send the chapter alone",
        )


def _opened(data: bytes, name: str) -> "PdfReader":
    # Half a second to import, and most lessons have no PDF.
    from pypdf import PasswordType, PdfReader  # noqa: PLC0415
    from pypdf.errors import PyPdfError  # noqa: PLC0415

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
            f"{name} has {count} pages, and 1 to {MAX_PAGES} can be read", remedy="send the chapter alone"
        )
    return reader


def _source(pages: Sequence[Sequence[Line]], name: str) -> Source:
    empty = sum(
        sum(char.isalpha() for line in page for char in line.text) < _LETTERS_A_PAGE for page in pages
    )
    if empty == len(pages):
        raise Invalid(
            f"{name} has pictures of its {len(pages)} pages and no text: it was scanned",
            remedy="send a copy with text (run it through OCR), or paste the text",
        )
    heads = _running(pages)
    text = _joined([_text([line for line in page if _kept(line, page, heads)]) for page in pages])
    scanned = f"{empty} of the {len(pages)} pages have no text; if they were scanned, they were not read"
    return require_size(
        Source(
            "pdf",
            name,
            reflow(text),
            pages=len(pages),
            warnings=(scanned,) if empty > len(pages) // 4 else (),
        )
    )


def _lines(page: "PageObject", name: str) -> list[Line]:
    """Return the lines of a page in the order in which they were written."""
    from pypdf.errors import PyPdfError  # noqa: PLC0415 -- as above

    lines: list[Line] = []

    def seen(text: str, cm: Sequence[float], tm: Sequence[float], _font: Any, size: float) -> None:
        y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
        for part in re.split(r"(\n)", text):
            if part == "\n":
                lines.append(Line("", 0))
            elif part.strip():
                _put(lines, part, y, size)

    try:
        page.extract_text(visitor_text=seen)
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
    ) as broken:
        raise Invalid(
            f"a page of {name} is damaged", remedy="save the PDF anew, or paste the text"
        ) from broken
    return [line for line in lines if line.text.strip()]


def _put(lines: list[Line], part: str, y: float, size: float) -> None:
    """Add a piece of text to the line it stands on."""
    if lines and lines[-1].text and abs(lines[-1].y - y) < max(1.0, size / 2):
        lines[-1] = Line(lines[-1].text + part, lines[-1].y)
    elif lines and not lines[-1].text:
        lines[-1] = Line(part, y)
    else:
        lines.append(Line(part, y))


def _running(pages: Sequence[Sequence[Line]]) -> frozenset[str]:
    """Return what stands at the top or the bottom of half of the pages."""
    if len(pages) < _FEWEST_PAGES:
        return frozenset()
    seen = Counter(_shape(line.text) for page in pages for line in set(_edges(page)))
    return frozenset(shape for shape, times in seen.items() if times >= max(2, _REPEATED * len(pages)))


def _edges(page: Sequence[Line]) -> list[Line]:
    ys = sorted({line.y for line in page})
    return [line for line in page if line.y in {*ys[:1], *ys[-1:]}]


def _kept(line: Line, page: Sequence[Line], heads: frozenset[str]) -> bool:
    if line not in _edges(page):
        return True
    return _shape(line.text) not in heads and not _NUMBER.fullmatch(line.text.strip())


def _shape(text: str) -> str:
    return re.sub(r"\d+", "#", " ".join(text.split()))


def _text(lines: Sequence[Line]) -> str:
    """Return the lines with a blank one where the page has a gap."""
    gaps = [above.y - below.y for above, below in pairwise(lines) if above.y > below.y]
    usual = statistics.median(gaps) if gaps else 0.0
    return "".join(_parted(lines, usual))


def _parted(lines: Sequence[Line], usual: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number:
            gap = lines[number - 1].y - line.y
            yield "\n\n" if gap > usual * _GAP or gap < -usual else "\n"
        yield line.text.strip()


def _joined(pages: Sequence[str]) -> str:
    """Return the pages as one text; a sentence may go on from one to the next."""
    whole = ""
    for page in pages:
        goes_on = whole and not whole.rstrip().endswith(_STOPS) and page[:1].islower()
        whole += ("\n" if goes_on else "\n\n") + page
    return whole.strip()
