"""The OpenAPI document, with tags, authentication, errors and event streams, and its page at `/docs`.

FastAPI's own page loads its script from another site; ours is plain HTML and works offline.
"""

import re
from collections.abc import Iterator, Mapping
from html import escape
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
_STYLE: Final = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { margin-bottom: 0; } h2 { margin: 2.5rem 0 0; } h2::first-letter { text-transform: uppercase; }
details { border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; padding: .5rem .85rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
code, b.method { font-family: ui-monospace, monospace; font-size: .9em; }
b.method { display: inline-block; min-width: 4.5em; }
table { border-collapse: collapse; width: 100%; margin: .35rem 0 1rem; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; }
tr + tr { border-top: 1px solid var(--line); }
.quiet { opacity: .7; }
"""
_CODE: Final = re.compile("`([^`]+)`")
Schema = Mapping[str, Any]


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


def render_docs(spec: Schema) -> str:
    """Return the page of an OpenAPI document."""
    info = spec["info"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(info["title"])} API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>{escape(info['title'])}</h1>"
        f'<p class="quiet">{escape(info.get("summary", ""))} · version {escape(info["version"])} · '
        f'<a href="openapi.json">openapi.json</a></p>{_contents(spec)}{"".join(_sections(spec))}</html>'
    )


def _contents(spec: Schema) -> str:
    rows = "".join(
        f'<tr><td><a href="#{_anchor(tag["name"])}">{escape(tag["name"])}</a></td>'
        f"<td>{escape(tag['description'])}</td><td>{len(_operations(spec, tag['name']))}</td></tr>"
        for tag in spec["tags"]
    )
    return f"<table>{rows}</table>"


def _sections(spec: Schema) -> Iterator[str]:
    for tag in spec["tags"]:
        yield f'<h2 id="{_anchor(tag["name"])}">{escape(tag["name"])}</h2>'
        yield f'<p class="quiet">{escape(tag["description"])}</p>'
        for name, operation in _operations(spec, tag["name"]).items():
            yield _operation(spec, name, operation)


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _anchor(tag: str) -> str:
    return tag.replace(" ", "-")


def _operations(spec: Schema, tag: str) -> Mapping[str, Schema]:
    """Return the operations of a tag by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in spec["paths"].items()
        for method, operation in methods.items()
        if tag in operation["tags"]
    }


def _operation(spec: Schema, name: str, operation: Schema) -> str:
    method, _, path = name.partition(" ")
    head, _, rest = operation.get("description", "").partition("\n\n")
    title = f'<b class="method">{method}</b> <code>{escape(path)}</code>'
    parts = [
        f'<details><summary>{title}<br><span class="quiet">{_prose(head)}</span></summary>',
        f"<p>{_prose(rest)}</p>" if rest else "",
        _table("Parameters", [_parameter(one) for one in operation.get("parameters", ())]),
        _table("Body", list(_fields(spec, _content(operation.get("requestBody", {}))))),
        _table("Replies", [_reply(spec, status, one) for status, one in operation["responses"].items()]),
        "</details>",
    ]
    return "".join(parts)


def _table(title: str, rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{_prose(about)}</td></tr>"
        for name, kind, about in rows
    )
    return f'<table><tr><th colspan="3">{title}</th></tr>{cells}</table>'


def _parameter(one: Schema) -> tuple[str, str, str]:
    need = "required" if one.get("required") else "optional"
    return one["name"], f"{_kind(one['schema'])} in {one['in']}, {need}", one.get("description", "")


def _fields(spec: Schema, schema: Schema) -> Iterator[tuple[str, str, str]]:
    resolved = _resolve(spec, schema)
    for name, field in resolved.get("properties", {}).items():
        need = "required" if name in resolved.get("required", ()) else "optional"
        yield name, f"{_kind(field)}, {need}", field.get("description", "")
    if schema and "properties" not in resolved:
        yield "…", _kind(resolved), resolved.get("description", "")


def _reply(spec: Schema, status: str, one: Schema) -> tuple[str, str, str]:
    names = ", ".join(_resolve(spec, _content(one)).get("properties", ()))
    return status, one.get("description", ""), names


def _content(holder: Schema) -> Schema:
    schema: Schema = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _resolve(spec: Schema, schema: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    target: Schema = spec["components"]["schemas"][name] if name else schema
    return target


def _kind(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(kind for one in several if (kind := _kind(one)) != "null")
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
