"""The OpenAPI document: operation ids, permissions, error replies by reference, event streams, security.

FastAPI makes the document of routes and models; what all operations share is added to it once.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal

from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from callsheet.server.http.errors import error_components, error_reference
from callsheet.server.http.policy import ErrorForm, RoutePolicy, policy_of

VERSION: Final = "3.2.0"
"""Version of OpenAPI; `itemSchema`, which describes the events of a stream, is new in it."""
ANY_EVENT: Final = "*"
"""Name of the events that have names of their own."""
SCHEMAS: Final = "#/components/schemas/"
TAGS: Final = {
    "artefacts": "Artefacts of every workflow: lists, streams and versions",
    "operator": "All owners, for operators: runs, use of models, and the audit",
    "tools": "Tools of the workflows, their limits and their calls",
    "console": "The page's own: its session, and what waits for a person",
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
_FASTAPI_SCHEMAS: Final = frozenset({"HTTPValidationError", "ValidationError"})
_NAMED: Final = frozenset({"properties", "responses", "content"})
"""Keys of mappings whose keys are names."""
_VALUES: Final = frozenset({"default", "example", "examples", "const", "enum"})
"""Keys of values, which are no part of the document itself."""
Document = dict[str, Any]


def event_stream(events: Mapping[str, Any], description: str = "Server-sent events") -> Document:
    """Return the OpenAPI of a reply that streams events; `events` has the type of each event's data by name.

    The definitions of the types are in `$defs`, from where `complete` moves them.
    """
    mode: Literal["serialization"] = "serialization"
    adapters = [(name, mode, TypeAdapter[Any](data)) for name, data in events.items()]
    schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=f"{SCHEMAS}{{model}}")
    items = [_event(name, schemas[name, mode]) for name in events]
    # Where a stream may have events of any name, an event may fit two of them.
    kind = "anyOf" if ANY_EVENT in events else "oneOf"
    item = {kind: items} | ({"$defs": defs} if (defs := definitions.get("$defs")) else {})
    return {"description": description, "content": {"text/event-stream": {"itemSchema": item}}}


def json_body(model: Any) -> Document:
    """Return the OpenAPI of a request body that the route itself reads as this type."""
    schema = TypeAdapter[Any](model).json_schema(ref_template=f"{SCHEMAS}{{model}}")
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


def _event(name: str, data: Mapping[str, Any]) -> Document:
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "event": {"type": "string"} if name == ANY_EVENT else {"const": name},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
            "id": {"type": "string", "description": "Send it as `Last-Event-ID` to go on after this event"},
        },
    }


def complete(
    spec: Document,
    routes: Sequence[APIRoute],
    *,
    required: bool,
    feature_tags: Mapping[str, str] = MappingProxyType({}),
) -> Document:
    """Return FastAPI's document of these routes with what their policies and the middleware add.

    `required` is True if callers must authenticate.
    """
    components = spec.setdefault("components", {})
    errors = error_components()
    components["responses"] = errors["responses"]
    components["securitySchemes"] = _SCHEMES
    schemas = components.setdefault("schemas", {})
    schemas.update(errors["schemas"])
    for name in _FASTAPI_SCHEMAS:
        schemas.pop(name, None)
    for route, operation in _operations(spec, routes):
        operation["operationId"] = operation_id(route.name)
        _summarize(operation)
        _authorize(operation, policy_of(route), required=required)
        _tidy(operation, schemas)
        _tidy_body(operation, schemas)
    _add_examples(spec)
    _describe_tags(spec, feature_tags)
    _drop_titles(spec["paths"])
    _drop_titles(schemas, named=True)
    return spec


def operation_id(name: str) -> str:
    """Return the id of a route's operation: its name, which is that of its function, in camel case."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _operations(spec: Document, routes: Sequence[APIRoute]) -> Iterator[tuple[APIRoute, Document]]:
    for route in routes:
        methods = spec["paths"].get(route.path_format, {})
        yield from ((route, methods[name]) for name in map(str.lower, route.methods or ()) if name in methods)


