"""A page that is to be published: the check of it, and a ZIP file with everything that it shows."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Final, Literal
from urllib.parse import urljoin

from typing_extensions import TypedDict

from callsheet.server.pages.views import PageRef, page_at
from callsheet.state.pages.check import PageCheck, check_page
from callsheet.state.pages.page import Page, walk
from callsheet.storage.artefacts import files
from callsheet.storage.artefacts.files import FileRecord
from callsheet.tools.pages.html import Publication, render_document
from callsheet.tools.pages.uploads import upload_url

MAX_ASSETS: Final = 60_000_000
"""Bytes of files that a ZIP file contains; further files are named."""
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_WEB: Final = ("http://", "https://")


class PageChecks(TypedDict):
    """A page beside the rules for one that is published."""

    pageId: str
    verdict: Literal["pass", "warn", "fail"]
    """The worst of its checks."""
    checks: list[PageCheck]


async def check_view(ref: PageRef, version_id: str | None) -> PageChecks:
    """Return the checks of a version."""
    page = await page_at(ref, version_id)
    stored = await files.records(ref.storage, ref.artefact)
    own, prefix = {upload_url(ref.artefact.id, name) for name in stored}, upload_url(ref.artefact.id, "")
    dead = {address for _, address in _addresses(page) if address.startswith(prefix)} - own
    checks = await asyncio.to_thread(check_page, page, dead)
    verdicts = {check["verdict"] for check in checks}
    worst: Literal["pass", "warn", "fail"] = "pass"
    if verdicts != {"pass"}:
        worst = "fail" if "fail" in verdicts else "warn"
    return PageChecks(pageId=ref.artefact.id, verdict=worst, checks=checks)


async def site_files(
    ref: PageRef, version_id: str | None, url: str, *, external: bool
) -> AsyncIterator[tuple[str, bytes]]:
    """Yield the files of a version with names: the page, the uploads that it names, and what is left out.

    `url` is the address at which it will be served, or empty.
    """
    page = await page_at(ref, version_id)
    addresses = [address for _, address in _addresses(page)]
    names = _asset_names(ref, addresses, await files.records(ref.storage, ref.artefact))
    image = next((one for kind, one in _addresses(page) if kind == "image"), "")
    shared = urljoin(url, names[image][0]) if url and image in names else image
    publication = Publication(url, shared if shared.startswith(_WEB) else "")
    paths = {address: path for address, (path, _) in names.items()}
    document = await asyncio.to_thread(
        render_document, page, paths, external=external, publication=publication
    )
    yield "index.html", document.html.encode()
    for path, file_id in names.values():
        pieces = files.pieces(ref.storage, ref.artefact, file_id)
        yield path, b"".join([piece async for piece in pieces])
    own = upload_url(ref.artefact.id, "")
    outside = [
        address
        for kind, address in _addresses(page)
        if address not in names and (address.startswith(own) or (kind != "link" and "://" in address))
    ]
    if outside:
        yield "not-included.txt", "".join(f"{one}\n" for one in dict.fromkeys(outside)).encode()


def _addresses(page: Page) -> Iterator[tuple[str, str]]:
    """Yield what the page shows and what it leads to: the kind, with `link` for a target, and the address."""
    for element, _ in walk(page.root):
        for name in ("src", "poster", "href"):
            if address := element.attributes.get(name):
                yield "link" if name == "href" else "image" if name == "poster" else element.type, address


def _asset_names(
    ref: PageRef, addresses: list[str], records: dict[str, FileRecord]
) -> dict[str, tuple[str, str]]:
    """Return path and id of the page's own files, by address, as far as there is room."""
    names: dict[str, tuple[str, str]] = {}
    remaining, taken = MAX_ASSETS, set[str]()
    for file_id, record in records.items():
        address = upload_url(ref.artefact.id, file_id)
        if address not in addresses or record["size"] > remaining:
            continue
        remaining -= record["size"]
        plain = _ODD.sub("-", record["name"])
        name = f"{file_id[:8]}-{plain}" if plain.casefold() in taken else plain
        taken.add(plain.casefold())
        names[address] = f"assets/{name}", file_id
    return names
