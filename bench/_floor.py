"""A server with fixed replies: the time of a run that client, HTTP and machine need by themselves."""

import json
import sys
import uuid
from typing import Final

import uvicorn
from starlette.types import Receive, Scope, Send

_JSON: Final = b"application/json"
_FINAL: Final = {"x": 4, "log": ["a", "b", "c"]}
_EVENTS: Final = b"".join(
    b"event: %s\r\ndata: %s\r\n\r\n" % (name, json.dumps(data).encode())
    for name, data in (
        (b"metadata", {"run_id": str(uuid.uuid4()), "attempt": 1}),
        *((b"values", {"x": step, "log": ["a", "b", "c"][: step - 1]}) for step in range(1, 5)),
    )
)
_REPLIES: Final = {
    "/threads": (_JSON, json.dumps({"thread_id": str(uuid.uuid4()), "status": "idle"}).encode()),
    "/wait": (_JSON, json.dumps(_FINAL).encode()),
    "/stream": (b"text/event-stream", _EVENTS),
}
"""Content type and body, by the end of the path."""


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Read a complete request; answer with the result of a run of the measured graph."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    matching = (reply for end, reply in _REPLIES.items() if scope["path"].endswith(end))
    kind, body = next(matching, (_JSON, b"[]"))
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(answer, port=int(sys.argv[1]), log_level="error", access_log=False)
