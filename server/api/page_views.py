"""A page as people see and keep it: looked at, compared, brought back, locked."""

import asyncio
import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from server.api import locks
from server.api.times import iso
from server.turns import identifier
from state import page_edits, page_history
from state.errors import Busy, Conflict, Missing
from state.page import STREAM, Page, digests, walk
from state.page_changes import changes
from state.page_history import PageData
from state.starter_page import START
from state.versions import Version, described
from storage import files, indexes, threads
from storage.artefacts import Artefact, Done, NewVersion, Tip, step_name
from storage.connection import Storage
from storage.scripts import together
from tools.page_html import Document, document
from tools.uploads import address

KIND: Final = "page"
LISTED: Final = 50
"""Versions of a list, unless more are asked for."""
MAX_INLINED: Final = 10_000_000
"""Bytes of images that an export has inside; those beyond stay where they are."""
_TRIES: Final = 20


@dataclass(frozen=True)
class Found:
    """A page that is there, and who asks about it."""

    storage: Storage
    artefact: Artefact
    owner: str
    thread: str
    """Id of the conversation about it."""
    meta: Mapping[str, str]


async def find(storage: Storage, name: str, owner: str) -> Found:
    """Return the owner's page of this id, or whose conversation has it (X5).

    Raises `Missing` when there is none, or it is another's.
    """
    artefact = Artefact(storage, KIND, identifier(name, "pageId"), owner)
    meta = await artefact.meta()
    if meta.get("owner") == owner:
        return Found(storage, artefact, owner, meta.get("thread") or name, meta)
    about = await _conversation(storage, name, owner)
    if about is None:
        raise Missing(f"there is no page {name!r}", remedy=f"begin it with POST /api/pages/{name}/chat")
    artefact = Artefact(storage, KIND, about, owner)
    return Found(storage, artefact, owner, name, await artefact.meta())


async def _conversation(storage: Storage, name: str, owner: str) -> str | None:
    """The page that the owner's conversation of this id is about, though nothing may have been made yet."""
    try:
        known = await threads.get(storage, name, owner)
    except Missing:
        return None
    kind, _, about = known.artefact.partition(":")
    return about if kind == KIND else None


