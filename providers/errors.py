"""Translation of the OpenAI client's errors into Callsheet's error tree."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import openai
from langchain_core.exceptions import ContextOverflowError

from callsheet.state.errors import (
    CallsheetError,
    ContextOverflow,
    Invalid,
    Limited,
    Refused,
    RequestRejected,
    TimedOut,
    ToolsUnsupported,
    Unavailable,
    UnusableAnswer,
)

_OVERFLOW = (
    "context_length_exceeded",  # OpenAI: https://developers.openai.com/api/docs/guides/error-codes
    "exceeds the context window",  # OpenAI's Responses API
    "maximum context length",  # vLLM, and OpenAI's words
    "longer than the maximum model length",  # vLLM
    "exceed_context_size_error",  # llama.cpp: https://github.com/ggml-org/llama.cpp/pull/15780
    "exceeds the available context size",  # llama.cpp
    "context size has been exceeded",  # llama.cpp
    "exceeded model token limit",  # Kimi: https://github.com/MoonshotAI/kimi-cli/issues/2011
    "model max length exceeded",  # Kimi
    "range of input length should be",  # Qwen: https://www.alibabacloud.com/help/model-studio/error-code
    "prompt is too long",
)
"""Codes, types and wordings of a request that is longer than the model's context."""
_POLICY = ("content_policy_violation", "content_filter", "data_inspection_failed", "datainspectionfailed")
"""Codes and types of a request that the vendor's content policy refuses."""
_QUOTA = ("insufficient_quota", "exceeded_current_quota_error", "arrearage")
"""Codes and types of a key without credit."""
_NO_TOOLS = (
    "does not support tools",  # Ollama
    "does not support tool use",
    "does not support tool calling",
    "does not support function calling",
    "no endpoints found that support tool use",  # OpenRouter
)
"""Wordings of a request with tools to a model that cannot call them."""
_LOADING = ("loading model",)  # llama.cpp's 503 until its model is in memory
_LOADING_S = 5.0
"""Seconds to wait for a server that loads its model."""
_NO_USE_S = 3600.0
"""Seconds to wait where only a person can help: with another key, or more credit."""
_MAX_WORDS = 300
"""Characters of the vendor's own words in a message."""


class PolicyRefusal(Refused):
    """The vendor's content policy refuses the request; `ChatModel` answers with a refusal."""


