"""Text of PDFs in reading order and in paragraphs, without running heads, watermarks and hidden text.

PDFium finds the characters; `pdf_layout` decides by where they stand what is a line, a column or an exponent.
"""

import ctypes
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from callsheet.state.errors import Invalid, Oversized, TooLarge
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, run_task
from callsheet.tools.lessons.pdf_layout import (
    CELL_GAP,
    RTL,
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
from callsheet.tools.lessons.reflow import reflow
from callsheet.tools.lessons.sources import MAX_CHARS, Source, check_size

MAX_PAGES: Final = 500
_LARGE: Final = 1.5
_DOUBLE: Final = 0.12
"""Letters nearer than this share of their height are one letter drawn twice."""
_TILT: Final = 8.0
"""Degrees; text that is more aslant is a watermark."""
_TURNED: Final = 100_000.0
_ALMOST_ALL: Final = 0.8
_REPEATED: Final = 0.5
_MIN_PAGES: Final = 3
"""Least number of pages for running heads: lines on half of the pages."""
_HEAD_LINES: Final = 2
_APART: Final = 1.5
_LETTERS_A_PAGE: Final = 20
_YEARS: Final = range(1000, 2101)
_LIGHT: Final = 225
_OPAQUE: Final = 128
_CONTRAST: Final = 48
"""Text whose box has fewer shades of grey than this cannot be seen."""
_MAX_PIXELS: Final = 1600
_HYPHEN, _LINE_FEED, _BLANK, _FIRST_RTL = 0x02, 0x0A, 0x20, "\u0590"
"""PDFium gives a hyphen at the end of a line as the first."""
_PAGE_NUMBER: Final = re.compile(
    r"\W{0,9}(?:(?:page|p\.|seite|página|第)\s{0,9})?\d{1,4}(?:\s{0,9}(?:/|of|von|de)\s{0,9}\d{1,9})?\s{0,9}页?\W{0,9}",
    re.IGNORECASE,
)
_BULLETS: Final = re.compile("[\uf0a7\uf0a8\uf0b7\uf0d8\uf0fc\uf06e\uf076]")
_PRIVATE: Final = re.compile("[\ue000-\uf8ff\ufffe\uffff]")
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
    document = _open(data, name)
    pages = []
    for number in range(len(document)):
        pages.append(_spans(_page(document, number, name)))
        report(number + 1, len(document))
    return _source(pages, name)


def _require_size(data: bytes, name: str) -> None:
    if len(data) > MAX_MATERIAL:
        raise TooLarge(
            f"{name} has {len(data) / 2**20:.0f} MiB, over {MAX_MATERIAL // 2**20}",
            remedy="send only the chapter",
        )


def _open(data: bytes, name: str) -> Any:
    """Return PDFium's document."""
    import pypdfium2  # noqa: PLC0415 -- a native library, which the server itself does not need
    from pypdfium2 import raw  # noqa: PLC0415

    if b"PK\x05\x06" in data[data.rfind(b"%%EOF") :]:
        raise Invalid(f"{name} is an archive as well", remedy="export it again without the archive")
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise Invalid(
                f"{name} is encrypted", remedy="send a copy that opens without a password"
            ) from error
        raise Invalid(
            f"{name} cannot be read as a PDF", remedy="check that the file opens, and send it again"
        ) from error
    if not 0 < len(document) <= MAX_PAGES:
        raise TooLarge(
            f"{name} has {len(document)} pages; 1 to {MAX_PAGES} can be read", remedy="send only the chapter"
        )
    return document


def _page(document: Any, number: int, name: str) -> Any:
    from pypdfium2 import PdfiumError  # noqa: PLC0415

    try:
        return document[number]
    except PdfiumError as error:
        raise Invalid(
            f"page {number + 1} of {name} is damaged", remedy="save the PDF anew, or paste the text"
        ) from error


def _source(pages: Sequence[Sequence[TextSpan]], name: str) -> Source:
    empty = sum(
        sum(char.isalpha() for span in page for char in span.text) < _LETTERS_A_PAGE for page in pages
    )
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
            warnings=tuple(words for applies, words in warnings if applies),
        )
    )


