"""Pages and their versions: views, differences, restoring, locks, export."""

import asyncio
import base64
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from callsheet.graphs import page_builder
from callsheet.server.artefacts import sources, views
from callsheet.server.artefacts.schemas import ArtefactSource
from callsheet.server.artefacts.titles import titles
from callsheet.server.http.context import AppContext
from callsheet.server.http.requests import identifier
from callsheet.server.pages.schemas import PageCreate
from callsheet.server.pages.service import PAGES
from callsheet.state.errors import Busy, Conflict, Missing
from callsheet.state.pages import edits, history
from callsheet.state.pages.hero import hero_page
from callsheet.state.pages.history import STARTER, PageData, diff
from callsheet.state.pages.page import STREAM, Page, digests, walk
from callsheet.state.times import iso_time_or_none
from callsheet.state.versions import Origin, Version, origin
from callsheet.storage import indexes
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, StreamHead
from callsheet.storage.artefacts.receipts import RecordedResult, StepFence, receipt_name
from callsheet.storage.redis.connection import Storage
from callsheet.storage.threads import threads
from callsheet.tools.pages.edits import ElementChanges
from callsheet.tools.pages.html import Document, render_document
from callsheet.tools.pages.uploads import upload_url

KIND: Final = "page"
_SPEC: Final = page_builder.WORKFLOW.artefact
MAX_INLINED: Final = 10_000_000
"""Bytes of images that an export contains; further images stay links."""
_TRIES: Final = 20


@dataclass(frozen=True)
class PageRef:
    """An existing page and its owner."""

    storage: Storage
    artefact: Artefact
    owner: str
    thread: str
    """Id of the page's conversation."""
    meta: Mapping[str, str]


async def find_page(storage: Storage, name: str, owner: str) -> PageRef:
    """Return the owner's page whose id, or whose conversation's id, is `name`.

    Raises `Missing` if there is none, or it is another owner's.
    """
    artefact = Artefact(storage, KIND, identifier(name, "pageId"), owner)
    meta = await artefact.meta()
    if meta.get("owner") == owner:
        return PageRef(storage, artefact, owner, meta.get("thread") or name, meta)
    page_id = await _conversation_page(storage, name, owner)
    if page_id is None:
        raise Missing(f"there is no page {name!r}", remedy=f"create it with POST /api/pages/{name}/chat")
    artefact = Artefact(storage, KIND, page_id, owner)
    return PageRef(storage, artefact, owner, name, await artefact.meta())


async def _conversation_page(storage: Storage, name: str, owner: str) -> str | None:
    """Return the id of the page of a conversation, which need not have a version yet; None for none."""
    try:
        thread = await threads.get(storage, name, owner)
    except Missing:
        return None
    kind, _, page_id = thread.artefact.partition(":")
    return page_id if kind == KIND else None


async def page_list(ctx: AppContext, owner: str, after: str | None, limit: int) -> dict[str, Any]:
    """Return a page of the owner's landing pages, newest change first: `{pages, next}`."""
    ids = await indexes.list_owned(ctx.storage, owner, KIND, after=after, limit=limit)
    artefacts = [Artefact(ctx.storage, KIND, name, owner) for name in ids.ids]
    metas = await asyncio.gather(*(artefact.meta() for artefact in artefacts))
    refs = [
        PageRef(ctx.storage, artefact, owner, meta.get("thread") or artefact.id, meta)
        for artefact, meta in zip(artefacts, metas, strict=True)
        if meta.get("owner") == owner
    ]
    heads = await asyncio.gather(*(ref.artefact.stream_head(STREAM) for ref in refs))
    of_thread = await titles(ctx, owner, [ref.thread for ref in refs])
    pages = [_summary(ref, head, of_thread) for ref, head in zip(refs, heads, strict=True)]
    return {"pages": pages, "next": ids.next}


async def page_view(ctx: AppContext, ref: PageRef) -> dict[str, Any]:
    """Return the page: its elements, theme, locks, and its newest and active version."""
    head, of_thread = await asyncio.gather(
        ref.artefact.stream_head(STREAM), titles(ctx, ref.owner, [ref.thread])
    )
    page = history.page_of(head.newest)
    return _summary(ref, head, of_thread) | {
        "page": page.data(),
        "digests": digests(page),
        "locks": await views.locks_view(ref.artefact, "elementId"),
    }


async def page_title(ctx: AppContext, ref: PageRef) -> str:
    """Return the title of a page: that of its conversation, else its own."""
    of_thread = await titles(ctx, ref.owner, [ref.thread])
    return (
        of_thread.get(ref.thread) or history.page_of((await ref.artefact.stream_head(STREAM)).newest).title()
    )


