"""The local model as an engine of speech: each request is one process."""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from callsheet.providers.speech import LOCAL, Keep, Line, keep_nothing
from callsheet.providers.speech.local import MODEL
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, TaskLimits, run_task

_LIMITS: Final = TaskLimits(memory_bytes=2**30, cpu_s=60.0, output_bytes=40_000_000)


class LocalSpeech:
    """English preview voices. Implements `Speech`."""

    model = f"local/{MODEL}"
    provider = LOCAL

    def __init__(self, owner: str, report: OnProgress = lambda _done, _of: None) -> None:
        self._owner = owner
        self._report = report

    async def say(self, lines: Sequence[Line], keep: Keep = keep_nothing) -> list[bytes]:
        """Return a WAV file for each line; raises `Oversized` beyond the limits of the process."""
        arguments = {"lines": [asdict(line) for line in lines]}
        task = SandboxTask(
            "speech", "callsheet.providers.speech.local", "speak", arguments, owner=self._owner
        )
        answer = await run_task(task, _LIMITS, self._report)
        sounds = [b64decode(sound) for sound in answer["sounds"]]
        for line, sound in zip(lines, sounds, strict=True):
            await keep(line, sound)
        return sounds
