"""Azure's speech: https://learn.microsoft.com/azure/ai-services/speech-service/rest-text-to-speech."""

import re
from collections.abc import Mapping
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from callsheet.providers.speech import Line, timeout_s
from callsheet.providers.speech.service import ServiceSettings, SpeechService
from callsheet.state.errors import Invalid
from callsheet.state.unicode import xml_safe

_KEY: Final = "AZURE_SPEECH_KEY"
_REGION: Final = "AZURE_SPEECH_REGION"
_URL: Final = "AZURE_SPEECH_URL"
_REGION_FORM: Final = re.compile(r"[a-z0-9]{2,40}")
_FORMAT: Final = "riff-24khz-16bit-mono-pcm"


class AzureSpeech(SpeechService):
    """Azure's voices as cast."""

    provider = "azure"
    title = "Azure's speech service"

    def request_of(self, line: Line) -> Mapping[str, Any]:
        """Return the request of a line, whose text is never read as SSML."""
        headers = {
            "Ocp-Apim-Subscription-Key": self._settings.key,
            "Content-Type": "application/ssml+xml",
            "X-Microsoft-OutputFormat": _FORMAT,
            "User-Agent": "callsheet",
        }
        return {"headers": headers, "content": ssml(line).encode()}


def ssml(line: Line) -> str:
    """Return the document of a line; its text and its names are escaped."""
    locale = "-".join(line.speaker.split("-")[:2])
    rate = f"{round(100 * (line.speed - 1)):+d}%"
    text = escape(xml_safe(line.text))
    return (
        '<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis"'
        f" xml:lang={quoteattr(locale)}><voice name={quoteattr(line.speaker)}>"
        f'<prosody rate="{rate}">{text}</prosody></voice></speak>'
    )


def configured_engine(env: Mapping[str, str]) -> AzureSpeech | None:
    """Return the engine if the environment has its key; raises `Invalid` for a wrong setting."""
    key, region, url = (env.get(name, "").strip() for name in (_KEY, _REGION, _URL))
    if not key:
        return None
    if not url:
        if not _REGION_FORM.fullmatch(region):
            raise Invalid(
                f"{_REGION} is {region!r}", remedy="set it to the resource's region, such as westeurope"
            )
        url = f"https://{region}.tts.speech.microsoft.com/cognitiveservices/v1"
    return AzureSpeech(ServiceSettings(url, key, _KEY, timeout_s(env)))
