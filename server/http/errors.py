"""Exceptions as replies: which status, which body.

Every error body is JSON with `error`, one sentence that names the thing and the rule (A81), `type`, and,
where they help, `remedy`, `details` and `retryAfterSeconds`. A bug or a broken installation has an `id`,
which the log has too; what nobody foresaw says no more than that. Never a trace.

400: the request cannot be read, lacks something, or breaks a rule. 422: a field has the wrong type.

On the LangGraph wire the body is `{"detail": …}`, the sentence and its remedy, as LangGraph's clients expect;
there a value that breaks a rule is 422 too, and 400 is left for what no single value is to blame for.
"""

import json
import logging
import math
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from callsheet.state import errors
from callsheet.state.errors import CallsheetError, Unavailable

SECURITY_HEADERS: Final = 1008
"""Web socket code: not allowed."""
TRY_LATER: Final = 1013
"""Web socket code: worth trying again."""


async def reject(
    error: CallsheetError,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send the reply to an exception, with further headers; a web socket is closed before it opens."""
    if scope["type"] == "websocket":
        await receive()
        code = TRY_LATER if isinstance(error, Unavailable) else SECURITY_HEADERS
        await send({"type": "websocket.close", "code": code})
        return
    reply = error_response(error)
    for name, value in (headers or {}).items():
        reply.headers[name] = value
    await reply(scope, receive, send)


STATUSES: Final[tuple[tuple[type[CallsheetError], int, str], ...]] = (
    (errors.StorageSilent, 503, "storage_down"),
    (errors.StorageRefused, 503, "storage_down"),
    (errors.Invalid, 400, "invalid"),
    (errors.Unauthenticated, 401, "unauthenticated"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.Missing, 404, "missing"),
    (errors.Conflict, 409, "conflict"),
    (errors.TooLarge, 413, "too_large"),
    (errors.Refused, 400, "refused"),
    (errors.Busy, 409, "busy"),
    (errors.Limited, 429, "limited"),
    (errors.TimedOut, 504, "timed_out"),
    (errors.StorageDown, 503, "storage_down"),
    (errors.Unavailable, 503, "unavailable"),
    (errors.Fenced, 409, "fenced"),
)
"""Status and `type` of every error but `Broken`; the first line that fits."""
_INTERNAL: Final = {"error": "Internal error", "type": "internal"}
_FAULTS: Final = 5
"""Faults of one value that are named."""
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error", "type"],
    "properties": {
        "error": {"type": "string", "description": "The thing and the rule"},
        "type": {"type": "string"},
        "remedy": {"type": "string", "description": "What to do about it"},
        "details": {"type": "object"},
        "retryAfterSeconds": {"type": "number"},
        "id": {"type": "string", "description": "Of an internal error, for the log"},
        "message": {"type": "string", "description": "What went wrong, where `error` does not say it"},
    },
}
_NO_JSON: Final = "json_invalid"
_WIRE: Final = frozenset({"assistants", "threads", "runs", "store", "info", "metrics"})
"""First segments of the paths that LangGraph's clients call."""
_LESSONS: Final = "/api/agent-create"
_DETAIL: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["detail"],
    "properties": {"detail": {"type": "string", "description": "The thing, the rule, and what to do"}},
}
_log = logging.getLogger(__name__)


class JsonReply(JSONResponse):
    """JSON as UTF-8, non-ASCII as it is."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` as JSON text; raises `ValueError` for numbers JSON has no word for."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class ErrorReply(JsonReply):
    """The reply to an error, in the words of the surface that was called."""

    def __init__(
        self, told: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(told, status, headers)
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        if not is_langgraph_path(scope["path"]):
            await self._of_lessons(scope["path"])(scope, receive, send)
            return
        parts = (self._told.get(name) for name in ("error", "id", "remedy"))
        status = 422 if self._told["type"] == "invalid" else self.status_code
        kept = {name: value for name, value in self.headers.items() if not name.startswith("content-")}
        await JsonReply({"detail": "; ".join(part for part in parts if part)}, status, kept)(
            scope, receive, send
        )

    def _of_lessons(self, path: str) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """The reply as it is, but what nobody foresaw about a lesson is said in the words of B31."""
        if not path.startswith(_LESSONS) or self.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            return super().__call__
        told = {**self._told, "error": "Failed to process request", "message": self._told["error"]}
        return JsonReply(told, self.status_code)


def is_langgraph_path(path: str) -> bool:
    """Return whether a path is one that LangGraph's clients call."""
    return path.lstrip("/").split("/", 1)[0] in _WIRE


def error_body(error: Exception) -> tuple[int, dict[str, Any]]:
    """Return status and body of any exception; what nobody foresaw is logged under the id that is told."""
    if isinstance(error, ValidationError | RequestValidationError):
        return _unfit(error.errors())
    for kind, status, name in STATUSES:
        if isinstance(error, kind):
            return status, _told(error, name)
    known = str(uuid.uuid4())
    _log.error("internal error %s", known, exc_info=error)
    told = _told(error, "broken") if isinstance(error, errors.Broken) else _INTERNAL
    return 500, {**told, "id": known}


