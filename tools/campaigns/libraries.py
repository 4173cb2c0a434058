"""The campaign libraries of owners, searched with the embeddings that the environment names.

Storage knows no vendor, so what is configured is handed to it here; tools and routes open libraries so.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from callsheet.providers.embeddings import configured_embeddings
from callsheet.state.campaigns.filters import Filters
from callsheet.state.campaigns.reading import LooseFilters, Resolved, absent_value, resolve_filters
from callsheet.storage import Storage
from callsheet.storage.campaigns import library as stored
from callsheet.storage.campaigns.index import CampaignIndex, GroupBy

SAMPLE: Final = "This is the sample library of invented campaigns; it is searched until you import your own."


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


async def sample_notes(storage: Storage, owner: str) -> list[str]:
    """Return the sentence that the campaigns are invented; none for an owner with campaigns."""
    own = await stored.has_own_library(storage, owner, configured_embeddings())
    return [] if own else [SAMPLE]


async def delete_library(storage: Storage, owner: str) -> None:
    """Delete all campaigns of the owner, and this machine's index of them. Twice is safe."""
    await stored.delete_library(storage, owner, configured_embeddings())


_OPEN: Final[tuple[GroupBy, ...]] = ("channel", "value_prop")
_DIMENSIONS: Final[tuple[GroupBy, ...]] = (*_OPEN, "sentiment", "visual_style", "product", "company")
_MAX_VALUES: Final = 500


async def library_values(index: CampaignIndex, names: Sequence[GroupBy] = _OPEN) -> dict[str, list[str]]:
    """Return the values of a library by dimension, the most frequent first; by default the open lists."""
    groups = await asyncio.gather(*(index.group(Filters(), by) for by in names))
    return {
        by: [group.value for group in values[:_MAX_VALUES] if group.value]
        for by, values in zip(names, groups, strict=True)
    }


async def resolve(index: CampaignIndex, loose: LooseFilters) -> Resolved:
    """Return the exact filters of loose ones, by the values of the library, and those that it lacks.

    Raises `Invalid` that lists the values for an unknown one.
    """
    written = [part for part in (loose, loose.exclude) if part and any(getattr(part, n) for n in _DIMENSIONS)]
    values = await library_values(index, _DIMENSIONS) if written else {}
    resolved = resolve_filters(loose, await index.newest(), datetime.now(UTC).date(), values)
    named = [
        (name, value)
        for part in (resolved.filters, resolved.filters.exclude)
        for name in _DIMENSIONS
        for value in getattr(part, name)
        if value not in values[name]
    ]
    # The index knows brands, plurals, and values beyond the most frequent ones.
    counts = await asyncio.gather(
        *(index.filter(Filters.model_validate({name: [value]}), limit=1) for name, value in named)
    )
    absent = [
        absent_value(name, value, values[name])
        for (name, value), matches in zip(named, counts, strict=True)
        if not matches.total
    ]
    return resolved._replace(absent=tuple(dict.fromkeys(absent)))
