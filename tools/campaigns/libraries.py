"""The campaign libraries of owners, searched with the embeddings that the environment names.

Storage knows no vendor, so what is configured is handed to it here; tools and routes open libraries so.
"""

import asyncio
from typing import Final

from callsheet.providers.embeddings import configured_embeddings
from callsheet.state.campaigns.filters import Filters
from callsheet.storage import Storage
from callsheet.storage.campaigns import library as stored
from callsheet.storage.campaigns.index import CampaignIndex, GroupBy


async def library(storage: Storage, owner: str) -> CampaignIndex:
    """Return the library to search: the owner's, or the bundled one for an owner without campaigns.

    Raises `Invalid` for a wrong setting of the embeddings.
    """
    return await stored.library(storage, owner, configured_embeddings())


async def own_library(storage: Storage, owner: str) -> CampaignIndex:
    """Return the owner's own library, which may be empty: the one to change.

    Raises `Invalid` for a wrong setting of the embeddings.
    """
    return await stored.own_library(storage, owner, configured_embeddings())


async def delete_library(storage: Storage, owner: str) -> None:
    """Delete all campaigns of the owner, and this machine's index of them. Twice is safe."""
    await stored.delete_library(storage, owner, configured_embeddings())


_OPEN: Final[tuple[GroupBy, ...]] = ("channel", "value_prop")
_MAX_VALUES: Final = 500


async def library_values(index: CampaignIndex) -> dict[str, list[str]]:
    """Return the channels and value propositions of a library, the most frequent first."""
    groups = await asyncio.gather(*(index.group(Filters(), by) for by in _OPEN))
    return {
        by: [group.value for group in values[:_MAX_VALUES] if group.value]
        for by, values in zip(_OPEN, groups, strict=True)
    }
