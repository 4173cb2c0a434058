"""An embeddings endpoint on loopback with OpenAI's API: a vector of word counts for each text."""

import json
import threading
from collections import deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

KEY = "sk-embeddings-0123456789"
MAX_INPUTS = 2048
WORDS = ("travel", "cash", "savings", "fraud", "credit", "card")


def vector(text: str) -> list[float]:
    """Count each of `WORDS` in the text; a constant follows, so that no vector is zero."""
    return [float(text.casefold().count(word)) for word in WORDS] + [0.01]


class EmbeddingsDouble:
    """The endpoint; `replies` are sent before it answers by itself, each a status and a body."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.replies: deque[tuple[int, Any]] = deque()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (_EmbeddingsHandler,), {"double": self})
        )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def environ(self) -> dict[str, str]:
        """Environment that points the embeddings to the double."""
        url = f"http://127.0.0.1:{self._server.server_port}/v1"
        names = {"URL": url, "MODEL": "counts", "KEY": KEY}
        return {f"CALLSHEET_EMBEDDINGS_{name}": value for name, value in names.items()}

    @property
    def texts(self) -> list[str]:
        """All texts that were sent."""
        return [text for request in self.requests for text in request["input"]]

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        """Status and body for a request."""
        self.requests.append(body)
        if self.replies:
            return self.replies.popleft()
        if headers.get("authorization") != f"Bearer {KEY}":
            return 401, {"error": {"message": f"Incorrect API key: {headers.get('authorization')}"}}
        texts = body["input"]
        if path != "/v1/embeddings" or not 0 < len(texts) <= MAX_INPUTS or "" in texts:
            return 400, {"error": {"message": "invalid input"}}
        data = [
            {"object": "embedding", "index": i, "embedding": vector(text)} for i, text in enumerate(texts)
        ]
        # The API promises an index, not an order.
        return 200, {"object": "list", "data": data[::-1], "model": body["model"], "usage": {}}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _EmbeddingsHandler(BaseHTTPRequestHandler):
    double: EmbeddingsDouble

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, reply = self.double.answer(self.path, headers, body)
        raw = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""
