"""Exceptions as replies: status and body.

An error body is JSON with `error`, one sentence that names the thing and the rule, `type`, and
`remedy`, `details` and `retryAfterSeconds` where they help. An unexpected error has an `id` that is in the
log, and no trace.

One rule for all routes: 400 for a request that cannot be read, or that means nothing where it is sent; 422
for one that can be read, and in which a value breaks a rule, has the wrong type or is missing.

On LangGraph's routes the body is `{"detail": …}` with sentence and remedy, as its clients expect, and a
request that cannot be read is 422 too. The policy of a route names its form.
"""

import logging
import math
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, NotRequired, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send
from typing_extensions import TypedDict

from callsheet.server.http.policy import ErrorForm, get_policy
from callsheet.server.http.replies import JsonReply
from callsheet.state import errors
from callsheet.state.errors import CallsheetError, Unavailable

POLICY_VIOLATION: Final = 1008
"""Web socket close code: not allowed (RFC 6455 §7.4.1)."""
TRY_LATER: Final = 1013
"""Web socket close code: try again later."""


async def reject(
    error: CallsheetError,
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send the reply to an exception, with further headers; close a web socket before it opens."""
    if scope["type"] == "websocket":
        await receive()
        code = TRY_LATER if isinstance(error, Unavailable) else POLICY_VIOLATION
        await send({"type": "websocket.close", "code": code})
        return
    reply = error_response(error)
    for name, value in (headers or {}).items():
        reply.headers[name] = value
    await reply(scope, receive, send)


ErrorType = Literal[
    "invalid",
    "unauthenticated",
    "budget_used_up",
    "forbidden",
    "missing",
    "method_not_allowed",
    "too_slow",
    "conflict",
    "gone",
    "too_large",
    "refused",
    "busy",
    "limited",
    "timed_out",
    "storage_down",
    "unavailable",
    "fenced",
    "broken",
    "not_installed",
    "internal",
]
"""Kind of an error, for programs."""


class ApiError(TypedDict):
    """The reply to a request that failed."""

    error: Annotated[str, Field(description="The thing and the rule")]
    type: ErrorType
    remedy: NotRequired[Annotated[str, Field(description="Next thing to do")]]
    details: NotRequired[Annotated[dict[str, Any], Field(description="Values that the sentence is about")]]
    retryAfterSeconds: NotRequired[float]
    id: NotRequired[Annotated[str, Field(description="Of an internal error, for the log")]]
    message: NotRequired[Annotated[str, Field(description="The cause, where `error` does not say it")]]


class LangGraphError(TypedDict):
    """The reply of LangGraph's routes to a request that failed."""

    detail: Annotated[str, Field(description="The thing, the rule, and the remedy")]


STATUSES: Final[tuple[tuple[type[CallsheetError], int, ErrorType], ...]] = (
    (errors.StorageSilent, 503, "storage_down"),
    (errors.StorageRefused, 503, "storage_down"),
    (errors.Malformed, 400, "invalid"),
    (errors.Invalid, 422, "invalid"),
    (errors.Unauthenticated, 401, "unauthenticated"),
    (errors.BudgetUsedUp, 402, "budget_used_up"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.Missing, 404, "missing"),
    (errors.Conflict, 409, "conflict"),
    (errors.Gone, 410, "gone"),
    (errors.NotInstalled, 501, "not_installed"),
    (errors.TooLarge, 413, "too_large"),
    (errors.Refused, 400, "refused"),
    (errors.Busy, 409, "busy"),
    (errors.Limited, 429, "limited"),
    (errors.TimedOut, 504, "timed_out"),
    (errors.StorageDown, 503, "storage_down"),
    (errors.Unavailable, 503, "unavailable"),
    (errors.Fenced, 409, "fenced"),
)
"""Status and `type` of every error but `Broken`; the first match counts."""
RULES: Final[Mapping[int, str]] = {
    400: "the request cannot be read, or means nothing where it is sent",
    401: "there is no valid credential",
    402: "the owner's budget is used up; `details.ends` says when it begins again",
    403: "the credential lacks the permission, or something is locked",
    404: "there is no such thing for this caller",
    409: "something else has changed or has the thing; look at it again",
    410: "it was there, and is not kept any more",
    413: "the request is too large",
    416: "the range lies outside of the file",
    422: "a value breaks a rule, has the wrong type, or is missing",
    429: "too many requests; wait for `retryAfterSeconds`",
    500: "an error of the server; its `id` is in the log",
    501: "a part that is not installed would be needed",
    503: "storage or another service does not answer; try again later",
    504: "it takes too long",
}
"""Rule of each error status."""
_INTERNAL: Final = {"error": "Internal error", "type": "internal"}
_MAX_FAULTS: Final = 5
"""Faults that a message lists."""
_NO_JSON: Final = "json_invalid"
_log = logging.getLogger(__name__)


class ErrorReply(JsonReply):
    """The reply to an error, in the form that the route's policy names."""

    def __init__(
        self, content: Mapping[str, Any], status: int, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(content, status, headers)
        self._content = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply."""
        form = get_policy(scope).errors
        if form is not ErrorForm.LANGGRAPH:
            await self._render_as(form)(scope, receive, send)
            return
        parts = (str(self._content.get(name) or "") for name in ("error", "id", "remedy"))
        status = 422 if self._content["type"] == "invalid" else self.status_code
        kept = {name: value for name, value in self.headers.items() if not name.startswith("content-")}
        await JsonReply({"detail": errors.sentences(*parts)}, status, kept)(scope, receive, send)

    def _render_as(self, form: ErrorForm) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """Return the sender of the reply; an unexpected error of a lesson gets a wording of its own."""
        if form is not ErrorForm.LESSON or self.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            return super().__call__
        content = {**self._content, "error": "Failed to process request", "message": self._content["error"]}
        return JsonReply(content, self.status_code)


def error_body(error: Exception, logged_as: str = "") -> tuple[int, dict[str, Any]]:
    """Return status and body of an exception.

    An unexpected one is logged under the id in the body, unless it was logged as `logged_as`.
    """
    if isinstance(error, ValidationError | RequestValidationError):
        return _validation_error_body(error.errors(), getattr(error, "body", None))
    for kind, status, name in STATUSES:
        if isinstance(error, kind):
            return status, _callsheet_error_body(error, name)
    error_id = logged_as or str(uuid.uuid4())
    if not logged_as:
        _log.error("internal error %s", error_id, exc_info=error)
    content = _callsheet_error_body(error, "broken") if isinstance(error, errors.Broken) else _INTERNAL
    return 500, {**content, "id": error_id}


def error_response(error: Exception) -> ErrorReply:
    """Return the reply to an exception."""
    status, content = error_body(error)
    wait_s = content.get("retryAfterSeconds")
    # The header counts whole seconds, and 0 would invite a busy loop.
    headers = {"Retry-After": str(max(1, math.ceil(wait_s)))} if wait_s is not None else None
    return ErrorReply(content, status, headers)


def install_error_handlers(app: FastAPI) -> None:
    """Register the handlers of all exceptions."""

    async def ours(request: Request, error: Exception) -> Response:
        del request
        return error_response(error)

    app.add_exception_handler(CallsheetError, ours)
    app.add_exception_handler(ValidationError, ours)
    app.add_exception_handler(RequestValidationError, ours)
    app.add_exception_handler(HTTPException, _framework_error)
    app.add_exception_handler(Exception, ours)


def documented_responses(*statuses: int, reply: object, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return an operation's OpenAPI responses: its reply, and these error statuses."""
    return _responses(statuses, reply, status, langgraph=False)


def documented_wire_responses(
    *statuses: int, reply: object, status: int = 200
) -> dict[int | str, dict[str, Any]]:
    """The same for an operation of LangGraph's REST API."""
    return _responses(statuses, reply, status, langgraph=True)


def error_reference(status: int, *, langgraph: bool) -> dict[str, Any]:
    """Return the OpenAPI reference to the reply of an error status."""
    return {"$ref": f"#/components/responses/{_component_name(status, langgraph=langgraph)}"}


def error_components() -> dict[str, dict[str, Any]]:
    """Return OpenAPI components: `responses` with the reply of each error status, and their `schemas`."""
    models = {False: ApiError, True: LangGraphError}
    responses = {
        _component_name(status, langgraph=langgraph): {
            "description": f"{HTTPStatus(status).phrase}: {rule}",
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}},
        }
        for langgraph, model in models.items()
        for status, rule in RULES.items()
    }
    schemas = {model.__name__: TypeAdapter[Any](model).json_schema() for model in models.values()}
    return {"responses": responses, "schemas": schemas}


