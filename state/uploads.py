"""Upload tickets for a page's files, with limits on size and format.

A file's type is detected from all of its bytes, never from its name. Each format is parsed to its last byte,
so that nothing can be appended to an image, and files that another program might read as a second format are
refused.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from typing_extensions import TypedDict

from callsheet.state.errors import Invalid

_PNG: Final = b"\x89PNG\r\n\x1a\n"
# Content that browsers and interpreters recognise anywhere in a file.
_ACTIVE: Final = re.compile(
    rb"<\s{0,64}(script|html|iframe|svg|body|object|embed)[\s>/]|<\?php|<%@", re.IGNORECASE
)
_MARKUP: Final = re.compile(
    rb"(?<!\s)\s*<(!doctype|!--|html|head|body|script|svg|\?xml|\?php)", re.IGNORECASE
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_ARCHIVE_END: Final = b"PK\x05\x06"
_NEAR: Final = 66_000
"""Bytes from the end within which a ZIP's directory may end."""
_STEP: Final = 1_000_000
_OVERLAP: Final = 100
"""More than the longest match."""
_EARLY: Final = 1024
"""Bytes from the beginning within which readers look for a PDF header."""


def detect_type(data: bytes) -> str:
    """Return `png`, `jpg`, `gif`, `webp`, `mp4`, `webm`, `pdf` or `txt`.

    Raises `Invalid` for a file that is incomplete, of another type, or of two types at once.
    """
    kind = next((name for name, fits in _CHECKS.items() if fits(data)), None)
    if kind is None:
        raise Invalid(
            "the file is incomplete or of an unsupported type",
            remedy=f"send one of {', '.join(_CHECKS)}; a text must be UTF-8",
        )
    if kind not in {"txt", "pdf"} and (_is_active(data) or b"%PDF-" in data[:_EARLY]):
        raise Invalid(
            f"the {kind} file contains a program or a document", remedy="export it again as an image"
        )
    if _ARCHIVE_END in data[-_NEAR:]:
        raise Invalid(f"the {kind} file is an archive as well", remedy="export it again without the archive")
    return kind


def _is_active(data: bytes) -> bool:
    """Return whether browsers and interpreters may find a program in a file."""
    # A search holds the interpreter's lock to its end, so it goes in steps.
    return any(_ACTIVE.search(data, start, start + _STEP + _OVERLAP) for start in range(0, len(data), _STEP))


def _number(data: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _png(data: bytes) -> bool:
    at = len(_PNG)
    while data.startswith(_PNG) and at + 12 <= len(data):
        kind, end = data[at + 4 : at + 8], at + 12 + _number(data, at)
        if kind == b"IEND":
            return end == len(data)
        at = end
    return False


def _jpg(data: bytes) -> bool:
    at = 2
    while data.startswith(b"\xff\xd8\xff") and at + 4 <= len(data) and data[at] == 0xFF:  # noqa: PLR2004 -- a marker
        if data[at + 1] == 0xDA:  # noqa: PLR2004 -- start of scan
            return data.find(b"\xff\xd9", at) == len(data) - 2
        at += 2 + _number(data, at + 2, 2)
    return False


def _gif(data: bytes) -> bool:
    if data[:6] not in {b"GIF87a", b"GIF89a"} or len(data) < 14:  # noqa: PLR2004 -- header and trailer
        return False
    at = 13 + _table(data[10])
    while at < len(data) and data[at] in b"\x21\x2c":
        # An extension has a label; an image has a position, a table and a code size.
        image = data[at] == 0x2C and at + 10 < len(data)  # noqa: PLR2004 -- an image begins
        at = _blocks(data, at + 11 + _table(data[at + 9]) if image else at + 2)
    return at == len(data) - 1 and data[at] == 0x3B  # noqa: PLR2004 -- the trailer


def _table(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _blocks(data: bytes, at: int) -> int:
    while at < len(data) and data[at]:
        at += 1 + data[at]
    return at + 1


def _webp(data: bytes) -> bool:
    size = int.from_bytes(data[4:8], "little")
    return data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) in {size + 8, size + 8 + size % 2}


def _mp4(data: bytes) -> bool:
    at = 0
    while data[4:8] == b"ftyp" and at + 8 <= len(data):
        size = _number(data, at)
        if size == 0:
            return True
        size = _number(data, at + 8, 8) if size == 1 else size
        if size < 8:  # noqa: PLR2004 -- a box has a size and a name
            return False
        at += size
    return at > 0 and at == len(data)


def _webm(data: bytes) -> bool:
    return data.startswith(b"\x1a\x45\xdf\xa3") and b"webm" in data[:64]


def _pdf(data: bytes) -> bool:
    return data.startswith(b"%PDF-") and b"%%EOF" in data[-_EARLY:]


def _txt(data: bytes) -> bool:
    # A text that begins like another format is a damaged file of it, or pretends to be one.
    if data.startswith((b"GIF8", b"%PDF-", b"RIFF")) or _MARKUP.match(data.removeprefix(b"\xef\xbb\xbf")):
        return False
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return bool(text) and not _CONTROLS.search(text)


_CHECKS: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "png": _png,
    "jpg": _jpg,
    "gif": _gif,
    "webp": _webp,
    "mp4": _mp4,
    "webm": _webm,
    "pdf": _pdf,
    "txt": _txt,
}


FileType = Literal["image", "video", "document"]
MEDIA: Final = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "pdf": "application/pdf",
    "txt": "text/plain; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}
"""Media types by file extension."""
FORMATS: Final[Mapping[FileType, tuple[str, ...]]] = {
    "image": ("png", "jpg", "jpeg", "gif", "webp"),
    "video": ("mp4", "webm"),
    "document": ("pdf", "txt", "csv"),
}
LIMITS: Final = {"image": 5_000_000, "video": 25_000_000, "document": 10_000_000}
"""Maximum bytes of a file, by type."""
MAX_FILE: Final = max(LIMITS.values())
MAX_IMPORT: Final = 100_000_000
"""Bytes of a file of campaigns."""
MAX_MATERIAL: Final = 50 * 1024 * 1024
"""Maximum bytes of a lesson's source file."""
MAX_PAGE: Final = 100_000_000
"""Maximum bytes of all files of one page."""
_EQUIVALENT: Final = {"jpeg": "jpg", "csv": "txt"}
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\:*?\"<>|]{1,200}\.([A-Za-z0-9]{1,8})")


class Ticket(TypedDict):
    """Permission to upload one file."""

    id: str
    fileType: FileType
    fileName: str
    maxSize: int
    """Bytes."""
    allowedFormats: list[str]


def create_ticket(
    ticket_id: str, file_type: FileType, name: str, max_bytes: int | None, formats: Sequence[str] | None
) -> Ticket:
    """Return a ticket; raises `Invalid` for a name, size or format that is not allowed."""
    limit, supported = LIMITS[file_type], FORMATS[file_type]
    if max_bytes is not None and not 0 < max_bytes <= limit:
        raise Invalid(
            f"maxSize {max_bytes} is not allowed: a file of type {file_type!r} has at most {limit} bytes",
            remedy=f"give 1 to {limit}, or leave it out",
        )
    extensions = [one.strip().lower().removeprefix(".").rpartition("/")[2] for one in formats or supported]
    if unknown := [one for one in extensions if one not in supported]:
        raise Invalid(
            f"format {unknown[0][:40]!r} is not allowed for {file_type!r}",
            remedy=f"use one of {', '.join(supported)}",
        )
    if file_extension(name) not in extensions:
        raise Invalid(
            f"fileName {name[:80]!r} does not end in one of {', '.join(extensions)}",
            remedy=f"use the extension of its format: {', '.join(supported)} are allowed for {file_type!r}",
        )
    return Ticket(
        id=ticket_id, fileType=file_type, fileName=name, maxSize=max_bytes or limit, allowedFormats=extensions
    )


def file_extension(name: str) -> str:
    """Return the extension of a file name in lower case; raises `Invalid` for a path or a malformed name."""
    match = _NAME.fullmatch(name)
    if match is None or name.startswith(".") or ".." in name or not name.isprintable():
        raise Invalid(
            f"fileName {name[:80]!r} is not a plain file name",
            remedy="send a name with an extension, without folders",
        )
    return match[1].lower()


def media_type(name: str, data: bytes) -> str:
    """Return the media type of an uploaded file; raises `Invalid` if its content does not match its name."""
    extension = file_extension(name)
    detected = detect_type(data)
    if detected != _EQUIVALENT.get(extension, extension):
        raise Invalid(
            f"{name!r} contains {detected}, not {extension}", remedy="use the extension of its format"
        )
    return MEDIA[extension]
