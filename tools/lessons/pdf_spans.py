"""Characters of a PDF's pages as PDFium finds them, without those that nobody sees.

This module loads a native library; only the sandbox imports it.
"""

import ctypes
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pypdfium2
from pypdfium2 import raw

from callsheet.state.errors import Invalid
from callsheet.tools.lessons.pdf_layout import CELL_GAP, RTL, TextSpan

_DOUBLE: Final = 0.12
"""Letters nearer than this share of their height are one letter drawn twice."""
_TILT: Final = 8.0
"""Degrees; text that is more aslant is a watermark."""
_TURNED: Final = 100_000.0
_LIGHT: Final = 225
_OPAQUE: Final = 128
_CONTRAST: Final = 48
"""Text whose box has fewer shades of grey than this cannot be seen."""
_TINY: Final = 0.25
_SURFACE: Final = 6.0
"""Points; smaller surfaces hide no words."""
_MAX_SHAPES: Final = 500
_MAX_PIXELS: Final = 1600
_HYPHEN, _LINE_FEED, _BLANK, _FIRST_RTL = 0x02, 0x0A, 0x20, "\u0590"
"""PDFium gives a hyphen at the end of a line as the first."""
_BULLETS: Final = re.compile("[\uf0a7\uf0a8\uf0b7\uf0d8\uf0fc\uf06e\uf076]")
_PRIVATE: Final = re.compile("[\ue000-\uf8ff\ufffe\uffff]")


def open_document(data: bytes, name: str) -> Any:
    """Return PDFium's document; raises `Invalid` for a file that is none, encrypted or an archive as well."""
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
    return document


def _page(document: Any, number: int, name: str) -> Any:
    try:
        return document[number]
    except pypdfium2.PdfiumError as error:
        raise Invalid(
            f"page {number + 1} of {name} is damaged", remedy="save the PDF anew, or paste the text"
        ) from error


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
    shade: int
    """From 0, black, to 255."""


class FilledShape(NamedTuple):
    """A surface that is painted on a page."""

    order: int
    """Place among the objects of the page; later ones cover earlier ones."""
    shade: int
    left: float
    bottom: float
    right: float
    top: float


class SpanDraft:
    """A span while it is read."""

    def __init__(self, address: int, style: TextStyle, line: int) -> None:
        self.address, self.style, self.line = address, style, line
        self.quarter = round(style.angle / 90) % 4
        self.text, self.is_rtl, self.last = "", False, 0.0
        self.word_end, self.space = math.inf, math.inf
        self.left, self.bottom, self.right, self.top = math.inf, math.inf, -math.inf, -math.inf

    def add(self, char: str, box: Any) -> None:
        """Add the next character and the box it stands in."""
        if char != " ":
            if self.text.endswith(" ") and box.left > self.word_end:
                self.space = min(self.space, box.left - self.word_end)
            self.word_end = box.right
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
        return TextSpan(
            _PRIVATE.sub("", _BULLETS.sub("•", text)), x0, x1, y, self.style.size, self.line, self.space
        )


def page_spans(document: Any, number: int, name: str) -> list[TextSpan]:
    """Return the text of a page that a reader sees, in the order of the file; turned text comes last.

    Raises `Invalid` for a damaged page.
    """
    page = _page(document, number, name)
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
    x, y, matrix = ctypes.c_double(), ctypes.c_double(), raw.FS_MATRIX()
    raw.FPDFText_GetCharOrigin(text_page, index, x, y)
    raw.FPDFText_GetMatrix(text_page, index, matrix)
    size = abs(raw.FPDFText_GetFontSize(text_page, index)) * math.hypot(matrix.c, matrix.d)
    mode = raw.FPDFTextObj_GetTextRenderMode(pointer)
    get_colour = raw.FPDFPageObj_GetStrokeColor if mode == 1 else raw.FPDFPageObj_GetFillColor
    darkest, shade, opacity = _colour(get_colour, pointer)
    return TextStyle(
        x.value,
        y.value,
        size or 1.0,
        math.degrees(math.atan2(matrix.b, matrix.a)),
        mode == raw.FPDF_TEXTRENDERMODE_INVISIBLE,
        opacity < _OPAQUE or darkest >= _LIGHT,
        shade,
    )


