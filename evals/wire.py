"""A proxy on loopback between the product and a model's server: it caches and records answers.

The cache key is the address, the complete request (with the model and its settings) and the number
of the repetition. A repeated run gets cached answers without cost, also if the first run broke off.
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from evals.recordings import Answer, answer_of
from evals.tasks import EVALS_FOLDER

CACHE: Final = EVALS_FOLDER / ".cache"
"""Cached answers; not in the repository."""
_OK: Final = 200
_TOOK: Final = re.compile(r'(\\"cost\\": [^,]{1,30}, \\"duration\\": )[0-9.e-]+')
_CALL: Final = re.compile(r'"(?:tool_call_id|call_id|id)": ?"([\w-]{12,80})"')
_FORWARDED: Final = ("authorization", "content-type", "accept", "openai-organization", "openai-project")
"""Headers that are forwarded to the model's server."""


def stable_text(body: bytes) -> str:
    """Return a request without the parts that differ between runs: seconds of tools, and ids of calls."""
    text = _TOOK.sub(r"\1", body.decode("utf-8", "replace"))
    for number, name in enumerate(dict.fromkeys(_CALL.findall(text))):
        text = text.replace(name, f"call-{number}")
    return text


class EvalProxy:
    """The proxy; a context manager that starts and stops it."""

    def __init__(self, upstream: str, *, cache: Path | None = CACHE) -> None:
        self.upstream = upstream.rstrip("/")
        self.cache = cache
        self.repeat = 1
        """The current repetition; equal requests of two repetitions are sent twice."""
        self.cached = 0
        """Answers that came from the cache."""
        self.fetched = 0
        """Answers that came from the server."""
        self.recorded: list[Answer] = []
        """Answers since the list was emptied."""
        self.client = httpx.Client(timeout=None)  # noqa: S113 -- the product's own limits end a call
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_ProxyHandler,), {"proxy": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        """The base URL for the product."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def path_of(self, path: str, body: bytes) -> Path | None:
        """Return the path of the cached answer to a request; None without a cache."""
        parts = [self.upstream, path, str(self.repeat), stable_text(body)]
        name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return self.cache / name[:2] / f"{name}.json" if self.cache else None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.client.close()


class _ProxyHandler(BaseHTTPRequestHandler):
    proxy: EvalProxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.proxy.path_of(self.path, body)
        if path and path.exists():
            stored = json.loads(path.read_text("utf-8"))
            self.proxy.cached += 1
            self._send_head(_OK, stored["type"])
            self.wfile.write(stored["body"].encode())
            self._record(body, stored["body"])
            return
        start_s = time.monotonic()
        headers = {name: value for name, value in self.headers.items() if name.lower() in _FORWARDED}
        try:
            forwarded = self._forward(body, headers)
        except httpx.HTTPError as error:
            self._send_head(502, "application/json")
            self.wfile.write(json.dumps({"error": {"message": f"{type(error).__name__}: {error}"}}).encode())
            return
        if forwarded is None:
            return
        kind, text = forwarded
        self.proxy.fetched += 1
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{threading.get_ident()}")
            took_s = round(time.monotonic() - start_s, 3)
            partial.write_text(json.dumps({"type": kind, "seconds": took_s, "body": text}), "utf-8")
            partial.replace(path)
        self._record(body, text)

    def _forward(self, body: bytes, headers: Mapping[str, str]) -> tuple[str, str] | None:
        """Forward the request and stream the answer back; return the complete answer if it is 200."""
        parts: list[bytes] = []
        url = self.proxy.upstream + self.path
        with self.proxy.client.stream("POST", url, content=body, headers=headers) as answer:
            kind = answer.headers.get("content-type", "application/json")
            self._send_head(answer.status_code, kind, answer.headers.get("retry-after"))
            for part in answer.iter_bytes():
                parts.append(part)
                self.wfile.write(part)
                self.wfile.flush()
        return (kind, b"".join(parts).decode("utf-8", "replace")) if answer.status_code == _OK else None

    def _send_head(self, status: int, kind: str, retry_after: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.send_header("Connection", "close")
        self.end_headers()

    def _record(self, body: bytes, text: str) -> None:
        if message := message_of(text):
            self.proxy.recorded.append(answer_of(json.loads(body), message))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Write nothing to standard error."""


def message_of(text: str) -> dict[str, Any] | None:
    """Return the message of a completion, in one piece or as a stream; None for another kind of answer."""
    if not text.lstrip().startswith("data:"):
        choices = json.loads(text).get("choices") if text.lstrip().startswith("{") else None
        return dict(choices[0]["message"]) if choices else None
    content = ""
    calls: dict[int, dict[str, str]] = {}
    for delta in _deltas(text):
        content += delta.get("content") or ""
        for part in delta.get("tool_calls") or ():
            call = calls.setdefault(part.get("index") or 0, {"name": "", "arguments": ""})
            for key, value in (part.get("function") or {}).items():
                call[key] = call.get(key, "") + (value or "")
    return {"content": content, "tool_calls": [{"function": calls[index]} for index in sorted(calls)]}


def _deltas(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data.startswith("{"):
            for choice in json.loads(data).get("choices") or ():
                yield choice.get("delta") or {}