async def listed(storage: Storage, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the owner's landing pages, newest change first: `{pages, next}`."""
    some = await indexes.owned(storage, owner, KIND, after=after, limit=limit)
    artefacts = [Artefact(storage, KIND, name, owner) for name in some.ids]
    metas = await asyncio.gather(*(artefact.meta() for artefact in artefacts))
    found = [
        Found(storage, artefact, owner, meta.get("thread") or artefact.id, meta)
        for artefact, meta in zip(artefacts, metas, strict=True)
        if meta.get("owner") == owner
    ]
    tips = await asyncio.gather(*(one.artefact.tip(STREAM) for one in found))
    return {"pages": [_head(one, tip) for one, tip in zip(found, tips, strict=True)], "next": some.next}


async def whole(found: Found) -> dict[str, Any]:
    """Return the page as it is now: its tree, theme, locks and versions in hand."""
    tip = await found.artefact.tip(STREAM)
    page = page_history.page_of(tip.newest)
    return _head(found, tip) | {
        "page": page.data(),
        "digests": digests(page),
        "locks": await locks.shown(found.artefact, "elementId"),
    }


def _head(found: Found, tip: Tip) -> dict[str, Any]:
    return {
        "pageId": found.artefact.id,
        "conversationId": found.thread,
        "title": page_history.page_of(tip.newest).title(),
        "versionId": tip.newest.id if tip.newest else None,
        "activeVersionId": tip.active,
        "createdAt": iso(found.meta.get("createdMs")),
        "updatedAt": iso(found.meta.get("updatedMs") or found.meta.get("createdMs")),
    }


async def versions(found: Found, before: str | None, limit: int) -> dict[str, Any]:
    """Return the newest versions, or those older than `before`; newest last."""
    kept = await found.artefact.stream(STREAM)
    ids = [version.id for version in kept.versions]
    if before is not None and before not in ids:
        raise found.artefact.no_version(STREAM, before)
    end = ids.index(before) if before is not None else len(ids)
    shown = kept.versions[max(0, end - limit) : end]
    return {
        "versions": [_line(version, kept.versions[-1]) for version in shown],
        "active": kept.active,
        "before": shown[0].id if end > limit else None,
    }


async def version(found: Found, version_id: str) -> dict[str, Any]:
    """Return one version: the page it holds, and what is different in it."""
    one, newest = await _version(found, version_id)
    page = page_history.page_of(one)
    return _line(one, newest) | {
        "page": page.data(),
        "changes": one.data["changes"],
        "digests": digests(page),
    }


async def diff(found: Found, old: str, new: str) -> dict[str, Any]:
    """Return what is different between two versions, and which elements are the same to the byte."""
    before, after = [await page_at(found, name) for name in (old, new)]
    was, now = digests(before), digests(after)
    return {
        "from": old,
        "to": new,
        "changes": changes(before, after),
        "unchanged": [name for name in now if was.get(name) == now[name]],
    }


async def activate(found: Found, version_id: str) -> dict[str, Any]:
    """Make a version the one that counts."""
    await found.artefact.activate(STREAM, version_id)
    one, newest = await _version(found, version_id)
    return _line(one, newest) | {"active": version_id}


async def restore(found: Found, version_id: str) -> dict[str, Any]:
    """Make a version that holds what an earlier one, or the starter page, holds.

    Raises `Forbidden` where it would change what is locked.
    """
    await page_at(found, version_id)
    step = step_name(found.thread, "by hand", str(uuid.uuid4()))
    # With a fence, a write that is sent again after a lost connection is one version all the same.
    fence = await found.artefact.claim(step, epoch=0, owner=found.owner, thread=found.thread, facts={})
    made = fence.result if isinstance(fence, Done) else None
    for _ in range(_TRIES):
        if made is not None:
            await together(found.storage.redis, found.artefact.noting(found.owner, found.thread))
            return await version(found, str(made["versionId"]))
        tip = await found.artefact.tip(STREAM)
        new = NewVersion(
            STREAM,
            await _restored(found, tip, version_id),
            found.owner,
            step,
            None if version_id == page_history.BEGINNING else version_id,
            {"status": "draft"},
            tip,
        )
        try:
            made = await found.artefact.create_version(new, None if isinstance(fence, Done) else fence)
        except Conflict:
            continue
    raise Busy(f"the page {found.artefact.id!r} was changed by others each time", remedy="try again")


async def _restored(found: Found, tip: Tip, version_id: str) -> PageData:
    before = page_history.page_of(tip.newest)
    after = page_history.again(before, await page_at(found, version_id))
    page_edits.respect(before, after, tip.locked)
    return page_history.edited(tip.newest, before, after)


async def lock(found: Found, element_id: str) -> dict[str, Any]:
    """Lock an element with all inside it, or with `page` everything; return all locks."""
    page_history.page_of((await found.artefact.tip(STREAM)).newest).get(element_id)
    return await locks.lock(found.artefact, "elementId", element_id, found.owner)


async def unlock(found: Found, element_id: str) -> dict[str, Any]:
    """Unlock what `lock` locked; return all locks."""
    return await locks.unlock(found.artefact, "elementId", element_id)


async def page_at(found: Found, version_id: str | None) -> Page:
    """Return the page of a version, of `start` the starter page, of None the newest."""
    if version_id == page_history.BEGINNING:
        return START
    if version_id is None:
        return page_history.page_of((await found.artefact.tip(STREAM)).newest)
    one = await found.artefact.version(STREAM, version_id)
    return await asyncio.to_thread(page_history.page_of, one)


async def exported(found: Found, version_id: str | None, *, inline: bool) -> Document:
    """Return a version as a file of HTML, with the page's own images inside where `inline`."""
    page = await page_at(found, version_id)
    inlined = await _images(found, page) if inline else {}
    return await asyncio.to_thread(document, page, inlined)


async def _images(found: Found, page: Page) -> dict[str, str]:
    """Data URIs of the images on the page that were sent to it, by their addresses."""
    shown = {element.attributes.get("src") for element, _ in walk(page.root) if element.type == "image"}
    there = await files.records(found.storage, found.artefact)
    made, room = {}, MAX_INLINED
    for name, record in there.items():
        url = address(found.artefact.id, name)
        if url in shown and record["type"].startswith("image/") and record["size"] <= room:
            room -= record["size"]
            data = b"".join([piece async for piece in files.pieces(found.storage, found.artefact, name)])
            made[url] = f"data:{record['type']};base64,{base64.b64encode(data).decode()}"
    return made


async def _version(found: Found, version_id: str) -> tuple[Version, Version]:
    one, tip = await asyncio.gather(found.artefact.version(STREAM, version_id), found.artefact.tip(STREAM))
    return one, tip.newest or one


def _line(version: Version, newest: Version) -> dict[str, Any]:
    return described(version, newest) | {"summary": page_history.summary(version.data)}
