"""Vectors of campaigns as bytes, bound to the model and the texts they are of."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from callsheet.storage.campaigns.vectors import FIELDS, Matrix

_TYPE: Final = "<f2"
"""Half precision: a cosine changes by less than 0.001."""
_DIGEST_BYTES: Final = 16


def pack(
    model: str, texts: Mapping[str, Sequence[str]], vectors: Mapping[str, Matrix]
) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of each campaign's vectors."""
    for each, matrix in vectors.items():
        yield each, _digest(model, texts[each]) + matrix.astype(_TYPE).tobytes()


def unpack(
    model: str, texts: Mapping[str, Sequence[str]], stored: Mapping[str, bytes | None]
) -> dict[str, Matrix]:
    """Return the vectors of campaigns whose model and texts are the same as when they were packed."""
    return {
        each: np.frombuffer(data, _TYPE, offset=_DIGEST_BYTES).reshape(len(FIELDS), -1).astype("float32")
        for each, data in stored.items()
        if data and data.startswith(_digest(model, texts[each]))
    }


def _digest(model: str, texts: Sequence[str]) -> bytes:
    parts = "\0".join([model, *texts])
    return hashlib.blake2b(parts.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()
