"""The application's own documentation as a check of its replies."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
import jsonschema_rs
from fastapi import FastAPI

from callsheet.graphs import ad_creation, campaign_search, fact_narration, page_builder, scene_edit
from callsheet.server.app import create_app, routes
from callsheet.server.engine.workflows import Workflows
from callsheet.server.features import load_apis
from callsheet.server.settings.settings import Settings

EVENT_STREAM = "text/event-stream"
OURS = Workflows(
    {
        one.WORKFLOW.name: one.WORKFLOW.graph
        for one in (ad_creation, campaign_search, fact_narration, page_builder, scene_edit)
    }
)
"""The workflows that the server serves by default."""


@cache
def loaded_app() -> FastAPI:
    """The application with all routes, never started."""
    app = create_app(Settings())
    app.router.routes.extend(routes(load_apis(OURS.graphs.keys())))
    return app


def openapi_document() -> Mapping[str, Any]:
    """The application's OpenAPI document."""
    return loaded_app().openapi()


def resolve(spec: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The value itself, or the component that it refers to."""
    target: Any = value
    if reference := value.get("$ref"):
        target = spec
        for name in str(reference).removeprefix("#/").split("/"):
            target = target[name]
    component: Mapping[str, Any] = target
    return component


@cache
def operations() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    """Operations by method and path, the path as a regular expression, in the order of the routes."""
    return {
        (method.upper(), re.sub(r"{\w+}", "[^/]+", path)): operation
        for path, methods in openapi_document()["paths"].items()
        for method, operation in methods.items()
    }


def operation_of(request: httpx.Request) -> Mapping[str, Any] | None:
    """The documented operation of a request; None for a path that has none."""
    path = request.url.raw_path.split(b"?")[0].decode()
    for (method, pattern), operation in operations().items():
        if method == request.method and re.fullmatch(pattern, path):
            return operation
    return None


@cache
def validator(schema: str) -> Any:
    """A validator of values for this schema, given as JSON, that may refer to components."""
    document = {**json.loads(schema), "components": openapi_document()["components"]}
    return jsonschema_rs.Draft202012Validator(document)


def problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """The places where a value is not as its schema says, each with the reason."""
    errors = validator(json.dumps(schema)).iter_errors(value)
    return [f"{'.'.join(map(str, one.instance_path))}: {one.message[:300]}" for one in errors]


async def assert_documented(reply: httpx.Response) -> None:
    """Fail for a reply whose status or body the application's own documentation does not have."""
    operation = operation_of(reply.request)
    if operation is None:
        return
    name, status = operation["operationId"], str(reply.status_code)
    assert status in operation["responses"], (name, status)
    content = resolve(openapi_document(), operation["responses"][status]).get("content", {})
    media_type = reply.headers.get("content-type", "").partition(";")[0]
    if media_type != "application/json" or reply.request.method == "HEAD":
        return
    assert media_type in content, (name, status, media_type)
    value = json.loads(await reply.aread())
    assert problems(content[media_type]["schema"], value) == [], (name, status)


def assert_documented_events(request: httpx.Request, received: list[tuple[str, Any]]) -> None:
    """Fail for an event that the documentation of the request's operation does not have."""
    operation = operation_of(request)
    assert operation is not None
    item = operation["responses"]["200"]["content"][EVENT_STREAM]["itemSchema"]
    schemas = {
        one["properties"]["event"].get("const", "*"): one["properties"]["data"]
        for one in item.get("oneOf") or item["anyOf"]
    }
    for name, data in received:
        schema = schemas.get(name) or schemas["*"]
        assert problems(schema["contentSchema"], data) == [], (operation["operationId"], name)
