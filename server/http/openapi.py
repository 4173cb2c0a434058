"""What OpenAPI says of the server as a whole: who is asking, how that may go wrong, what a stream is."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from callsheet.server.http.auth import PUBLIC_PATHS
from callsheet.server.http.errors import documented_responses, documented_wire_responses, is_langgraph_path

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
TAGS: Final = {
    "artefacts": "Artefacts of every workflow: lists, streams and versions",
    "tools": "What the workflows may do, and on whose terms",
    "threads as files": "A whole thread, with all that was made on it, as one file",
    "assistants": "LangGraph's: the graphs, and how they are set",
    "threads": "LangGraph's: conversations, their states and histories",
    "runs": "LangGraph's: one turn of a graph on a thread, waited for, streamed, cancelled",
    "protocol": "LangGraph's: commands to a thread, and its events, for streams that outlive runs",
    "crons": "LangGraph's: runs by the clock",
    "store": "LangGraph's: what is remembered beside threads",
    "info": "LangGraph's: what this server is",
    "health": "Whether it works, and what does not",
}
"""What there is, by the tags of the operations, in the order a reader wants it in."""
_RULES: Final = re.compile(r" \((?:[A-Z](?:-R)?\d+(?:[–-][A-Z](?:-R)?\d+)?(?:, )?)+\)")
"""The numbers of the requirements that something follows from: for who reads the code."""
_CLAUSE: Final = re.compile(r"(.+?)[.:;](?:\s|$)", re.DOTALL)
_STATUSES: Final = (401, 403, 429)
_SCHEMES: Final = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key or a JSON Web Token"},
}


def with_authentication(
    spec: dict[str, Any], *, asks: bool, feature_tags: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the description with the replies of the door, and, where it asks, with what it asks for."""
    _say_plainly(spec)
    _summarize(spec)
    used = {tag for methods in spec["paths"].values() for one in methods.values() for tag in one["tags"]}
    described = {**feature_tags, **TAGS}
    spec["tags"] = [
        {"name": tag, "description": described.get(tag, "")}
        for tag in (*described, *sorted(used - described.keys()))
        if tag in used
    ]
    for path, methods in spec["paths"].items():
        if path in PUBLIC_PATHS:
            continue
        told = (documented_wire_responses if is_langgraph_path(path) else documented_responses)(
            *_STATUSES, reply=None
        )
        for operation in methods.values():
            for status in _STATUSES:
                operation["responses"].setdefault(str(status), told[status])
            if asks:
                operation["security"] = [{name: []} for name in _SCHEMES]
    if asks:
        spec.setdefault("components", {})["securitySchemes"] = _SCHEMES
    return spec


def _summarize(spec: dict[str, Any]) -> None:
    """Set each operation's summary to the first clause of its description, the route's docstring."""
    for methods in spec["paths"].values():
        for operation in methods.values():
            if clause := _CLAUSE.match(operation["description"]):
                operation["summary"] = clause[1]


def _say_plainly(part: Any) -> None:
    """Leave the numbers of requirements out of what is said."""
    if isinstance(part, dict) and isinstance(part.get("description"), str):
        part["description"] = _RULES.sub("", part["description"])
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _say_plainly(inner)
