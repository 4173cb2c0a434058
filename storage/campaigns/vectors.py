"""Vectors of campaigns: unit vectors of texts, vectors as bytes, and the order of what is nearest."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, get_args

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
TYPE: Final = "<f2"
"""Half precision: a cosine changes by less than 0.001."""
_DIGEST_BYTES: Final = 16


class Aim(NamedTuple):
    """The score that a query must reach, and the product that it means."""

    floor: float = 0.0
    """Best cosine of the library below which nothing is found."""
    product: str = ""
    """Name of the product that the query is nearest to by far; empty for none."""
    margin: float = 0.0
    """Difference to the next product's cosine."""


def product_aim(floor: float, products: Sequence[str], cosines: Matrix) -> Aim:
    """Return the aim of a query with these cosines with the names of the library's products."""
    if len(products) < 2:  # noqa: PLR2004 -- a margin needs two
        return Aim(floor)
    second, first = np.argsort(cosines, kind="stable")[-2:]
    margin = float(cosines[first] - cosines[second])
    return Aim(floor, products[first], margin) if margin >= _LEAST_MARGIN else Aim(floor)


_LEAST_MARGIN: Final = 0.08
"""Least difference between the cosines of the two nearest products, measured on the tuned questions."""


PRODUCT_WEIGHT: Final = 2.0
"""Share of the difference between the nearest products that campaigns of the nearest one gain."""
_GROUP_WEIGHT: Final = 0.6
"""Chosen by the tuned questions: 0.3 and 1 find less."""
_LEAST_GROUP: Final = 3
"""Campaigns of a group that has a center."""


def group_scores(groups: Sequence[NDArray[np.intp]], vectors: Matrix, query: Matrix) -> Matrix:
    """Return, for each row, how much nearer the query is to a group of the row than to the others.

    A group is the rows of one value proposition, and its center what these share beside all others: a
    question in words that few of its campaigns have may still be near to it.
    """
    scores = np.zeros(len(vectors), "float32")
    groups = [rows for rows in groups if len(rows) >= _LEAST_GROUP]
    if len(groups) < 2:  # noqa: PLR2004 -- nearer than others
        return scores
    centers = np.array([vectors[rows].mean(0) for rows in groups]) - vectors.mean(0)
    norms = np.linalg.norm(centers, axis=1)
    cosines = centers @ query / np.where(norms > 0, norms, 1)
    best = np.full(len(vectors), -np.inf, "float32")
    for rows, cosine in zip(groups, cosines - cosines.mean(), strict=True):
        best[rows] = np.maximum(best[rows], cosine)
    scores += _GROUP_WEIGHT * np.where(np.isfinite(best), best, 0)
    return scores


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


def pack(
    model: str, texts: Mapping[str, Sequence[str]], vectors: Mapping[str, Matrix]
) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of each campaign's vectors."""
    for each, matrix in vectors.items():
        yield each, _digest(model, texts[each]) + matrix.astype(TYPE).tobytes()


def unpack(
    model: str, texts: Mapping[str, Sequence[str]], stored: Mapping[str, bytes | None]
) -> dict[str, Matrix]:
    """Return the vectors of campaigns whose model and texts are the same as when they were packed."""
    return {
        each: np.frombuffer(data, TYPE, offset=_DIGEST_BYTES).reshape(len(FIELDS), -1).astype("float32")
        for each, data in stored.items()
        if data and data.startswith(_digest(model, texts[each]))
    }


def _digest(model: str, texts: Sequence[str]) -> bytes:
    parts = "\0".join([model, *texts])
    return hashlib.blake2b(parts.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()
