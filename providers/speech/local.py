"""English speech by a small model whose weights come in its wheel; runs in the sandbox.

The model has one speaker. Further preview voices are its sound at another rate, which moves pitch
and formants.
"""

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from callsheet.state.read_aloud import text_aloud

MODEL: Final = "hibari-0.2/1"
"""Model, and version of this module's treatment of it."""
LANGUAGE: Final = "english"
SPEAKERS: Final[Mapping[str, tuple[str, float]]] = {
    "preview voice 1": ("female", 1.0),
    "preview voice 2": ("male", 0.84),
    "preview voice 3": ("female", 1.1),
    "preview voice 4": ("male", 0.78),
}
"""Gender as heard, and factor of the pitch, by name."""
WORDS_PER_S: Final = 3.1
"""Words that the first voice speaks in a second, as measured on 36 sentences without silence around them."""
_SPEEDS: Final = (0.5, 2.0)
"""Limits of the model's own pace."""


def speak(data: bytes, report: Any, *, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a WAV file for each line, as Base64. The same line has the same bytes."""
    del data
    # One thread is enough, and each further one takes memory; read when the library is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    hibari = __import__("hibari").Hibari()
    sounds = []
    for done, line in enumerate(lines):
        report(done, len(lines))
        sounds.append(b64encode(_say(hibari, line)).decode())
    return {"sounds": sounds}


def _say(hibari: Any, line: Mapping[str, Any]) -> bytes:
    import numpy  # noqa: PLC0415, ICN001 -- only in the sandbox
    import soundfile  # noqa: PLC0415

    pitch = SPEAKERS[line["speaker"]][1]
    least, most = _SPEEDS
    speed = min(most, max(least, float(line["speed"]) / pitch))
    samples = hibari(text_aloud(line["text"], LANGUAGE), speed=speed, seed=0)
    count = int(len(samples) / pitch)
    shifted = numpy.interp(numpy.linspace(0, len(samples) - 1, count), numpy.arange(len(samples)), samples)
    file = BytesIO()
    soundfile.write(file, shifted, hibari.sample_rate, format="WAV", subtype="PCM_16")
    return file.getvalue()
