"""Threads carried away and brought back: as a file, with the artefact they are about."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.nodes.workflow import WorkflowSpec
from callsheet.server.artefacts.turns import identifier
from callsheet.server.artefacts.uploads import describe_file
from callsheet.server.features import FeatureApi
from callsheet.server.http.auth import public_config
from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import file as thread_file
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads import threads
from callsheet.storage.threads.export import ExportSource, export_lines
from callsheet.storage.threads.file import ArtefactEntry, ThreadFile
from callsheet.storage.threads.importing import Importer
from callsheet.storage.threads.lines import ValueCodec
from callsheet.storage.threads.records import ThreadRecord

if TYPE_CHECKING:
    from callsheet.server.bootstrap import Workflows

MEDIA: Final = "application/x-ndjson"


@dataclass(frozen=True)
class ThreadArchive:
    """Export and import of threads."""

    storage: Storage
    saver: BaseCheckpointSaver[int]
    workflows: "Workflows"
    """The workflows that are served."""
    version: str
    """Version of the program, for the file's first line."""

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """The streams of every kind of artefact."""
        return {spec.kind: spec.all_streams for spec in self.workflows.specs.values()}

    def workflow(self, kind: str) -> tuple[WorkflowSpec, FeatureApi | None]:
        """Return the workflow that makes artefacts of a kind; raise `Invalid` where none is served."""
        for name, spec in self.workflows.specs.items():
            if spec.kind == kind:
                return spec, self.workflows.features.get(name)
        raise Invalid(
            f"no served workflow makes artefacts of kind {kind!r}",
            remedy="serve its workflow: CALLSHEET_CONFIG names the langgraph.json",
        )


async def export_thread(shelf: ThreadArchive, thread_id: str, owner: str) -> AsyncIterator[bytes]:
    """Return the lines of the owner's thread as a file.

    Raises `Missing` for a thread that is not there, before the first line; while a run is at it, `Busy`.
    """
    record = await thread_records.get(shelf.storage, thread_id, owner)
    for name in await threads.artefacts_of(shelf.storage, record.id):
        shelf.workflow(name.partition(":")[0])
    source = ExportSource(shelf.storage, shelf.saver, shelf.streams)
    return export_lines(source, record, {"callsheet": shelf.version})


async def import_thread(
    shelf: ThreadArchive, content: bytes, owner: str, *, new_id: str | None = None, trusted: bool = False
) -> ThreadRecord:
    """Make the thread in the file `owner`'s, under `new_id` if given, and return its record.

    Everything is checked before anything is written. `trusted` reads types of any library, which may run
    their code. Raises `Invalid` for a file that is no good, and `Conflict` for what is there already.
    """
    # In a thread: a long file would keep every other request waiting.
    file = await asyncio.to_thread(thread_file.parse, content, ValueCodec(trusted=trusted))
    if new_id is not None:
        file = _with_own_files(shelf, file, file.renamed(identifier(new_id, "thread id")))
    identifier(file.thread.id, "thread id")
    if file.thread.graph and file.thread.graph not in shelf.workflows.graphs:
        raise Invalid(
            f"the thread runs {file.thread.graph!r}, which is not served here",
            remedy=f"serve it, or use one of {', '.join(sorted(shelf.workflows.graphs))}",
        )
    await asyncio.to_thread(_check, shelf, file)
    config = public_config(file.thread.config)
    file = file.configured(config)
    return await Importer(shelf.storage, shelf.saver).import_thread(file, owner)


def _check(archive: ThreadArchive, file: ThreadFile) -> None:
    for entry in file.artefacts:
        spec, feature = archive.workflow(entry.artefact.kind)
        identifier(entry.artefact.id, f"{spec.kind} id")
        _check_versions(spec, entry)
        if feature:
            feature.check_artefact(entry)
        _check_files(entry, feature.max_file_bytes if feature else 0)


def _check_versions(spec: WorkflowSpec, entry: ArtefactEntry) -> None:
    """Raise `Invalid`, or pydantic's error, for versions that no tool and no person could have written."""
    for version in entry.versions:
        if version.stream not in spec.all_streams:
            raise Invalid(f"{spec.kind!r} has no stream {version.stream!r}", remedy="export the thread again")
        spec.check_version(version.stream, version.data)


def _check_files(entry: ArtefactEntry, max_bytes: int) -> None:
    """Raise `Invalid` or `TooLarge` for files that nobody could have sent."""
    if sum(line.size for line, _ in entry.files) > max_bytes:
        raise TooLarge(
            f"the files of {entry.name!r} have at most {max_bytes} bytes together", remedy="leave some out"
        )
    for line, data in entry.files:
        if line.size > MAX_MATERIAL or describe_file(line.name, data)["type"] != line.type:
            raise Invalid(f"{line.name!r} is not of type {line.type!r}", remedy="export the thread again")


def _with_own_files(archive: ThreadArchive, old_file: ThreadFile, new_file: ThreadFile) -> ThreadFile:
    """Return a renamed file whose artefacts refer to their own copies of uploaded files."""
    entries = []
    for old, new in zip(old_file.artefacts, new_file.artefacts, strict=True):
        _, feature = archive.workflow(new.artefact.kind)
        urls: dict[str, str] = {}
        if feature and (url := feature.file_url):
            urls = {
                url(old.artefact.id, old_file.thread.id, line.id): url(
                    new.artefact.id, new_file.thread.id, line.id
                )
                for line, _ in new.files
            }
        versions = tuple(
            version.model_copy(update={"data": _replace_urls(version.data, urls)}) for version in new.versions
        )
        entries.append(replace(new, versions=versions))
    return replace(new_file, artefacts=tuple(entries))


def _replace_urls(data: dict[str, Any], urls: Mapping[str, str]) -> dict[str, Any]:
    text = json.dumps(data)
    for old, new in urls.items():
        text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    replaced: dict[str, Any] = json.loads(text)
    return replaced
