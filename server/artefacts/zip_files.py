"""ZIP files as replies: the same content has the same bytes."""

import asyncio
import os
import re
import tempfile
import zipfile
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import IO, Any, Final
from urllib.parse import quote

from starlette.responses import Response

from callsheet.server.http.replies import StreamingReply
from callsheet.tools.guard.sandbox import owner_turn

_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Time of every file inside."""
_PIECE_BYTES: Final = 1_000_000
_NAME_BYTES: Final = 120
_UNSAFE: Final = re.compile(r'[\\/:*?"<>|\x00-\x1f\x7f]')
ZIP: Final[dict[str, Any]] = {
    "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    "description": "A ZIP file",
}
"""OpenAPI of a reply that is a ZIP file."""


def download_headers(name: str, *, shown: bool = False) -> dict[str, str]:
    """Return the headers of a file that is saved under this name; unless `shown`, never shown as a page."""
    place = "inline" if shown else "attachment"
    return {
        "Content-Disposition": f"{place}; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
    }


def file_name(title: str, ending: str) -> str:
    """Return the name of a file that is called by a title: it names no folder and fits every file system."""
    plain = _UNSAFE.sub(" ", title).encode()[:_NAME_BYTES].decode(errors="ignore")
    return f"{' '.join(plain.split()).strip('. ') or 'file'}.{ending}"


async def zip_reply(
    files: Mapping[str, bytes] | AsyncIterable[tuple[str, bytes]], name: str, owner: str
) -> Response:
    """Return a ZIP file of the files as a reply; it is on disk until it is sent. An owner's take turns."""
    pairs = _pairs(files) if isinstance(files, Mapping) else files
    target = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        async with owner_turn(f"zip:{owner}"):
            size = await _write_zip(target, pairs)
    except BaseException:
        target.close()
        raise
    headers = {**download_headers(name), "Content-Length": str(size)}
    return StreamingReply(_content(target), media_type="application/zip", headers=headers)


async def _pairs(files: Mapping[str, bytes]) -> AsyncIterator[tuple[str, bytes]]:
    for pair in files.items():
        yield pair


async def _write_zip(target: IO[bytes], files: AsyncIterable[tuple[str, bytes]]) -> int:
    """Write the ZIP file, and return its size."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        async for name, content in files:
            info = zipfile.ZipInfo(name, _TIME)
            await asyncio.to_thread(archive.writestr, info, content, zipfile.ZIP_DEFLATED)
    return target.seek(0, os.SEEK_END)


async def _content(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece
