"""The embeddings of the store that a langgraph.json names."""

import os
from importlib import import_module
from typing import Final

from langchain_core.embeddings import Embeddings
from langgraph.store.base import ensure_embeddings

from callsheet.providers.embeddings import VARIABLES, EmbeddingsSettings
from callsheet.server.engine.graph_loading import load_variable, prepare_imports
from callsheet.server.engine.graphs_file import GraphsFile
from callsheet.state.errors import CallsheetError, Invalid
from callsheet.storage.campaigns.embeddings import OfflineEmbeddings
from callsheet.storage.store_vectors import Embed, ItemIndex

BUNDLED: Final = "callsheet:bundled"
"""Names the embeddings that come with this server: English word vectors of 256 numbers."""
_OPENAI_URL: Final = "https://api.openai.com/v1"


def load_item_index(file: GraphsFile) -> ItemIndex | None:
    """Return the index of the store's items; None without one. Raises `Invalid` for unusable embeddings."""
    index = file.options.store_index
    if index is None:
        return None
    prepare_imports(file)
    try:
        embed = _load_embed(file, index.embed)
    except CallsheetError:
        raise
    except Exception as error:
        raise _unusable(index.embed, str(error)) from error
    return ItemIndex(embed, index.dims, index.fields)


def _load_embed(file: GraphsFile, name: str) -> Embed:
    """Return the function; raises anything for a provider's model that LangChain cannot load."""
    if name == BUNDLED:
        return OfflineEmbeddings().vectors
    if file.embed:
        value = load_variable(file.embed)
        if not isinstance(value, Embeddings) and not callable(value):
            raise _unusable(name, f"it is of type {type(value).__name__}")
        return ensure_embeddings(value).aembed_documents
    provider, _, model = name.partition(":")
    return _openai(model) if provider == "openai" and model else ensure_embeddings(name).aembed_documents


def _openai(model: str) -> Embed:
    """Return OpenAI's embeddings, or those of another server with its API that the environment names."""
    url = os.environ.get(VARIABLES["url"]) or os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL
    key = os.environ.get(VARIABLES["key"]) or os.environ.get("OPENAI_API_KEY") or ""
    settings = EmbeddingsSettings.model_validate({"url": url, "model": model, "key": key})
    embed: Embed = (
        import_module("callsheet.providers.embeddings_endpoint").EmbeddingsEndpoint(settings).vectors
    )
    return embed


def _unusable(name: str, reason: str) -> Invalid:
    return Invalid(
        f"'store.index.embed' is {name!r}, which cannot be used: {reason}",
        remedy=f'use "./file.py:function", "openai:model" with OPENAI_API_KEY, or "{BUNDLED}"',
    )
