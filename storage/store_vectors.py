"""Vectors of the store's items, for searches by meaning."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from langgraph.store.base import get_text_at_path

from callsheet.state.errors import CallsheetError, Invalid, Unavailable

Embed = Callable[[list[str]], Awaitable[Sequence[Sequence[float]] | Any]]
"""Returns a vector for each text."""
_BYTES: Final = 4
"""Bytes of a stored number."""


@dataclass(frozen=True)
class ItemIndex:
    """Embeddings of items: a vector for each text at one of the paths."""

    embed: Embed
    dims: int
    fields: tuple[str, ...]

    async def vectors_of(self, value: Mapping[str, Any], fields: Sequence[str] | None) -> bytes:
        """Return the unit vectors of an item's texts, one after the other; `fields` beat the index's own.

        Raises `Unavailable` if the embeddings fail, and `Invalid` if they have another length.
        """
        paths = self.fields if fields is None else fields
        texts = [text for path in paths for text in get_text_at_path(value, path) if text]
        return await self._embed(texts) if texts else b""

    async def query_vector(self, query: str) -> bytes:
        """Return the unit vector of a query; raises as `vectors_of`."""
        return await self._embed([query])

    async def scores(self, query: bytes, stored: Sequence[bytes]) -> list[float]:
        """Return the cosine of a query's vector and each item's nearest one."""
        return await asyncio.to_thread(self._cosines, query, stored)

    async def _embed(self, texts: list[str]) -> bytes:
        try:
            vectors = await self.embed(texts)
        except CallsheetError:
            raise
        except Exception as error:
            raise Unavailable(
                f"the store's embeddings failed: {type(error).__name__}: {error}",
                remedy="see 'store.index.embed' in langgraph.json, and its key",
            ) from error
        if wrong := next((len(one) for one in vectors if len(one) != self.dims), None):
            raise Invalid(
                f"the store's embeddings have {wrong} numbers, and 'store.index.dims' is {self.dims}",
                remedy=f"set dims to {wrong} in langgraph.json",
            )
        return await asyncio.to_thread(self._unit_vectors, vectors)

    @staticmethod
    def _unit_vectors(vectors: Sequence[Sequence[float]]) -> bytes:
        # An extra, which takes a tenth of a second to import.
        numpy: Any = import_module("numpy")
        matrix = numpy.asarray(vectors, dtype=numpy.float32)
        lengths = numpy.linalg.norm(matrix, axis=1, keepdims=True)
        units: bytes = (matrix / numpy.maximum(lengths, 1e-12)).astype("<f4").tobytes()
        return units

    def _cosines(self, query: bytes, stored: Sequence[bytes]) -> list[float]:
        numpy: Any = import_module("numpy")
        target = numpy.frombuffer(query, dtype="<f4")
        return [
            float((numpy.frombuffer(one, dtype="<f4").reshape(-1, self.dims) @ target).max())
            for one in stored
        ]

    def fits(self, stored: bytes | None) -> bool:
        """Return whether vectors are there, and have this index's length."""
        return bool(stored) and len(stored or b"") % (_BYTES * self.dims) == 0
