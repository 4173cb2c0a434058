"""A person's edits of a lesson: material, assets, narration, status, student, deletion."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.parse import quote

from callsheet.server.artefacts import uploads
from callsheet.server.lessons import sessions
from callsheet.server.lessons.service import LESSONS
from callsheet.server.lessons.sessions import LessonSnapshot
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.lessons import images, narration
from callsheet.state.lessons import lesson as lesson_state
from callsheet.state.lessons.images import ASSETS, AssetType, on_the_web
from callsheet.state.lessons.lesson import Status
from callsheet.state.lessons.narration import Narration, SegmentEdit
from callsheet.state.lessons.student import Student
from callsheet.state.uploads import FORMATS, MAX_MATERIAL, FileType, Ticket, file_extension
from callsheet.state.versions import Version, origin
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, StreamHead
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons import pdf, sources, web_sources
from callsheet.tools.lessons.sources import Source
from callsheet.tools.lessons.web_sources import WEB
from callsheet.tools.web_client import WebClient

FILES_URL: Final = "/api/agent-create/session/source/files"
"""URL of the files of lessons."""
MAX_LESSON_BYTES: Final = 200 * 1024 * 1024
"""Total bytes of a lesson's files."""
_FORMATS: Final = ("pdf", "txt")


@dataclass(frozen=True)
class Lesson:
    """A lesson and its thread."""

    storage: Storage
    thread: Thread

    @property
    def artefact(self) -> Artefact:
        """The lesson's artefact."""
        return LESSONS.artefact(self.storage, self.thread)

    async def snapshot(self) -> LessonSnapshot:
        """Return the current lesson."""
        return await sessions.snapshot(self.artefact)

    async def write(self, stream: str, data: Mapping[str, Any], **fields: Any) -> str:
        """Create a version by hand and return its id; `fields` are those of `NewVersion`."""
        new = NewVersion(stream, data, self.thread.owner, uuid.uuid4().hex, **fields)
        return str((await self.artefact.create_version(new))["versionId"])


async def add_text(lesson: Lesson, text: str, name: str) -> Source:
    """Make a text the lesson's material; raise what `sources.pasted_source` raises."""
    return await _store(lesson, await asyncio.to_thread(sources.pasted_source, text, name))


async def add_page(lesson: Lesson, url: str, web: WebClient = WEB) -> Source:
    """Make a public web page the lesson's material; raise what `web_sources.fetch_source` raises."""
    if sources.page_address(url) is None:
        raise Invalid(f"{url[:200]!r} is no web address", remedy="begin it with https://")
    return await _store(lesson, await web_sources.fetch_source(url.strip(), web, owner=lesson.thread.owner))


def material_ticket(name: str) -> Ticket:
    """Return the ticket of a material; raise `Invalid` for another type of file."""
    if file_extension(name) not in _FORMATS:
        raise Invalid(f"{name!r} is no PDF and no text", remedy="send a .pdf or a .txt file")
    return _ticket(name)


async def add_file(lesson: Lesson, name: str, data: bytes, report: OnProgress) -> Source:
    """Store a PDF or text file and make it the lesson's material.

    Raises `Invalid` for content that does not match the name or has no text, and `TooLarge` for over 50 MiB
    or 500 pages, or if the lesson's files exceed 200 MiB.
    """
    ticket = _ticket(name)
    record = await asyncio.to_thread(uploads.describe_file, name, data)
    if file_extension(name) == "pdf":
        source = await pdf.read_sandboxed(data, name, report, owner=lesson.thread.owner)
    else:
        source = await asyncio.to_thread(_read_text, data, name)
    await files.store(
        lesson.storage, lesson.artefact, ticket["id"], files.split(data), record, MAX_LESSON_BYTES
    )
    return await _store(lesson, replace(source, url=source_file_url(lesson.thread.id, ticket["id"])))


def source_file_url(session: str, file_id: str) -> str:
    """Return the URL of a lesson's file."""
    return f"{FILES_URL}/{file_id}?sessionId={quote(session, safe='')}"


def _ticket(name: str) -> Ticket:
    return Ticket(
        id=uuid.uuid4().hex,
        fileType="document",
        fileName=name,
        maxSize=MAX_MATERIAL,
        allowedFormats=[*_FORMATS],
    )


