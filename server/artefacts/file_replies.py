"""Files of artefacts as bodies and replies."""

from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import StreamingResponse

from callsheet.state.errors import Missing
from callsheet.state.uploads import FORMATS, MEDIA, FileType
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage

_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BODY: Final = {"requestBody": {"required": True, "content": _BYTES}}
"""OpenAPI description of a body that is a file."""


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
