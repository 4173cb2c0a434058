"""Files of artefacts: received in pieces, checked, stored in Redis, and sent."""

import asyncio
import hashlib
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import IO, Any, Final, cast
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import StreamingResponse

from callsheet.server.http.requests import receive_upload
from callsheet.state.errors import Invalid, Missing, TooLarge
from callsheet.state.pages.page import UPLOADS
from callsheet.state.uploads import FORMATS, MAX_PAGE, MEDIA, FileType, Ticket, create_ticket, media_type
from callsheet.state.versions import origin
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.artefacts.files import FileRecord
from callsheet.storage.redis.connection import Storage
from callsheet.tools.pages.uploads import upload_url

FORM_ROOM: Final = 65_536
"""Bytes of a form beside its file: the limit of a body is that of the file and this."""


def binary_responses(*types: FileType) -> dict[str, Any]:
    """Return the OpenAPI description of a reply that is a file of one of these types."""
    media = sorted({MEDIA[version].partition(";")[0] for kind in types for version in FORMATS[kind]})
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in media}
    return {"content": content, "description": "The file"}


async def file_reply(storage: Storage, artefact: Artefact, file_id: str) -> StreamingResponse:
    """Return a file of an artefact as a download; raise `Missing` if there is none."""
    record = (await files.records(storage, artefact)).get(file_id)
    if record is None:
        raise Missing(
            f"{artefact.kind} {artefact.id!r} has no file {file_id[:80]!r}",
            remedy="list the uploads; the file may not have been sent yet",
        )
    body: AsyncIterator[bytes] = files.pieces(storage, artefact, file_id)
    return StreamingResponse(
        body,
        media_type=record["type"],
        headers={
            "Content-Length": str(record["size"]),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(record['name'], safe='')}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, max-age=31536000, immutable",
            "ETag": f'"{record["sha256"]}"',
        },
    )


_IN_MEMORY: Final = 1_000_000
"""Bytes of an upload kept in memory; a larger one goes to an unnamed temporary file."""


@dataclass(frozen=True)
class UploadTarget:
    """The artefact that receives the files."""

    storage: Storage
    artefact: Artefact
    owner: str


async def list_tickets(target: UploadTarget) -> list[dict[str, Any]]:
    """Return every ticket with the state of its file, oldest first."""
    records = await files.records(target.storage, target.artefact)
    tickets = {
        version.data["id"]: version.data for version in (await target.artefact.stream(UPLOADS)).versions
    }
    return [_ticket_view(target, cast("Ticket", one), records.get(name)) for name, one in tickets.items()]


def open_ticket(file_type: FileType, name: str) -> Ticket:
    """Return a ticket for an unrequested file; raise what `create_ticket` raises."""
    return create_ticket(uuid.uuid4().hex, file_type, name, None, None)


async def get_ticket(target: UploadTarget, upload_id: str) -> Ticket:
    """Return the ticket of this id; raise `Missing` if there is none."""
    for version in (await target.artefact.stream(UPLOADS)).versions:
        if version.data["id"] == upload_id:
            return cast("Ticket", version.data)
    raise Missing(
        f"page {target.artefact.id!r} has no upload {upload_id[:80]!r}", remedy="list the uploads of the page"
    )


async def store_requested(target: UploadTarget, ticket: Ticket, data: bytes) -> dict[str, Any]:
    """Store the file of a ticket; the same file again changes nothing.

    Raises `Invalid` for a file of another type, and `Conflict` if the ticket has another file.
    """
    record = await asyncio.to_thread(describe_file, ticket["fileName"], data)
    await files.store(target.storage, target.artefact, ticket["id"], files.split(data), record, MAX_PAGE)
    return _ticket_view(target, ticket, record)


async def store_unrequested(target: UploadTarget, ticket: Ticket, data: bytes) -> dict[str, Any]:
    """Store an unrequested file and its ticket; raise what `store_requested` raises."""
    shown = await store_requested(target, ticket, data)
    new = NewVersion(
        UPLOADS,
        ticket,
        target.owner,
        ticket["id"],
        None,
        {"uploadId": ticket["id"]},
        origin=origin("person", f"upload of {ticket['fileName']}"),
    )
    await target.artefact.create_version(new)
    return shown


async def receive_file(
    request: Request, name: str | None, ticket_of: Callable[[str], Ticket]
) -> tuple[Ticket, bytes]:
    """Return the request's file and its ticket: the body itself, or the one file of a form of a browser.

    `name` is the file's, by default that of the form. Raises `TooLarge` as soon as the file exceeds its
    ticket's limit, and `Invalid` for an empty file, one without a name, and what `receive_upload` refuses.
    """
    ticket = ticket_of(name) if name else None
    # An unnamed file cannot be opened by others, and disappears with the process.
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        limited = _LimitedFile(file, ticket)
        upload = await receive_upload(request, cast("IO[bytes]", limited))
        ticket = limited.ticket = ticket or ticket_of(_base_name(upload.name))
        limited.check()
        if not limited.size:
            raise Invalid(f"{ticket['fileName']!r} is empty", remedy="send the bytes of the file as the body")
        file.seek(0)
        return ticket, await asyncio.to_thread(file.read)


class _LimitedFile:
    """A file that refuses more bytes than its ticket allows."""

    def __init__(self, file: IO[bytes], ticket: Ticket | None) -> None:
        self._file = file
        self.ticket = ticket
        """None until the name is known; then the limit of the body alone holds."""
        self.size = 0

    def write(self, piece: bytes) -> int:
        """Write a piece."""
        self.size += len(piece)
        self.check()
        return self._file.write(piece)

    def check(self) -> None:
        """Raise `TooLarge` beyond the ticket's limit."""
        if self.ticket and self.size > self.ticket["maxSize"]:
            name, limit = self.ticket["fileName"], self.ticket["maxSize"]
            rule = f"{name!r} has more than {limit} bytes, which is the limit"
            raise TooLarge(rule, remedy="send a smaller file")


def _base_name(path: str) -> str:
    """Return the name of a form's file without folders, which some browsers send."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if not name:
        raise Invalid(
            "the file has no name", remedy="send its name as `fileName`, or a form whose file has a name"
        )
    return name


def describe_file(name: str, data: bytes) -> FileRecord:
    """Return the record of a file; raise `Invalid` if its content does not match its name."""
    file_type, digest = media_type(name, data), hashlib.sha256(data).hexdigest()
    return FileRecord(name=name, type=file_type, size=len(data), sha256=digest)


def _ticket_view(target: UploadTarget, ticket: Ticket, record: FileRecord | None) -> dict[str, Any]:
    url = upload_url(target.artefact.id, ticket["id"])
    return {
        "uploadId": ticket["id"],
        "fileType": ticket["fileType"],
        "fileName": ticket["fileName"],
        "maxSize": ticket["maxSize"],
        "allowedFormats": ticket["allowedFormats"],
        "status": "ready" if record else "waiting",
        "url": url,
        "size": record["size"] if record else None,
        "mediaType": record["type"] if record else None,
        "sha256": record["sha256"] if record else None,
    }