def _component_name(status: int, *, langgraph: bool) -> str:
    name = HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")
    return f"LangGraph{name}" if langgraph else name


def _responses(
    statuses: Sequence[int], reply: object, status: int, *, langgraph: bool
) -> dict[int | str, dict[str, Any]]:
    responses: dict[int | str, dict[str, Any]] = {status: {"model": reply}}
    # Whoever reads a request may find a value in it that breaks a rule.
    codes = sorted({*statuses, 422} if {400, 413} & {*statuses} else statuses)
    return responses | {code: error_reference(code, langgraph=langgraph) for code in codes}


_NO_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Not found</title>
<p>There is no page at this address. <a href="/">Go to the first page</a>,
or see <a href="/docs">the API</a>.</p>
</html>
"""
"""Shown to browsers, which name HTML among what they accept."""


async def _framework_error(request: Request, error: Exception) -> Response:
    """Return the reply for an unknown path or method, or a body over the limit."""
    assert isinstance(error, HTTPException)  # noqa: S101 -- registered for it alone
    if isinstance(error.__cause__, CallsheetError):
        return error_response(error.__cause__)
    if error.status_code == HTTPStatus.NOT_FOUND and "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(_NO_PAGE, 404, {"Content-Security-Policy": "default-src 'none'"})
    request_line = f"{request.method} {request.url.path[:200]!r}"
    rules = {
        404: ("missing", f"there is no {request_line}", "see /docs for what there is"),
        405: (
            "method_not_allowed",
            f"{request_line} is not served for this method",
            "see the Allow header and /docs",
        ),
        408: ("too_slow", f"{request_line}: {error.detail}", "send the body faster, or raise that limit"),
    }.get(error.status_code, ("invalid", f"{request_line}: {error.detail}", "see /docs"))
    content = dict(zip(("type", "error", "remedy"), rules, strict=True))
    return ErrorReply(content, error.status_code, {**(error.headers or {}), **_allow_header(request, error)})


def _allow_header(request: Request, error: HTTPException) -> dict[str, str]:
    """Return the `Allow` header with the methods of all routes of the path."""
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return {}
    path = getattr(request.scope.get("route"), "path", None)
    same = (route for route in request.app.routes if getattr(route, "path", None) == path)
    known = {method for route in same for method in getattr(route, "methods", None) or ()}
    return {"Allow": ", ".join(sorted(known))} if known else {}


def _callsheet_error_body(error: CallsheetError, name: str) -> dict[str, Any]:
    content: dict[str, Any] = {"error": error.message, "type": name}
    if error.remedy:
        content["remedy"] = error.remedy
    if error.details:
        content["details"] = error.details
    if isinstance(error, Unavailable):
        content["retryAfterSeconds"] = error.retry_after_s
    return content


def _validation_error_body(faults: Sequence[Mapping[str, Any]], body: object) -> tuple[int, dict[str, Any]]:
    """Return status and body of a validation error: 400 if the body is no JSON, else 422.

    `body` is the request's, where it is known.
    """
    faults = [{**fault, "loc": _sent_path(fault, body)} for fault in faults]
    if faults and faults[0]["type"] == _NO_JSON:
        return 400, {
            "error": _fault_message(faults[0]),
            "type": "invalid",
            "remedy": "send one JSON value in UTF-8",
        }
    first = faults[:_MAX_FAULTS]
    content = {
        "error": "; ".join(_fault_message(fault) for fault in first),
        "type": "invalid",
        "remedy": "see /docs for the fields and their rules",
        "details": {"fields": [*dict.fromkeys(_field_path(fault["loc"]) for fault in first)]},
    }
    return 422, content


def _fault_message(fault: Mapping[str, Any]) -> str:
    place, kind = repr(_field_path(fault["loc"])), str(fault["type"])
    if kind == _NO_JSON:
        position = fault["loc"][-1]
        place_in_text = f" at character {position}" if position >= 0 else ""
        return f"the body is not JSON: {fault['ctx']['error']}{place_in_text}"
    if kind == "missing":
        return f"{place} is missing"
    if kind == "extra_forbidden":
        return f"{place} is not a field of this request"
    message = str(fault["msg"])
    if kind == "value_error":
        # Our own message; pydantic adds a prefix.
        return f"{place}: {message.removeprefix('Value error, ')}"
    return f"{place}: {message[0].lower()}{message[1:]}"


def _sent_path(fault: Mapping[str, Any], body: object) -> list[str | int]:
    """Return the place of a fault without the names of pydantic's types, which nobody has sent."""
    loc: Sequence[str | int] = fault["loc"]
    if not isinstance(body, dict) or loc[0] != "body":
        return [*loc]
    path, value = list[str | int](loc[:1]), cast("Any", body)
    for place, part in enumerate(loc[1:], 2):
        if isinstance(value, dict) and (part in value or (place == len(loc) and fault["type"] == "missing")):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part] if part < len(value) else None
        else:
            continue
        path.append(part)
    return path


def _field_path(loc: Sequence[str | int]) -> str:
    inner = loc[1:] if len(loc) > 1 and loc[0] in {"body", "path", "query", "header"} else loc
    return ".".join(str(part) for part in inner)
