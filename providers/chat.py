"""Base class of the models behind a Chat Completions API, configured from the environment.

A vendor's subclass sets the class variables and `quirks`. Its environment variables are `<PREFIX>_API_KEY`,
`<PREFIX>_BASE_URL`, `<PREFIX>_MODEL` (A49), `<PREFIX>_TIMEOUT_S` and `<PREFIX>_MAX_RETRIES`. The key appears
in no message, repr or log.
"""

import math
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar, Self

import openai
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from callsheet.providers.errors import ErrorTranslator
from callsheet.state.errors import Invalid

TIMEOUT_S = 120.0
"""Default limit for an answer or, in a stream, for its next chunk."""

MAX_RETRIES = 2
"""Default retries after the first attempt, with growing waits or those the vendor asks for."""


class ChatModel(ChatOpenAI):
    """A vendor's `ChatOpenAI` that raises `Refused`, `Unavailable` or `Broken`."""

    title: ClassVar[str]
    """The vendor's name in messages."""
    prefix: ClassVar[str]
    """Prefix of the environment variables."""
    url: ClassVar[str]
    """Default base URL."""
    default_model: ClassVar[str]

    @classmethod
    def quirks(cls, model: str) -> dict[str, Any]:
        """Return further constructor arguments for `model`."""
        del model
        return {}

    @classmethod
    def from_environ(cls, model: str, environ: Mapping[str, str]) -> Self:
        """Return the model configured by `environ`; an empty `model` is the configured or default one.

        Raises `Invalid` when the key is not set or a number is wrong.
        """
        key = environ.get(f"{cls.prefix}_API_KEY", "").strip()
        if not key:
            raise Invalid(
                f"{cls.title} needs a key and {cls.prefix}_API_KEY is not set",
                remedy=f"set {cls.prefix}_API_KEY (to any text, for a server without keys), or use 'offline'",
            )
        name = model or environ.get(f"{cls.prefix}_MODEL", "").strip() or cls.default_model
        timeout_s = _number(environ, f"{cls.prefix}_TIMEOUT_S", TIMEOUT_S, minimum=0.001)
        arguments: dict[str, Any] = {
            "model": name,
            "api_key": SecretStr(key),
            "base_url": environ.get(f"{cls.prefix}_BASE_URL", "").strip() or cls.url,
            "timeout": timeout_s,
            "stream_chunk_timeout": timeout_s,
            "max_retries": int(_number(environ, f"{cls.prefix}_MAX_RETRIES", MAX_RETRIES, integer=True)),
            "stream_usage": True,
            "use_responses_api": False,
        }
        return cls(**{**arguments, **cls.quirks(name)})

    @property
    def lc_secrets(self) -> dict[str, str]:
        """Environment variables that replace the secrets in a serialised model."""
        return {"openai_api_key": f"{self.prefix}_API_KEY"}

    @property
    def _errors(self) -> ErrorTranslator:
        key = self.openai_api_key.get_secret_value() if isinstance(self.openai_api_key, SecretStr) else ""
        return ErrorTranslator(
            self.title, self.prefix, self.model_name, self.openai_api_base or self.url, key
        )

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._errors.translate():
            return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._errors.translate():
            return await super()._agenerate(*args, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        finished = False
        with self._errors.translate():
            for chunk in super()._stream(*args, **kwargs):
                finished = finished or _finishes(chunk)
                yield chunk
        self._require_end(finished=finished)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        finished = False
        with self._errors.translate():
            async for chunk in super()._astream(*args, **kwargs):
                finished = finished or _finishes(chunk)
                yield chunk
        self._require_end(finished=finished)

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        try:
            result = super()._create_chat_result(response, generation_info)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._errors.unreadable_answer() from self._errors.safe_cause(error)
        if not result.generations:
            raise self._errors.unreadable_answer()
        return result

    def _require_end(self, *, finished: bool) -> None:
        """Raise `Unavailable` for a stream without a finish reason: its text or calls may be incomplete."""
        if not finished:
            raise self._errors.cut_stream()


def _finishes(chunk: ChatGenerationChunk) -> bool:
    return bool((chunk.generation_info or {}).get("finish_reason"))


def _number(
    environ: Mapping[str, str], name: str, default: float, *, minimum: float = 0, integer: bool = False
) -> float:
    text = environ.get(name, "").strip()
    try:
        number = float(text) if text else default
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= minimum and (not integer or int(number) == number)):
        kind = "whole number" if integer else "number"
        raise Invalid(f"{name} is {text!r}, which is not a {kind} of at least {minimum}", remedy="correct it")
    return number
