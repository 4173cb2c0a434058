"""Embeddings from any server with OpenAI's API, chosen by the environment."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from callsheet.state.errors import Invalid

if TYPE_CHECKING:
    from callsheet.providers.embeddings_endpoint import EmbeddingsEndpoint

VARIABLES: Final = {
    "url": "CALLSHEET_EMBEDDINGS_URL",
    "model": "CALLSHEET_EMBEDDINGS_MODEL",
    "key": "CALLSHEET_EMBEDDINGS_KEY",
    "timeout_s": "CALLSHEET_EMBEDDINGS_TIMEOUT_S",
}


class EmbeddingsSettings(BaseModel):
    """The settings of an embeddings endpoint."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, str_strip_whitespace=True)

    url: str = Field(pattern=r"^https?://")
    """Base URL, such as `https://api.openai.com/v1`."""
    model: str = Field(min_length=1)
    key: SecretStr = SecretStr("")
    """Empty for a server that needs none."""
    timeout_s: float = Field(60.0, ge=0.001)
    """Limit for an answer."""


def configured_embeddings(environ: Mapping[str, str] | None = None) -> "EmbeddingsEndpoint | None":
    """Return the embeddings that the environment names, or None; raises `Invalid` for a wrong setting."""
    settings = read_embeddings_settings(os.environ if environ is None else environ)
    if settings is None:
        return None
    endpoint: EmbeddingsEndpoint = import_module(
        "callsheet.providers.embeddings_endpoint"
    ).EmbeddingsEndpoint(settings)
    return endpoint


def read_embeddings_settings(env: Mapping[str, str]) -> EmbeddingsSettings | None:
    """Return the settings that the environment has, or None; raises `Invalid` for a wrong one."""
    given = {field: text for field, name in VARIABLES.items() if (text := env.get(name, "").strip())}
    if "url" not in given and "model" not in given:
        return None
    try:
        return EmbeddingsSettings.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        field = str(fault["loc"][0])
        shown = f"{given[field]!r}" if field in given else "not set"
        rule = fault["msg"][0].lower() + fault["msg"][1:]
        raise Invalid(f"{VARIABLES[field]} is {shown}: {rule}", remedy="correct it") from None
