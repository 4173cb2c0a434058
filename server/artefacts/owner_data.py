"""Everything that an owner has as one file: export, and import where none of it exists."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import IO, Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.responses import Response, StreamingResponse

from callsheet.server.artefacts import archive as thread_archives
from callsheet.server.artefacts.archive import MEDIA_TYPE, ThreadArchive
from callsheet.server.artefacts.schemas import ImportedData
from callsheet.server.http.auth import current_owner, get_caller
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import API_READ, API_WRITE, BodyLimit, with_policy
from callsheet.server.http.replies import JsonReply
from callsheet.server.http.requests import UPLOAD_BODY, StrictRoute, identifier, receive_upload
from callsheet.server.langgraph.crons import next_due_ms
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import Filters
from callsheet.state.errors import Busy, CallsheetError, Conflict, Fenced, Invalid, Missing, StorageDown
from callsheet.storage import indexes, thread_search
from callsheet.storage.archive.owner_file import LEFT_OUT, THREAD, FileEntry, OwnerFileWriter, read_entries
from callsheet.storage.archive.owner_records import CHUNK, RecordKind, Row, record_kinds
from callsheet.storage.campaigns.library import max_campaigns, may_have_campaigns
from callsheet.storage.crons import Cron
from callsheet.storage.redis import caller_keys, keys
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.leases import KeyLease
from callsheet.storage.redis.scripts import execute
from callsheet.storage.threads import threads
from callsheet.tools.campaigns import libraries

_NAMED: Final = 20
"""Most existing things that a refusal names."""
_CAMPAIGNS: Final = "campaign_search"
"""Graph of the workflow that has a library."""
_NO_CAMPAIGNS: Final[Mapping[str, str]] = {
    "thread": "campaigns",
    "kind": "campaign",
    "reason": f"{_CAMPAIGNS!r} is not served where the data was exported; export it from where it is",
}
"""Line about the campaigns of an owner that a server without their workflow leaves out."""
_BODIES: Final = 10
"""An owner's file may be so many times as large as a thread's."""


@dataclass(frozen=True)
class CampaignRecords:
    """Campaigns of the owner's own library."""

    storage: Storage
    name = "campaign"

    async def read(self, owner: str) -> AsyncIterator[Row]:
        """Yield each campaign, newest first."""
        index = await libraries.own_library(self.storage, owner)
        if await index.count():
            async for page in index.export(Filters()):
                for campaign in page:
                    yield campaign.model_dump(mode="json")

    def check(self, row: Row) -> None:
        """Raise pydantic's error for a row that is no campaign."""
        Campaign.model_validate(row)

    async def existing(self, owner: str, rows: Sequence[Row]) -> list[str]:
        """Return the ids that the owner has already."""
        index = await libraries.own_library(self.storage, owner)
        return [campaign.id for campaign in await index.get([row["id"] for row in rows])]

    async def most(self, owner: str) -> int | None:
        """Return how many more the owner may have; None for no limit."""
        limit = max_campaigns()
        return limit - await (await libraries.own_library(self.storage, owner)).count() if limit else None

    async def write(self, owner: str, rows: Sequence[Row]) -> AsyncIterator[Row]:
        """Write campaigns that do not exist, and yield their ids."""
        index = await libraries.own_library(self.storage, owner)
        existing = {campaign.id for campaign in await index.get([row["id"] for row in rows])}
        new = [row for row in rows if row["id"] not in existing]
        # Before they are written: some may be when it fails.
        for row in new:
            yield {"id": row["id"]}
        await index.put([Campaign.model_validate(row) for row in new])

    async def remove(self, owner: str, rows: Sequence[Row]) -> None:
        """Remove campaigns. Twice is safe."""
        await (await libraries.own_library(self.storage, owner)).delete([row["id"] for row in rows])


