"""Failures of OpenAI's wire told as ours: what the caller, the network or the installation must change."""

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


@dataclass(frozen=True)
class ErrorTranslator:
    """One model of one vendor, seen from outside."""

    title: str
    """What people call the vendor."""
    prefix: str
    """Of its environment variables."""
    model: str
    """The model that is asked."""
    url: str
    """Where it is asked."""
    key: str = field(repr=False)
    """What must never be told."""

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise what fails inside as `Refused`, `Unavailable` or `Broken`."""
        try:
            yield
        except (openai.OpenAIError, TimeoutError, json.JSONDecodeError) as error:
            raise self._translated(error) from self.safe_cause(error)

    def safe_cause(self, error: Exception) -> Exception | None:
        """`error`, unless it could quote the key into a log: a vendor's 401 quotes the key, or its ends."""
        secret = isinstance(error, openai.AuthenticationError) or self._quotes_key(str(error))
        return None if secret else error

    def unreadable_answer(self) -> Unavailable:
        """For an answer that is not a chat completion."""
        return Unavailable(f"{self.title} sent an answer that is not a chat completion", remedy="try again")

    def cut_stream(self, words: str = "") -> Unavailable:
        """For a stream that did not reach its end."""
        return Unavailable(f"{self.title} broke off its answer{words}", remedy="try again")

    def _translated(self, error: Exception) -> CallsheetError:
        if _overflows(error):
            return TooLarge(
                f"the conversation is longer than {self.title}'s {self.model!r} can read",
                remedy="shorten it, or ask for a model that reads more",
            )
        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return TimedOut(
                f"{self.title} did not answer in time", remedy=f"try again, or raise {self._timeout}"
            )
        if isinstance(error, openai.APIConnectionError):
            remedy = f"check the network, and {self.prefix}_BASE_URL if it is set"
            return Unavailable(f"{self.title} cannot be reached at {self.url}", remedy=remedy)
        if isinstance(error, openai.APIStatusError):
            return self._status(error)
        return (
            self.cut_stream(self._said(error))
            if isinstance(error, openai.APIError)
            else self.unreadable_answer()
        )

    def _status(self, error: openai.APIStatusError) -> CallsheetError:
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
                    remedy=f"ask for another model, or set {self.prefix}_MODEL",
                )
            case 400 | 422:
                return Broken(f"{self.title} refuses the form of the request{self._said(error)}")
        failed = (
            Limited(
                f"{self.title} limits the key in {self._key}{self._said(error)}", remedy="wait, or add credit"
            )
            if status in {402, 429}
            else Unavailable(f"{self.title} failed ({status}){self._said(error)}", remedy="try again")
        )
        failed.retry_after_s = _retry_after_s(error.response.headers)
        return failed

    def _said(self, error: openai.APIError) -> str:
        """The vendor's own words, as the end of a sentence."""
        body = error.body
        words = str(body["message"]) if isinstance(body, dict) and body.get("message") else error.message
        return "" if self._quotes_key(words) else f": {words}"

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
    coded = isinstance(error, openai.APIError) and error.code == "context_length_exceeded"
    return too_large or coded or isinstance(error, ContextOverflowError)


def _retry_after_s(headers: Mapping[str, str]) -> float:
    """Seconds the vendor asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date; else 1."""
    milliseconds, seconds = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    for text, unit in ((milliseconds, 1000.0), (seconds, 1.0)):
        try:
            asked_s = float(text) / unit
        except ValueError:
            continue
        if math.isfinite(asked_s):
            return max(0.0, asked_s)
    try:
        return max(0.0, parsedate_to_datetime(seconds).timestamp() - time.time())
    except ValueError:
        return Unavailable.retry_after_s
