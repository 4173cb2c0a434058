"""Files that people send: taken in by pieces, looked at whole, kept where every machine finds them."""

import asyncio
import hashlib
import tempfile
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, cast

from callsheet.state.errors import Invalid, Missing, TooLarge
from callsheet.state.pages.page import UPLOADS
from callsheet.state.uploads import MAX_PAGE, FileType, Ticket, create_ticket, media_type
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.artefacts.files import FileRecord
from callsheet.storage.redis.connection import Storage
from callsheet.tools.pages.uploads import upload_url

_IN_MEMORY: Final = 1_000_000
"""Bytes of a file that is coming that are kept in memory; what is more goes to a file without a name."""


@dataclass(frozen=True)
class UploadTarget:
    """The page that files come to."""

    storage: Storage
    artefact: Artefact
    owner: str


async def list_tickets(place: UploadTarget) -> list[dict[str, Any]]:
    """Return every ticket of the page with what came of it, oldest first."""
    there = await files.records(place.storage, place.artefact)
    given = {version.data["id"]: version.data for version in (await place.artefact.stream(UPLOADS)).versions}
    return [_shown(place, cast("Ticket", one), there.get(name)) for name, one in given.items()]


def open_ticket(file_type: FileType, name: str) -> Ticket:
    """Return a ticket for a file that a person brings without being asked; raises what `ticket` does."""
    return create_ticket(uuid.uuid4().hex, file_type, name, None, None)


async def get_ticket(place: UploadTarget, upload_id: str) -> Ticket:
    """Return a ticket of the page; raises `Missing` for none of this id."""
    for version in (await place.artefact.stream(UPLOADS)).versions:
        if version.data["id"] == upload_id:
            return cast("Ticket", version.data)
    raise Missing(
        f"page {place.artefact.id!r} has no upload {upload_id[:80]!r}", remedy="list the uploads of the page"
    )


async def store_requested(place: UploadTarget, asked: Ticket, sent: AsyncIterator[bytes]) -> dict[str, Any]:
    """Keep the file of a ticket; the same file again changes nothing.

    Raises `TooLarge` as soon as it is over the ticket's limit, `Invalid` for a file that is not what the
    ticket says, and `Conflict` where another file has come for it.
    """
    data = await read_body(sent, asked)
    record = await asyncio.to_thread(describe_file, asked["fileName"], data)
    await files.store(place.storage, place.artefact, asked["id"], files.split(data), record, MAX_PAGE)
    return _shown(place, asked, record)


async def store_unrequested(place: UploadTarget, asked: Ticket, sent: AsyncIterator[bytes]) -> dict[str, Any]:
    """Keep a file that nobody had asked for, and write its ticket down; raises what `take` does."""
    shown = await store_requested(place, asked, sent)
    new = NewVersion(UPLOADS, asked, place.owner, asked["id"], None, {"uploadId": asked["id"]})
    await place.artefact.create_version(new)
    return shown


async def read_body(sent: AsyncIterator[bytes], asked: Ticket) -> bytes:
    """Return a file that is coming; raises `TooLarge` as soon as it is over its ticket's limit.

    Raises `Invalid` for an empty one.
    """
    # Without a name, so nothing else can open it, and it is gone with the process.
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as held:
        size = 0
        async for piece in sent:
            size += len(piece)
            if size > asked["maxSize"]:
                raise TooLarge(
                    f"{asked['fileName']!r} has more than {asked['maxSize']} bytes, which is the limit",
                    remedy="send a smaller file",
                )
            await asyncio.to_thread(held.write, piece)
        if not size:
            raise Invalid(f"{asked['fileName']!r} is empty", remedy="send the bytes of the file as the body")
        held.seek(0)
        return await asyncio.to_thread(held.read)


def describe_file(name: str, data: bytes) -> FileRecord:
    """Return what is known of a file that came; raises `Invalid` for one that is not what its name says."""
    kind, digest = media_type(name, data), hashlib.sha256(data).hexdigest()
    return FileRecord(name=name, type=kind, size=len(data), sha256=digest)


def _shown(place: UploadTarget, asked: Ticket, record: FileRecord | None) -> dict[str, Any]:
    url = upload_url(place.artefact.id, asked["id"])
    return {
        "uploadId": asked["id"],
        "fileType": asked["fileType"],
        "fileName": asked["fileName"],
        "maxSize": asked["maxSize"],
        "allowedFormats": asked["allowedFormats"],
        "status": "ready" if record else "waiting",
        "url": url,
        "size": record["size"] if record else None,
        "mediaType": record["type"] if record else None,
        "sha256": record["sha256"] if record else None,
    }
