"""What OpenAPI says of the server as a whole: who is asking, how that may go wrong, what a stream is."""

from typing import Any, Final

from server.auth import OPEN
from server.problems import documented, documented_wire, on_wire

EVENTS: Final[dict[str, Any]] = {
    "description": "Server-sent events",
    "content": {
        "text/event-stream": {
            "itemSchema": {
                "type": "object",
                "required": ["event", "data"],
                "properties": {
                    "event": {"type": "string"},
                    "data": {"type": "string", "contentMediaType": "application/json"},
                    "id": {"type": "string"},
                },
            }
        }
    },
}
"""The reply that is a stream, of whose events each fits this schema."""
_STATUSES: Final = (401, 403, 429)
_SCHEMES: Final = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key or a JSON Web Token"},
}


def guarded(spec: dict[str, Any], *, asks: bool) -> dict[str, Any]:
    """Return the description with the replies of the door, and, where it asks, with what it asks for."""
    for path, methods in spec["paths"].items():
        if path in OPEN:
            continue
        told = (documented_wire if on_wire(path) else documented)(*_STATUSES, reply=None)
        for operation in methods.values():
            for status in _STATUSES:
                operation["responses"].setdefault(str(status), told[status])
            if asks:
                operation["security"] = [{name: []} for name in _SCHEMES]
    if asks:
        spec.setdefault("components", {})["securitySchemes"] = _SCHEMES
    return spec