def _colour(get_colour: Any, pointer: Any) -> tuple[int, int, int]:
    """Return the darkest part, shade and opacity of an object's colour; black if it has none."""
    red, green, blue, opacity = (ctypes.c_uint(0) for _ in range(4))
    if not get_colour(pointer, red, green, blue, opacity):
        return 0, 0, 255
    parts = (red.value, green.value, blue.value)
    return min(parts), round(0.3 * parts[0] + 0.6 * parts[1] + 0.1 * parts[2]), opacity.value


def _shapes(page: Any) -> tuple[list[FilledShape], dict[int, int]]:
    """Return the larger surfaces of a page, and the place of each text object by its address."""
    shapes: list[FilledShape] = []
    orders: dict[int, int] = {}
    for order in range(raw.FPDFPage_CountObjects(page)):
        pointer = raw.FPDFPage_GetObject(page, order)
        kind = raw.FPDFPageObj_GetType(pointer)
        if kind == raw.FPDF_PAGEOBJ_TEXT:
            orders[ctypes.addressof(pointer.contents)] = order
        elif kind == raw.FPDF_PAGEOBJ_PATH and len(shapes) < _MAX_SHAPES:
            shapes += _filled_shapes(pointer, order)
    return shapes, orders


def _filled_shapes(path: Any, order: int) -> Iterator[FilledShape]:
    """Yield the path's surface if it is large and opaque enough to hide words."""
    fill, stroke, box = ctypes.c_int(), ctypes.c_int(), [ctypes.c_float() for _ in range(4)]
    raw.FPDFPageObj_GetBounds(path, *box)
    raw.FPDFPath_GetDrawMode(path, fill, stroke)
    left, bottom, right, top = (edge.value for edge in box)
    _, shade, opacity = _colour(raw.FPDFPageObj_GetFillColor, path)
    if fill.value and opacity >= _OPAQUE and min(right - left, top - bottom) > _SURFACE:
        yield FilledShape(order, shade, left, bottom, right, top)


def _is_suspect(draft: SpanDraft, shapes: Sequence[FilledShape], orders: Mapping[int, int]) -> bool:
    """Return True if text is light, painted over, or as dark as what is under it."""
    x, y, order = (draft.left + draft.right) / 2, (draft.bottom + draft.top) / 2, orders.get(draft.address)
    return draft.style.is_light or any(
        shape.left < x < shape.right
        and shape.bottom < y < shape.top
        and (shape.order > order or abs(shape.shade - draft.style.shade) < _CONTRAST)
        for shape in shapes
        if order is not None
    )


def _hidden(page: Any, drafts: Sequence[SpanDraft]) -> set[int]:
    """Return the ids of the drafts that nobody sees; the text behind a scan is its text."""
    invisible = [draft for draft in drafts if draft.style.is_invisible]
    count = sum(len(draft.text) for draft in invisible)
    is_scan = count > sum(len(draft.text) for draft in drafts) / 2
    shapes, orders = _shapes(page)
    inked = [draft for draft in drafts if not draft.style.is_invisible]
    suspects = [draft for draft in inked if _is_suspect(draft, shapes, orders)]
    unseen = [*_without_contrast(page, suspects)] if suspects else []
    usual = statistics.median(draft.style.size for draft in drafts) if drafts else 0.0
    unseen += [draft for draft in inked if draft.style.size < _TINY * usual]
    return {id(draft) for draft in (*unseen, *(() if is_scan else invisible))}


def _without_contrast(page: Any, drafts: Sequence[SpanDraft]) -> Iterator[SpanDraft]:
    """Yield the drafts whose box has one shade of grey when the page is drawn."""
    scale = min(2.0, _MAX_PIXELS / max(1.0, *page.get_size()))
    bitmap = page.render(scale=scale, grayscale=True)
    shades, x, y = bytes(bitmap.buffer), ctypes.c_int(), ctypes.c_int()
    width, height = bitmap.width, bitmap.height
    for draft in drafts:
        corners = []
        margin = (draft.top - draft.bottom) / 4  # where letters of other lines may reach
        for corner in ((draft.left, draft.bottom + margin), (draft.right, draft.top - margin)):
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