def _summarize(operation: Document) -> None:
    """Set the summary to the first clause of the description, which is the docstring of the route."""
    description = operation["description"]
    if end := _CLAUSE_END.search(description):
        operation["summary"] = description[: end.start()]
        if end.end() == len(description):
            # The summary says all of it.
            operation["description"] = ""


def _authorize(operation: Document, policy: RoutePolicy, *, required: bool) -> None:
    """Add the needed permission, and the replies of the middleware that checks it."""
    if policy.permission == "public":
        operation["security"] = []
        operation["description"] = f"{operation['description']}\n\nNeeds no permission.".lstrip()
        return
    raised = "; `write` with `cancel_on_disconnect`" if policy.cancels_on_disconnect else ""
    needed = f"Needs the permission `{policy.permission}`{raised}."
    operation["description"] = f"{operation['description']}\n\n{needed}".lstrip()
    schemes: list[Document] = [{name: []} for name in _SCHEMES]
    operation["security"] = schemes if required else [{}, *schemes]
    for status in _STATUSES:
        reply = error_reference(status, langgraph=policy.errors is ErrorForm.LANGGRAPH)
        operation["responses"].setdefault(str(status), reply)


def _tidy(operation: Document, schemas: Document) -> None:
    """Leave of a reply what its route declares, and move the definitions of events to the others."""
    responses = operation["responses"]
    for status, reply in list(responses.items()):
        if reference := reply.get("$ref"):
            responses[status] = {"$ref": reference}
        contents = reply.get("content", {})
        for media_type, content in list(contents.items()):
            schema = content.get("schema")
            if schema == {} and len(contents) > 1:
                del contents[media_type]
            elif schema and "$ref" in schema:
                # FastAPI adds what it knows of the function's return type.
                content["schema"] = {"$ref": schema["$ref"]}
            if any(name in str(schema) for name in _FASTAPI_SCHEMAS):
                del responses[status]
            schemas.update(content.get("itemSchema", {}).pop("$defs", {}))


def _add_examples(spec: Document) -> None:
    """Add the requests of `examples.json`, which a test sends, and the replies to them."""
    text = files(__package__).joinpath("examples.json").read_text(encoding="utf-8")
    examples = {one["operation"]: one for one in json.loads(text)}
    for operation in (one for methods in spec["paths"].values() for one in methods.values()):
        example = examples.get(operation["operationId"], {})
        replies = (reply for status, reply in operation["responses"].items() if status.startswith("2"))
        parts = [("request", operation.get("requestBody", {})), *(("response", reply) for reply in replies)]
        for name, part in parts:
            if name in example and (content := part.get("content", {}).get("application/json")):
                content["examples"] = {"example": {"value": example[name]}}


def _tidy_body(operation: Document, schemas: Document) -> None:
    """Leave of a request body what `json_body` says, and move its definitions to the others."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = content.get("schema", {})
        if "$defs" in schema:
            schemas.update(schema.pop("$defs"))
            content["schema"] = {"anyOf": schema["anyOf"]}


def _drop_titles(value: Any, *, named: bool = False) -> None:
    """Drop the titles that pydantic makes of names; `named` is True for a mapping whose keys are names."""
    if isinstance(value, dict):
        if not named and isinstance(value.get("title"), str):
            del value["title"]
        for name, part in value.items():
            if named or name not in _VALUES:
                _drop_titles(part, named=not named and name in _NAMED)
    elif isinstance(value, list):
        for part in value:
            _drop_titles(part)


def _describe_tags(spec: Document, feature_tags: Mapping[str, str]) -> None:
    used = {tag for methods in spec["paths"].values() for one in methods.values() for tag in one["tags"]}
    described = {**feature_tags, **TAGS}
    spec["tags"] = [
        {"name": tag, "description": described.get(tag, "")}
        for tag in (*described, *sorted(used - described.keys()))
        if tag in used
    ]