def _read_text(data: bytes, name: str) -> Source:
    try:
        return sources.pasted_source(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise Invalid(f"{name!r} is not UTF-8", remedy="save it as UTF-8, or paste the text") from error


async def _store(lesson: Lesson, source: Source) -> Source:
    await lesson.write("source", source.data())
    return source


NarrationVersion = tuple[str, tuple[str, ...]]
"""Id of a new version and the ids of its changed segments."""


async def get_narration(lesson: Lesson, version: str | None) -> Version:
    """Return a version of the narration, the newest for None; raise `Missing` if there is none."""
    if version:
        return await lesson.artefact.version("narration", version)
    newest = (await lesson.artefact.stream_head("narration")).newest
    if newest is None:
        raise Missing("the lesson has no narration yet", remedy="choose facts first")
    return newest


async def edit_narration(
    lesson: Lesson, edits: Sequence[SegmentEdit], version: str | None = None
) -> NarrationVersion:
    """Change segments of the narration; with `version`, only while that one is the newest.

    Raises what `narration.apply_edits` raises, and `Conflict` if the lesson's status forbids it
    or the narration changed meanwhile.
    """
    head, current = await _editable_narration(lesson)
    if version not in {None, current.id}:
        raise Conflict(
            f"the narration is {current.id} by now, not {version}",
            remedy="read it again, and send the change with its version",
            details={"newest": current.id},
        )
    new = await asyncio.to_thread(narration.apply_edits, _parse(current), edits)
    return await _write_narration(lesson, head, _with_own(current, new, [one.id for one in edits]), new)


async def restore_narration(lesson: Lesson, version: str, segments: Sequence[str]) -> NarrationVersion:
    """Restore an earlier narration, or segments of it; raise as `edit_narration`, and `Missing`."""
    head, current = await _editable_narration(lesson)
    earlier = await get_narration(lesson, version)
    new = narration.restore_segments(_parse(current), _parse(earlier), segments)
    base = _with_own(current, new, segments) if segments else earlier.data
    return await _write_narration(lesson, head, base, new, earlier.id)


def _with_own(current: Version, new: Narration, names: Sequence[str]) -> dict[str, Any]:
    """Return the data of the current narration with these segments as the person's own."""
    by_hand = dict.fromkeys(new.segment(one).id for one in names)
    return {**current.data, **narration.own_segments(current.data, [*by_hand])}


async def _write_narration(
    lesson: Lesson, head: StreamHead, base: Mapping[str, Any], new: Narration, parent: str | None = None
) -> NarrationVersion:
    before = {segment.id: segment for segment in _parse(cast("Version", head.newest)).segments}
    changed = tuple(segment.id for segment in new.segments if segment != before.get(segment.id))
    data = {**base, **new.model_dump(mode="json")}
    source = origin("undo", f"restore {parent}") if parent else origin("person", "edited by hand")
    written = await lesson.write("narration", data, expected_head=head, parent=parent, origin=source)
    return written, changed


async def _editable_narration(lesson: Lesson) -> tuple[StreamHead, Version]:
    snapshot, head = await lesson.snapshot(), await lesson.artefact.stream_head("narration")
    current = await get_narration(lesson, None)
    if "narration" not in lesson_state.editable(snapshot.session.status):
        raise Conflict(
            f"the narration of a lesson that is {snapshot.session.status!r} is not edited",
            remedy="write the narration anew first, or leave it as it is",
        )
    return head, head.newest or current


def _parse(version: Version) -> Narration:
    return Narration.model_validate(version.data)


async def set_status(lesson: Lesson, status: Status) -> None:
    """Set a status that no version implies; the next version replaces it. Raise `Conflict`."""
    snapshot = await lesson.snapshot()
    if status not in lesson_state.EXPLICIT_STATUSES:
        raise Invalid(
            f"{status!r} follows from the versions",
            remedy=f"use one of {', '.join(sorted(lesson_state.EXPLICIT_STATUSES))}",
        )
    lesson_state.next_status(snapshot.session.status, status)
    await lesson.artefact.set_facts({"status": status, "statusOf": lesson_state.version_ids(snapshot.newest)})


async def update_student(lesson: Lesson, age: str | None, interest: str | None, style: str | None) -> None:
    """Update the given facts about the student; raise `Conflict` if they changed meanwhile."""
    head = await lesson.artefact.stream_head("student")
    student = Student.model_validate(head.newest.data if head.newest else {})
    await lesson.write("student", student.with_news(age, interest, style).kept(), expected_head=head)


_ASSETS_URL: Final = "/api/agent-create/session/assets"
"""URL of the assets' files."""
_TYPES: Final[tuple[FileType, ...]] = ("image", "video")
"""Types that may be uploaded."""


async def list_assets(lesson: Lesson) -> list[dict[str, Any]]:
    """Return the lesson's assets, oldest first."""
    return [_asset_view(lesson, version) for version in await _live(lesson)]


async def add_asset(
    lesson: Lesson, kind: AssetType, url: str | None, metadata: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Add an asset and return it; raise `Invalid` for a malformed URL."""
    if url is not None and not on_the_web(url):
        raise Invalid(f"url {url[:80]!r} is no web address", remedy="begin it with https://")
    return await _add(lesson, {"id": uuid.uuid4().hex, "assetType": kind, "url": url, "metadata": metadata})


def asset_ticket(name: str) -> Ticket:
    """Return the ticket of an asset's file; raise `Invalid` for a name of another type."""
    return uploads.open_ticket(_file_type(name), name)


async def upload_asset(
    lesson: Lesson, ticket: Ticket, data: bytes, attribution: Mapping[str, str]
) -> dict[str, Any]:
    """Store a file as an asset and return it; `attribution` are metadata from its sender.

    Raises `Invalid` for content that does not match the name, and `TooLarge` if the lesson's files exceed
    200 MiB.
    """
    name = ticket["fileName"]
    record = await asyncio.to_thread(uploads.describe_file, name, data)
    await files.store(
        lesson.storage, lesson.artefact, ticket["id"], files.split(data), record, MAX_LESSON_BYTES
    )
    metadata = {"title": name, **attribution, "mediaType": record["type"], "size": record["size"]}
    asset_data = {"id": ticket["id"], "assetType": ticket["fileType"], "url": None, "file": True}
    return await _add(lesson, {**asset_data, "metadata": metadata})


async def file_id_of(lesson: Lesson, asset_id: str) -> str:
    """Return the id of an asset's file; raise `Missing` without one."""
    if not any(
        version.data["id"] == asset_id and version.data.get("file") for version in await _live(lesson)
    ):
        raise Missing(f"there is no file of asset {asset_id[:80]!r}", remedy="list the assets of the session")
    return asset_id


async def remove_asset(lesson: Lesson, asset_id: str) -> None:
    """Remove an asset with its file; raise `Missing` for an unknown one."""
    if asset_id not in {version.data["id"] for version in await _live(lesson)}:
        raise Missing(f"there is no asset {asset_id[:80]!r}", remedy="list the assets of the session")
    await lesson.write(ASSETS, images.asset_removal(asset_id))
    await files.remove(lesson.storage, lesson.artefact, asset_id)


async def _live(lesson: Lesson) -> list[Version]:
    return images.live_assets((await lesson.artefact.stream(ASSETS)).versions)


async def _add(lesson: Lesson, data: Mapping[str, Any]) -> dict[str, Any]:
    version = await lesson.write(ASSETS, data)
    return _asset_view(lesson, await lesson.artefact.version(ASSETS, version))


def _file_type(name: str) -> FileType:
    extension = file_extension(name)
    file_type = next((known for known in _TYPES if extension in FORMATS[known]), None)
    if file_type is None:
        formats = ", ".join(known for kind in _TYPES for known in FORMATS[kind])
        raise Invalid(f"{name!r} is no image and no film", remedy=f"send one of {formats}")
    return file_type


def _asset_view(lesson: Lesson, version: Version) -> dict[str, Any]:
    data = dict(version.data)
    if data.pop("file", False):
        session = quote(lesson.thread.id, safe="")
        data["url"] = f"{_ASSETS_URL}/{data['id']}/file?sessionId={session}"
    return {**data, "sessionId": lesson.thread.id, "createdAt": version.created_at()}
