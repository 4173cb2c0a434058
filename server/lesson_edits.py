"""What a person does to a lesson by hand: its materials, its narration, its standing, its end (B38-B44)."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast
from urllib.parse import quote

from langgraph.checkpoint.base import BaseCheckpointSaver

from server import lessons, uploads
from server.lesson_jobs import DESK
from server.lessons import Seen
from state import lesson, narration_edits
from state.errors import Conflict, Invalid, Missing
from state.lesson import Status
from state.narration import Narration
from state.narration_edits import SegmentEdit
from state.student import Student
from state.uploads import MAX_MATERIAL, Ticket, extension
from state.versions import Version
from storage import files, thread_records
from storage.artefacts import Artefact, NewVersion, Tip
from storage.connection import Storage
from storage.threads import Thread
from tools import pdf, sources, web_sources
from tools.apart import Report
from tools.sources import Source
from tools.web import Web
from tools.web_sources import WEB

FILES: Final = "/api/agent-create/session/source/files"
"""Where the files of lessons are."""
MOST_OF_LESSON: Final = 200 * 1024 * 1024
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
        return DESK.artefact_of(self.storage, self.thread)

    async def seen(self) -> Seen:
        """Return the lesson as it is now."""
        return await lessons.seen(self.artefact)

    async def write(self, stream: str, data: Mapping[str, Any], **more: Any) -> str:
        """Make a version by hand and return its id; `more` are fields of `NewVersion`."""
        new = NewVersion(stream, data, self.thread.owner, uuid.uuid4().hex, **more)
        return str((await self.artefact.create_version(new))["versionId"])


async def add_text(about: Lesson, text: str, name: str) -> Source:
    """Make a text the lesson's material; raises what `sources.pasted` raises."""
    return await _kept(about, await asyncio.to_thread(sources.pasted, text, name))


async def add_page(about: Lesson, url: str, web: Web = WEB) -> Source:
    """Make what is at a public address the lesson's material; raises what `web_sources.fetched` raises."""
    if sources.address(url) is None:
        raise Invalid(f"{url[:200]!r} is no address of a page", remedy="begin it with https://")
    return await _kept(about, await web_sources.fetched(url.strip(), web))


async def whole(name: str, sent: AsyncIterator[bytes]) -> bytes:
    """Return a file that is coming; raises `Invalid` for an empty one and another kind, and `TooLarge`."""
    if extension(name) not in _FORMATS:
        raise Invalid(f"{name!r} is no PDF and no text", remedy="send a .pdf or a .txt file")
    return await uploads.received(sent, _ticket(name))


async def add_file(about: Lesson, name: str, data: bytes, report: Report) -> Source:
    """Make a PDF or a text file the lesson's material, and keep the file.

    Raises `Invalid` for a file that is not what its name says and for what holds no text; `TooLarge` for more
    than 50 MiB or 500 pages, and where the files of a lesson have more than 200 MiB.
    """
    given = _ticket(name)
    record = await asyncio.to_thread(uploads.described, name, data)
    if extension(name) == "pdf":
        read = await pdf.read_apart(data, name, report)
    else:
        read = await asyncio.to_thread(_text, data, name)
    await files.keep(about.storage, about.artefact, given["id"], files.cut(data), record, MOST_OF_LESSON)
    return await _kept(about, replace(read, url=material_address(about.thread.id, given["id"])))


def material_address(session: str, file_id: str) -> str:
    """Return where a file that a lesson is made from is got from."""
    return f"{FILES}/{file_id}?sessionId={quote(session, safe='')}"


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
        return sources.pasted(data.decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        raise Invalid(f"{name!r} is not UTF-8", remedy="save it as UTF-8, or paste the text") from error


async def _kept(about: Lesson, source: Source) -> Source:
    await about.write("source", source.data())
    return source


Made = tuple[str, tuple[str, ...]]
"""A new version's id, and the segments that are different in it."""


async def narration(about: Lesson, version: str | None) -> Version:
    """Return a version of the narration, the newest for None; raises `Missing` where there is none."""
    if version:
        return await about.artefact.version("narration", version)
    newest = (await about.artefact.tip("narration")).newest
    if newest is None:
        raise Missing("the lesson has no narration yet", remedy="choose facts first")
    return newest


def summary(version: Version) -> str:
    """Return a version of the narration in one line."""
    return f"{version.data['total_duration']} s about {version.data['topic']}"


async def edit(about: Lesson, edits: Sequence[SegmentEdit]) -> Made:
    """Change segments of the narration.

    Raises what `narration_edits.edited` raises, and `Conflict` where the lesson is not at its narration
    (B44), or the narration was changed meanwhile.
    """
    tip, now = await _narration(about)
    return await _rewritten(about, tip, now.data, narration_edits.edited(_of(now), edits))


async def restore(about: Lesson, version: str, segments: Sequence[str]) -> Made:
    """Bring an earlier narration back, or segments of it; raises as `edit`, and `Missing` for no version."""
    tip, now = await _narration(about)
    then = await narration(about, version)
    new = narration_edits.restored(_of(now), _of(then), segments)
    return await _rewritten(about, tip, now.data if segments else then.data, new, then.id)


async def _rewritten(
    about: Lesson, tip: Tip, known: Mapping[str, Any], new: Narration, parent: str | None = None
) -> Made:
    before = {one.id: one for one in _of(cast("Version", tip.newest)).segments}
    changed = tuple(one.id for one in new.segments if one != before.get(one.id))
    data = {**known, **new.model_dump(mode="json")}
    return await about.write("narration", data, onto=tip, parent=parent), changed


async def _narration(about: Lesson) -> tuple[Tip, Version]:
    seen, tip = await about.seen(), await about.artefact.tip("narration")
    now = await narration(about, None)
    if "narration" not in lesson.editable(seen.session.status):
        raise Conflict(
            f"the narration of a lesson that is {seen.session.status!r} is not edited",
            remedy="write the narration anew first, or leave it as it is",
        )
    return tip, tip.newest or now


def _of(version: Version) -> Narration:
    return Narration.model_validate(version.data)


async def become(about: Lesson, to: Status) -> None:
    """Note a standing that no version tells, until something new is made; raises `Conflict` (B44)."""
    found = await about.seen()
    if to not in lesson.SAID:
        raise Invalid(
            f"{to!r} is told by what is made", remedy=f"use one of {', '.join(sorted(lesson.SAID))}"
        )
    lesson.moved(found.session.status, to)
    await about.artefact.describe({"status": to, "statusOf": lesson.standing(found.newest)})


async def know(about: Lesson, age: str | None, interest: str | None, style: str | None) -> None:
    """Note what is said of the student; the rest stays (B-R11). Raises `Conflict` if it changed meanwhile."""
    tip = await about.artefact.tip("student")
    known = Student.model_validate(tip.newest.data if tip.newest else {})
    await about.write("student", known.with_news(age, interest, style).kept(), onto=tip)


async def forget(about: Lesson, saver: BaseCheckpointSaver[Any]) -> None:
    """Take the session away with all that was made in it; raises `Busy` while a run is at it."""
    record = await thread_records.get(about.storage, about.thread.id, about.thread.owner)
    async with thread_records.held(about.storage, record.id, record.owner):
        await about.artefact.erase(lesson.STREAMS)
        # The record last: while it is there, a deletion that was cut off can be asked for again.
        await saver.adelete_thread(record.id)
        await thread_records.remove(about.storage, record)
