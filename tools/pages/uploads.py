"""Uploads to a page: a model requests a file, a person sends it."""

import uuid
from collections.abc import Mapping
from typing import Any, Final, Literal, cast
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from callsheet import storage
from callsheet.state.pages.page import UPLOADS
from callsheet.state.uploads import FileType, Ticket, create_ticket
from callsheet.storage.artefacts import files
from callsheet.tools.call import Call
from callsheet.tools.pages.edits import Arguments
from callsheet.tools.registry import tool


class UploadFile(Arguments):
    """Arguments of `upload_file`."""

    fileType: Literal["image", "video", "document"]
    fileName: str = Field(description="Name with extension, such as logo.png", min_length=1, max_length=210)
    maxSize: int | None = Field(None, description="Leave out unless the person limits the size, in bytes")
    allowedFormats: list[str] | None = Field(
        None,
        description="Leave out unless the person names formats: extensions such as ['png', 'jpg']",
        min_length=1,
        max_length=10,
    )


@tool(schema=UploadFile, display="Asking for a file", reads=(UPLOADS,), writes=(UPLOADS,))
async def upload_file(args: UploadFile, call: Call) -> dict[str, Any]:
    """Request a file for the page; you cannot send one yourself.

    If the person has sent a file of this name, the result has its src for an element. Otherwise it has the
    url for the upload: tell the person, and do not use the file before it has arrived.
    """
    ticket = create_ticket(uuid.uuid4().hex, args.fileType, args.fileName, args.maxSize, args.allowedFormats)
    received = await _received_ticket(call, ticket)
    chosen = received or ticket
    url = upload_url(call.scope.artefact, chosen["id"])
    fields = {
        "uploadId": chosen["id"],
        "maxSize": ticket["maxSize"],
        "allowedFormats": ticket["allowedFormats"],
    }
    state = (
        {"status": "ready", "src": url} if received else {"status": "waiting", "url": url, "method": "PUT"}
    )
    return await call.write(UPLOADS, chosen, result=fields | state)


TOOLS: Final = (upload_file,)


def upload_url(page_id: str, upload_id: str) -> str:
    """Return the path of a file, for upload and download."""
    return f"/api/pages/{quote(page_id, safe='')}/uploads/{upload_id}"


async def _received_ticket(call: Call, ticket: Ticket) -> Ticket | None:
    """Return the newest ticket whose file has this name, has arrived and is small enough."""
    stored = await files.records(await storage.current(), call.artefact)
    versions = (await call.artefact.stream(UPLOADS)).versions
    for version in reversed(versions):
        known = stored.get(version.data["id"])
        if known and known["name"] == ticket["fileName"] and known["size"] <= ticket["maxSize"]:
            return cast("Ticket", version.data)
    return None


class _Ticket(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    fileType: FileType
    fileName: str
    maxSize: int
    allowedFormats: list[str]


def check_ticket(data: Mapping[str, Any]) -> None:
    """Raise `Invalid`, or pydantic's error, for a ticket that `create_ticket` could not have made."""
    ticket = _Ticket.model_validate(data)
    create_ticket(ticket.id, ticket.fileType, ticket.fileName, ticket.maxSize, ticket.allowedFormats)