async def file_title(ctx: AppContext, ref: PageRef, version_id: str | None) -> str:
    """Return the title of a page as the name of a file; one of an earlier version has its id."""
    title, head = await asyncio.gather(page_title(ctx, ref), ref.artefact.stream_head(STREAM))
    newest = head.newest.id if head.newest else history.BEGINNING
    return title if version_id in {None, newest} else f"{title} {version_id}"


async def create_from_ad(
    storage: Storage, owner: str, body: PageCreate, key: str | None
) -> tuple[PageRef, list[str]]:
    """Create a page whose first section has the words of an ad's script; return it with notices.

    The same idempotency key makes it once. Raises `Missing` without the ad or the version, and `Conflict`
    for an ad without such a script and for a page that is there already.
    """
    ad = await sources.find_source(storage, "ad", body.adId, owner)
    script, notices = await _script(ad, body.version)
    name = await sources.new_id(storage, KIND, owner, body.pageId, key)
    item: ArtefactSource = {"kind": "ad", "id": ad.id, "versions": {"voices": script.id}}
    fact = sources.sources_fact([item], key, body)
    thread = await PAGES.find_thread(storage, name, owner)
    artefact = await sources.claim_new(PAGES, storage, thread, fact, key)
    head = await artefact.stream_head(STREAM)
    if head.newest is None:
        known = await ad.meta()
        language = str(script.data.get("language") or known.get("language") or "english")
        lines = [track["text"] for track in script.data["voiceTracks"]]
        hero = await asyncio.to_thread(hero_page, lines, language, known.get("client", ""))
        data = history.edit_version(head.newest, STARTER, hero)
        new = NewVersion(STREAM, data, owner, uuid.uuid4().hex, None, {"status": "draft"}, head)
        await artefact.create_version(replace(new, origin=origin("person", f"from ad {ad.id}")))
    await sources.record_use(ad, storage, KIND, name)
    return await find_page(storage, name, owner), notices


async def _script(ad: Artefact, version_id: str | None) -> tuple[Version, list[str]]:
    """Return the script that is chosen, and that another one is active."""
    head = await ad.stream_head("voices")
    wanted = head.active if version_id == "active" else version_id
    if head.newest is None or (version_id and not wanted):
        rule = f"ad {ad.id!r} has no {'active ' if head.newest else ''}script"
        raise Conflict(rule, remedy="make it first, or choose another ad or version")
    script = await ad.version("voices", wanted) if wanted else head.newest
    other = head.active not in {None, script.id}
    return script, [f"The page has the words of {script.id} of the script; {head.active} is active."] * other


def _summary(ref: PageRef, head: StreamHead, of_thread: Mapping[str, str]) -> dict[str, Any]:
    return {
        "pageId": ref.artefact.id,
        "conversationId": ref.thread,
        "title": of_thread.get(ref.thread) or history.page_of(head.newest).title(),
        "versionId": head.newest.id if head.newest else None,
        "activeVersionId": head.active,
        "createdAt": iso_time_or_none(ref.meta.get("createdMs")),
        "updatedAt": iso_time_or_none(ref.meta.get("updatedMs") or ref.meta.get("createdMs")),
    }


async def versions_view(ref: PageRef, page: views.VersionPage) -> dict[str, Any]:
    """Return the newest versions, or older ones; newest last."""
    return await views.version_list(_SPEC, ref.artefact, STREAM, page)


async def version_view(ref: PageRef, version_id: str) -> dict[str, Any]:
    """Return one version: its page and its changes."""
    version, shown = await _version(ref, version_id)
    page = history.page_of(version)
    return shown | {
        "page": page.data(),
        "changes": version.data["changes"],
        "digests": digests(page),
    }


async def diff_view(ref: PageRef, old: str, new: str) -> dict[str, Any]:
    """Return the changes between two versions, and the ids of byte-identical elements."""
    before, after = [await page_at(ref, name) for name in (old, new)]
    old_digests, new_digests = digests(before), digests(after)
    return {
        "from": old,
        "to": new,
        "changes": diff(before, after),
        "unchanged": [name for name in new_digests if old_digests.get(name) == new_digests[name]],
    }


async def activate_version(ref: PageRef, version_id: str) -> dict[str, Any]:
    """Activate a version."""
    await ref.artefact.activate(STREAM, version_id)
    _, shown = await _version(ref, version_id)
    return shown | {"status": "active", "active": version_id}


async def restore_version(ref: PageRef, version_id: str) -> dict[str, Any]:
    """Create a version with the page of an earlier one, or the starter page.

    Raises `Forbidden` if a locked element would change.
    """
    earlier = await page_at(ref, version_id)
    parent = None if version_id == history.BEGINNING else version_id

    def restore(before: Page) -> Page:
        return history.restore_page(before, earlier)

    return await _write_by_hand(ref, restore, origin("undo", f"restore {version_id}"), parent)