@dataclass(frozen=True)
class OwnerData:
    """Export and import of an owner's data."""

    ctx: AppContext
    archive: ThreadArchive
    owner: str

    @property
    def kinds(self) -> dict[str, RecordKind]:
        """The kinds of records by name, in the order of the file."""
        storage, most = self.ctx.storage, self.ctx.settings.crons_per_owner
        kinds = [*record_kinds(storage, _next_ms, most)]
        # Their search is an extra that a server without the workflow need not have.
        campaigns = [CampaignRecords(storage)] if _CAMPAIGNS in self.ctx.workflows.graphs else []
        return {kind.name: kind for kind in (*kinds, *campaigns)}

    async def export(self) -> AsyncIterator[bytes]:
        """Yield the file; what cannot be exported is left out, and named in it with the reason."""
        writer = OwnerFileWriter()
        yield writer.header({"callsheet": self.archive.version, "owner": self.owner})
        for kind in self.kinds.values():
            async for row in kind.read(self.owner):
                yield writer.entry(FileEntry(kind.name, row))
        if CampaignRecords.name not in self.kinds and await may_have_campaigns(self.ctx.storage, self.owner):
            yield writer.entry(FileEntry(LEFT_OUT, {**_NO_CAMPAIGNS}))
        async for entry in self._threads():
            yield writer.entry(entry)
        yield writer.end()

    async def _threads(self) -> AsyncIterator[FileEntry]:
        storage, owner = self.ctx.storage, self.owner
        await thread_search.enter_announced(storage.redis, owner)
        exported: set[str] = set()
        async for thread in _names(storage, keys.owned_threads(owner)):
            try:
                lines = await thread_archives.export_file(self.archive, thread, owner)
                content = b"".join([line async for line in lines])
                exported |= set(await threads.artefacts_of(storage, thread))
                yield FileEntry(THREAD, {"id": thread, "artefactOnly": False}, content)
            except StorageDown:
                raise
            except CallsheetError as error:
                # One that was deleted meanwhile is not missed; part of another one may be.
                if not await threads.belongs_to(storage, thread, owner):
                    continue
                exported |= set(await threads.artefacts_of(storage, thread))
                yield FileEntry(LEFT_OUT, {"thread": thread, "reason": error.message})
        for kind in dict.fromkeys(spec.artefact.kind for spec in self.ctx.workflows.specs.values()):
            async for entry in self._artefacts(kind, exported):
                yield entry

    async def _artefacts(self, kind: str, exported: Collection[str]) -> AsyncIterator[FileEntry]:
        """Yield the files of the artefacts whose thread was deleted: those that are not exported."""
        async for name in _names(self.ctx.storage, keys.owned_artefacts(self.owner, kind)):
            if f"{kind}:{name}" in exported:
                continue
            try:
                lines = thread_archives.export_artefact(self.archive, kind, name, self.owner)
                content = b"".join([line async for line in lines])
            except StorageDown:
                raise
            except CallsheetError as error:
                yield FileEntry(LEFT_OUT, {"thread": f"{kind}:{name}", "reason": error.message})
                continue
            if content:
                yield FileEntry(THREAD, {"id": f"{kind}:{name}", "artefactOnly": True}, content)

    async def import_all(self, file: IO[bytes], *, trusted: bool = False) -> dict[str, Any]:
        """Write everything in the file for the owner, and return the number of each kind.

        The file is read completely before, and refused with `Conflict` if the owner has any of it, unless an
        import of the same file was cut: then it goes on, and leaves what is there as it is. A thread whose id
        was used meanwhile is left out, and named. Raises `Invalid` for another file, and `Busy` while another
        import for the owner is at work. Of a kind of record that fails nothing stays; complete threads do,
        since the owner may work with them. The error says which are there.
        """
        lease = KeyLease(self.ctx.storage, caller_keys.import_lease(self.owner))
        if not await lease.take():
            refusal = Busy(
                f"an import of data for {self.owner!r} is at work",
                remedy="wait until it ends; if it was cut, the same file again completes it",
            )
            refusal.retry_after_s = keys.RUN_LEASE_S
            raise refusal
        async with lease.keep():
            return await self._import(file, lease, trusted=trusted)

    async def _import(self, file: IO[bytes], lease: KeyLease, *, trusted: bool) -> dict[str, Any]:
        redis = self.ctx.storage.redis
        mark = caller_keys.unfinished_import(self.owner, await asyncio.to_thread(_digest, file))
        resumes = bool(await execute(redis, "EXISTS", mark))
        left_out = await self._check(file, trusted=trusted, resumes=resumes)
        in_file = len(left_out)
        await execute(redis, "SET", mark, 1, "EX", int(keys.DAY_S))
        counts: dict[str, int] = {}
        for name, kind in self.kinds.items():
            await _write(_RecordWriter(kind, self.owner, lease, resumes), file, name, counts)
        await _write(_ThreadWriter(self, trusted, lease, left_out), file, THREAD, counts)
        counts["thread"] = counts.pop(THREAD)
        if len(left_out) == in_file:
            await execute(redis, "UNLINK", mark)
        return {"imported": counts, "leftOut": left_out}

    async def _check(self, file: IO[bytes], *, trusted: bool, resumes: bool) -> list[dict[str, str]]:
        """Return the threads that the export has left out; raise for what cannot be imported."""
        kinds, left_out, existing = self.kinds, list[dict[str, str]](), list[str]()
        counts: dict[str, int] = {}
        async for name, entries in _chunks(file):
            counts[name] = counts.get(name, 0) + len(entries)
            if name == LEFT_OUT:
                left_out += [_left_out(one.data) for one in entries]
            elif name == THREAD:
                for one in entries:
                    existing += await thread_archives.check_file(
                        self.archive, one.content, self.owner, trusted=trusted
                    )
            elif name in kinds:
                rows = [one.data for one in entries]
                await asyncio.to_thread(_check_rows, kinds[name], rows)
                existing += [f"{name} {one!r}" for one in await kinds[name].existing(self.owner, rows)]
            elif name == CampaignRecords.name:
                raise Invalid(
                    f"the file has campaigns, and {_CAMPAIGNS!r} is not served here",
                    remedy="serve it, or import the file elsewhere",
                )
            else:
                raise Invalid(f"the file has a line of the unknown type {name[:40]!r}", remedy=_REMEDY)
        # What an earlier import of the file has written exists and counts already.
        if not resumes:
            _require_none(existing)
            await self._check_limits(counts)
        return left_out

    async def _check_limits(self, counts: Mapping[str, int]) -> None:
        """Raise `Invalid` for more records of a kind than the owner may have."""
        for name, kind in self.kinds.items():
            most, count = await kind.most(self.owner), counts.get(name, 0)
            if most is not None and count > most:
                raise Invalid(
                    f"the file has {count} records of kind {name!r}, and {self.owner!r} may have "
                    f"{max(0, most)} more; nothing was imported",
                    remedy="delete some that you no longer need, or raise the limit of the server",
                )


