"""Ids in paths, and requests answered past FastAPI's machinery.

For every request FastAPI looks for parameters of each kind and opens three stacks of what is to be closed.
Where there can be none, that is a twentieth of what a short run costs. What is wrong with a request, and a
body that is left out, remain FastAPI's to judge, given what was read.
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

_PLACED: Final = frozenset({"http", "websocket"})
_SPLIT: Final = (b"/api/", b"/assistants/", b"/threads/", b"/runs/")


class EncodedSlashMiddleware:
    """Gives routes that have ids in them a path in which a slash inside an id stays `%2F`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        raw = scope.get("raw_path") or b""
        if scope["type"] in _PLACED and raw.startswith(_SPLIT):
            scope = {**scope, "path": "/".join(_segment(part) for part in raw.split(b"/"))}
        await self._app(scope, receive, send)


def decode_path_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of such a path as their sender meant them."""
    return {name: unquote(value) if isinstance(value, str) else value for name, value in params.items()}


def _segment(part: bytes) -> str:
    return unquote(part.decode("ascii", "replace")).replace("%", "%25").replace("/", "%2F")


_FOUND: Final = "callsheet.body"


def is_direct(route: APIRoute) -> bool:
    """Whether an endpoint takes ids, one JSON body and the request, and no more, and makes its own reply."""
    takes, wants = route.dependant, signature(route.endpoint)
    made = wants.return_annotation
    if (
        not iscoroutinefunction(route.endpoint)
        or not isinstance(made, type)
        or not issubclass(made, Response)
    ):
        return False
    if route.body_field is None or isinstance(route.body_field.field_info, Form) or takes.dependencies:
        return False
    # FastAPI makes a field of its own of several bodies, and of one that is a part of what is sent.
    known = {route.body_field.name, takes.request_param_name, *(field.name for field in takes.path_params)}
    return route.body_field in takes.body_params and known == set(wants.parameters)


class DirectEndpoint:
    """An endpoint that `fits`, as an application."""

    def __init__(self, route: APIRoute, read: Callable[[bytes], Any]) -> None:
        """`read` returns the value of a body; raises `json.JSONDecodeError`."""
        self._judge = route.app
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
            await self._judge(scope, receive, send)
            return
        found = self._found(body)
        values = self._values(scope, found)
        if values is None:
            await self._judge({**scope, _FOUND: found}, _again(body, receive), send)
            return
        reply = await self._endpoint(**values, **{self._request: request})
        await reply(scope, receive, send)

    def _found(self, body: bytes) -> Any:
        """The value of a body, or the error that says why it has none."""
        try:
            return self._read(body)
        except json.JSONDecodeError as error:
            return error

    def _values(self, scope: Scope, found: Any) -> dict[str, Any] | None:
        """What the endpoint is given beside the request; None where something is wrong with it."""
        if isinstance(found, json.JSONDecodeError):
            return None
        sent = {**decode_path_params(scope["path_params"]), self._body.name: found}
        checked = {field.name: field.validate(sent[field.name]) for field in (*self._ids, self._body)}
        if any(errors for _, errors in checked.values()):
            return None
        return {name: value for name, (value, _) in checked.items()}


async def read_body_value(request: Request, read: Callable[[bytes], Any]) -> Any:
    """Return the value of a request's body, which is read once; raises `json.JSONDecodeError`."""
    if _FOUND not in request.scope:
        return read(await request.body())
    found = request.scope[_FOUND]
    if isinstance(found, json.JSONDecodeError):
        raise found
    return found


def _again(body: bytes, receive: Receive) -> Receive:
    """What is received once a body was read, from its beginning."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
