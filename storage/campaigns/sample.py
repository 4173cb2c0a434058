"""The records of the bundled library, which nobody changes, and their ready-made vectors.

`python -m callsheet.storage.campaigns.sample` writes the vectors anew, which is due when the campaigns, the
texts or the models change. Vectors of other texts or models are never used; what is missing is computed, in a
few seconds.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Never

import numpy as np

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.state.errors import Forbidden
from callsheet.storage.campaigns.embeddings import OfflineEmbeddings
from callsheet.storage.campaigns.records import Changes, Head
from callsheet.storage.campaigns.vectors import FIELDS, pack, unit_vectors
from callsheet.storage.campaigns.words import embedding_texts

VECTORS: Final = Path(__file__).with_name("sample_vectors.npz")
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


@cache
def read_vectors(file: Path = VECTORS) -> Mapping[str, bytes]:
    """Return the packed vectors by campaign; none without the file."""
    if not file.exists():
        return {}
    with np.load(file) as arrays:
        ids, vectors = arrays["ids"].tolist(), arrays["vectors"]
    return dict(zip(ids, map(np.ndarray.tobytes, vectors), strict=True))


def write_vectors(campaigns: Sequence[Campaign], file: Path = VECTORS) -> None:
    """Compute the vectors and write the file."""
    embeddings = OfflineEmbeddings().suited_to(len(campaigns))
    texts = {campaign.id: list(embedding_texts(campaign).values()) for campaign in campaigns}
    flat = [text for parts in texts.values() for text in parts]
    vectors = asyncio.run(unit_vectors(embeddings, flat)).reshape(len(texts), len(FIELDS), -1)
    packed = dict(pack(embeddings.model, texts, dict(zip(texts, vectors, strict=True))))
    rows = np.array([np.frombuffer(each, "uint8") for each in packed.values()])
    np.savez_compressed(file, ids=np.array(list(packed)), vectors=rows)


def main() -> int:
    """Write the vectors of the bundled campaigns."""
    write_vectors(sample_campaigns())
    return 0


if __name__ == "__main__":
    sys.exit(main())
