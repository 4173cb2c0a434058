"""Threads as files: export of a thread with its artefacts, and import from one."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from starlette.responses import Response, StreamingResponse

from callsheet.nodes.workflow import WorkflowSpec
from callsheet.server.artefacts import sources
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.schemas import ImportedThread
from callsheet.server.artefacts.uploads import describe_file
from callsheet.server.engine.workflows import Workflows
from callsheet.server.http.auth import current_owner, get_caller, public_config
from callsheet.server.http.context import app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, BodyLimit, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import UPLOAD_BODY, StrictRoute, identifier, receive_upload
from callsheet.server.langgraph.inputs import message_channels
from callsheet.state.errors import Invalid, Oversized, TooLarge
from callsheet.state.live_plan import PlanRules
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.storage.archive import counting, renaming
from callsheet.storage.archive import file as thread_file
from callsheet.storage.archive.export import ExportSource, export_artefact_lines, export_lines
from callsheet.storage.archive.file import ArtefactEntry, ThreadFile
from callsheet.storage.archive.importing import Importer
from callsheet.storage.archive.lines import ValueCodec
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.sandbox import SandboxTask, TaskLimits, run_task

MEDIA_TYPE: Final = "application/x-ndjson"
_COUNTED_BYTES: Final = 1_000_000
"""Largest file whose values are not counted before it is read."""
_COUNTING: Final = TaskLimits(memory_bytes=2**30, cpu_s=60.0, output_bytes=1_000)


@dataclass(frozen=True)
class ThreadArchive:
    """Dependencies of the export and import of threads."""

    storage: Storage
    saver: BaseCheckpointSaver[int]
    workflows: Workflows
    """Workflows served by this process."""
    version: str
    """Version of Callsheet, written to the first line of a file."""
    features: Mapping[str, object]
    """`FeatureApi` of the workflows that have one, by graph."""

    async def streams_of(self, artefact: Artefact) -> Sequence[str]:
        """Return every stream of an artefact."""
        return await self.workflow(artefact.kind)[0].artefact.all_streams_of(artefact)

    def rules_of(self, kind: str) -> PlanRules:
        """Return the rules of plans for a kind of artefact."""
        return self.workflow(kind)[0].turn.plan_rules

    def workflow(self, kind: str) -> tuple[WorkflowSpec[Any], FeatureApi | None]:
        """Return the workflow that creates artefacts of this kind; raises `Invalid` if none is served."""
        for name, spec in self.workflows.specs.items():
            if spec.artefact.kind == kind:
                feature = self.features.get(name)
                return spec, feature if isinstance(feature, FeatureApi) else None
        raise Invalid(
            f"no served workflow creates artefacts of kind {kind!r}",
            remedy="add its workflow to the langgraph.json named by CALLSHEET_CONFIG",
        )


async def export_file(archive: ThreadArchive, thread_id: str, owner: str) -> AsyncIterator[bytes]:
    """Return an iterator over the lines of the owner's exported thread.

    Raises `Missing` if the thread does not exist; the first line raises `Busy` while a run is active.
    """
    record = await threads.get(archive.storage, thread_id, owner)
    for name in await threads.artefacts_of(archive.storage, record.id):
        archive.workflow(name.partition(":")[0])
    return export_lines(_source(archive), record, {"callsheet": archive.version})


def export_artefact(archive: ThreadArchive, kind: str, name: str, owner: str) -> AsyncIterator[bytes]:
    """Return an iterator over the lines of an artefact whose thread was deleted; none if there is none.

    They are those of a thread without states.
    """
    artefact = Artefact(archive.storage, kind, name, owner)
    return export_artefact_lines(_source(archive), artefact, owner, {"callsheet": archive.version})


def _source(archive: ThreadArchive) -> ExportSource:
    return ExportSource(archive.storage, archive.saver, archive.streams_of, archive.rules_of)


async def import_file(
    archive: ThreadArchive, content: bytes, owner: str, *, new_id: str | None = None, trusted: bool = False
) -> Thread:
    """Import the thread in the file for `owner`, under `new_id` if given, and return its record.

    Raises as `read_file`, and `Conflict` for an existing thread or artefact.
    """
    file = await read_file(archive, content, owner, new_id=new_id, trusted=trusted)
    return await importer(archive).import_thread(file, owner)


async def read_file(
    archive: ThreadArchive, content: bytes, owner: str, *, new_id: str | None = None, trusted: bool = False
) -> ThreadFile:
    """Return the contents of a thread's file, checked completely, under `new_id` if given.

    `trusted` constructs types of any library, which may run code. Raises `Invalid` for an unacceptable file.
    """
    file = await _parse(content, owner, trusted=trusted)
    if new_id is not None:
        # In a worker thread, as the parsing: every element of every list gets its new id.
        renamed = await asyncio.to_thread(renaming.rename, file, identifier(new_id, "thread id"))
        file = await asyncio.to_thread(_copy_file_urls, archive, file, renamed)
    await _check_file(archive, file)
    return file.with_config(public_config(file.thread.config))


def importer(archive: ThreadArchive) -> Importer:
    """Return the writer of threads from files."""
    return Importer(archive.storage, archive.saver, archive.rules_of)


async def check_file(archive: ThreadArchive, content: bytes, owner: str, *, trusted: bool) -> list[str]:
    """Return what is in the file and exists: its thread, artefacts and plans; raise as `import_file`."""
    file = await _parse(content, owner, trusted=trusted)
    await _check_file(archive, file)
    return await importer(archive).existing(file, owner)


async def _parse(content: bytes, owner: str, *, trusted: bool) -> ThreadFile:
    if not trusted and len(content) > _COUNTED_BYTES:
        await _count_values(content, owner)
    # In a worker thread, since parsing a long file would block the event loop.
    return await asyncio.to_thread(thread_file.parse, content, ValueCodec(trusted=trusted))


async def _check_file(archive: ThreadArchive, file: ThreadFile) -> None:
    """Raise `Invalid` for a thread that this server cannot have."""
    identifier(file.thread.id, "thread id")
    if file.thread.graph and file.thread.graph not in archive.workflows.graphs:
        raise Invalid(
            f"the thread runs {file.thread.graph!r}, which is not served here",
            remedy=f"serve it, or use one of {', '.join(sorted(archive.workflows.graphs))}",
        )
    await asyncio.to_thread(_check, archive, file)
    public_config(file.thread.config)


async def _count_values(content: bytes, owner: str) -> None:
    """Raise `Invalid` for a file with too many values, and `TooLarge` for one that fits no memory."""
    task = SandboxTask("reading the thread's file", counting.__name__, "count_values", {}, content, owner)
    try:
        await run_task(task, _COUNTING)
    except Oversized as error:
        raise TooLarge(error.message, remedy="export a thread with a smaller state") from error


async def copy_with_artefacts(archive: ThreadArchive, record: Thread, new_id: str) -> None:
    """Copy a thread under `new_id` with its artefacts; the copy's states name the copied artefacts.

    A copy is written whole or not at all. Raises `Busy` while a run is active.
    """
    lines = [line async for line in await export_file(archive, record.id, record.owner)]
    # Its types come from our own storage, not from a stranger's file.
    await import_file(archive, b"".join(lines), record.owner, new_id=new_id, trusted=True)


def _check(archive: ThreadArchive, file: ThreadFile) -> None:
    if file.thread.graph:
        _check_messages(archive.workflows.graphs[file.thread.graph], file)
    for entry in file.artefacts:
        spec, feature = archive.workflow(entry.artefact.kind)
        identifier(entry.artefact.id, f"{spec.artefact.kind} id")
        _check_versions(spec, entry)
        sources.check_record(entry.artefact.facts)
        if feature:
            feature.check_artefact(entry)
        _check_files(entry, feature.max_file_bytes if feature else 0)


def _check_messages(graph: Pregel[Any, Any], file: ThreadFile) -> None:
    """Raise `Invalid` for a checkpoint with something else where the graph keeps its messages."""
    for entry in file.checkpoints:
        values = {} if entry.namespace else entry.checkpoint["channel_values"]
        for name in message_channels(graph).keys() & values.keys():
            value = values[name]
            if not (isinstance(value, list) and all(isinstance(each, BaseMessage) for each in value)):
                rule = f"{name!r} of checkpoint {entry.checkpoint['id']!r} is not a list of messages"
                raise Invalid(rule, remedy="export the thread again")


def _check_versions(spec: WorkflowSpec[Any], entry: ArtefactEntry) -> None:
    """Raise `Invalid`, or pydantic's error, for versions that no tool and no person could have written."""
    for version in entry.versions:
        if not spec.artefact.has_stream(version.stream):
            raise Invalid(
                f"{spec.artefact.kind!r} has no stream {version.stream!r}", remedy="export the thread again"
            )
        spec.artefact.check_version(version.stream, version.data)


