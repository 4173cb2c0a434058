"""ZIP files as replies: the same content has the same bytes."""

import asyncio
import io
import zipfile
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Time of every file inside."""
ZIP: Final[dict[str, Any]] = {
    "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    "description": "A ZIP file",
}
"""OpenAPI of a reply that is a ZIP file."""


def download_headers(name: str) -> dict[str, str]:
    """Return the headers of a file that is saved under this name, never shown as a page."""
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }


async def zip_reply(files: Mapping[str, bytes], name: str) -> Response:
    """Return a ZIP file of the files as a reply."""
    content = await asyncio.to_thread(_zip_content, files)
    return Response(content, media_type="application/zip", headers=download_headers(name))


def _zip_content(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    return target.getvalue()
