"""A search for images on loopback, in the words of Google's."""

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
    """A search that gives this answer, or the one for the words asked; its URL, and what it was asked."""
    asked: list[dict[str, list[str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(parse_qs(urlparse(self.path).query))
            told = body if isinstance(body, str) else body(asked[-1]["q"][0])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(told.encode())

        def log_message(self, *told: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def search_settings(url: str) -> dict[str, str]:
    return {"GOOGLE_SEARCH_KEY": KEY, "GOOGLE_SEARCH_ENGINE": "engine", "GOOGLE_SEARCH_URL": url}


def image_results(words: str) -> str:
    """What is found for some words: seven images, one of them of no address that a page may show."""
    if "nothing" in words:
        return "{}"
    found = [
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
    found[4]["link"] = "data:image/png;base64,AAAA"
    return json.dumps({"items": found})