def _pages(pages: Sequence[object]) -> str:
    return f"{len(pages)} page{'s' * (len(pages) != 1)}"


class TextStyle(NamedTuple):
    """Position and looks of one text object, on the page as it is stored."""

    x: float
    y: float
    size: float
    angle: float
    """Degrees."""
    is_invisible: bool
    """Drawn without ink, as the text behind a scan is."""
    is_light: bool


class SpanDraft:
    """A span while it is read."""

    def __init__(self, address: int, style: TextStyle, line: int) -> None:
        self.address, self.style, self.line = address, style, line
        self.quarter = round(style.angle / 90) % 4
        self.text, self.is_rtl, self.last = "", False, 0.0
        self.left, self.bottom, self.right, self.top = math.inf, math.inf, -math.inf, -math.inf

    def add(self, char: str, box: Any) -> None:
        """Add the next character and the box it stands in."""
        self.text += char
        self.is_rtl = self.is_rtl or (char > _FIRST_RTL and bool(RTL.match(char)))
        self.last = box.left
        self.left, self.right = min(self.left, box.left), max(self.right, box.right)
        self.bottom, self.top = min(self.bottom, box.bottom), max(self.top, box.top)

    def continues(self, address: int, box: Any) -> bool:
        """Return True if a character of this object and box belongs to the same span."""
        if self.address != address or self.is_rtl or self.quarter:
            return self.address == address
        gap = float(box.left) - self.right
        return gap <= CELL_GAP * self.style.size and float(box.left) >= self.last - self.style.size / 3

    def span(self) -> TextSpan:
        """Return the span in coordinates in which its text runs from left to right."""
        x0, x1, y = (
            (self.left, self.right, self.style.y),
            (self.bottom, self.top, -self.style.x),
            (-self.right, -self.left, -self.style.y),
            (-self.top, -self.bottom, self.style.x),
        )[self.quarter]
        text = self.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return TextSpan(_PRIVATE.sub("", _BULLETS.sub("•", text)), x0, x1, y, self.style.size, self.line)


def _spans(page: Any) -> list[TextSpan]:
    """Return the text of a page that a reader sees, in the order of the file; turned text comes last."""
    left, bottom, right, top = page.get_bbox()
    drafts = [
        draft
        for draft in _drafts(page)
        if abs((draft.style.angle + 45) % 90 - 45) < _TILT
        and left < draft.right
        and draft.left < right
        and bottom < draft.top
        and draft.bottom < top
    ]
    letters = Counter[int]()
    for draft in drafts:
        letters[draft.quarter] += len(draft.text)
    ranks = [quarter for quarter, _ in letters.most_common()]
    hidden = _hidden(page, drafts)
    shown = sorted((one for one in drafts if id(one) not in hidden), key=lambda one: ranks.index(one.quarter))
    spans = [one.span()._replace(y=one.span().y - _TURNED * ranks.index(one.quarter)) for one in shown]
    return _without_doubles(span for span in spans if span.text.strip())


def _drafts(page: Any) -> list[SpanDraft]:
    from pypdfium2 import raw  # noqa: PLC0415

    # The raw handle costs less for each of a book's million letters; the object keeps it open.
    text_object, box = page.get_textpage(), raw.FS_RECTF()
    text_page = text_object.raw
    drafts: list[SpanDraft] = []
    styles: dict[int, TextStyle] = {}
    line = 0
    for index in range(raw.FPDFText_CountChars(text_page)):
        code = raw.FPDFText_GetUnicode(text_page, index)
        pointer = raw.FPDFText_GetTextObject(text_page, index)
        if not pointer:  # a blank or line feed that PDFium adds
            line += code == _LINE_FEED
            if code == _BLANK and drafts:
                drafts[-1].text += " "
            continue
        if code == 0:
            continue
        address = ctypes.addressof(pointer.contents)
        raw.FPDFText_GetLooseCharBox(text_page, index, box)
        if address not in styles:
            styles[address] = _style(text_page, index, pointer)
        if not drafts or not drafts[-1].continues(address, box):
            drafts.append(SpanDraft(address, styles[address], line))
        drafts[-1].add("-" if code == _HYPHEN else chr(code), box)
    return drafts


