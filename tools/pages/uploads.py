"""How a file comes to a page: a model asks for it, a person sends it (C23, C-R3)."""

import uuid
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict

from callsheet import storage
from callsheet.state.pages.page import UPLOADS
from callsheet.state.uploads import FileType, Ticket, create_ticket
from callsheet.storage.artefacts import files
from callsheet.tools.guard.call import Call
from callsheet.tools.pages.arguments import UploadFile
from callsheet.tools.registry import tool


@tool(schema=UploadFile, display="Asking for a file", reads=(UPLOADS,), writes=(UPLOADS,))
async def upload_file(args: UploadFile, call: Call) -> dict[str, Any]:
    """Get a file for the page, since you cannot carry one yourself.

    If the person has sent a file of this name already, the result has its src to use in an element. Else it
    has the url to which the person is to send it; tell them, and do not use the file before it is there.
    """
    asked = create_ticket(uuid.uuid4().hex, args.fileType, args.fileName, args.maxSize, args.allowedFormats)
    sent = await _sent(call, asked)
    given = sent or asked
    url = upload_url(call.scope.artefact, given["id"])
    told = {"uploadId": given["id"], "maxSize": asked["maxSize"], "allowedFormats": asked["allowedFormats"]}
    state = {"status": "ready", "src": url} if sent else {"status": "waiting", "url": url, "method": "PUT"}
    return await call.write(UPLOADS, given, result=told | state)


TOOLS: Final = (upload_file,)


def upload_url(page_id: str, upload_id: str) -> str:
    """Return where a file is sent to and got from."""
    return f"/api/pages/{quote(page_id, safe='')}/uploads/{upload_id}"


async def _sent(call: Call, asked: Ticket) -> Ticket | None:
    """The newest ticket for a file of this name that has come and fits what is asked."""
    there = await files.records(await storage.current(), call.artefact)
    versions = (await call.artefact.stream(UPLOADS)).versions
    for version in reversed(versions):
        known = there.get(version.data["id"])
        if known and known["name"] == asked["fileName"] and known["size"] <= asked["maxSize"]:
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
