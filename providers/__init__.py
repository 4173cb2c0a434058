"""The only place that knows a language-model vendor: which there are, which have a key, one loaded by name.

The port is LangChain's `BaseChatModel` (A39). A vendor's module is imported when its first model is loaded,
and the environment is read then too. A new vendor is one file here and one entry in `PROVIDERS`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from langchain_core.language_models import BaseChatModel

from callsheet.state.errors import Invalid


@dataclass(frozen=True)
class Provider:
    """One vendor, or the offline model."""

    module: str
    """Imported on first use."""
    model_class: str
    """Class in the module: made by `configured(model, environ)`, or without arguments if no key is needed."""
    key: str = ""
    """Variable that holds the API key; empty when none is needed."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("callsheet.providers.openai", "OpenAIModel", key="OPENAI_API_KEY"),
    "offline": Provider("callsheet.providers.offline.model", "OfflineModel"),
}


def available(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the providers that can answer: those whose key is set, and those that need none."""
    return frozenset(
        name for name, one in PROVIDERS.items() if not one.key or environ.get(one.key, "").strip()
    )


def load(spec: str, *, environ: Mapping[str, str] | None = None) -> BaseChatModel:
    """Return the model that `provider/model`, or `provider` for its default model, names.

    `environ` is the process's environment unless given. Raises Invalid for a provider that is not in
    `PROVIDERS`, for one whose key is not set, and for a model of the offline provider, which has one only.
    """
    name, _, model = spec.strip().partition("/")
    name = name.casefold()
    if name not in PROVIDERS:
        raise Invalid(f"no provider {name!r} for model {spec!r}", remedy=f"use one of {', '.join(PROVIDERS)}")
    provider = PROVIDERS[name]
    if model and not provider.key:
        raise Invalid(f"provider {name!r} has no model {model!r}", remedy=f"ask for {name!r} alone")
    made_of = getattr(import_module(provider.module), provider.model_class)
    configured = os.environ if environ is None else environ
    loaded: BaseChatModel = made_of.configured(model, configured) if provider.key else made_of()
    return loaded
