"""The libraries that a process has open: indexes of its own, or PostgreSQL's."""

import hashlib
import os
import shutil
import tempfile
import weakref
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.storage.campaigns import sample_vectors
from callsheet.storage.campaigns.embedded import EmbeddedIndex
from callsheet.storage.campaigns.embeddings import Embeddings
from callsheet.storage.campaigns.index import CampaignIndex
from callsheet.storage.campaigns.records import RedisRecords
from callsheet.storage.campaigns.sample import SampleRecords
from callsheet.storage.embedded import folders
from callsheet.storage.redis.connection import Storage

if TYPE_CHECKING:
    from callsheet.storage.campaigns.postgres import PostgresPool

_OPEN: Final = 32
"""Most libraries that a process keeps open; the one used longest ago is closed first."""


class OwnLibrary(CampaignIndex, Protocol):
    """A library that its owner may change."""

    async def has_campaigns(self) -> bool:
        """Return whether there is any campaign, without reading an index."""

    async def delete_all(self) -> None:
        """Delete all campaigns. Twice is safe."""

    def close(self) -> None:
        """Close what only this library has open. Safe to call twice."""


class Libraries:
    """The open libraries of one storage, with the same embeddings; in PostgreSQL if there is a URL."""

    def __init__(self, storage: Storage, embeddings: Embeddings, url: str = "") -> None:
        self._storage = storage
        self._embeddings = embeddings
        self._url = url
        self._opened: OrderedDict[str, OwnLibrary] = OrderedDict()

    async def aclose(self) -> None:
        """Close all libraries. Safe to call twice."""
        for library in self._opened.values():
            library.close()
        self._opened.clear()
        if "_pool" in self.__dict__:
            await self._pool.aclose()

    @cached_property
    def sample(self) -> EmbeddedIndex:
        """The bundled library."""
        return EmbeddedIndex(SampleRecords(sample_campaigns, sample_vectors.read), self._embeddings)

    def own(self, owner: str, most: int) -> OwnLibrary:
        """Return the owner's library of at most `most` campaigns, opened now or before."""
        if owner not in self._opened:
            self._opened[owner] = self._open(owner, most)
            if len(self._opened) > _OPEN:
                self._opened.popitem(last=False)
        self._opened.move_to_end(owner)
        return self._opened[owner]

    def _open(self, owner: str, most: int) -> OwnLibrary:
        if self._url:
            from callsheet.storage.campaigns.postgres import PostgresIndex  # noqa: PLC0415 -- an extra

            return PostgresIndex(self._pool, owner, self._embeddings, most=most)
        records = RedisRecords(self._storage, owner)
        folder = self._folder / hashlib.sha256(owner.encode()).hexdigest()[:32]
        return EmbeddedIndex(records, self._embeddings, folder, most=most)

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
