"""Client of an embeddings endpoint with OpenAI's API: https://platform.openai.com/docs/api-reference/embeddings."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import openai

from callsheet.providers.embeddings import VARIABLES, EmbeddingsSettings
from callsheet.providers.errors import ErrorTranslator
from callsheet.state.errors import Unavailable

_PREFIX: Final = VARIABLES["url"].removesuffix("_URL")
_BATCH: Final = 256
"""Most texts of one request."""
_BATCH_CHARS: Final = 200_000
_NO_KEY: Final = "none"
"""Sent to a server that needs no key, because the client requires one."""


class EmbeddingsEndpoint:
    """Vectors of texts from an endpoint. Implements `Embeddings` of `storage.campaigns`."""

    is_costly = True
    floors: Mapping[str, float] = MappingProxyType({})

    def __init__(self, settings: EmbeddingsSettings) -> None:
        self._settings = settings
        self._key = settings.key.get_secret_value()
        self.model = f"endpoint/{settings.model}"
        self._errors = ErrorTranslator(
            title="the embeddings server",
            prefix=_PREFIX,
            model=settings.model,
            url=settings.url,
            key=self._key,
            answer="a list of embeddings",
            variables=VARIABLES,
        )

    async def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; raises `Unavailable`, `Invalid` or `Broken`."""
        vectors: list[list[float]] = []
        client = openai.AsyncOpenAI(
            base_url=self._settings.url, api_key=self._key or _NO_KEY, timeout=self._settings.timeout_s
        )
        async with client:
            for batch in _batches(texts):
                vectors += await self._embed_batch(client, batch)
        return vectors

    def suited_to(self, campaigns: int) -> "EmbeddingsEndpoint":
        """Return these embeddings, whatever the size of a library."""
        del campaigns
        return self

    async def _embed_batch(self, client: openai.AsyncOpenAI, texts: list[str]) -> list[list[float]]:
        with self._errors.translate():
            # Not every server knows base64, the client's default.
            reply = await client.embeddings.create(
                model=self._settings.model, input=texts, encoding_format="float"
            )
        # The client does not check what it reads.
        entries = getattr(reply, "data", None) or ()
        by_index = {getattr(each, "index", None): getattr(each, "embedding", None) for each in entries}
        vectors = [vector for i in range(len(texts)) if (vector := by_index.get(i))]
        if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) != 1:
            rule = f"the embeddings server gave {len(vectors)} vectors for {len(texts)} texts"
            lengths = f"of the lengths {sorted({len(vector) for vector in vectors})}"
            raise Unavailable(
                f"{rule}, {lengths}",
                remedy=f"try again, and check {VARIABLES['url']} and {VARIABLES['model']}",
            )
        return vectors


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in lists that are short enough for one request."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == _BATCH or size + len(text) > _BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
