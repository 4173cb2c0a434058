"""Language-model providers: the table of vendors, and loading a model by name.

Only this package knows vendors; every model is a LangChain `BaseChatModel`. Adding a provider takes one
module here and one entry in `PROVIDERS`.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from callsheet.providers.embeddings import read_embeddings_settings
from callsheet.providers.local import find_ollama, find_profile
from callsheet.providers.vendor_settings import VendorSettings, misspelt_settings
from callsheet.state.errors import Invalid

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

OFFLINE = "offline"


@dataclass(frozen=True)
class Provider:
    """One vendor, or the offline model."""

    title: str
    """Name in messages."""
    key: str = ""
    """Environment variable that makes it available, its API key as a rule; empty when none is needed."""
    model_class: str = ""
    """`module:Class`, imported on first use."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("OpenAI", "OPENAI_API_KEY", "callsheet.providers.openai:OpenAIModel"),
    "qwen": Provider("Qwen", "DASHSCOPE_API_KEY", "callsheet.providers.qwen:QwenModel"),
    "kimi": Provider("Kimi", "MOONSHOT_API_KEY", "callsheet.providers.kimi:KimiModel"),
    "compatible": Provider(
        "the compatible server", "COMPATIBLE_BASE_URL", "callsheet.providers.compatible:CompatibleModel"
    ),
    "ollama": Provider("Ollama", "OLLAMA_MODEL", "callsheet.providers.ollama:OllamaModel"),
    OFFLINE: Provider("the offline model", model_class="callsheet.providers.offline.model:OfflineModel"),
}
"""Every provider by name, in the order in which one replaces another."""


def with_key(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the providers whose key is set or that need none."""
    return frozenset(
        name
        for name, provider in PROVIDERS.items()
        if not provider.key or environ.get(provider.key, "").strip()
    )


def find_local(environ: MutableMapping[str, str]) -> None:
    """Look for Ollama on this machine if no provider is available, and for the size of a local model.

    Each question takes at most 300 ms, once at start.
    """
    find_ollama(environ, [provider.key for provider in PROVIDERS.values() if provider.key])
    for prefix in ("COMPATIBLE", "OLLAMA"):
        find_profile(environ, prefix)


def check_settings(environ: Mapping[str, str]) -> None:
    """Raise `Invalid` for a wrong setting of any vendor, or of embeddings."""
    for prefix in vendor_prefixes():
        VendorSettings.read(prefix, environ)
    read_embeddings_settings(environ)


def misspelt_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that looks like a setting of a vendor and is none."""
    return [sentence for prefix in vendor_prefixes() for sentence in misspelt_settings(prefix, environ)]


def vendor_prefixes() -> list[str]:
    """Return the beginnings of the names of the vendors' settings, such as `OPENAI`."""
    return [one.key.partition("_")[0] for one in PROVIDERS.values() if one.key]


def load(spec: str, *, environ: Mapping[str, str] | None = None) -> "BaseChatModel":
    """Return the model that `spec` names: `provider/model`, or `provider` for its default model.

    `environ` defaults to the process's environment. Raises `Invalid` for an unknown provider, for one without
    its key, and for a named model of the offline provider, which has only one.
    """
    name, _, model = spec.strip().partition("/")
    name = name.casefold()
    if name not in PROVIDERS:
        raise Invalid(f"no provider {name!r} for model {spec!r}", remedy=f"use one of {', '.join(PROVIDERS)}")
    provider = PROVIDERS[name]
    if model and not provider.key:
        raise Invalid(
            f"provider {name!r} has no model {model!r}", remedy=f"use {name!r} without a model name"
        )
    module, _, class_name = provider.model_class.partition(":")
    model_class = getattr(import_module(module), class_name)
    if not provider.key:
        offline: BaseChatModel = model_class()
        return offline
    try:
        loaded: BaseChatModel = model_class.from_environ(model, os.environ if environ is None else environ)
    except (ImportError, ValueError) as error:
        # httpx reads the proxy when a client is made, and says so in its own words.
        if not any(word in str(error).lower() for word in ("proxy", "socks")):
            raise
        raise Invalid(
            f"the proxy of this machine cannot be used: {error}",
            remedy="set HTTPS_PROXY to an HTTP proxy, or install socksio for a SOCKS proxy",
        ) from error
    return loaded


async def load_off_loop(spec: str) -> "BaseChatModel":
    """Return the model that `spec` names; raise as `load`.

    A vendor's client is imported in a thread: that takes up to a second, in which the event loop would serve
    nobody.
    """
    provider = PROVIDERS.get(spec.strip().partition("/")[0].casefold())
    module, _, class_name = provider.model_class.partition(":") if provider else ("", "", "")
    # A module without its class is being imported by another call.
    if provider and not hasattr(sys.modules.get(module), class_name):
        return await asyncio.to_thread(load, spec)
    return load(spec)
