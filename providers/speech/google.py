"""Google's speech: https://cloud.google.com/text-to-speech/docs/reference/rest/v1/text/synthesize."""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from callsheet.providers.speech import Line, timeout_s
from callsheet.providers.speech.service import ServiceSettings, SpeechService

_KEY: Final = "GOOGLE_TTS_KEY"
_URL: Final = "GOOGLE_TTS_URL"
_DEFAULT_URL: Final = "https://texttospeech.googleapis.com/v1/text:synthesize"
_SPEEDS: Final = (0.25, 2.0)
_RATE: Final = 24_000


class GoogleSpeech(SpeechService):
    """Google's voices as cast."""

    provider = "google"
    title = "Google's speech service"

    def request_of(self, line: Line) -> Mapping[str, Any]:
        """Return the request of a line, as plain text."""
        least, most = _SPEEDS
        body = {
            "input": {"text": line.text},
            "voice": {"languageCode": "-".join(line.speaker.split("-")[:2]), "name": line.speaker},
            "audioConfig": {
                "audioEncoding": "LINEAR16",
                "sampleRateHertz": _RATE,
                "speakingRate": min(most, max(least, line.speed)),
            },
        }
        return {"headers": {"X-Goog-Api-Key": self._settings.key}, "json": body}

    def sound_of(self, answer: bytes) -> bytes:
        """Return the sound file in an answer; raises `ValueError` if there is none."""
        reply = json.loads(answer)
        content = reply.get("audioContent") if isinstance(reply, dict) else None
        return b64decode(content if isinstance(content, str) else "", validate=True)


def configured_engine(env: Mapping[str, str]) -> GoogleSpeech | None:
    """Return the engine if the environment has its key."""
    key, url = (env.get(name, "").strip() for name in (_KEY, _URL))
    return GoogleSpeech(ServiceSettings(url or _DEFAULT_URL, key, _KEY, timeout_s(env))) if key else None
