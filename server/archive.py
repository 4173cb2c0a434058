"""Threads carried away and brought back: as a file, with the artefact they are about."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver
from pydantic import BaseModel, ConfigDict

from graphs import ad_creation, fact_narration, page_builder
from server.api import edits
from server.api.bodies import MixerBody
from server.auth import public_config
from server.lesson_edits import MOST_OF_LESSON, material_address
from server.turns import identifier
from server.uploads import described
from state import lesson, page
from state.errors import Invalid, TooLarge
from state.uploads import MAX_MATERIAL, MAX_PAGE, FileType, ticket
from storage import thread_file, thread_records
from storage.connection import Storage
from storage.thread_export import Source, exported
from storage.thread_file import Held, ThreadFile, VersionLine
from storage.thread_import import Importer
from storage.thread_lines import Codec
from storage.thread_records import Record
from tools.uploads import address

MEDIA: Final = "application/x-ndjson"
_SUBJECTS: Final = (ad_creation.SUBJECT, fact_narration.SUBJECT, page_builder.SUBJECT)
"""What threads may be about."""
_MOST: Final = {"page": MAX_PAGE, "lesson": MOST_OF_LESSON}
"""Most bytes of all files of an artefact, by its kind."""
_STREAMS: Final = {subject.kind: subject.streams for subject in _SUBJECTS} | {"page": page.STREAMS}


class _Ticket(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    fileType: FileType  # noqa: N815 -- as it is written
    fileName: str  # noqa: N815
    maxSize: int  # noqa: N815
    allowedFormats: list[str]  # noqa: N815


@dataclass(frozen=True)
class Shelf:
    """Where threads are kept, and what may run on them."""

    storage: Storage
    saver: BaseCheckpointSaver[int]
    graphs: frozenset[str]
    """Names of the graphs that are served."""
    version: str
    """Of this program, for the file's first line."""


async def export(shelf: Shelf, thread_id: str, owner: str) -> AsyncIterator[bytes]:
    """Return the lines of the owner's thread as a file.

    Raises `Missing` for a thread that is not there, before the first line; while a run is at it, `Busy`.
    """
    record = await thread_records.get(shelf.storage, thread_id, owner)
    source = Source(shelf.storage, shelf.saver, _STREAMS)
    return exported(source, record, {"callsheet": shelf.version})


async def bring(
    shelf: Shelf, content: bytes, owner: str, *, new_id: str | None = None, trusted: bool = False
) -> Record:
    """Make the thread in the file `owner`'s, under `new_id` if given, and return its record.

    Everything is checked before anything is written. `trusted` reads types of any library, which may run
    their code. Raises `Invalid` for a file that is no good, and `Conflict` for what is there already.
    """
    # In a thread: a long file would keep every other request waiting.
    file = await asyncio.to_thread(thread_file.parsed, content, Codec(trusted=trusted))
    if new_id is not None:
        file = _at_home(file, file.renamed(identifier(new_id, "thread id")))
    identifier(file.thread.id, "thread id")
    if file.thread.graph and file.thread.graph not in shelf.graphs:
        raise Invalid(
            f"the thread runs {file.thread.graph!r}, which is not served here",
            remedy=f"serve it, or use one of {', '.join(sorted(shelf.graphs))}",
        )
    await asyncio.to_thread(_check, file)
    config = public_config(file.thread.config)
    file = file.configured(config)
    return await Importer(shelf.storage, shelf.saver).imported(file, owner)


def _check(file: ThreadFile) -> None:
    for one in file.held:
        _check_artefact(one)
        _check_files(one)


def _check_artefact(held: Held) -> None:
    """Raise `Invalid`, or pydantic's error, for what no tool and no person could have written."""
    kind, facts = held.artefact.kind, held.artefact.facts
    if kind not in _STREAMS:
        raise Invalid(
            f"the thread is about a {kind!r}, which there is not here", remedy="use a newer version"
        )
    identifier(held.artefact.id, f"{kind} id")
    _number(facts, "spotSeconds")
    if held.artefact.mixer is not None:
        MixerBody.model_validate(held.artefact.mixer)
    newest: dict[str, Mapping[str, Any]] = {}
    for one in held.versions:
        if one.stream not in _STREAMS[kind]:
            raise Invalid(f"an {kind} has no stream {one.stream!r}", remedy="export the thread again")
        newest[one.stream] = one.data
    for one in held.versions:
        if kind == "lesson":
            lesson.checked(one.stream, one.data)
        elif kind == "page":
            _check_page(one)
        else:
            edits.normal(one.stream, one.data, newest, facts)


def _check_files(held: Held) -> None:
    """Raise `Invalid` or `TooLarge` for files that nobody could have sent."""
    most = _MOST.get(held.artefact.kind, 0)
    if sum(line.size for line, _ in held.files) > most:
        raise TooLarge(
            f"the files of {held.name!r} have at most {most} bytes together", remedy="leave some out"
        )
    for line, data in held.files:
        if line.size > MAX_MATERIAL or described(line.name, data)["type"] != line.type:
            raise Invalid(f"{line.name!r} is not of type {line.type!r}", remedy="export the thread again")


def _check_page(one: VersionLine) -> None:
    if one.stream == page.UPLOADS:
        given = _Ticket.model_validate(one.data)
        ticket(given.id, given.fileType, given.fileName, given.maxSize, given.allowedFormats)
    else:
        page.Page.model_validate(one.data.get("page"))


def _at_home(was: ThreadFile, now: ThreadFile) -> ThreadFile:
    """Return a renamed file whose artefacts show their own copies of what people sent."""
    held = []
    for old, new in zip(was.held, now.held, strict=True):
        places = {_address(old, was, line.id): _address(new, now, line.id) for line, _ in new.files}
        versions = tuple(one.model_copy(update={"data": _placed(one.data, places)}) for one in new.versions)
        held.append(replace(new, versions=versions))
    return replace(now, held=tuple(held))


def _address(held: Held, file: ThreadFile, file_id: str) -> str:
    if held.artefact.kind == "page":
        return address(held.artefact.id, file_id)
    return material_address(file.thread.id, file_id)


def _placed(data: dict[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    text = json.dumps(data)
    for old, new in places.items():
        text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    found: dict[str, Any] = json.loads(text)
    return found


def _number(facts: Mapping[str, str], name: str) -> None:
    try:
        float(facts.get(name, "0"))
    except ValueError as error:
        raise Invalid(f"{name} {facts[name]!r} is no number", remedy="export the thread again") from error
