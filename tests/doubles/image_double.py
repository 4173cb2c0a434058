"""Google's image search on loopback."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

KEY = "AIza-secret"


@contextmanager
def scripted_google(
    status: int, body: str | Callable[[str], str]
) -> Iterator[tuple[str, list[dict[str, list[str]]]]]:
    """A search that answers with a body, or with a body for each query; its URL, and the queries."""
    queries: list[dict[str, list[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            queries.append(parse_qs(urlparse(self.path).query))
            reply = body if isinstance(body, str) else body(queries[-1]["q"][0])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(reply.encode())

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", queries
        finally:
            server.shutdown()
            thread.join()


def search_settings(url: str) -> dict[str, str]:
    return {"GOOGLE_SEARCH_KEY": KEY, "GOOGLE_SEARCH_ENGINE": "engine", "GOOGLE_SEARCH_URL": url}


def image_results(words: str) -> str:
    """The results of a query: images, one of them with an address that no page may show."""
    if "nothing" in words:
        return "{}"
    items = [
        {
            "link": f"https://e.org/{words.replace(' ', '-')}-{name}.png",
            "title": f"A {name}",
            "mime": "image/png",
            "displayLink": "e.org",
            "image": {
                "thumbnailLink": f"https://e.org/{name}-small.png",
                "contextLink": "https://e.org/leaves",
            },
        }
        for name in ("leaf", "root", "tree", "flower", "stoma", "seed")
    ]
    items[4]["link"] = "data:image/png;base64,AAAA"
    return json.dumps({"items": items})
