"""Speech: lines of text as sound files, from the engines that the environment names, or from the local model.

The local model speaks English only, with preview voices; `providers/speech/local.py` has it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
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
REMEDY: Final = (
    "set OPENAI_API_KEY, AZURE_SPEECH_KEY or GOOGLE_TTS_KEY, or SPEECH_BASE_URL to a server with"
    " POST /v1/audio/speech"
)
MAX_SOUND_BYTES: Final = 12_000_000
"""Most bytes of one line's sound: four minutes of what an engine is asked for."""
HEADS: Final = (b"RIFF", b"ID3", b"fLaC", b"OggS", b"\xff\xf3", b"\xff\xfb", b"\xff\xf2", b"\xff\xfa")
"""First bytes of sound files."""
_AT_ONCE: Final = 4
"""Lines that one engine is asked for at the same time."""
_OPENAI_URL: Final = "https://api.openai.com/v1"
_OPENAI_KEY: Final = "OPENAI_API_KEY"
_SERVICES: Final = ("azure", "google")
LOCAL: Final = "local"


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
    engine: str = ""
    """Provider of the engine that speaks it; empty for the first one."""


Keep = Callable[[Line, bytes], Awaitable[None]]
"""Takes the sound of a line once it is there, so that the failure of another line does not lose it."""


async def keep_nothing(line: Line, sound: bytes) -> None:
    """Keep no sound."""
    del line, sound


class Speech(Protocol):
    """An engine that speaks."""

    @property
    def model(self) -> str:
        """Engine and model: the same line and model give the same sound, or one as good."""
        ...

    @property
    def provider(self) -> str:
        """Provider of the voices that it renders as cast; `local` for the model of this installation."""
        ...

    async def say(self, lines: Sequence[Line], keep: Keep = keep_nothing) -> list[bytes]:
        """Return a sound file for each line, which `keep` gets as it comes.

        Raises `Unavailable`, `Invalid` or `Oversized`.
        """
        ...


class SpeechEngines:
    """The engines that there are, the preferred one first. Implements `Speech`."""

    def __init__(self, engines: Sequence[Speech]) -> None:
        """Speak by these engines, of which there is at least one."""
        self.engines = tuple(engines)
        self.provider = self.engines[0].provider
        self.model = " ".join(engine.model for engine in self.engines)

    @property
    def is_local(self) -> bool:
        """True for the model of this installation alone, which speaks English with preview voices."""
        return self.provider == LOCAL

    async def say(self, lines: Sequence[Line], keep: Keep = keep_nothing) -> list[bytes]:
        """Return a sound file for each line, by its engine."""
        sounds = [b""] * len(lines)
        for engine in self.engines:
            own = [at for at, line in enumerate(lines) if (line.engine or self.provider) == engine.provider]
            if own:
                clips = await engine.say([lines[at] for at in own], keep)
                for at, clip in zip(own, clips, strict=True):
                    sounds[at] = clip
        return sounds


async def say_each(lines: Sequence[Line], say: Callable[[Line], Awaitable[bytes]], keep: Keep) -> list[bytes]:
    """Return what `say` returns for each line, some at once; if one fails, no other is waited for.

    `keep` has those that were there before.
    """
    turns = asyncio.Semaphore(_AT_ONCE)

    async def say_in_turn(line: Line) -> bytes:
        async with turns:
            sound = await say(line)
            await keep(line, sound)
            return sound

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(say_in_turn(line)) for line in lines]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


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


def configured_speech(environ: Mapping[str, str] | None = None) -> SpeechEngines | None:
    """Return the engines that the environment names, or None; raises `Invalid` for a wrong setting.

    A server of one's own comes first, then a service whose key is for speech alone, then OpenAI.
    """
    env = os.environ if environ is None else environ
    endpoint = _endpoint(env)
    services = [engine for vendor in _SERVICES if (engine := _service(vendor, env))]
    own: list[Speech] = [endpoint] if endpoint else []
    engines = [*own, *services] if env.get(VARIABLES["url"], "").strip() else [*services, *own]
    return SpeechEngines(engines) if engines else None


def local_rate(language: str) -> float | None:
    """Return the words per second of the local voice where it speaks a language, else None."""
    local = import_module("callsheet.providers.speech.local")
    if language != local.LANGUAGE or find_spec("hibari") is None:
        return None
    try:
        return None if configured_speech() else float(local.WORDS_PER_S)
    except Invalid:
        # Nothing speaks with a wrong setting, which a rendering reports.
        return None


def _service(vendor: str, env: Mapping[str, str]) -> Speech | None:
    engine: Speech | None = import_module(f"callsheet.providers.speech.{vendor}").configured_engine(env)
    return engine


def timeout_s(env: Mapping[str, str]) -> float:
    """Return the limit for one line in seconds; raises `Invalid` for a wrong setting."""
    return _settings(
        {"timeout_s": text} if (text := env.get(VARIABLES["timeout_s"], "").strip()) else {}
    ).timeout_s


def _endpoint(env: Mapping[str, str]) -> "SpeechEndpoint | None":
    """Return the endpoint that the environment names, or None.

    `OPENAI_API_KEY` alone is enough at OpenAI's own address: another server's chat may have no speech.
    """
    given = {field: text for field, name in VARIABLES.items() if (text := env.get(name, "").strip())}
    if "url" not in given:
        base, key = env.get("OPENAI_BASE_URL", "").strip() or _OPENAI_URL, env.get(_OPENAI_KEY, "").strip()
        if not key or urlsplit(base).hostname != urlsplit(_OPENAI_URL).hostname:
            return None
        given |= {"url": base, "key": key, "key_name": _OPENAI_KEY}
    settings = _settings(given)
    endpoint: SpeechEndpoint = import_module("callsheet.providers.speech.endpoint").SpeechEndpoint(settings)
    return endpoint


def _settings(given: Mapping[str, str]) -> SpeechSettings:
    try:
        return SpeechSettings.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        field = str(fault["loc"][0])
        rule = fault["msg"][0].lower() + fault["msg"][1:]
        raise Invalid(f"{VARIABLES[field]} is {given[field]!r}: {rule}", remedy="correct it") from None
