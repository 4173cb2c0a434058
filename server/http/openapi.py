"""Parts of the OpenAPI document for all routes: tags, authentication, errors, event streams."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from callsheet.server.http.errors import documented_responses, documented_wire_responses
from callsheet.server.http.policy import ErrorForm, RoutePolicy

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
"""Reply that is a stream of such events."""
TAGS: Final = {
    "artefacts": "Artefacts of every workflow: lists, streams and versions",
    "tools": "Tools of the workflows, their limits and their calls",
    "threads as files": "A thread with all its artefacts as one file",
    "assistants": "LangGraph: graphs with their configurations",
    "threads": "LangGraph: conversations, their states and histories",
    "runs": "LangGraph: turns of a graph on a thread: create, wait, stream, cancel",
    "protocol": "LangGraph: commands and events of a thread, for streams that outlive runs",
    "crons": "LangGraph: scheduled runs",
    "store": "LangGraph: items stored outside threads",
    "info": "LangGraph: version and features of this server",
    "health": "Health and metrics",
}
"""Descriptions of the tags, in the order of the document."""
_CLAUSE_END: Final = re.compile(r"[.:;](?:\s|$)")
_STATUSES: Final = (401, 403, 429)
_SCHEMES: Final = {
    "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key or a JSON Web Token"},
}


def with_authentication(
    spec: dict[str, Any],
    policies: Mapping[str, RoutePolicy],
    *,
    required: bool,
    feature_tags: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the document with tags, the replies of the middleware, and the security schemes.

    `policies` are those of the routes, by path.
    """
    _summarize(spec)
    used = {tag for methods in spec["paths"].values() for one in methods.values() for tag in one["tags"]}
    described = {**feature_tags, **TAGS}
    spec["tags"] = [
        {"name": tag, "description": described.get(tag, "")}
        for tag in (*described, *sorted(used - described.keys()))
        if tag in used
    ]
    for path, methods in spec["paths"].items():
        policy = policies[path]
        if policy.permission == "public":
            continue
        is_langgraph = policy.errors is ErrorForm.LANGGRAPH
        document = documented_wire_responses if is_langgraph else documented_responses
        responses = document(*_STATUSES, reply=None)
        for operation in methods.values():
            for status in _STATUSES:
                operation["responses"].setdefault(str(status), responses[status])
            if required:
                operation["security"] = [{name: []} for name in _SCHEMES]
    if required:
        spec.setdefault("components", {})["securitySchemes"] = _SCHEMES
    return spec


def _summarize(spec: dict[str, Any]) -> None:
    """Set each operation's summary to the first clause of its description, the route's docstring."""
    for methods in spec["paths"].values():
        for operation in methods.values():
            description = operation["description"]
            if end := _CLAUSE_END.search(description):
                operation["summary"] = description[: end.start()]
