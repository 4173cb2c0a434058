"""Speech: lines of text as sound files, from an endpoint that the environment names, or from the local model.

The local model speaks English only, with preview voices; `providers/speech/local.py` has it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from callsheet.state.errors import Invalid

if TYPE_CHECKING:
    from callsheet.providers.speech.endpoint import SpeechEndpoint

VARIABLES: Final = {
    "url": "SPEECH_BASE_URL",
    "key": "SPEECH_API_KEY",
    "model": "SPEECH_MODEL",
    "timeout_s": "SPEECH_TIMEOUT_S",
}
REMEDY: Final = "set OPENAI_API_KEY, or SPEECH_BASE_URL to a server with POST /v1/audio/speech"
_OPENAI_URL: Final = "https://api.openai.com/v1"
_OPENAI_KEY: Final = "OPENAI_API_KEY"


@dataclass(frozen=True)
class Line:
    """One text to speak."""

    text: str
    speaker: str
    """The engine's own name of the voice."""
    language: str
    """English name in lower case."""
    speed: float = 1.0
    """Factor; 1.0 is the voice's natural pace."""
    direction: str = ""
    """Manner of speaking, in words; engines without directions ignore it."""


class Speech(Protocol):
    """An engine that speaks."""

    @property
    def model(self) -> str:
        """Engine and model: the same line and model give the same sound, or one as good."""
        ...

    @property
    def is_local(self) -> bool:
        """True for the model of this installation, which speaks English with preview voices."""
        ...

    async def say(self, lines: Sequence[Line]) -> list[bytes]:
        """Return a sound file for each line; raises `Unavailable`, `Invalid` or `Oversized`."""
        ...


class SpeechSettings(BaseModel):
    """The settings of a speech endpoint."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, str_strip_whitespace=True)

    url: str = Field(_OPENAI_URL, pattern=r"^https?://")
    """Base URL; its path ends where `/audio/speech` follows."""
    key: SecretStr = SecretStr("")
    """Empty for a server that needs none."""
    model: str = Field("gpt-4o-mini-tts", min_length=1)
    timeout_s: float = Field(60.0, ge=0.001)
    """Limit for one line."""
    key_name: str = VARIABLES["key"]
    """Variable of the key, for messages."""


def configured_speech(environ: Mapping[str, str] | None = None) -> "SpeechEndpoint | None":
    """Return the endpoint that the environment names, or None; raises `Invalid` for a wrong setting.

    `OPENAI_API_KEY` alone is enough at OpenAI's own address: another server's chat may have no speech.
    """
    env = os.environ if environ is None else environ
    given = {field: text for field, name in VARIABLES.items() if (text := env.get(name, "").strip())}
    if "url" not in given:
        base, key = env.get("OPENAI_BASE_URL", "").strip() or _OPENAI_URL, env.get(_OPENAI_KEY, "").strip()
        if not key or urlsplit(base).hostname != urlsplit(_OPENAI_URL).hostname:
            return None
        given |= {"url": base, "key": key, "key_name": _OPENAI_KEY}
    try:
        settings = SpeechSettings.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        field = str(fault["loc"][0])
        rule = fault["msg"][0].lower() + fault["msg"][1:]
        raise Invalid(f"{VARIABLES[field]} is {given[field]!r}: {rule}", remedy="correct it") from None
    endpoint: SpeechEndpoint = import_module("callsheet.providers.speech.endpoint").SpeechEndpoint(settings)
    return endpoint