def error_response(error: Exception) -> ErrorReply:
    """Return the whole reply to an exception."""
    status, told = error_body(error)
    wait_s = told.get("retryAfterSeconds")
    # The header counts whole seconds, and 0 would invite a busy loop.
    headers = {"Retry-After": str(max(1, math.ceil(wait_s)))} if wait_s is not None else None
    return ErrorReply(told, status, headers)


def install_error_handlers(app: FastAPI) -> None:
    """Answer every exception of `app` in this way."""

    async def ours(request: Request, error: Exception) -> Response:
        del request
        return error_response(error)

    app.add_exception_handler(CallsheetError, ours)
    app.add_exception_handler(ValidationError, ours)
    app.add_exception_handler(RequestValidationError, ours)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(Exception, ours)


def documented_responses(*statuses: int, reply: object, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of an operation: its reply, and these error statuses."""
    return _documented(_PROBLEM, statuses, reply, status)


def documented_wire_responses(
    *statuses: int, reply: object, status: int = 200
) -> dict[int | str, dict[str, Any]]:
    """As `documented`, of an operation on the LangGraph wire."""
    return _documented(_DETAIL, statuses, reply, status)


def _documented(
    problem: Mapping[str, Any], statuses: Sequence[int], reply: object, status: int
) -> dict[int | str, dict[str, Any]]:
    content = {"application/json": {"schema": problem}}
    told: dict[int | str, dict[str, Any]] = {status: {"model": reply}}
    return told | {code: {"description": HTTPStatus(code).phrase, "content": content} for code in statuses}


async def _framework(request: Request, error: Exception) -> Response:
    """A path or method nobody serves, or a body over the limit."""
    assert isinstance(error, HTTPException)  # noqa: S101 -- registered for it alone
    if isinstance(error.__cause__, CallsheetError):
        return error_response(error.__cause__)
    asked = f"{request.method} {request.url.path[:200]!r}"
    told = {
        404: ("missing", f"there is no {asked}", "see /docs for what there is"),
        405: (
            "method_not_allowed",
            f"{asked} is not served for this method",
            "see the Allow header and /docs",
        ),
    }.get(error.status_code, ("invalid", f"{asked}: {error.detail}", "see /docs"))
    named = dict(zip(("type", "error", "remedy"), told, strict=True))
    return ErrorReply(named, error.status_code, {**(error.headers or {}), **_allowed(request, error)})


def _allowed(request: Request, error: HTTPException) -> dict[str, str]:
    """The methods of a path that was asked for with none of them; its first route knows only its own."""
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return {}
    path = getattr(request.scope.get("route"), "path", None)
    same = (route for route in request.app.routes if getattr(route, "path", None) == path)
    known = {method for route in same for method in getattr(route, "methods", None) or ()}
    return {"Allow": ", ".join(sorted(known))} if known else {}


def _told(error: CallsheetError, name: str) -> dict[str, Any]:
    told: dict[str, Any] = {"error": error.message, "type": name}
    if error.remedy:
        told["remedy"] = error.remedy
    if error.details:
        told["details"] = error.details
    if isinstance(error, Unavailable):
        told["retryAfterSeconds"] = error.retry_after_s
    return told


def _unfit(faults: Sequence[Mapping[str, Any]]) -> tuple[int, dict[str, Any]]:
    """A value that does not fit its schema: wrong types and nothing worse are 422."""
    if faults and faults[0]["type"] == _NO_JSON:
        return 400, {"error": _fault(faults[0]), "type": "invalid", "remedy": "send one JSON value in UTF-8"}
    first = faults[:_FAULTS]
    told = {
        "error": "; ".join(_fault(fault) for fault in first),
        "type": "invalid",
        "remedy": "see /docs for the fields and their rules",
        "details": {"fields": [_place(fault["loc"]) for fault in first]},
    }
    return (422 if all(_is_type(fault) for fault in faults) else 400), told


def _is_type(fault: Mapping[str, Any]) -> bool:
    return str(fault["type"]).endswith(("_type", "_parsing", "_from_float"))


def _fault(fault: Mapping[str, Any]) -> str:
    place, kind = repr(_place(fault["loc"])), str(fault["type"])
    if kind == _NO_JSON:
        return f"the body is not JSON: {fault['ctx']['error']} at character {fault['loc'][-1]}"
    if kind == "missing":
        return f"{place} is missing"
    if kind == "extra_forbidden":
        return f"{place} is not a field of this request"
    said = str(fault["msg"])
    if kind == "value_error":
        # Ours, which pydantic puts words of its own before.
        return f"{place}: {said.removeprefix('Value error, ')}"
    return f"{place}: {said[0].lower()}{said[1:]}"


def _place(loc: Sequence[str | int]) -> str:
    inner = loc[1:] if len(loc) > 1 and loc[0] in {"body", "path", "query", "header"} else loc
    return ".".join(str(part) for part in inner)
