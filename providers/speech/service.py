"""A speech service with an HTTP API of its own: one request for a line, its errors translated."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import httpx

from callsheet.providers.speech import HEADS, MAX_SOUND_BYTES, Keep, Line, keep_nothing, say_each
from callsheet.state.errors import CallsheetError, Invalid, Limited, TimedOut, Unavailable

_MAX_ANSWER: Final = 2 * MAX_SOUND_BYTES
"""Most bytes of an answer, which may hold the sound as Base64."""
_MAX_WORDS: Final = 200
"""Characters of the service's own words in a message."""


@dataclass(frozen=True)
class ServiceSettings:
    """Address and key of a service."""

    url: str
    key: str = field(repr=False)
    key_name: str
    """Variable of the key, for messages."""
    timeout_s: float


class SpeechService(ABC):
    """An engine that speaks each line by one request. Implements `Speech`."""

    provider: str
    title: str
    """Name in messages."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Speak by this service."""
        self._settings = settings
        self.model = f"{self.provider}@{settings.url}"

    @abstractmethod
    def request_of(self, line: Line) -> Mapping[str, Any]:
        """Return the arguments of httpx's `build_request` for a line."""

    def sound_of(self, answer: bytes) -> bytes:
        """Return the sound file in an answer; raises `ValueError` if there is none."""
        return answer

    async def say(self, lines: Sequence[Line], keep: Keep = keep_nothing) -> list[bytes]:
        """Return a sound file for each line; raises `Unavailable` or `Invalid`."""
        async with httpx.AsyncClient(timeout=self._settings.timeout_s) as client:
            return await say_each(lines, partial(self._say_one, client), keep)

    async def _say_one(self, client: httpx.AsyncClient, line: Line) -> bytes:
        request = client.build_request("POST", self._settings.url, **self.request_of(line))
        try:
            status, answer = await self._answer(client, request)
        except (httpx.TimeoutException, TimeoutError) as error:
            raise TimedOut(
                f"{self.title} did not answer in time", remedy="try again, or raise SPEECH_TIMEOUT_S"
            ) from error
        except httpx.HTTPError as error:
            raise Unavailable(
                f"{self.title} cannot be reached at {httpx.URL(self._settings.url).host}",
                remedy="check the network and the address",
            ) from error
        if status != HTTPStatus.OK:
            raise self._failure(status, answer)
        return self._checked_sound(answer)

    async def _answer(self, client: httpx.AsyncClient, request: httpx.Request) -> tuple[int, bytes]:
        # The client's limit is for each piece; a slow drip must end, too.
        async with asyncio.timeout(self._settings.timeout_s):
            reply = await client.send(request, stream=True)
            async with aclosing(reply):
                return reply.status_code, await _read(reply)

    def _checked_sound(self, answer: bytes) -> bytes:
        try:
            sound = self.sound_of(answer)
        except ValueError:
            sound = b""
        if len(answer) > _MAX_ANSWER or len(sound) > MAX_SOUND_BYTES:
            raise Unavailable(
                f"{self.title} sent over {MAX_SOUND_BYTES} bytes for one line", remedy="shorten the line"
            )
        if not sound.startswith(HEADS):
            raise Unavailable(
                f"{self.title} sent an answer that is not a sound file{self._quotation(answer)}",
                remedy="try again, and check the address of the service",
            )
        return sound

    def _failure(self, status: int, answer: bytes) -> CallsheetError:
        words, key = self._quotation(answer), self._settings.key_name
        match status:
            case 401 | 403:
                return Unavailable(
                    f"{self.title} refuses the key in {key} ({status})",
                    remedy=f"set {key} to one that may speak",
                )
            case 429:
                return Limited(
                    f"{self.title} limits the key in {key} ({status}){words}",
                    remedy="wait, or raise the quota",
                )
            case 400 | 404 | 413 | 422:
                return Invalid(f"{self.title} rejects a line ({status}){words}", remedy="cast another voice")
        return Unavailable(f"{self.title} failed ({status}){words}", remedy="try again")

    def _quotation(self, answer: bytes) -> str:
        """Return the service's own words with a leading colon; nothing where they would show the key."""
        words = " ".join(answer[:_MAX_WORDS].decode(errors="replace").split())
        return f": {words}" if words.isprintable() and words and self._settings.key not in words else ""


async def _read(reply: httpx.Response) -> bytes:
    """Return the answer, cut where it is too long."""
    answer = bytearray()
    async for piece in reply.aiter_bytes():
        answer += piece
        if len(answer) > _MAX_ANSWER:
            break
    return bytes(answer)
