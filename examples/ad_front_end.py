"""A front end for audio ads over REST: start one, watch it being written, refine it, list its versions.

make run                                       # in another terminal
.venv/bin/python examples/ad_front_end.py
"""

import json
import os
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import httpx

BRIEF = "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. First hour free until 30 June."


def read_events(reply: httpx.Response) -> Iterator[tuple[str, Any]]:
    """Yield the server-sent events of a reply, each as its name and its data.

    A line that starts with a colon is a heartbeat. Every event has an `id:` too: send the last one as
    `Last-Event-ID` with the same request, and a stream that broke goes on where it stopped.
    """
    name = ""
    for line in reply.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def follow(http: httpx.Client, path: str, body: dict[str, Any]) -> None:
    """Send a request that starts a turn, and print its progress and its result."""
    # The key makes the request safe to repeat: the same key with the same body gets the same turn.
    headers = {"Accept": "text/event-stream", "Idempotency-Key": str(uuid.uuid4())}
    with http.stream("POST", path, json=body, headers=headers) as reply:
        if reply.is_error:
            error = json.loads(reply.read())
            sys.exit(f"{error['error']}\n{error['remedy']}")
        for name, data in read_events(reply):
            if name == "step" and data["status"] in {"completed", "error"}:
                print(f"  {data['name']}: {data['status']}")
            elif name == "result":
                print(data["message"])
            elif name == "error":
                sys.exit(data["error"])


def main(url: str, brief: str) -> None:
    """Write an ad, refine it, and list the versions of its music."""
    ad = f"ad-{uuid.uuid4().hex[:8]}"
    with httpx.Client(base_url=url, timeout=60) as http:
        print(f"The ad {ad}")
        follow(http, "/api/ai/generate", {"adId": ad, "brief": brief})
        follow(http, f"/api/ads/{ad}/chat", {"message": "make the music more upbeat"})
        for version in http.get(f"/api/ads/{ad}/music").raise_for_status().json()["versions"]:
            print(f"music {version['id']}: {version['status']}, made from {version['parent'] or 'the brief'}")


if __name__ == "__main__":
    try:
        main(os.environ.get("SERVER_URL", "http://127.0.0.1:2024"), sys.argv[1] if sys.argv[1:] else BRIEF)
    except httpx.ConnectError:
        sys.exit("start the server first: make run")