def _check_files(entry: ArtefactEntry, max_bytes: int) -> None:
    """Raise `Invalid` or `TooLarge` for files that could not have been uploaded."""
    if sum(line.size for line, _ in entry.files) > max_bytes:
        raise TooLarge(
            f"the files of {entry.name!r} exceed {max_bytes} bytes in total", remedy="omit some of them"
        )
    for line, data in entry.files:
        if line.size > MAX_MATERIAL or describe_file(line.name, data)["type"] != line.type:
            raise Invalid(f"{line.name!r} is not of type {line.type!r}", remedy="export the thread again")


def _copy_file_urls(archive: ThreadArchive, old_file: ThreadFile, new_file: ThreadFile) -> ThreadFile:
    """Return `new_file` with the URLs of uploaded files pointing to the copies of its own artefacts."""
    entries = []
    for old, new in zip(old_file.artefacts, new_file.artefacts, strict=True):
        _, feature = archive.workflow(new.artefact.kind)
        urls: dict[str, str] = {}
        if feature and (url := feature.file_url):
            for line, _ in new.files:
                old_url = url(old.artefact.id, old_file.thread.id, line.id)
                urls[old_url] = url(new.artefact.id, new_file.thread.id, line.id)
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


router = APIRouter(prefix="/api/threads", route_class=StrictRoute, tags=["threads as files"])
_FILE: Final = {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "The file"}
_EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(400, 403, 404, 409, 500, 503, 504, reply=None),
    200: _FILE,
}
_IMPORT_POLICY: Final = replace(
    API_WRITE,
    audit="thread.import",
    body=BodyLimit(
        lambda settings: settings.max_import_bytes,
        "on the server's machine run: callsheet threads import FILE; or raise CALLSHEET_MAX_IMPORT_BYTES",
        spooled=True,
    ),
)
_IMPORT: Final = documented_responses(
    400, 403, 409, 413, 422, 500, 503, 504, reply=ImportedThread, status=201
)


