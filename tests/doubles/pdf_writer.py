"""A PDF with text in it, as small as one can be: for tests and benches alone."""

import textwrap
import zlib
from collections.abc import Sequence

PAGE_LINES = 50
_LEADING = 14
_WIDTH = 90


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


def pdf_from_streams(contents: Sequence[bytes]) -> bytes:
    """Return a PDF with a page for each content stream."""
    count = len(contents)
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, content in enumerate(contents):
        packed = zlib.compress(content)
        box = "/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} /Contents {5 + 2 * number} 0 R >>".encode())
        objects.append(
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
        )
    return _file(objects)


def _page(lines: Sequence[str], head: str, number: str) -> bytes:
    texts = [(50, 770, head), (300, 25, number)]
    texts += [(50, 750 - _LEADING * row, line) for row, line in enumerate(lines)]
    return b"\n".join(_text_operators(x, y, line) for x, y, line in texts if line)


def _text_operators(x: int, y: int, line: str) -> bytes:
    escaped = line.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    return b"BT /F1 11 Tf %d %d Td (%s) Tj ET" % (x, y, escaped)


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
