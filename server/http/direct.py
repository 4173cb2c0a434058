"""Ids in paths, and simple endpoints called without FastAPI's request handling.

For every request FastAPI looks for parameters of each kind and opens three exit stacks. Where an endpoint
needs none of it, that is a twentieth of the processor time of a short run. FastAPI still handles invalid
requests, with the body that was read here.
"""

import json
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction, signature
from typing import Any, Final
from urllib.parse import unquote

from fastapi.params import Form
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ROUTED_TYPES: Final = frozenset({"http", "websocket"})
_ID_PREFIXES: Final = (b"/api/", b"/assistants/", b"/threads/", b"/runs/")


class EncodedSlashMiddleware:
    """Keeps a slash inside an id as `%2F` in the path that routes are matched with."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        raw = scope.get("raw_path") or b""
        if scope["type"] in _ROUTED_TYPES and raw.startswith(_ID_PREFIXES):
            scope = {**scope, "path": "/".join(_decode_segment(part) for part in raw.split(b"/"))}
        await self._app(scope, receive, send)


def decode_path_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the path parameters decoded."""
    return {name: unquote(value) if isinstance(value, str) else value for name, value in params.items()}


def _decode_segment(part: bytes) -> str:
    return unquote(part.decode("ascii", "replace")).replace("%", "%25").replace("/", "%2F")


_BODY_KEY: Final = "callsheet.body"


def is_direct(route: APIRoute) -> bool:
    """Return True if an endpoint takes ids, one JSON body and the request alone, and returns a `Response`."""
    dependant, parameters = route.dependant, signature(route.endpoint)
    returned = parameters.return_annotation
    if (
        not iscoroutinefunction(route.endpoint)
        or not isinstance(returned, type)
        or not issubclass(returned, Response)
    ):
        return False
    if route.body_field is None or isinstance(route.body_field.field_info, Form) or dependant.dependencies:
        return False
    # FastAPI makes one field of several bodies, and of an embedded one.
    known = {
        route.body_field.name,
        dependant.request_param_name,
        *(field.name for field in dependant.path_params),
    }
    return route.body_field in dependant.body_params and known == set(parameters.parameters)


class DirectEndpoint:
    """An endpoint for which `is_direct` holds, as an ASGI application."""

    def __init__(self, route: APIRoute, read: Callable[[bytes], Any]) -> None:
        """`read` parses a body; it raises `json.JSONDecodeError`."""
        self._fallback = route.app
        self._endpoint = route.endpoint
        self._read = read
        self._ids = route.dependant.path_params
        self._body = route.dependant.body_params[0]
        self._request = str(route.dependant.request_param_name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive, send)
        try:
            body = await request.body()
        except ClientDisconnect:
            await self._fallback(scope, receive, send)
            return
        parsed = self._parse(body)
        values = self._values(scope, parsed)
        if values is None:
            await self._fallback({**scope, _BODY_KEY: parsed}, _replay(body, receive), send)
            return
        reply = await self._endpoint(**values, **{self._request: request})
        await reply(scope, receive, send)

    def _parse(self, body: bytes) -> Any:
        """Return the parsed body, or the error."""
        try:
            return self._read(body)
        except json.JSONDecodeError as error:
            return error

    def _values(self, scope: Scope, parsed: Any) -> dict[str, Any] | None:
        """Return the endpoint's arguments beside the request; None if one is invalid."""
        if isinstance(parsed, json.JSONDecodeError):
            return None
        sent = {**decode_path_params(scope["path_params"]), self._body.name: parsed}
        checked = {field.name: field.validate(sent[field.name]) for field in (*self._ids, self._body)}
        if any(errors for _, errors in checked.values()):
            return None
        return {name: value for name, (value, _) in checked.items()}


async def read_body_value(request: Request, read: Callable[[bytes], Any]) -> Any:
    """Return the parsed body, which is read once; raises `json.JSONDecodeError`."""
    if _BODY_KEY not in request.scope:
        return read(await request.body())
    parsed = request.scope[_BODY_KEY]
    if isinstance(parsed, json.JSONDecodeError):
        raise parsed
    return parsed


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that delivers the body once more."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body() -> Message:
        return left.pop() if left else await receive()

    return receive_body
