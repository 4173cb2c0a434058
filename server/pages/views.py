"""A page as people see and keep it: looked at, compared, brought back, locked."""

import asyncio
import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from callsheet.server.artefacts import views
from callsheet.server.artefacts.turns import identifier
from callsheet.server.artefacts.views import iso
from callsheet.state.errors import Busy, Conflict, Missing
from callsheet.state.pages import edits, history
from callsheet.state.pages.changes import diff
from callsheet.state.pages.history import PageData
from callsheet.state.pages.page import STREAM, Page, digests, walk
from callsheet.state.pages.starter import STARTER
from callsheet.state.versions import Version, version_fields
from callsheet.storage import indexes
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, StreamHead
from callsheet.storage.artefacts.receipts import Done, receipt_name
from callsheet.storage.redis.connection import Storage
from callsheet.storage.redis.scripts import execute_all
from callsheet.storage.threads import threads
from callsheet.tools.pages.html import Document, render_document
from callsheet.tools.pages.uploads import upload_url

KIND: Final = "page"
PAGE_LIMIT: Final = 50
"""Versions of a list, unless more are asked for."""
MAX_INLINED: Final = 10_000_000
"""Bytes of images that an export has inside; those beyond stay where they are."""
_TRIES: Final = 20


@dataclass(frozen=True)
class FoundPage:
    """A page that is there, and who asks about it."""

    storage: Storage
    artefact: Artefact
    owner: str
    thread: str
    """Id of the conversation about it."""
    meta: Mapping[str, str]


async def find_page(storage: Storage, name: str, owner: str) -> FoundPage:
    """Return the owner's page of this id, or whose conversation has it (X5).

    Raises `Missing` when there is none, or it is another's.
    """
    artefact = Artefact(storage, KIND, identifier(name, "pageId"), owner)
    meta = await artefact.meta()
    if meta.get("owner") == owner:
        return FoundPage(storage, artefact, owner, meta.get("thread") or name, meta)
    about = await _conversation(storage, name, owner)
    if about is None:
        raise Missing(f"there is no page {name!r}", remedy=f"begin it with POST /api/pages/{name}/chat")
    artefact = Artefact(storage, KIND, about, owner)
    return FoundPage(storage, artefact, owner, name, await artefact.meta())


async def _conversation(storage: Storage, name: str, owner: str) -> str | None:
    """The page that the owner's conversation of this id is about, though nothing may have been made yet."""
    try:
        known = await threads.get(storage, name, owner)
    except Missing:
        return None
    kind, _, about = known.artefact.partition(":")
    return about if kind == KIND else None