@dataclass(frozen=True)
class ErrorTranslator:
    """Translates the errors of one model of one vendor."""

    title: str
    """The vendor's name in messages."""
    prefix: str
    """Prefix of the environment variables."""
    model: str
    url: str
    key: str = field(repr=False)
    """API key; appears in no message."""
    answer: str = "a chat completion"
    """Kind of answer in messages."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of `key`, `url` and `timeout_s` that are not called by the prefix."""

    @contextmanager
    def translate(self) -> Iterator[None]:
        """Raise every failure of the block as `Refused`, `Unavailable` or `Broken`."""
        try:
            yield
        except (openai.OpenAIError, TimeoutError, ValueError) as error:
            failure = self._translation(error)
            if isinstance(failure, Unavailable):
                failure.service = self.title
            raise failure from self.safe_cause(error)

    def safe_cause(self, error: Exception) -> Exception | None:
        """Return `error`, or None if it may quote the key, as a vendor's 401 does."""
        secret = isinstance(error, openai.AuthenticationError) or self._quotes_key(str(error))
        return None if secret else error

    def unreadable_answer(self, words: str = "", details: dict[str, object] | None = None) -> Unavailable:
        """Return the error for an answer that is not a chat completion; `words` are its own."""
        return Unavailable(
            f"{self.title} sent an answer that is not {self.answer}{self._quotation(words)}",
            remedy=f"try again, and check {self._base_url} if it is set",
            details=details,
        )

    def overflow(self, detail: str = "") -> ContextOverflow:
        """Return the error for a conversation that is longer than the model's context."""
        return ContextOverflow(
            f"the conversation is longer than {self.title}'s {self.model!r} can read{detail}",
            remedy="send less at once, start a new conversation, or choose a model with a larger context",
        )

    def too_long(self, most: int) -> UnusableAnswer:
        """Return the error for an answer of more than `most` characters."""
        return UnusableAnswer(
            f"{self.title}'s answer has more than {most:,} characters, so it was not read to its end",
            remedy=f"try again, or limit answers with {self.prefix}_MAX_OUTPUT_TOKENS",
        )

    def cut_stream(self, detail: str = "") -> Unavailable:
        """Return the error for a stream that did not reach its end."""
        return Unavailable(f"{self.title} broke off its answer{detail}", remedy="try again")

    def _translation(self, error: Exception) -> CallsheetError:
        if _overflows(error) or _says(error, _POLICY):
            return self._content_error(error)
        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return TimedOut(
                f"{self.title} did not answer in time", remedy=f"try again, or raise {self._timeout}"
            )
        if isinstance(error, openai.APIConnectionError):
            remedy = f"check the network, and {self._base_url} if it is set"
            return Unavailable(f"{self.title} cannot be reached at {self.url}", remedy=remedy)
        if isinstance(error, openai.APIStatusError):
            return self._status_error(error)
        if isinstance(error, openai.APIError):
            return self.cut_stream(self._vendor_message(error))
        return self.unreadable_answer("" if isinstance(error, json.JSONDecodeError) else str(error))

    def _content_error(self, error: Exception) -> CallsheetError:
        if _overflows(error):
            return self.overflow()
        words = self._vendor_message(error) if isinstance(error, openai.APIError) else ""
        return PolicyRefusal(f"{self.title} refuses this request{words}")

    def _status_error(self, error: openai.APIStatusError) -> CallsheetError:
        status, detail = error.status_code, self._vendor_message(error)
        if _says(error, _NO_TOOLS) and status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return ToolsUnsupported(
                f"{self.title}'s model {self.model!r} cannot call tools{detail}",
                remedy=f"choose a model that can, in the request or with {self.prefix}_MODEL",
            )
        match status:
            case 401 | 403:
                failure = Unavailable(
                    f"{self.title} refuses the key in {self._key} for {self.model!r} ({status})",
                    remedy=f"set {self._key} to a key that may use this model",
                )
                failure.retry_after_s = _NO_USE_S
                return failure
            case 404:
                return Invalid(
                    f"{self.title} has no model {self.model!r} for this key{detail}",
                    remedy=f"choose another model, or set {self.prefix}_MODEL",
                )
            case 400 | 422:
                return RequestRejected(f"{self.title} rejects the form of the request{detail}")
        failure = (
            # With the status: a log takes what follows the name of a key and a colon for the key.
            Limited(
                f"{self.title} limits the key in {self._key} ({status}){detail}", remedy="wait, or add credit"
            )
            if status in {402, 429}
            else Unavailable(f"{self.title} failed ({status}){detail}", remedy="try again")
        )
        no_credit = status == HTTPStatus.PAYMENT_REQUIRED or _says(error, _QUOTA)
        usual_s = _LOADING_S if _says(error, _LOADING) else Unavailable.retry_after_s
        failure.retry_after_s = _NO_USE_S if no_credit else _retry_after_s(error.response.headers, usual_s)
        return failure

    def _vendor_message(self, error: openai.APIError) -> str:
        """Return the vendor's own message with a leading colon; empty when it would show the key."""
        body = error.body
        message = str(body["message"]) if isinstance(body, dict) and body.get("message") else error.message
        return self._quotation(message)

    def _quotation(self, words: str) -> str:
        """Return `words` shortened, with a leading colon; nothing when they would show the key."""
        if not words or self._quotes_key(words):
            return ""
        line = " ".join(words.split())
        return f": {line if len(line) <= _MAX_WORDS else line[:_MAX_WORDS] + '…'}"

    def _quotes_key(self, text: str) -> bool:
        return bool(self.key) and self.key in text

    @property
    def _key(self) -> str:
        return self.variables.get("key", f"{self.prefix}_API_KEY")

    @property
    def _base_url(self) -> str:
        return self.variables.get("url", f"{self.prefix}_BASE_URL")

    @property
    def _timeout(self) -> str:
        return self.variables.get("timeout_s", f"{self.prefix}_TIMEOUT_S")


def _overflows(error: Exception) -> bool:
    too_large = isinstance(error, openai.APIStatusError) and error.status_code == 413  # noqa: PLR2004 - HTTP
    return too_large or _says(error, _OVERFLOW) or isinstance(error, ContextOverflowError)


def _says(error: Exception, marks: Sequence[str]) -> bool:
    """Return True if the vendor's code, type or message holds one of `marks`.

    LangChain raises a failed answer of the Responses API as a `ValueError` with code and message.
    """
    text = str(error)
    if isinstance(error, openai.APIError):
        body = error.body if isinstance(error.body, Mapping) else {}
        text = f"{error.code} {error.type} {body.get('code')} {body.get('type')} {error.message}"
    return any(mark in text.casefold() for mark in marks)


def _retry_after_s(headers: Mapping[str, str], usual_s: float) -> float:
    """Return the seconds to wait by `retry-after-ms`, or `retry-after` in seconds or as a date."""
    milliseconds, seconds = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    for text, unit in ((milliseconds, 1000.0), (seconds, 1.0)):
        try:
            wait_s = float(text) / unit
        except ValueError:
            continue
        if math.isfinite(wait_s):
            return max(0.0, wait_s)
    try:
        return max(0.0, parsedate_to_datetime(seconds).timestamp() - time.time())
    except ValueError:
        return usual_s
