"""The records of the bundled library, which nobody changes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Never

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.errors import Forbidden
from callsheet.storage.campaigns.records import Changes, Head

_GENERATION: Final = "sample"


class SampleRecords:
    """Campaigns as one change, and ready-made vectors, read on first use."""

    def __init__(
        self,
        read: Callable[[], Iterable[Campaign]],
        read_vectors: Callable[[], Mapping[str, bytes]] = dict,
    ) -> None:
        self._read = read
        self._read_vectors = read_vectors

    @cached_property
    def _by_id(self) -> Mapping[str, Campaign]:
        return {campaign.id: campaign for campaign in self._read()}

    async def head(self, seq: int = 0) -> Head:
        """Return the state after the only change."""
        del seq
        return Head(_GENERATION, 1, campaigns=len(self._by_id))

    async def begin_generation(self, after: str) -> None:
        """Do nothing: the library has one history."""

    async def count(self) -> int:
        """Return the number of campaigns."""
        return len(self._by_id)

    async def changes(self, after: int, mark: int) -> Changes:
        """Return all campaigns."""
        del after, mark
        return Changes(Head(_GENERATION, 1), list(self._by_id.values()), [])

    async def get(self, ids: Sequence[str]) -> list[Campaign | None]:
        """Return a campaign or None for each id."""
        return [self._by_id.get(each) for each in ids]

    async def put(self, campaigns: Sequence[Campaign], most: int) -> int:
        """Refuse: the library is bundled."""
        del campaigns, most
        _refuse()

    async def delete(self, ids: Sequence[str]) -> int:
        """Refuse: the library is bundled."""
        del ids
        _refuse()

    async def delete_all(self) -> None:
        """Refuse: the library is bundled."""
        _refuse()

    async def vectors(self, ids: Sequence[str]) -> list[bytes | None]:
        """Return the ready-made vectors."""
        vectors = await asyncio.to_thread(self._read_vectors)
        return [vectors.get(each) for each in ids]

    async def put_vectors(self, vectors: Iterable[tuple[str, bytes]]) -> None:
        """Keep nothing."""


def _refuse() -> Never:
    raise Forbidden("the sample library cannot be changed", remedy="import campaigns of your own")