async def page_list(storage: Storage, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the owner's landing pages, newest change first: `{pages, next}`."""
    some = await indexes.list_owned(storage, owner, KIND, after=after, limit=limit)
    artefacts = [Artefact(storage, KIND, name, owner) for name in some.ids]
    metas = await asyncio.gather(*(artefact.meta() for artefact in artefacts))
    found = [
        FoundPage(storage, artefact, owner, meta.get("thread") or artefact.id, meta)
        for artefact, meta in zip(artefacts, metas, strict=True)
        if meta.get("owner") == owner
    ]
    tips = await asyncio.gather(*(one.artefact.stream_head(STREAM) for one in found))
    return {"pages": [_head(one, tip) for one, tip in zip(found, tips, strict=True)], "next": some.next}


async def page_view(found: FoundPage) -> dict[str, Any]:
    """Return the page as it is now: its tree, theme, locks and versions in hand."""
    tip = await found.artefact.stream_head(STREAM)
    page = history.page_of(tip.newest)
    return _head(found, tip) | {
        "page": page.data(),
        "digests": digests(page),
        "locks": await views.locks_view(found.artefact, "elementId"),
    }


def _head(found: FoundPage, tip: StreamHead) -> dict[str, Any]:
    return {
        "pageId": found.artefact.id,
        "conversationId": found.thread,
        "title": history.page_of(tip.newest).title(),
        "versionId": tip.newest.id if tip.newest else None,
        "activeVersionId": tip.active,
        "createdAt": iso(found.meta.get("createdMs")),
        "updatedAt": iso(found.meta.get("updatedMs") or found.meta.get("createdMs")),
    }


async def versions_view(found: FoundPage, before: str | None, limit: int) -> dict[str, Any]:
    """Return the newest versions, or those older than `before`; newest last."""
    kept = await found.artefact.stream(STREAM)
    ids = [version.id for version in kept.versions]
    if before is not None and before not in ids:
        raise found.artefact.missing_version(STREAM, before)
    end = ids.index(before) if before is not None else len(ids)
    shown = kept.versions[max(0, end - limit) : end]
    return {
        "versions": [_line(version, kept.versions[-1]) for version in shown],
        "active": kept.active,
        "before": shown[0].id if end > limit else None,
    }


async def version_view(found: FoundPage, version_id: str) -> dict[str, Any]:
    """Return one version: the page it holds, and what is different in it."""
    one, newest = await _version(found, version_id)
    page = history.page_of(one)
    return _line(one, newest) | {
        "page": page.data(),
        "changes": one.data["changes"],
        "digests": digests(page),
    }


async def diff_view(found: FoundPage, old: str, new: str) -> dict[str, Any]:
    """Return what is different between two versions, and which elements are the same to the byte."""
    before, after = [await page_at(found, name) for name in (old, new)]
    was, now = digests(before), digests(after)
    return {
        "from": old,
        "to": new,
        "changes": diff(before, after),
        "unchanged": [name for name in now if was.get(name) == now[name]],
    }


async def activate_version(found: FoundPage, version_id: str) -> dict[str, Any]:
    """Make a version the one that counts."""
    await found.artefact.activate(STREAM, version_id)
    one, newest = await _version(found, version_id)
    return _line(one, newest) | {"status": "active", "active": version_id}


async def restore_version(found: FoundPage, version_id: str) -> dict[str, Any]:
    """Make a version that holds what an earlier one, or the starter page, holds.

    Raises `Forbidden` where it would change what is locked.
    """
    await page_at(found, version_id)
    step = receipt_name(found.thread, "by hand", str(uuid.uuid4()))
    # With a fence, a write that is sent again after a lost connection is one version all the same.
    fence = await found.artefact.claim(step, epoch=0, owner=found.owner, thread=found.thread, facts={})
    made = fence.result if isinstance(fence, Done) else None
    for _ in range(_TRIES):
        if made is not None:
            await execute_all(found.storage.redis, found.artefact.index_calls(found.owner, found.thread))
            return await version_view(found, str(made["versionId"]))
        tip = await found.artefact.stream_head(STREAM)
        new = NewVersion(
            STREAM,
            await _restored(found, tip, version_id),
            found.owner,
            step,
            None if version_id == history.BEGINNING else version_id,
            {"status": "draft"},
            tip,
        )
        try:
            made = await found.artefact.create_version(new, None if isinstance(fence, Done) else fence)
        except Conflict:
            continue
    raise Busy(f"the page {found.artefact.id!r} was changed by others each time", remedy="try again")


async def _restored(found: FoundPage, tip: StreamHead, version_id: str) -> PageData:
    before = history.page_of(tip.newest)
    after = history.restore_page(before, await page_at(found, version_id))
    edits.check_locks(before, after, tip.locked)
    return history.edit_version(tip.newest, before, after)


async def lock_element(found: FoundPage, element_id: str) -> dict[str, Any]:
    """Lock an element with all inside it, or with `page` everything; return all locks."""
    history.page_of((await found.artefact.stream_head(STREAM)).newest).get(element_id)
    return await views.lock(found.artefact, "elementId", element_id, found.owner)


async def unlock_element(found: FoundPage, element_id: str) -> dict[str, Any]:
    """Unlock what `lock` locked; return all locks."""
    return await views.unlock(found.artefact, "elementId", element_id)


async def page_at(found: FoundPage, version_id: str | None) -> Page:
    """Return the page of a version, of `start` the starter page, of None the newest."""
    if version_id == history.BEGINNING:
        return STARTER
    if version_id is None:
        return history.page_of((await found.artefact.stream_head(STREAM)).newest)
    one = await found.artefact.version(STREAM, version_id)
    return await asyncio.to_thread(history.page_of, one)


async def export_html(found: FoundPage, version_id: str | None, *, inline: bool) -> Document:
    """Return a version as a file of HTML, with the page's own images inside where `inline`."""
    page = await page_at(found, version_id)
    inlined = await _images(found, page) if inline else {}
    return await asyncio.to_thread(render_document, page, inlined)


async def _images(found: FoundPage, page: Page) -> dict[str, str]:
    """Data URIs of the images on the page that were sent to it, by their addresses."""
    shown = {element.attributes.get("src") for element, _ in walk(page.root) if element.type == "image"}
    there = await files.records(found.storage, found.artefact)
    made, room = {}, MAX_INLINED
    for name, record in there.items():
        url = upload_url(found.artefact.id, name)
        if url in shown and record["type"].startswith("image/") and record["size"] <= room:
            room -= record["size"]
            data = b"".join([piece async for piece in files.pieces(found.storage, found.artefact, name)])
            made[url] = f"data:{record['type']};base64,{base64.b64encode(data).decode()}"
    return made


async def _version(found: FoundPage, version_id: str) -> tuple[Version, Version]:
    one, tip = await asyncio.gather(
        found.artefact.version(STREAM, version_id), found.artefact.stream_head(STREAM)
    )
    return one, tip.newest or one


def _line(version: Version, newest: Version) -> dict[str, Any]:
    return version_fields(version, newest) | {"summary": history.summary(version.data)}
