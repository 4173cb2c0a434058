"""The campaign library of an owner, wherever it lies: where tools and routes begin."""

import asyncio
import hashlib
import os
import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.errors import Invalid
from callsheet.storage.campaigns.embeddings import Embeddings, OfflineEmbeddings
from callsheet.storage.campaigns.index import CampaignIndex
from callsheet.storage.campaigns.records import RedisRecords
from callsheet.storage.campaigns.sample import SampleRecords
from callsheet.storage.embedded import folders
from callsheet.storage.redis.connection import Storage

if TYPE_CHECKING:
    from callsheet.storage.campaigns.embedded import EmbeddedIndex

MAX_CAMPAIGNS_VARIABLE: Final = "CALLSHEET_MAX_CAMPAIGNS"
DEFAULT_MAX_CAMPAIGNS: Final = 100_000
_OPEN: Final = 32
"""Most libraries that a process keeps open; the one used longest ago is closed first."""


class _Libraries:
    """The open libraries of one storage, with the same embeddings."""

    def __init__(self, storage: Storage, embeddings: Embeddings, index: "type[EmbeddedIndex]") -> None:
        self._storage = storage
        self._embeddings = embeddings
        self._index = index
        self._opened: OrderedDict[str, EmbeddedIndex] = OrderedDict()

    @cached_property
    def sample(self) -> "EmbeddedIndex":
        """The bundled library."""
        return self._index(SampleRecords(_sample_campaigns), self._embeddings)

    def own(self, owner: str) -> "EmbeddedIndex":
        """Return the owner's library, opened now or before."""
        if owner not in self._opened:
            records = RedisRecords(self._storage, owner)
            folder = self._folder / hashlib.sha256(owner.encode()).hexdigest()[:32]
            self._opened[owner] = self._index(records, self._embeddings, folder, most=max_campaigns())
            if len(self._opened) > _OPEN:
                self._opened.popitem(last=False)
        self._opened.move_to_end(owner)
        return self._opened[owner]

    @cached_property
    def _folder(self) -> Path:
        """Folder of all indexes; one that ends with this process where no data folder is set."""
        if data_dir := _data_dir(self._storage):
            return folders.private_folder(folders.private_folder(data_dir) / "campaigns")
        folder = Path(tempfile.mkdtemp(prefix="callsheet-campaigns-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


async def library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> CampaignIndex:
    """Return the library to search: the owner's, or the bundled one for an owner without campaigns.

    `embeddings` are the offline ones if not given.
    """
    libraries = await _libraries(storage, embeddings)
    own = libraries.own(owner)
    return own if await own.has_campaigns() else libraries.sample


async def own_library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> CampaignIndex:
    """Return the owner's own library, which may be empty: the one to change."""
    return (await _libraries(storage, embeddings)).own(owner)


async def delete_library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> None:
    """Delete all campaigns of the owner, and this machine's index of them. Twice is safe."""
    await (await _libraries(storage, embeddings)).own(owner).delete_all()


def max_campaigns() -> int:
    """Return the most campaigns that an owner may have; 0 for no limit."""
    text = os.environ.get(MAX_CAMPAIGNS_VARIABLE, "").strip()
    if text and not (text.isascii() and text.isdigit()):
        rule = f"{MAX_CAMPAIGNS_VARIABLE} is {text!r}, and must be a whole number"
        raise Invalid(rule, remedy=f"Correct {MAX_CAMPAIGNS_VARIABLE}, or unset it.")
    return int(text or DEFAULT_MAX_CAMPAIGNS)


async def _libraries(storage: Storage, embeddings: Embeddings | None) -> _Libraries:
    chosen = embeddings or _offline()
    # In a thread, because numpy and tantivy take a fifth of a second to import.
    module = await asyncio.to_thread(import_module, "callsheet.storage.campaigns.embedded")
    name = f"campaigns {chosen.model}"
    if name not in storage.attached:
        storage.attached[name] = _Libraries(storage, chosen, module.EmbeddedIndex)
    libraries: _Libraries = storage.attached[name]
    return libraries


def _sample_campaigns() -> Sequence[Campaign]:
    campaigns: Sequence[Campaign] = import_module("callsheet.state.campaigns.sample").sample_campaigns()
    return campaigns


@cache
def _offline() -> OfflineEmbeddings:
    return OfflineEmbeddings()


def _data_dir(storage: Storage) -> Path | None:
    if storage.lease:
        return storage.lease.home.parent
    configured = os.environ.get(folders.DATA_DIR_VARIABLE)
    return Path(configured).expanduser() if configured else None
