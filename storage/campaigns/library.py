"""The campaign library of an owner, wherever it lies: where tools and routes begin."""

import asyncio
import hashlib
import os
import shutil
import tempfile
import weakref
from collections import OrderedDict
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.errors import Broken, Invalid
from callsheet.storage.campaigns.embeddings import Embeddings, OfflineEmbeddings
from callsheet.storage.campaigns.index import URL_VARIABLE, CampaignIndex, require_postgres_url
from callsheet.storage.campaigns.records import RedisRecords
from callsheet.storage.embedded import folders
from callsheet.storage.redis.connection import Storage

if TYPE_CHECKING:
    from callsheet.storage.campaigns.postgres import PostgresPool

MAX_CAMPAIGNS_VARIABLE: Final = "CALLSHEET_MAX_CAMPAIGNS"
DEFAULT_MAX_CAMPAIGNS: Final = 100_000
_OPEN: Final = 32
"""Most libraries that a process keeps open; the one used longest ago is closed first."""


class OwnLibrary(CampaignIndex, Protocol):
    """A library that its owner may change."""

    async def has_campaigns(self) -> bool:
        """Return whether there is any campaign, without reading an index."""

    async def delete_all(self) -> None:
        """Delete all campaigns. Twice is safe."""

    async def aclose(self) -> None:
        """Close what only this library has open. Safe to call twice."""


async def library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> CampaignIndex:
    """Return the library to search: the owner's, or the bundled one for an owner without campaigns.

    `embeddings` are the offline ones if not given.
    """
    libraries = await _libraries(storage, embeddings)
    own = await libraries.own(owner)
    return own if await own.has_campaigns() else libraries.sample


async def has_own_library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> bool:
    """Return whether the owner has campaigns; the bundled library is searched for one who has none."""
    return await (await (await _libraries(storage, embeddings)).own(owner)).has_campaigns()


async def may_have_campaigns(storage: Storage, owner: str) -> bool:
    """Return whether the owner has campaigns, without what searches them: True if PostgreSQL has them all."""
    in_postgres = bool(os.environ.get(URL_VARIABLE, "").strip())
    return in_postgres or await RedisRecords(storage, owner).count() > 0


async def own_library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> CampaignIndex:
    """Return the owner's own library, which may be empty: the one to change."""
    return await (await _libraries(storage, embeddings)).own(owner)


async def delete_library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> None:
    """Delete all campaigns of the owner, and this machine's index of them. Twice is safe."""
    await (await (await _libraries(storage, embeddings)).own(owner)).delete_all()


async def check_libraries(storage: Storage) -> None:
    """Raise `StorageDown` if the campaigns are in PostgreSQL, and it does not answer."""
    if os.environ.get(URL_VARIABLE, "").strip():
        await (await _libraries(storage, None)).check()


def check_settings() -> None:
    """Raise `Invalid` for a wrong setting of campaigns."""
    max_campaigns()
    require_postgres_url(os.environ.get(URL_VARIABLE, "").strip())


def max_campaigns() -> int:
    """Return the most campaigns that an owner may have; 0 for no limit."""
    text = os.environ.get(MAX_CAMPAIGNS_VARIABLE, "").strip()
    if text and not (text.isascii() and text.isdigit()):
        rule = f"{MAX_CAMPAIGNS_VARIABLE} is {text!r}, and must be a whole number"
        raise Invalid(rule, remedy=f"Correct {MAX_CAMPAIGNS_VARIABLE}, or unset it.")
    return int(text or DEFAULT_MAX_CAMPAIGNS)


async def _libraries(storage: Storage, embeddings: Embeddings | None) -> "_Libraries":
    chosen = embeddings or _offline()
    url = os.environ.get(URL_VARIABLE, "").strip()
    name = f"campaigns {chosen.model} {url}"
    if name not in storage.attached:
        # In a thread, because numpy takes a tenth of a second to import.
        await asyncio.to_thread(_import, url)
        storage.attached.setdefault(name, _Libraries(storage, chosen, url))
    return cast("_Libraries", storage.attached[name])


def _import(url: str) -> None:
    try:
        if url:
            import_module("callsheet.storage.campaigns.postgres")
        import_module("callsheet.storage.campaigns.sample")
        import_module("callsheet.storage.campaigns.embedded")
    except ModuleNotFoundError as error:
        extra = "postgresql" if error.name == "asyncpg" else "search"
        rule = f"campaign search needs {error.name!r}, which is not installed"
        raise Broken(rule, remedy=f"install callsheet[{extra}] (docs/operations.md)") from error


@cache
def _offline() -> OfflineEmbeddings:
    return OfflineEmbeddings()


class _Libraries:
    """The open libraries of one storage, with the same embeddings; in PostgreSQL if there is a URL."""

    def __init__(self, storage: Storage, embeddings: Embeddings, url: str = "") -> None:
        self._storage = storage
        self._embeddings = embeddings
        self._url = url
        self._opened: OrderedDict[str, OwnLibrary] = OrderedDict()

    async def aclose(self) -> None:
        """Close all libraries. Safe to call twice."""
        while self._opened:
            await self._opened.popitem()[1].aclose()
        if "_pool" in self.__dict__:
            await self._pool.aclose()

    async def check(self) -> None:
        """Raise `StorageDown` if PostgreSQL does not answer."""
        await self._pool.check()

    @cached_property
    def sample(self) -> CampaignIndex:
        """The bundled library."""
        from callsheet.storage.campaigns import embedded, sample  # noqa: PLC0415 -- an extra

        records = sample.SampleRecords(sample_campaigns, sample.read_vectors)
        return embedded.EmbeddedIndex(records, self._embeddings)

    async def own(self, owner: str) -> OwnLibrary:
        """Return the owner's library, opened now or before."""
        if owner not in self._opened:
            # In a thread, because the folder may have to be made.
            folder = None if self._url else await asyncio.to_thread(lambda: self._folder)
            self._opened.setdefault(owner, self._open(owner, folder, max_campaigns()))
        self._opened.move_to_end(owner)
        opened = self._opened[owner]
        if len(self._opened) > _OPEN:
            # A search that still uses it opens its file again.
            await self._opened.popitem(last=False)[1].aclose()
        return opened

    def _open(self, owner: str, parent: Path | None, most: int) -> OwnLibrary:
        if parent is None:
            from callsheet.storage.campaigns.postgres import PostgresIndex  # noqa: PLC0415 -- an extra

            return PostgresIndex(self._pool, owner, self._embeddings, most=most)
        from callsheet.storage.campaigns.embedded import EmbeddedIndex  # noqa: PLC0415 -- an extra

        folder = parent / hashlib.sha256(owner.encode()).hexdigest()[:32]
        return EmbeddedIndex(RedisRecords(self._storage, owner), self._embeddings, folder, most=most)

    @cached_property
    def _pool(self) -> "PostgresPool":
        from callsheet.storage.campaigns.postgres import PostgresPool  # noqa: PLC0415 -- an extra

        return PostgresPool(self._url)

    @cached_property
    def _folder(self) -> Path:
        """Folder of all indexes; one that ends with this process where no data folder is set."""
        if data_dir := _data_dir(self._storage):
            return folders.private_folder(data_dir / "campaigns")
        folder = Path(tempfile.mkdtemp(prefix="callsheet-campaigns-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


def _data_dir(storage: Storage) -> Path | None:
    if storage.lease:
        return storage.lease.home.parent
    configured = os.environ.get(folders.DATA_DIR_VARIABLE)
    return Path(configured).expanduser() if configured else None
