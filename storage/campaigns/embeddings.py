"""The port of embeddings, and the one that needs no service: static word vectors from a wheel."""

import asyncio
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]


class Embeddings(Protocol):
    """Vectors of texts. Two with the same `model` give the same vectors."""

    model: str
    """Name of the model, with its vendor or address; another name builds every index again."""
    is_costly: bool
    """True if vectors should be kept in storage for other processes."""

    async def vectors(self, texts: Sequence[str]) -> "Sequence[Sequence[float]] | Matrix":
        """Return a vector for each text; their lengths are equal, and need not be 1.

        Raises `Unavailable` if a later try may succeed, and `Invalid` for a wrong setting.
        """


class OfflineEmbeddings:
    """English word vectors of 256 numbers (`wordllama`), a mean for each text."""

    model = "wordllama/l2_supercat_256"
    is_costly = False

    async def vectors(self, texts: Sequence[str]) -> "Matrix":
        """Return a vector for each text."""
        return await asyncio.to_thread(self._compute, texts)

    def _compute(self, texts: Sequence[str]) -> "Matrix":
        vectors: Matrix = self._words.embed(list(texts), norm=True)
        return vectors

    @cached_property
    def _words(self) -> Any:
        """The weights, 16 MB, read on first use; nothing is downloaded."""
        package = import_module("wordllama")
        folder = Path(str(package.__file__)).parent
        return package.WordLlama.load(cache_dir=folder, disable_download=True)