_REMEDY: Final = "export the data again"


def _left_out(row: Row) -> dict[str, str]:
    """Return the thread, or the kind of records, that a line names as left out, with the reason."""
    fields = {name: row.get(name) for name in ("thread", "reason")}
    if not all(isinstance(text, str) for text in fields.values()):
        raise Invalid("a thread that was left out has no name or no reason", remedy=_REMEDY)
    kind = {"kind": CampaignRecords.name} if row.get("kind") == CampaignRecords.name else {}
    return {name: str(text) for name, text in fields.items()} | kind


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # a file of any kind


@dataclass(frozen=True)
class _RecordWriter:
    kind: RecordKind
    owner: str
    lease: KeyLease
    """Lease of the import."""
    resumes: bool
    """True if an earlier import of the file was cut."""
    written: list[Row] = field(default_factory=list)
    """The names of the records that were imported."""

    async def write(self, entries: Sequence[FileEntry]) -> int:
        """Write records; return the number of those that are there now."""
        async for row in self.kind.write(self.owner, [entry.data for entry in entries]):
            self.written.append(row)
        return len(entries)

    async def remove(self) -> bool:
        """Remove what was written, unless an earlier attempt wrote some, too; return whether it is gone."""
        if self.resumes:
            return False
        for start in range(0, len(self.written), CHUNK):
            await self.kind.remove(self.owner, self.written[start : start + CHUNK])
        return True


@dataclass(frozen=True)
class _ThreadWriter:
    data: OwnerData
    trusted: bool
    lease: KeyLease
    """Lease of the import."""
    left_out: list[dict[str, str]]
    """Gets the threads that are not imported, since somebody has made one of their id meanwhile."""

    async def write(self, entries: Sequence[FileEntry]) -> int:
        """Write threads; return the number of those that are there now."""
        archive, owner = self.data.archive, self.data.owner
        importer, count = thread_archives.importer(archive), 0
        for entry in entries:
            keeps_thread = not entry.data.get("artefactOnly")
            file = await thread_archives.read_file(archive, entry.content, owner, trusted=self.trusted)
            if await importer.resume(file, owner, keeps_thread=keeps_thread):
                count += 1
                continue
            try:
                await importer.import_thread(file, owner, keeps_thread=keeps_thread)
                count += 1
            except (Conflict, Missing) as error:
                if not await self.lease.renew():
                    raise
                name = file.thread.id if keeps_thread else file.thread.artefact
                self.left_out.append({"thread": name, "reason": error.message})
        return count

    async def remove(self) -> bool:
        """Remove nothing: the owner may work with a complete thread already."""
        return False


async def _write(
    writer: "_RecordWriter | _ThreadWriter", file: IO[bytes], name: str, counts: dict[str, int]
) -> None:
    """Write all entries of a kind; after an error, remove those that were written.

    They stay where storage was lost, and once another import may be at work: the same file goes on with them,
    and must not meet a late removal.
    """
    counts[name] = 0
    try:
        async for entries in _chunks_of(file, name):
            if not await writer.lease.renew():
                raise Fenced("the import stood still for too long")
            counts[name] += await writer.write(entries)
    except CallsheetError as error:
        may_remove = not isinstance(error, StorageDown) and await writer.lease.renew()
        is_gone = may_remove and await writer.remove()
        del counts[name]
        done = ", ".join(f"{number} of kind {kind!r}" for kind, number in counts.items() if number)
        error.message = (
            f"{error.message}; {'nothing' if is_gone else 'some'} of kind {name!r} was imported, "
            f"and before it {done or 'nothing'}"
        )
        error.remedy = f"{error.remedy}; the same file again within a day completes it".removeprefix("; ")
        raise


