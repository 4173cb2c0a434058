"""Client of a speech endpoint with OpenAI's API: https://platform.openai.com/docs/api-reference/audio."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import openai

from callsheet.providers.errors import ErrorTranslator
from callsheet.providers.speech import (
    HEADS,
    MAX_SOUND_BYTES,
    VARIABLES,
    Keep,
    Line,
    SpeechSettings,
    keep_nothing,
    say_each,
)
from callsheet.state.errors import Unavailable

_NO_KEY: Final = "none"
"""Sent to a server that needs no key, because the client requires one."""


class SpeechEndpoint:
    """Speech from an endpoint. Implements `Speech`."""

    provider = "openai"

    def __init__(self, settings: SpeechSettings) -> None:
        self._settings = settings
        self._secret = settings.key.get_secret_value()
        self.model = f"endpoint/{settings.model}@{settings.url}"
        self._errors = ErrorTranslator(
            title="the speech server",
            prefix="SPEECH",
            model=settings.model,
            url=settings.url,
            key=self._secret,
            answer="a sound file",
            variables={**VARIABLES, "key": settings.key_name},
        )

    async def say(self, lines: Sequence[Line], keep: Keep = keep_nothing) -> list[bytes]:
        """Return a sound file for each line; if one fails, no other is waited for."""
        client = openai.AsyncOpenAI(
            base_url=self._settings.url, api_key=self._secret or _NO_KEY, timeout=self._settings.timeout_s
        )
        async with client:
            return await say_each(lines, partial(self._say_one, client), keep)

    async def _say_one(self, client: openai.AsyncOpenAI, line: Line) -> bytes:
        sound = bytearray()
        directed = {"instructions": line.direction} if line.direction else {}
        request = client.audio.speech.with_streaming_response.create(
            model=self._settings.model,
            voice=line.speaker,
            input=line.text,
            response_format="wav",
            speed=line.speed,
            **directed,
        )
        with self._errors.translate():
            await self._read(request, sound)
        if len(sound) > MAX_SOUND_BYTES:
            raise Unavailable(
                f"the speech server sent over {MAX_SOUND_BYTES} bytes for one line",
                remedy=f"shorten the line, or check {VARIABLES['url']}",
            )
        if not sound.startswith(HEADS):
            raise self._errors.unreadable_answer(bytes(sound[:100]).decode(errors="replace"))
        return bytes(sound)

    async def _read(self, request: Any, sound: bytearray) -> None:
        """Add the answer's bytes to `sound`, until it is too long."""
        async with asyncio.timeout(self._settings.timeout_s), request as reply:
            async for piece in reply.iter_bytes():
                sound += piece
                if len(sound) > MAX_SOUND_BYTES:
                    return
