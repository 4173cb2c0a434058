"""Ready-made vectors of the bundled campaigns: `python -m callsheet.storage.campaigns.sample_vectors`.

The command writes them anew, which is due when the campaigns, the texts or the models change. Vectors of
other texts or models are never used; what is missing is computed, in a few seconds.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.storage.campaigns.embeddings import OfflineEmbeddings
from callsheet.storage.campaigns.vector_cache import pack
from callsheet.storage.campaigns.vectors import FIELDS, unit_vectors
from callsheet.storage.campaigns.words import embedding_texts

FILE: Final = Path(__file__).with_name("sample_vectors.npz")


@cache
def read(file: Path = FILE) -> Mapping[str, bytes]:
    """Return the packed vectors by campaign; none without the file."""
    if not file.exists():
        return {}
    with np.load(file) as arrays:
        ids, vectors = arrays["ids"].tolist(), arrays["vectors"]
    return dict(zip(ids, map(np.ndarray.tobytes, vectors), strict=True))


def write(campaigns: Sequence[Campaign], file: Path = FILE) -> None:
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
    write(sample_campaigns())
    return 0


if __name__ == "__main__":
    sys.exit(main())
