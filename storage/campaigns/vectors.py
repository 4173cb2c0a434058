"""Vectors of all rows by embedding field, in memory or in files that processes share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from numpy.typing import NDArray

from callsheet.state.campaigns.campaign import EmbeddingField
from callsheet.state.errors import Broken
from callsheet.storage.campaigns.embeddings import Embeddings

Matrix = NDArray[np.float32]

MAX_EMBEDDED_CHARS: Final = 4_000
"""Text after these characters does not change a vector."""
RELEVANT_SHARE: Final = 0.35
"""Share of the best score that another match has at least."""
CANDIDATES: Final = 200
"""Best matches whose order `feedback` may change."""
_MODELS: Final = 5
"""Best matches that others should resemble."""
_FEEDBACK_WEIGHT: Final = 0.6
FIELDS: Final[tuple[EmbeddingField, ...]] = get_args(EmbeddingField)
_FIRST_CAPACITY: Final = 1024
_FLOAT_BYTES: Final = 4
_GATHER: Final = 8
"""A selection of less than one row in so many is copied out; a larger one costs more than all products."""


class Vectors:
    """Unit vectors by row; the zero vector is similar to nothing.

    A file may be longer than what is committed: the rest is written again.
    """

    def __init__(self, dimensions: int, folder: Path | None = None) -> None:
        self.dimensions = dimensions
        self._folder = folder
        self._matrices: dict[EmbeddingField, Any] = {}

    def check(self, size: int) -> None:
        """Raise `ValueError` if a file is too short for `size` rows."""
        for field in FIELDS if self._folder and size else ():
            file = self._file(field)
            if not file.exists() or file.stat().st_size < _capacity(size) * self.dimensions * _FLOAT_BYTES:
                raise ValueError(f"{str(file)!r} lacks vectors")

    def write(self, first: int, vectors: Sequence[Matrix | None]) -> None:
        """Write the vectors of adjacent rows, a matrix with a row for each field; None for a dead row."""
        empty = np.zeros((len(FIELDS), self.dimensions), "float32")
        block = np.stack([empty if matrix is None else matrix for matrix in vectors], axis=1)
        for field, matrix in zip(FIELDS, block, strict=True):
            stored = self._matrix(field, first + len(matrix))
            stored[first : first + len(matrix)] = matrix
            if self._folder:
                stored.flush()

    def scores(self, field: EmbeddingField, query: Matrix, rows: NDArray[Any], size: int) -> Matrix:
        """Return the cosine of `query` with each of `rows`, which are below `size`."""
        matrix = self._matrix(field, size)[:size]
        if len(rows) * _GATHER < size:
            chosen: Matrix = matrix[rows] @ query
            return chosen
        scores: Matrix = (matrix @ query)[rows]
        return scores

    def take(self, field: EmbeddingField, rows: NDArray[Any], size: int) -> Matrix:
        """Return the vectors of `rows`, which are below `size`."""
        taken: Matrix = self._matrix(field, size)[rows]
        return taken

    def _matrix(self, field: EmbeddingField, size: int) -> Any:
        """Return the field's matrix with room for `size` rows."""
        matrix = self._matrices.get(field)
        if matrix is None or len(matrix) < size:
            matrix = self._map(field, size) if self._folder else self._grow(matrix, size)
            self._matrices[field] = matrix
        return matrix

    def _grow(self, matrix: Any, size: int) -> Any:
        grown = np.zeros((_capacity(size), self.dimensions), "float32")
        if matrix is not None:
            grown[: len(matrix)] = matrix
        return grown

    def _map(self, field: EmbeddingField, size: int) -> Any:
        file = self._file(field)
        shape = (_capacity(size), self.dimensions)
        wanted = shape[0] * shape[1] * _FLOAT_BYTES
        with file.open("ab") as end:
            # A sparse file: what is not written takes no space. Another process may have made it longer.
            if end.tell() < wanted:
                end.truncate(wanted)
        return np.memmap(file, "float32", "r+", shape=shape)

    def _file(self, field: EmbeddingField) -> Path:
        return (self._folder or Path()) / f"{field}.f32"


def _capacity(size: int) -> int:
    """Return the power of two that has room for `size` rows."""
    return max(_FIRST_CAPACITY, 1 << max(size - 1, 0).bit_length())


def feedback(scores: Matrix, vectors: Matrix) -> Matrix:
    """Return the scores of matches, weighed with how much each resembles the best ones (Rocchio).

    Two texts that answer a question often share no word with it, but share some with each other.
    """
    best = np.argsort(-scores, kind="stable")[:_MODELS]
    center = scores[best] @ vectors[best]
    resemblance: Matrix = vectors @ (center / max(float(np.linalg.norm(center)), 1e-9))
    weighed: Matrix = np.asarray(scores + _FEEDBACK_WEIGHT * resemblance, "float32")
    return weighed / np.float32(1 + _FEEDBACK_WEIGHT)


async def unit_vectors(embeddings: Embeddings, texts: Sequence[str]) -> Matrix:
    """Return vectors of length 1; the zero vector for a text without words."""
    clean = [_printable(text[:MAX_EMBEDDED_CHARS]) for text in texts]
    full = [i for i, text in enumerate(clean) if text]
    # One vector at least, for the length of the others.
    given = np.asarray(await embeddings.vectors([clean[i] for i in full] or ["nothing"]), "float32")
    if given.ndim != 2 or len(given) != max(len(full), 1):  # noqa: PLR2004 -- rows and numbers
        rule = f"{embeddings.model!r} gave {given.shape} for {len(full)} texts"
        raise Broken(rule, remedy="Use a model that gives one vector for each text.")
    vectors = np.zeros((len(texts), given.shape[1]), "float32")
    norms = np.linalg.norm(given, axis=1, keepdims=True)
    vectors[full] = (given / np.where(norms > 0, norms, 1))[: len(full)]
    return vectors


def _printable(text: str) -> str:
    """Return the text without what no tokenizer takes: NUL, and half characters."""
    return text.replace("\0", " ").encode(errors="ignore").decode().strip()
