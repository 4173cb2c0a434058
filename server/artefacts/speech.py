"""Speech for ads and lessons: the engine that is configured, and lines that are spoken once within a day."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from callsheet.providers.speech import Line, Speech, SpeechEngines, configured_speech
from callsheet.state.errors import NotInstalled, UnreadableSound
from callsheet.state.plan import canonical_json
from callsheet.storage.artefacts import recordings
from callsheet.storage.redis.connection import Storage
from callsheet.tools.audio.speech import LocalSpeech


def require_audio() -> None:
    """Raise `NotInstalled` without the libraries of the extra `audio`."""
    if find_spec("hibari") is None or find_spec("soundfile") is None:
        raise NotInstalled("sound is not installed", remedy="install callsheet[audio] (docs/operations.md)")


def find_speech(owner: str = "") -> SpeechEngines:
    """Return the engines that the environment names, or the local model; an owner's tasks take turns."""
    return configured_speech() or SpeechEngines([LocalSpeech(owner)])


def digest_of(*parts: Any) -> str:
    """Return the name of what follows from these parts, which are JSON."""
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


@asynccontextmanager
async def speech_of(
    storage: Storage, owner: str, speech: Speech, lines: Sequence[Line]
) -> AsyncIterator[list[bytes]]:
    """Yield a sound file for each line; those that were spoken within a day are not spoken again.

    Each is kept once it is there, so that a retry does not pay for it again, whatever fails after it. A block
    that raises `UnreadableSound` drops them: an engine may send what is no sound.
    """

    async def keep(line: Line, sound: bytes) -> None:
        await recordings.keep_speech_clip(storage, owner, digest_of(speech.model, asdict(line)), sound)

    names = [digest_of(speech.model, asdict(line)) for line in lines]
    clips = {name: await recordings.speech_clip(storage, owner, name) for name in names}
    missing = {name: line for name, line in zip(names, lines, strict=True) if clips[name] is None}
    if missing:
        clips |= dict(zip(missing, await speech.say([*missing.values()], keep), strict=True))
    try:
        yield [clips[name] or b"" for name in names]
    except UnreadableSound:
        await recordings.drop_speech_clips(storage, owner, names)
        raise
