"""Threads carried away and brought back: as a file, with the artefact they are about."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from graphs import ad_creation, fact_narration, page_builder
from server.api import edits
from server.api.bodies import MixerBody
from server.auth import public_config
from server.turns import identifier
from state import lesson
from state.errors import Invalid
from state.page import Page
from storage import thread_file, thread_records
from storage.connection import Storage
from storage.thread_export import Source, exported
from storage.thread_file import ThreadFile
from storage.thread_import import Importer
from storage.thread_lines import Codec
from storage.thread_records import Record

MEDIA: Final = "application/x-ndjson"
_SUBJECTS: Final = (ad_creation.SUBJECT, fact_narration.SUBJECT, page_builder.SUBJECT)
"""What threads may be about."""
_STREAMS: Final = {subject.kind: subject.streams for subject in _SUBJECTS}


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
        file = file.renamed(identifier(new_id, "thread id"))
    identifier(file.thread.id, "thread id")
    if file.thread.graph and file.thread.graph not in shelf.graphs:
        raise Invalid(
            f"the thread runs {file.thread.graph!r}, which is not served here",
            remedy=f"serve it, or use one of {', '.join(sorted(shelf.graphs))}",
        )
    if file.artefact:
        _check_artefact(file)
    config = public_config(file.thread.config)
    file = file.configured(config)
    return await Importer(shelf.storage, shelf.saver).imported(file, owner)


def _check_artefact(file: ThreadFile) -> None:
    """Raise `Invalid`, or pydantic's error, for what no tool and no person could have written."""
    assert file.artefact  # noqa: S101 -- looked at by the caller
    kind, facts = file.artefact.kind, file.artefact.facts
    if kind not in _STREAMS:
        raise Invalid(
            f"the thread is about a {kind!r}, which there is not here", remedy="use a newer version"
        )
    identifier(file.artefact.id, f"{kind} id")
    _number(facts, "spotSeconds")
    if file.artefact.mixer is not None:
        MixerBody.model_validate(file.artefact.mixer)
    newest: dict[str, Mapping[str, Any]] = {}
    for one in file.versions:
        if one.stream not in _STREAMS[kind]:
            raise Invalid(f"an {kind} has no stream {one.stream!r}", remedy="export the thread again")
        newest[one.stream] = one.data
    for one in file.versions:
        if kind == "lesson":
            lesson.checked(one.stream, one.data)
        elif kind == "page":
            Page.model_validate(one.data.get("page"))
        else:
            edits.normal(one.stream, one.data, newest, facts)


def _number(facts: Mapping[str, str], name: str) -> None:
    try:
        float(facts.get(name, "0"))
    except ValueError as error:
        raise Invalid(f"{name} {facts[name]!r} is no number", remedy="export the thread again") from error
