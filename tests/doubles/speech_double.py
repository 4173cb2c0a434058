"""A speech endpoint on loopback with OpenAI's API: a tone for each letter, or what a test scripts."""

import io
import json
import math
import struct
import threading
import wave
from base64 import b64encode
from collections import deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from xml.etree import ElementTree as ET

KEY = "sk-speech-0123456789"
VOICES = {
    "alloy",
    "ash",
    "ballad",
    "cedar",
    "coral",
    "echo",
    "fable",
    "marin",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
}
RATE = 24_000
LETTER_S = 0.05


def tone(seconds: float) -> bytes:
    """A WAV file with a tone of so many seconds."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        samples = (int(9000 * math.sin(i / 9)) for i in range(int(RATE * seconds)))
        sound.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return file.getvalue()


class SpeechDouble:
    """The endpoint; `replies` are sent before it answers by itself, each a status and a body."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.replies: deque[tuple[int, bytes]] = deque()
        self.silent = threading.Event()
        """While it is set, requests are not answered."""
        self._stopped = threading.Event()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (_SpeechHandler,), {"double": self})
        )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def environ(self) -> dict[str, str]:
        """Environment that points speech to the double."""
        return {
            "SPEECH_BASE_URL": f"http://127.0.0.1:{self._server.server_port}/v1",
            "SPEECH_API_KEY": KEY,
            "SPEECH_MODEL": "tones",
        }

    def answer(self, path: str, headers: Mapping[str, str], content: bytes) -> tuple[int, bytes]:
        """Status and body for a request."""
        body = self.read(path, headers, content)
        self.requests.append(body)
        while self.silent.is_set():
            if self._stopped.wait(0.02):
                break
        if self.replies:
            return self.replies.popleft()
        return self.usual_answer(path, headers, body)

    def read(self, path: str, headers: Mapping[str, str], content: bytes) -> dict[str, Any]:
        """The request as a test looks at it."""
        fields: dict[str, Any] = json.loads(content)
        return fields

    def usual_answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of the answer that is not scripted."""
        if headers.get("authorization") != f"Bearer {KEY}":
            return 401, json.dumps({"error": {"message": "Incorrect API key"}}).encode()
        known = body["voice"] in VOICES and 0 < len(body["input"]) <= 4096
        if path != "/v1/audio/speech" or not known or not 0.25 <= body["speed"] <= 4:
            return 400, json.dumps({"error": {"message": "invalid input"}}).encode()
        return 200, tone(LETTER_S * len(body["input"]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class AzureDouble(SpeechDouble):
    """Azure's service; a request is its voice, rate, language and text as its SSML has them."""

    @property
    def environ(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self._server.server_port}/cognitiveservices/v1"
        return {"AZURE_SPEECH_KEY": KEY, "AZURE_SPEECH_URL": url}

    def read(self, path: str, headers: Mapping[str, str], content: bytes) -> dict[str, Any]:
        speak = ET.fromstring(content)
        [voice] = speak
        [prosody] = voice
        return {
            "voice": voice.get("name"),
            "rate": prosody.get("rate"),
            "locale": speak.get("{http://www.w3.org/XML/1998/namespace}lang"),
            "input": prosody.text,
            "elements": len(list(speak.iter())),
            "format": headers.get("x-microsoft-outputformat"),
        }

    def usual_answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, bytes]:
        if headers.get("ocp-apim-subscription-key") != KEY:
            return 401, b""
        return 200, tone(LETTER_S * len(body["input"]))


class GoogleDouble(SpeechDouble):
    """Google's service."""

    @property
    def environ(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self._server.server_port}/v1/text:synthesize"
        return {"GOOGLE_TTS_KEY": KEY, "GOOGLE_TTS_URL": url}

    def usual_answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, bytes]:
        if headers.get("x-goog-api-key") != KEY:
            return 403, json.dumps({"error": {"message": "no"}}).encode()
        sound = tone(LETTER_S * len(body["input"]["text"]))
        return 200, json.dumps({"audioContent": b64encode(sound).decode()}).encode()


class _SpeechHandler(BaseHTTPRequestHandler):
    double: SpeechDouble

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, reply = self.double.answer(self.path, headers, body)
        self.send_response(status)
        kind = "audio/wav" if status == 200 else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(reply)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""
