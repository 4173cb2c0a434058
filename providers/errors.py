"""Translation of the OpenAI client's errors into Callsheet's error tree."""

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import openai
from langchain_core.exceptions import ContextOverflowError

from callsheet.state.errors import Broken, CallsheetError, Invalid, Limited, TimedOut, TooLarge, Unavailable


class RequestRejected(Broken):
    """The vendor rejects the form of the request; a simpler one may be accepted."""


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

    @contextmanager
    def translate(self) -> Iterator[None]:
        """Raise every failure of the block as `Refused`, `Unavailable` or `Broken`."""
        try:
            yield
        except (openai.OpenAIError, TimeoutError, json.JSONDecodeError) as error:
            raise self._translation(error) from self.safe_cause(error)

    def safe_cause(self, error: Exception) -> Exception | None:
        """Return `error`, or None if it may quote the key, as a vendor's 401 does."""
        secret = isinstance(error, openai.AuthenticationError) or self._quotes_key(str(error))
        return None if secret else error

    def unreadable_answer(self) -> Unavailable:
        """Return the error for an answer that is not a chat completion."""
        return Unavailable(f"{self.title} sent an answer that is not a chat completion", remedy="try again")

    def cut_stream(self, detail: str = "") -> Unavailable:
        """Return the error for a stream that did not reach its end."""
        return Unavailable(f"{self.title} broke off its answer{detail}", remedy="try again")

    def _translation(self, error: Exception) -> CallsheetError:
        if _overflows(error):
            return TooLarge(
                f"the conversation is longer than {self.title}'s {self.model!r} can read",
                remedy="shorten it, or choose a model with a larger context",
            )
        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return TimedOut(
                f"{self.title} did not answer in time", remedy=f"try again, or raise {self._timeout}"
            )
        if isinstance(error, openai.APIConnectionError):
            remedy = f"check the network, and {self.prefix}_BASE_URL if it is set"
            return Unavailable(f"{self.title} cannot be reached at {self.url}", remedy=remedy)
        if isinstance(error, openai.APIStatusError):
            return self._status_error(error)
        if isinstance(error, openai.APIError):
            return self.cut_stream(self._vendor_message(error))
        return self.unreadable_answer()

    def _status_error(self, error: openai.APIStatusError) -> CallsheetError:
        status = error.status_code
        match status:
            case 401 | 403:
                return Broken(
                    f"{self.title} refuses the key in {self._key} for {self.model!r} ({status})",
                    remedy=f"set {self._key} to a key that may use this model",
                )
            case 404:
                return Invalid(
                    f"{self.title} has no model {self.model!r} for this key",
                    remedy=f"choose another model, or set {self.prefix}_MODEL",
                )
            case 400 | 422:
                return RequestRejected(
                    f"{self.title} rejects the form of the request{self._vendor_message(error)}"
                )
        detail = self._vendor_message(error)
        failure = (
            Limited(f"{self.title} limits the key in {self._key}{detail}", remedy="wait, or add credit")
            if status in {402, 429}
            else Unavailable(f"{self.title} failed ({status}){detail}", remedy="try again")
        )
        failure.retry_after_s = _retry_after_s(error.response.headers)
        return failure

    def _vendor_message(self, error: openai.APIError) -> str:
        """Return the vendor's own message with a leading colon; empty when it would show the key."""
        body = error.body
        message = str(body["message"]) if isinstance(body, dict) and body.get("message") else error.message
        return "" if self._quotes_key(message) else f": {message}"

    def _quotes_key(self, text: str) -> bool:
        return bool(self.key) and self.key in text

    @property
    def _key(self) -> str:
        return f"{self.prefix}_API_KEY"

    @property
    def _timeout(self) -> str:
        return f"{self.prefix}_TIMEOUT_S"


def _overflows(error: Exception) -> bool:
    too_large = isinstance(error, openai.APIStatusError) and error.status_code == 413  # noqa: PLR2004 - HTTP
    has_code = isinstance(error, openai.APIError) and error.code == "context_length_exceeded"
    return too_large or has_code or isinstance(error, ContextOverflowError)


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Return the seconds to wait by `retry-after-ms`, or `retry-after` in seconds or as a date; else 1."""
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
        return Unavailable.retry_after_s
