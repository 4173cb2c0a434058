"""What a person does to a lesson by hand: its materials, its narration, its standing, its end (B38-B44)."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.parse import quote

from langgraph.checkpoint.base import BaseCheckpointSaver

from callsheet.server.artefacts import uploads
from callsheet.server.lessons import sessions
from callsheet.server.lessons.service import LESSONS
from callsheet.server.lessons.sessions import LessonSnapshot
from callsheet.state.errors import Conflict, Invalid, Missing
from callsheet.state.lessons import lesson, narration_edits
from callsheet.state.lessons.lesson import Status
from callsheet.state.lessons.narration import Narration
from callsheet.state.lessons.narration_edits import SegmentEdit
from callsheet.state.lessons.student import Student
from callsheet.state.uploads import MAX_MATERIAL, Ticket, file_extension
from callsheet.state.versions import Version
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, StreamHead
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import records as thread_records
from callsheet.storage.threads.threads import Thread
from callsheet.tools.guard.sandbox import OnProgress
from callsheet.tools.lessons import pdf, sources, web_sources
from callsheet.tools.lessons.sources import Source
from callsheet.tools.lessons.web_sources import WEB
from callsheet.tools.web.client import WebClient

FILE_TYPES: Final = "/api/agent-create/session/source/files"
"""Where the files of lessons are."""
MAX_LESSON_BYTES: Final = 200 * 1024 * 1024
"""Bytes of all files of one lesson."""
_FORMATS: Final = ("pdf", "txt")


@dataclass(frozen=True)
class Lesson:
    """A lesson, and whose it is."""

    storage: Storage
    thread: Thread

    @property
    def artefact(self) -> Artefact:
        """The lesson in storage."""
        return LESSONS.artefact(self.storage, self.thread)

    async def snapshot(self) -> LessonSnapshot:
        """Return the lesson as it is now."""
        return await sessions.snapshot(self.artefact)

    async def write(self, stream: str, data: Mapping[str, Any], **more: Any) -> str:
        """Make a version by hand and return its id; `more` are fields of `NewVersion`."""
        new = NewVersion(stream, data, self.thread.owner, uuid.uuid4().hex, **more)
        return str((await self.artefact.create_version(new))["versionId"])


async def add_text(about: Lesson, text: str, name: str) -> Source:
    """Make a text the lesson's material; raises what `sources.pasted` raises."""
    return await _kept(about, await asyncio.to_thread(sources.pasted_source, text, name))


async def add_page(about: Lesson, url: str, web: WebClient = WEB) -> Source:
    """Make what is at a public address the lesson's material; raises what `web_sources.fetched` raises."""
    if sources.page_address(url) is None:
        raise Invalid(f"{url[:200]!r} is no address of a page", remedy="begin it with https://")
    return await _kept(about, await web_sources.fetch_source(url.strip(), web))


async def read_file(name: str, sent: AsyncIterator[bytes]) -> bytes:
    """Return a file that is coming; raises `Invalid` for an empty one and another kind, and `TooLarge`."""
    if file_extension(name) not in _FORMATS:
        raise Invalid(f"{name!r} is no PDF and no text", remedy="send a .pdf or a .txt file")
    return await uploads.read_body(sent, _ticket(name))


async def add_file(about: Lesson, name: str, data: bytes, report: OnProgress) -> Source:
    """Make a PDF or a text file the lesson's material, and keep the file.

    Raises `Invalid` for a file that is not what its name says and for what holds no text; `TooLarge` for more
    than 50 MiB or 500 pages, and where the files of a lesson have more than 200 MiB.
    """
    given = _ticket(name)
    record = await asyncio.to_thread(uploads.describe_file, name, data)
    if file_extension(name) == "pdf":
        read = await pdf.read_sandboxed(data, name, report)
    else:
        read = await asyncio.to_thread(_text, data, name)
    await files.store(about.storage, about.artefact, given["id"], files.split(data), record, MAX_LESSON_BYTES)
    return await _kept(about, replace(read, url=source_file_url(about.thread.id, given["id"])))


def source_file_url(session: str, file_id: str) -> str:
    """Return where a file that a lesson is made from is got from."""
    return f"{FILE_TYPES}/{file_id}?sessionId={quote(session, safe='')}"