def _style(text_page: Any, index: int, pointer: Any) -> TextStyle:
    from pypdfium2 import raw  # noqa: PLC0415

    x, y, matrix = ctypes.c_double(), ctypes.c_double(), raw.FS_MATRIX()
    raw.FPDFText_GetCharOrigin(text_page, index, x, y)
    raw.FPDFText_GetMatrix(text_page, index, matrix)
    size = raw.FPDFText_GetFontSize(text_page, index) * math.hypot(matrix.c, matrix.d)
    colour = [ctypes.c_uint(0) for _ in range(3)]
    opacity = ctypes.c_uint(255)
    mode = raw.FPDFTextObj_GetTextRenderMode(pointer)
    get_colour = raw.FPDFPageObj_GetStrokeColor if mode == 1 else raw.FPDFPageObj_GetFillColor
    is_known = get_colour(pointer, *colour, opacity)
    return TextStyle(
        x.value,
        y.value,
        size or 1.0,
        math.degrees(math.atan2(matrix.b, matrix.a)),
        mode == raw.FPDF_TEXTRENDERMODE_INVISIBLE,
        bool(is_known) and (opacity.value < _OPAQUE or min(one.value for one in colour) >= _LIGHT),
    )


def _hidden(page: Any, drafts: Sequence[SpanDraft]) -> set[int]:
    """Return the ids of the drafts that nobody sees; the text behind a scan is its text."""
    invisible = [draft for draft in drafts if draft.style.is_invisible]
    count = sum(len(draft.text) for draft in invisible)
    is_scan = count > sum(len(draft.text) for draft in drafts) / 2
    light = [draft for draft in drafts if draft.style.is_light and not draft.style.is_invisible]
    unseen = _without_contrast(page, light) if light else []
    return {id(draft) for draft in (*unseen, *(() if is_scan else invisible))}


def _without_contrast(page: Any, drafts: Sequence[SpanDraft]) -> Iterator[SpanDraft]:
    """Yield the drafts whose box has one shade of grey when the page is drawn."""
    from pypdfium2 import raw  # noqa: PLC0415

    scale = min(2.0, _MAX_PIXELS / max(1.0, *page.get_size()))
    bitmap = page.render(scale=scale, grayscale=True)
    shades, x, y = bytes(bitmap.buffer), ctypes.c_int(), ctypes.c_int()
    width, height = bitmap.width, bitmap.height
    for draft in drafts:
        corners = []
        for corner in ((draft.left, draft.bottom), (draft.right, draft.top)):
            raw.FPDF_PageToDevice(page, 0, 0, width, height, 0, *corner, x, y)
            corners.append((min(max(x.value, 0), width), min(max(y.value, 0), height)))
        (left, right), (top, bottom) = (sorted(ends) for ends in zip(*corners, strict=True))
        rows = [
            shades[bitmap.stride * row + left : bitmap.stride * row + right] for row in range(top, bottom)
        ]
        drawn = b"".join(rows)
        if not drawn or max(drawn) - min(drawn) < _CONTRAST:
            yield draft


def _without_doubles(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Return the spans without those drawn twice to look bold."""
    seen: dict[tuple[str, int], list[TextSpan]] = defaultdict(list)
    kept = []
    for span in spans:
        text, height, near = span.text.strip(), int(span.y // span.size), _DOUBLE * span.size
        others = [one for level in (-1, 0, 1) for one in seen.get((text, height + level), ())]
        if not any(abs(one.x0 - span.x0) < near and abs(one.y - span.y) < near for one in others):
            kept.append(span)
            seen[text, height].append(span)
    return kept


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
    return [(words, -1), *([(words, round(main_span(group).y / 3))] if is_apart else [])]


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
