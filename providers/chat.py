"""Base class of the models behind a Chat Completions API, configured from the environment.

A vendor's subclass sets the class variables and `quirks`. Its environment variables are those of
`VendorSettings` with its prefix. The key appears in no message, repr or log.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import agenerate_from_stream, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.utils import convert_to_messages, count_tokens_approximately
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from callsheet.providers.errors import ErrorTranslator, PolicyRefusal
from callsheet.providers.thinking import (
    REASONING,
    StreamRepair,
    extra_fields,
    own_reasoning,
    split_message,
)
from callsheet.providers.tool_calls import MAKER, MAX_CHARS, call_pieces, decode_arguments, set_calls
from callsheet.providers.vendor_settings import VendorSettings
from callsheet.state.errors import Invalid, Unavailable, UnusableAnswer
from callsheet.state.unicode import utf8_safe_value

_NO_KEY = "none"
"""Key for a server without keys, because the client demands one."""
_RAW_CALLS = "raw_calls"
"""Key of a response's message for its calls."""
_NO_REASONING = "."
"""Reasoning of a call that another vendor made, or that was not kept; some vendors refuse an empty one."""


class ChatModel(ChatOpenAI):
    """A vendor's `ChatOpenAI` that raises `Refused`, `Unavailable` or `Broken`."""

    title: ClassVar[str]
    """The vendor's name in messages."""
    prefix: ClassVar[str]
    """Prefix of the environment variables."""
    url: ClassVar[str]
    """Default base URL."""
    default_model: ClassVar[str]
    needs_key: ClassVar[bool] = True
    timeout_s: ClassVar[float] = 120.0
    """Default limit for an answer or, in a stream, for its next chunk."""
    usual_patience_s: ClassVar[float] = 60.0
    """Default of `patience_s`."""
    output_limit: ClassVar[str] = "max_tokens"
    """The vendor's field for the most output tokens."""

    vendor: str = ""
    """Name in messages: the title, or another one by setting."""
    retries: int = 0
    """Attempts after the first, by `ainvoke`."""
    patience_s: float = 0
    """Longest wait that the vendor may ask for before another attempt."""
    concurrency: int = 0
    """Calls at once of all processes; 0 for no limit."""
    tokens_per_minute: int = 0
    """Tokens a minute of all processes; 0 for no limit."""
    context_tokens: int | None = None
    """Tokens that a request may have; None if not known."""
    thinks: bool = False
    """The model reasons, and then refuses to be forced to call a tool."""
    has_grammar: bool = False
    """The server can keep an answer to a JSON Schema."""
    replays_reasoning: bool = False
    """The vendor wants the reasoning of tool calls back."""
    streams_only: bool = False
    """The vendor answers only as a stream."""

    @classmethod
    def quirks(cls, model: str, settings: VendorSettings) -> dict[str, Any]:
        """Return further constructor arguments for `model`."""
        del model, settings
        return {}

    @classmethod
    def from_environ(cls, model: str, environ: Mapping[str, str]) -> Self:
        """Return the model configured by `environ`; an empty `model` is the configured or default one.

        Raises `Invalid` when the key is not set or a setting is wrong.
        """
        settings = VendorSettings.read(cls.prefix, environ)
        if cls.needs_key and not settings.api_key.get_secret_value():
            raise Invalid(
                f"{cls.title} needs a key and {cls.prefix}_API_KEY is not set",
                remedy=f"set {cls.prefix}_API_KEY (to any text, for a server without keys), or use 'offline'",
            )
        name = model or settings.model or cls.default_model
        quirks = cls.quirks(name, settings)
        timeout_s = settings.timeout_s or cls.timeout_s
        arguments: dict[str, Any] = {
            "model": name,
            "api_key": settings.api_key if settings.api_key.get_secret_value() else SecretStr(_NO_KEY),
            "base_url": settings.base_url or cls.url,
            "timeout": timeout_s,
            "stream_chunk_timeout": timeout_s,
            # `ainvoke` makes the further attempts, because the client's own do not cover a cut stream.
            "max_retries": 0,
            "retries": settings.max_retries,
            "patience_s": cls.usual_patience_s if settings.patience_s is None else settings.patience_s,
            "context_tokens": settings.context_tokens,
            "concurrency": settings.concurrency,
            "tokens_per_minute": settings.tokens_per_minute,
            "temperature": settings.temperature,
            "max_tokens": settings.max_output_tokens,
            "reasoning_effort": settings.reasoning_effort or None,
            "vendor": settings.name or cls.title,
            "stream_usage": True,
            "use_responses_api": False,
            **quirks,
        }
        body = {**(quirks.get("extra_body") or {}), **settings.extra_body}
        return cls(**{**arguments, "extra_body": body or None})

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> AIMessage:  # noqa: A002
        """Return the answer; after an outage, a rate limit, a cut or an unreadable answer try again.

        A stream that broke off is not continued: the next attempt is another message with an id of its own,
        and only its message is returned. Raises the error of the last attempt.
        """
        attempt = 0
        while True:
            try:
                answer = await super().ainvoke(input, config, **kwargs)
            except Unavailable as error:
                wait_s = error.retry_after_s * 2**attempt * random.uniform(1, 1.25)  # noqa: S311
                vain = isinstance(error, UnusableAnswer)
                if vain or attempt == self.retries or error.retry_after_s > self.patience_s:
                    raise
                if error.details.get("stream") == "empty":
                    # A server that cannot stream here may answer in one piece, or at least say what is wrong.
                    kwargs["stream"] = False
            else:
                return answer
            await asyncio.sleep(min(wait_s, self.patience_s))
            attempt += 1

    @property
    def structured_rungs(self) -> tuple[str, ...]:
        """Requests for a form, simplest last."""
        return (*(["json_schema"] if self.has_grammar else []), "forced_tool", "offered_tool", "prose")

    def with_schema(self, wanted: Mapping[str, Any]) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with a JSON Schema, in OpenAI's form with its name, that the server keeps to."""
        form = {"type": "json_schema", "json_schema": dict(wanted)}
        if self.use_responses_api:
            return self.bind(response_format=form)
        # As a field of its own the client would raise for an answer that was cut off.
        return self.bind(extra_body={**(self.extra_body or {}), "response_format": form})

    @property
    def lc_secrets(self) -> dict[str, str]:
        """Environment variables that replace the secrets in a serialised model."""
        return {"openai_api_key": f"{self.prefix}_API_KEY"}

    @property
    def _errors(self) -> ErrorTranslator:
        key = self.openai_api_key.get_secret_value() if isinstance(self.openai_api_key, SecretStr) else ""
        url = self.openai_api_base or self.url
        return ErrorTranslator(
            self.vendor or self.title, self.prefix, self.model_name, url, "" if key == _NO_KEY else key
        )

    @property
    def _maker(self) -> str:
        return self.prefix.lower()

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        try:
            if self.streams_only:
                return generate_from_stream(self._stream(*args, **kwargs))
            with self._errors.translate():
                return self._tidy_all(super()._generate(*args, **{**kwargs, "stream": False}))
        except PolicyRefusal as refusal:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(**_refusal(refusal)))])

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        try:
            if self.streams_only:
                return await agenerate_from_stream(self._astream(*args, **kwargs))
            with self._errors.translate():
                return self._tidy_all(await super()._agenerate(*args, **{**kwargs, "stream": False}))
        except PolicyRefusal as refusal:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(**_refusal(refusal)))])

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        repair = StreamRepair()
        try:
            with self._errors.translate():
                for chunk in super()._stream(*args, **kwargs):
                    yield from self._pieces(chunk, repair)
            self._require_end(repair)
        except PolicyRefusal as refusal:
            yield _refusal_chunk(refusal)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        repair = StreamRepair()
        try:
            with self._errors.translate():
                chunks = super()._astream(*args, **kwargs)
                pieces = (piece async for chunk in chunks for piece in self._pieces(chunk, repair))
                async for piece in pieces:
                    yield piece
            self._require_end(repair)
        except PolicyRefusal as refusal:
            yield _refusal_chunk(refusal)

    def _pieces(self, chunk: ChatGenerationChunk, repair: StreamRepair) -> Iterator[ChatGenerationChunk]:
        """Yield a repaired chunk, unless nothing is left of it; raise for too long an answer."""
        self._tidy(chunk.message)
        piece = repair.repair(chunk)
        if repair.chars > MAX_CHARS:
            raise self._errors.too_long(MAX_CHARS)
        if not repair.is_empty(piece):
            yield piece

    def _tidy(self, message: BaseMessage) -> None:
        """Bring an answer, or a part of it, to the form of Chat Completions."""

    def _tidy_all(self, result: ChatResult) -> ChatResult:
        for generation in result.generations:
            self._tidy(generation.message)
        return result

    def _require_end(self, repair: StreamRepair) -> None:
        """Raise `Unavailable` for a stream without a finish reason: its text or calls may be incomplete."""
        if not repair.begun:
            raise self._errors.unreadable_answer(details={"stream": "empty"})
        if not repair.finished:
            raise self._errors.cut_stream()

    def _get_request_payload(
        self, input_: Any, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        messages = _with_one_system_message(convert_to_messages(input_))
        choice = kwargs.get("tool_choice")
        if self.thinks and (choice == "required" or isinstance(choice, Mapping)):
            kwargs["tool_choice"] = "auto"
            messages = [*messages, HumanMessage(_call_instruction(choice))]
        self._require_fit(messages, kwargs.get("tools"))
        payload: dict[str, Any] = super()._get_request_payload(messages, stop=stop, **kwargs)
        for message, sent in zip(messages, payload.get("messages", ()), strict=False):
            if self.replays_reasoning and sent.get("tool_calls"):
                sent[REASONING] = own_reasoning(message, self._maker) or _NO_REASONING
        if "max_completion_tokens" in payload:
            payload[self.output_limit] = payload.pop("max_completion_tokens")
        return payload

    def _require_fit(self, messages: Sequence[BaseMessage], tools: Sequence[Any] | None) -> None:
        """Raise `ContextOverflow` for a request that is too long: some servers silently cut its beginning."""
        if self.context_tokens is None:
            return
        estimate = count_tokens_approximately(messages, tools=list(tools or ()))
        if estimate + (self.max_tokens or 0) > self.context_tokens:
            raise self._errors.overflow(f": about {estimate} tokens of at most {self.context_tokens}")

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], *args: Any, **kwargs: Any
    ) -> ChatGenerationChunk | None:
        delta = next((choice.get("delta") for choice in chunk.get("choices") or ()), None) or {}
        pieces = call_pieces(delta.pop("tool_calls", None) or ())
        generation = super()._convert_chunk_to_generation_chunk(chunk, *args, **kwargs)
        if generation and delta:
            generation.message.additional_kwargs |= extra_fields(delta)
            generation.message.response_metadata[MAKER] = self._maker
            if isinstance(generation.message, AIMessageChunk):
                generation.message.tool_call_chunks = pieces
        return generation

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        try:
            answer = _plain(response)
            result = super()._create_chat_result(answer, generation_info)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            words = _vendor_words(response)
            raise self._errors.unreadable_answer(words) from self._errors.safe_cause(error)
        if not result.generations:
            raise self._errors.unreadable_answer(_vendor_words(response))
        for generation, choice in zip(result.generations, _choices(answer), strict=False):
            message = generation.message
            if len(generation.text) > MAX_CHARS:
                raise self._errors.too_long(MAX_CHARS)
            message.additional_kwargs |= extra_fields(choice["message"])
            message.response_metadata[MAKER] = self._maker
            if isinstance(message, AIMessage):
                if calls := choice["message"].get(_RAW_CALLS):
                    set_calls(message, calls, decode_arguments)
                split_message(message)
        return result


