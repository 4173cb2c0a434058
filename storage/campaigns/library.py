"""The campaign library of an owner, wherever it lies: where tools and routes begin."""

import asyncio
import os
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from callsheet.state.errors import Broken, Invalid
from callsheet.storage.campaigns.embeddings import Embeddings, OfflineEmbeddings
from callsheet.storage.campaigns.index import CampaignIndex
from callsheet.storage.redis.connection import Storage

if TYPE_CHECKING:
    from callsheet.storage.campaigns.libraries import Libraries

URL_VARIABLE: Final = "CALLSHEET_CAMPAIGNS_URL"
MAX_CAMPAIGNS_VARIABLE: Final = "CALLSHEET_MAX_CAMPAIGNS"
DEFAULT_MAX_CAMPAIGNS: Final = 100_000


async def library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> CampaignIndex:
    """Return the library to search: the owner's, or the bundled one for an owner without campaigns.

    `embeddings` are the offline ones if not given.
    """
    libraries = await _libraries(storage, embeddings)
    own = libraries.own(owner, max_campaigns())
    return own if await own.has_campaigns() else libraries.sample


async def own_library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> CampaignIndex:
    """Return the owner's own library, which may be empty: the one to change."""
    return (await _libraries(storage, embeddings)).own(owner, max_campaigns())


async def delete_library(storage: Storage, owner: str, embeddings: Embeddings | None = None) -> None:
    """Delete all campaigns of the owner, and this machine's index of them. Twice is safe."""
    await (await _libraries(storage, embeddings)).own(owner, max_campaigns()).delete_all()


def max_campaigns() -> int:
    """Return the most campaigns that an owner may have; 0 for no limit."""
    text = os.environ.get(MAX_CAMPAIGNS_VARIABLE, "").strip()
    if text and not (text.isascii() and text.isdigit()):
        rule = f"{MAX_CAMPAIGNS_VARIABLE} is {text!r}, and must be a whole number"
        raise Invalid(rule, remedy=f"Correct {MAX_CAMPAIGNS_VARIABLE}, or unset it.")
    return int(text or DEFAULT_MAX_CAMPAIGNS)


async def _libraries(storage: Storage, embeddings: Embeddings | None) -> "Libraries":
    chosen = embeddings or _offline()
    url = os.environ.get(URL_VARIABLE, "").strip()
    name = f"campaigns {chosen.model} {url}"
    if name not in storage.attached:
        # In a thread, because numpy and tantivy take a fifth of a second to import.
        libraries = await asyncio.to_thread(_import, url)
        storage.attached.setdefault(name, libraries(storage, chosen, url))
    return cast("Libraries", storage.attached[name])


def _import(url: str) -> "type[Libraries]":
    try:
        if url:
            import_module("callsheet.storage.campaigns.postgres")
        module = import_module("callsheet.storage.campaigns.libraries")
    except ModuleNotFoundError as error:
        extra = "postgresql" if error.name == "asyncpg" else "search"
        rule = f"campaign search needs {error.name!r}, which is not installed"
        raise Broken(rule, remedy=f"Run: pip install 'callsheet[{extra}]'") from error
    return cast("type[Libraries]", module.Libraries)


@cache
def _offline() -> OfflineEmbeddings:
    return OfflineEmbeddings()