async def edit_element(
    ref: PageRef, element_id: str, changes: ElementChanges, version: str
) -> dict[str, Any]:
    """Create a version with one changed element.

    Raises `Conflict` if `version` is not the newest one (`start` before the first), `Forbidden` for a locked
    element, and what `edits.modify` raises.
    """

    def modify(before: Page) -> Page:
        return edits.modify(before, element_id, **changes.model_dump())

    source = origin("person", f"{element_id} edited by hand")
    return await _write_by_hand(ref, modify, source, version=version)


async def _write_by_hand(
    ref: PageRef,
    change: Callable[[Page], Page],
    source: Origin,
    parent: str | None = None,
    version: str | None = None,
) -> dict[str, Any]:
    """Write the changed page as a new version and return it; `version` must be the newest one, if given."""
    step = receipt_name(ref.thread, "by hand", str(uuid.uuid4()))
    fence: StepFence | RecordedResult | None = None
    for _ in range(_TRIES):
        head = await ref.artefact.stream_head(STREAM)
        if version is not None:
            views.require_newest(head, "" if version == history.BEGINNING else version, "the page")
        data = await asyncio.to_thread(_changed_data, head, change)
        new = NewVersion(STREAM, data, ref.owner, step, parent, {"status": "draft"}, head, source)
        # The fence keeps a write that is repeated after a lost connection from creating a second version.
        fence = fence or await ref.artefact.claim(
            step, epoch=0, owner=ref.owner, thread=ref.thread, facts={}, by_hand="owner" in ref.meta
        )
        try:
            created = (
                fence.result
                if isinstance(fence, RecordedResult)
                else await ref.artefact.create_version(new, fence)
            )
        except Conflict:
            continue
        await ref.artefact.touch(ref.owner, ref.thread)
        return await version_view(ref, str(created["versionId"]))
    raise Busy(f"the page {ref.artefact.id!r} was changed by others each time", remedy="try again")


def _changed_data(head: StreamHead, change: Callable[[Page], Page]) -> PageData:
    before = history.page_of(head.newest)
    after = change(before)
    edits.check_locks(before, after, head.locked)
    return history.edit_version(head.newest, before, after)


async def lock_element(ref: PageRef, element_id: str) -> dict[str, Any]:
    """Lock an element with its children, or with `page` the whole page; return all locks."""
    history.page_of((await ref.artefact.stream_head(STREAM)).newest).get(element_id)
    return await views.lock(ref.artefact, "elementId", element_id, ref.owner)


async def unlock_element(ref: PageRef, element_id: str) -> dict[str, Any]:
    """Unlock an element; return all locks."""
    return await views.unlock(ref.artefact, "elementId", element_id)


async def page_at(ref: PageRef, version_id: str | None) -> Page:
    """Return the page of a version; `start` is the starter page, None the newest version."""
    if version_id == history.BEGINNING:
        return STARTER
    if version_id is None:
        return history.page_of((await ref.artefact.stream_head(STREAM)).newest)
    version = await ref.artefact.version(STREAM, version_id)
    return await asyncio.to_thread(history.page_of, version)


async def export_html(
    ref: PageRef, version_id: str | None, *, inline: bool, external: bool = False, files: str = "'self'"
) -> Document:
    """Return a version as an HTML document; `inline` embeds the images uploaded to the page.

    `external` lets it load images and films from elsewhere; `files` says where its own may come from.
    """
    page = await page_at(ref, version_id)
    images = await _image_data_uris(ref, page) if inline else {}
    return await asyncio.to_thread(render_document, page, images, external=external, files=files)


async def _image_data_uris(ref: PageRef, page: Page) -> dict[str, str]:
    """Return the data URIs of the images uploaded to the page, by URL."""
    shown = {element.attributes.get("src") for element, _ in walk(page.root) if element.type == "image"}
    records = await files.records(ref.storage, ref.artefact)
    data_uris, remaining = {}, MAX_INLINED
    for name, record in records.items():
        url = upload_url(ref.artefact.id, name)
        if url in shown and record["type"].startswith("image/") and record["size"] <= remaining:
            remaining -= record["size"]
            data = b"".join([piece async for piece in files.pieces(ref.storage, ref.artefact, name)])
            data_uris[url] = f"data:{record['type']};base64,{base64.b64encode(data).decode()}"
    return data_uris


async def _version(ref: PageRef, version_id: str) -> tuple[Version, dict[str, Any]]:
    version, head = await asyncio.gather(
        ref.artefact.version(STREAM, version_id), ref.artefact.stream_head(STREAM)
    )
    return version, await views.version_view(_SPEC, ref.artefact, version, head.newest or version)


async def versions_diff(ref: PageRef, old: str, new: str) -> dict[str, Any]:
    """Return the differences from one version to another in the form of all streams."""
    return await views.diff_view(_SPEC, ref.artefact, STREAM, old, new)
