"""File of everything that an owner has: JSON lines, with the file of each thread between them as it is."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, NamedTuple

from callsheet.state.errors import Invalid
from callsheet.storage.archive.lines import FORMAT as THREAD_FORMAT
from callsheet.storage.archive.lines import LineWriter, parse_line

FORMAT: Final = "callsheet-owner"
VERSION: Final = 1
THREAD: Final = "thread-file"
"""Type of the line before a thread's file."""
LEFT_OUT: Final = "left-out"
"""Type of the line about a thread that could not be exported, with the reason."""
_REMEDY: Final = "export the data again"


class FileEntry(NamedTuple):
    """A record, or a thread's file."""

    type: str
    data: dict[str, Any]
    content: bytes = b""
    """The lines of the thread's file."""


class OwnerFileWriter:
    """Encoder of an owner's file."""

    def __init__(self) -> None:
        self._writer = LineWriter()

    def header(self, about: Mapping[str, Any]) -> bytes:
        """Return the first line."""
        return self._writer.line("header", {"format": FORMAT, "version": VERSION, **about})

    def entry(self, entry: FileEntry) -> bytes:
        """Return the line of an entry, with a thread's file behind it."""
        line = self._writer.line(entry.type, entry.data)
        return line + self._writer.insert(entry.content) if entry.content else line

    def end(self) -> bytes:
        """Return the last line, by which a reader knows that the file is complete."""
        return self._writer.end()


def read_entries(file: IO[bytes]) -> Iterator[FileEntry]:
    """Yield the entries of a file from its beginning; one thread's file is in memory at a time.

    Raises `Invalid` for another file, and for one that is damaged or was cut off: consume all before any
    is used.
    """
    file.seek(0)
    digest, number, is_complete, kind = hashlib.sha256(), 0, False, ""
    lines = iter(enumerate(file, 1))
    for number, line in lines:
        if is_complete:
            raise Invalid("the file is damaged: lines follow the last one", remedy=_REMEDY)
        kind, data = _parse_first(line) if number == 1 else parse_line(number, line)
        if kind == "end":
            is_complete = data == {"lines": number - 1, "sha256": digest.hexdigest()}
            if not is_complete:
                raise Invalid("the file is damaged: its last line does not match the others", remedy=_REMEDY)
            continue
        digest.update(line)
        if kind == THREAD:
            content = b"".join(_thread_lines(lines))
            digest.update(content)
            yield FileEntry(kind, data, content)
        elif number > 1:
            yield FileEntry(kind, data)
    if not is_complete:
        raise Invalid("the file is incomplete: its last line is missing", remedy=_REMEDY)


def _parse_first(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        kind, data = parse_line(1, line)
    except Invalid:
        kind, data = "", {}
    if data.get("format") == THREAD_FORMAT:
        raise Invalid("the file is that of one thread", remedy="import it with: callsheet threads import")
    if kind != "header" or data.get("format") != FORMAT:
        raise Invalid("the file is no owner's data", remedy="send a file written by `callsheet data export`")
    if data.get("version") != VERSION:
        raise Invalid(
            f"the file has version {data.get('version')!r} of the format; only {VERSION} can be read",
            remedy="export it again with this version of Callsheet",
        )
    return kind, data


def _thread_lines(lines: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    for number, line in lines:
        yield line
        if parse_line(number, line)[0] == "end":
            return
