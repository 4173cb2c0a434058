"""Upload tickets for a page's files, with limits on size and format."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from typing_extensions import TypedDict

from callsheet.state import file_types
from callsheet.state.errors import Invalid

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
MAX_IMPORT: Final = 50_000_000
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
    detected = file_types.detect(data)
    if detected != _EQUIVALENT.get(extension, extension):
        raise Invalid(
            f"{name!r} contains {detected}, not {extension}", remedy="use the extension of its format"
        )
    return MEDIA[extension]