def _with_one_system_message(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with all system messages as one, first: templates of local models demand it."""
    system = [message for message in messages if isinstance(message, SystemMessage)]
    if len(system) <= 1 and messages[:1] == system:
        return list(messages)
    rest = [message for message in messages if not isinstance(message, SystemMessage)]
    return [*([SystemMessage("\n\n".join(one.text for one in system))] if system else []), *rest]


def _call_instruction(choice: Any) -> str:
    name = choice.get("function", {}).get("name") if isinstance(choice, Mapping) else ""
    return f"Answer by calling the tool {name}." if name else "Answer by calling a tool."


def _plain(response: dict[str, Any] | openai.BaseModel) -> dict[str, Any] | openai.BaseModel:
    """Return a response as a dict, its tool calls set apart.

    A response that the client parsed for a schema stays as it is.
    """
    if isinstance(response, openai.BaseModel):
        if any(hasattr(choice.message, "parsed") for choice in getattr(response, "choices", None) or ()):
            return response
        response = utf8_safe_value(response.model_dump(warnings=False))
    for choice in _choices(response):
        calls = [_raw_call(call) for call in choice["message"].get("tool_calls") or ()]
        # LangChain raises for a whole answer over one broken call; so they are read after it.
        choice["message"] |= {"tool_calls": None, _RAW_CALLS: calls}
    return response


def _raw_call(call: Mapping[str, Any]) -> dict[str, str]:
    arguments = call["function"].get("arguments") or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    name = call["function"].get("name") or ""
    return {"id": call.get("id") or "", "name": name, "args": text[: MAX_CHARS + 1]}


def _choices(response: Any) -> Sequence[dict[str, Any]]:
    return (response.get("choices") or ()) if isinstance(response, dict) else ()


def _vendor_words(response: Any) -> str:
    """Return what an unreadable response says, for a message."""
    if isinstance(response, str):
        return response
    body = response.model_dump(warnings=False) if isinstance(response, openai.BaseModel) else response
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("message", error) if isinstance(error, dict) else error or "")


def _refusal(refusal: PolicyRefusal) -> dict[str, Any]:
    """Return the fields of a message for a request that the vendor's content policy refuses."""
    return {
        "content": refusal.message,
        "additional_kwargs": {"refusal": refusal.message},
        "response_metadata": {"finish_reason": "content_filter"},
    }


def _refusal_chunk(refusal: PolicyRefusal) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**_refusal(refusal), chunk_position="last"))