def _ticket(name: str) -> Ticket:
    formats = [*_FORMATS]
    return Ticket(
        id=uuid.uuid4().hex,
        fileType="document",
        fileName=name,
        maxSize=MAX_MATERIAL,
        allowedFormats=formats,
    )


def _text(data: bytes, name: str) -> Source:
    try:
        return sources.pasted_source(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise Invalid(f"{name!r} is not UTF-8", remedy="save it as UTF-8, or paste the text") from error


async def _kept(about: Lesson, source: Source) -> Source:
    await about.write("source", source.data())
    return source


NarrationVersion = tuple[str, tuple[str, ...]]
"""A new version's id, and the segments that are different in it."""


async def get_narration(about: Lesson, version: str | None) -> Version:
    """Return a version of the narration, the newest for None; raises `Missing` where there is none."""
    if version:
        return await about.artefact.version("narration", version)
    newest = (await about.artefact.stream_head("narration")).newest
    if newest is None:
        raise Missing("the lesson has no narration yet", remedy="choose facts first")
    return newest


def narration_summary(version: Version) -> str:
    """Return a version of the narration in one line."""
    return f"{version.data['total_duration']} s about {version.data['topic']}"


async def edit_narration(about: Lesson, edits: Sequence[SegmentEdit]) -> NarrationVersion:
    """Change segments of the narration.

    Raises what `narration_edits.edited` raises, and `Conflict` where the lesson is not at its narration
    (B44), or the narration was changed meanwhile.
    """
    tip, now = await _narration(about)
    return await _rewritten(about, tip, now.data, narration_edits.apply_edits(_of(now), edits))


async def restore_narration(about: Lesson, version: str, segments: Sequence[str]) -> NarrationVersion:
    """Bring an earlier narration back, or segments of it; raises as `edit`, and `Missing` for no version."""
    tip, now = await _narration(about)
    then = await get_narration(about, version)
    new = narration_edits.restore_segments(_of(now), _of(then), segments)
    return await _rewritten(about, tip, now.data if segments else then.data, new, then.id)


async def _rewritten(
    about: Lesson, tip: StreamHead, known: Mapping[str, Any], new: Narration, parent: str | None = None
) -> NarrationVersion:
    before = {one.id: one for one in _of(cast("Version", tip.newest)).segments}
    changed = tuple(one.id for one in new.segments if one != before.get(one.id))
    data = {**known, **new.model_dump(mode="json")}
    return await about.write("narration", data, expected_head=tip, parent=parent), changed


async def _narration(about: Lesson) -> tuple[StreamHead, Version]:
    seen, tip = await about.snapshot(), await about.artefact.stream_head("narration")
    now = await get_narration(about, None)
    if "narration" not in lesson.editable(seen.session.status):
        raise Conflict(
            f"the narration of a lesson that is {seen.session.status!r} is not edited",
            remedy="write the narration anew first, or leave it as it is",
        )
    return tip, tip.newest or now


def _of(version: Version) -> Narration:
    return Narration.model_validate(version.data)


async def set_status(about: Lesson, to: Status) -> None:
    """Note a standing that no version tells, until something new is made; raises `Conflict` (B44)."""
    found = await about.snapshot()
    if to not in lesson.SAID:
        raise Invalid(
            f"{to!r} is told by what is made", remedy=f"use one of {', '.join(sorted(lesson.SAID))}"
        )
    lesson.moved(found.session.status, to)
    await about.artefact.describe({"status": to, "statusOf": lesson.standing(found.newest)})


async def update_student(about: Lesson, age: str | None, interest: str | None, style: str | None) -> None:
    """Note what is said of the student; the rest stays (B-R11). Raises `Conflict` if it changed meanwhile."""
    tip = await about.artefact.stream_head("student")
    known = Student.model_validate(tip.newest.data if tip.newest else {})
    await about.write("student", known.with_news(age, interest, style).kept(), expected_head=tip)


async def delete_session(about: Lesson, saver: BaseCheckpointSaver[Any]) -> None:
    """Take the session away with all that was made in it; raises `Busy` while a run is at it."""
    record = await thread_records.get(about.storage, about.thread.id, about.thread.owner)
    async with thread_records.hold(about.storage, record.id, record.owner):
        await about.artefact.erase(lesson.STREAMS)
        # The record last: while it is there, a deletion that was cut off can be asked for again.
        await saver.adelete_thread(record.id)
        await thread_records.delete(about.storage, record)