def _require_none(existing: Sequence[str]) -> None:
    """Raise `Conflict` if anything exists already."""
    if existing:
        more = f" and {len(existing) - _NAMED} more" if len(existing) > _NAMED else ""
        raise Conflict(
            f"there is already {', '.join(existing[:_NAMED])}{more}; nothing was imported",
            remedy="import the file elsewhere, or delete these first, which are lost then",
        )


def _check_rows(kind: RecordKind, rows: Sequence[Row]) -> None:
    for row in rows:
        try:
            kind.check(row)
        except (ValueError, TypeError, KeyError) as error:
            shown = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else error
            raise Invalid(f"a record of kind {kind.name!r} is wrong: {shown}", remedy=_REMEDY) from error


def _next_ms(cron: Cron, after_ms: int) -> int | None:
    return next_due_ms(cron.schedule, cron.timezone, after_ms, cron.end_ms)


async def _chunks(file: IO[bytes]) -> AsyncIterator[tuple[str, list[FileEntry]]]:
    """Yield the entries of the file by type, some at a time; threads one at a time."""
    groups = _groups(read_entries(file))
    while chunk := await asyncio.to_thread(next, groups, None):
        yield chunk


async def _chunks_of(file: IO[bytes], name: str) -> AsyncIterator[list[FileEntry]]:
    async for each, entries in _chunks(file):
        if each == name:
            yield entries


def _groups(entries: Iterator[FileEntry]) -> Iterator[tuple[str, list[FileEntry]]]:
    for name, group in groupby(entries, key=lambda entry: entry.type):
        while chunk := [*islice(group, 1 if name == THREAD else CHUNK)]:
            yield name, chunk


async def _names(storage: Storage, key: str) -> AsyncIterator[str]:
    """Yield each name of a list of the owner once, the one that changed longest ago first."""
    after: str | None = None
    names: set[str] = set()
    while True:
        page = await indexes.read_page(storage, key, after, CHUNK, oldest_first=True)
        for name in page.ids:
            # One that changes meanwhile moves to the end, and comes again.
            if name not in names:
                yield name
            names.add(name)
        if (after := page.next) is None:
            return


router = APIRouter(prefix="/api/data", route_class=StrictRoute, tags=["data as files"])
_EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    **documented_responses(400, 403, 500, 503, 504, reply=None),
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "The file"},
}
_IMPORT: Final = documented_responses(400, 403, 409, 413, 422, 500, 503, 504, reply=ImportedData, status=201)
_IMPORT_POLICY: Final = replace(
    API_WRITE,
    audit="data.import",
    body=BodyLimit(
        lambda settings: _BODIES * settings.max_import_bytes, "raise CALLSHEET_MAX_IMPORT_BYTES", spooled=True
    ),
)
_Owner = Annotated[str | None, Query(max_length=255, description="Another owner; needs the permission admin")]


@router.get("/export", responses=_EXPORT, response_class=Response)
@with_policy(replace(API_READ, audit="data.export"))
async def export_data(request: Request, owner: _Owner = None) -> Response:
    """Export all that an owner has: threads with artefacts, campaigns, store, assistants, crons, settings.

    JSON lines with checksums, streamed. It has no API keys and no webhooks. A thread with an active run, or
    that cannot be read here, is left out, and named in a line; so are campaigns where their workflow is not
    served.
    """
    data = _data_of(request, owner)
    name = f"attachment; filename*=UTF-8''{quote(data.owner, safe='')}.jsonl"
    return StreamingResponse(data.export(), media_type=MEDIA_TYPE, headers={"Content-Disposition": name})


@router.post("/import", status_code=201, responses=_IMPORT, response_model=None, openapi_extra=UPLOAD_BODY)
@with_policy(_IMPORT_POLICY)
async def import_data(
    request: Request,
    owner: _Owner = None,
    trust: Annotated[
        bool | None, Query(description="Read types of any library; from the operator's terminal alone")
    ] = None,
) -> JsonReply:
    """Import an owner's exported file, the body or in a form; all of it becomes the caller's.

    409, and nothing is written, if any of it exists. Of a kind of record that fails nothing stays.
    """
    if trust:
        get_caller(request.scope).require("operator")
    data = _data_of(request, owner)
    with await asyncio.to_thread(tempfile.TemporaryFile) as file:
        await receive_upload(request, file)
        return JsonReply(await data.import_all(file, trusted=bool(trust)), 201)


def _data_of(request: Request, owner: str | None) -> OwnerData:
    if owner is not None and owner != current_owner(request):
        get_caller(request.scope).require("admin")
        identifier(owner, "owner")
    ctx = app_context(request)
    return OwnerData(ctx, thread_archives.thread_archive(request), owner or current_owner(request))