@router.get("/{thread_id}/export", responses=_EXPORT, response_class=Response)
@with_policy(replace(API_READ, audit="thread.export"))
async def export_thread(thread_id: str, request: Request) -> Response:
    """Export a thread as one file: its states, and its artefacts with all versions.

    JSON lines with checksums. Refused with 409 while a run is active.
    """
    lines = await export_file(thread_archive(request), thread_id, current_owner(request))
    # Read the first line now, while an error can still set the status.
    first = await anext(lines)
    name = f"attachment; filename*=UTF-8''{quote(thread_id, safe='')}.jsonl"
    return StreamingResponse(
        _stream(first, lines), media_type=MEDIA_TYPE, headers={"Content-Disposition": name}
    )


@router.post(
    "/import",
    status_code=201,
    responses=_IMPORT,
    response_model=None,
    openapi_extra=UPLOAD_BODY,
)
@with_policy(_IMPORT_POLICY)
async def import_thread(
    request: Request,
    new_id: Annotated[
        str | None,
        Query(alias="as", description="New id of the thread and of its main artefact"),
    ] = None,
    trust: Annotated[
        bool | None, Query(description="Read types of any library; from the operator's terminal alone")
    ] = None,
) -> JsonReply:
    """Create a thread, owned by the caller, from the exported file, the body or in a form.

    All or nothing: 409 if the thread or one of its artefacts exists.
    """
    if trust:
        get_caller(request.scope).require("operator")
    with tempfile.TemporaryFile() as file:
        await receive_upload(request, file)
        file.seek(0)
        content = await asyncio.to_thread(file.read)
    record = await import_file(
        thread_archive(request), content, current_owner(request), new_id=new_id, trusted=bool(trust)
    )
    return JsonReply({"threadId": record.id, "graph": record.graph, "artefact": record.artefact or None}, 201)


async def _stream(first: bytes, following: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in following:
        yield line
        await asyncio.sleep(0)


def thread_archive(request: Request) -> ThreadArchive:
    """Return the dependencies of exports and imports."""
    ctx = app_context(request)
    return ThreadArchive(ctx.storage, ctx.saver, ctx.workflows, request.app.version, ctx.features)
