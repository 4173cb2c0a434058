"""A PDF with text in it, as small as one can be: for tests and benches alone."""

import io
import textwrap
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PAGE_LINES = 50
_LEADING = 14
_WIDTH = 90
_OTHER_LETTER_WIDTH = 600
_TO_UNICODE = (
    b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Same def /CMapType 2 def\n"
    b"1 begincodespacerange <0000> <FFFF> endcodespacerange\n%b\nendcmap end end"
)


def pdf(
    text: str,
    *,
    head: str = "",
    numbered: bool = False,
    rows: int = PAGE_LINES,
    most: int | None = None,
) -> bytes:
    """Return the text (Western European letters) as a PDF, paragraphs parted by a gap.

    `head` stands on top of every page, and its number at the bottom where they are `numbered`. A page has so
    many `rows`, and lines after the first `most` are left out.
    """
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), _WIDTH), ""]
    lines = lines[:most]
    pages = [lines[at : at + rows] for at in range(0, len(lines), rows)] or [[]]
    return pdf_from_streams(
        [_page(page, head, str(number) if numbered else "") for number, page in enumerate(pages, start=1)]
    )


@dataclass(frozen=True)
class Piece:
    """A piece of a line that differs from the rest."""

    text: str
    size: float = 7
    rise: float = 0
    before: str = ""
    """Operators, such as `1 g` for white or `3 Tr` for invisible."""


def line(x: float, y: float, *pieces: str | Piece, size: float = 11, turn: str = "1 0 0 1") -> bytes:
    """Return the operators of a line of pieces that follow each other; `turn` begins a matrix."""
    drawn = b"".join(_piece(Piece(piece, size) if isinstance(piece, str) else piece) for piece in pieces)
    return b"q BT %b %g %g Tm %b ET Q\n" % (turn.encode(), x, y, drawn)


def lines(x: float, y: float, texts: Iterable[str], *, leading: float = 14, size: float = 11) -> list[bytes]:
    """Return the operators of lines under each other."""
    return [line(x, y - leading * row, text, size=size) for row, text in enumerate(texts)]


def drawn_pdf(*pages: Iterable[bytes]) -> bytes:
    """Return a PDF of pages of operators, in their order."""
    return pdf_from_streams([b"".join(page) for page in pages])


def encrypted_pdf(text: str, algorithm: str, password: str = "") -> bytes:
    """Return the text as an encrypted PDF, which opens without a password if that is empty."""
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(text))))
    writer.encrypt(password, "owner", algorithm=algorithm)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def zip_archive() -> bytes:
    """Return a ZIP archive of one page."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("page.html", "<script>alert(1)</script>")
    return file.getvalue()


def _piece(run: Piece) -> bytes:
    try:
        font, text = b"F1", b"(%b)" % _escape(run.text)
    except UnicodeEncodeError:
        font, text = b"F2", b"<%b>" % run.text.encode("utf-16-be").hex().encode()
    return b"%b %g Ts /%b %g Tf %b Tj " % (run.before.encode(), run.rise, font, run.size, text)


def _other_font(first: int) -> list[bytes]:
    """Return the objects of a font that is not in the file, whose codes are those of Unicode."""
    rows = b"\n".join(
        b"1 beginbfrange <%02X00> <%02XFF> <%02X00> endbfrange" % (high, high, high) for high in range(256)
    )
    cmap = zlib.compress(_TO_UNICODE % rows)
    font = b"<< /Type /Font /Subtype /Type0 /BaseFont /Other /Encoding /Identity-H"
    letters = b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Other /DW %d /FontDescriptor %d 0 R"
    system = b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    descriptor = (
        b"<< /Type /FontDescriptor /FontName /Other /Flags 4 /FontBBox [0 -200 600 800] /ItalicAngle 0"
    )
    return [
        b"%b /DescendantFonts [%d 0 R] /ToUnicode %d 0 R >>" % (font, first + 1, first + 3),
        b"%b %b" % (letters % (_OTHER_LETTER_WIDTH, first + 2), system),
        b"%b /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>" % descriptor,
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(cmap), cmap),
    ]


def pdf_from_streams(contents: Sequence[bytes]) -> bytes:
    """Return a PDF with a page for each content stream; F1 is Helvetica, F2 any other letters."""
    count = len(contents)
    other = 4 + 2 * count
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, content in enumerate(contents):
        packed = zlib.compress(content)
        box = f"/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R /F2 {other} 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {5 + 2 * number} 0 R >>".encode())
        objects.append(
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
        )
    return _file([*objects, *_other_font(other)])


def _page(lines: Sequence[str], head: str, number: str) -> bytes:
    texts = [(50, 770, head), (300, 25, number)]
    texts += [(50, 750 - _LEADING * row, line) for row, line in enumerate(lines)]
    return b"\n".join(_text_operators(x, y, line) for x, y, line in texts if line)


def _text_operators(x: int, y: int, line: str) -> bytes:
    return b"BT /F1 11 Tf %d %d Td (%s) Tj ET" % (x, y, _escape(line))


def _escape(text: str) -> bytes:
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def _file(objects: Sequence[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)
