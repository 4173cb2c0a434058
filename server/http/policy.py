"""Policies of routes: permission, body limit, error form, streaming, and behaviour during an outage.

A route's policy is declared on its endpoint; without one, it is not served. Requests that no route answers
follow a policy too: nobody learns without credentials which paths there are. A slash inside an id arrives as
`%2F` and stays so in the path that routes are matched with.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.server.engine.permissions import Permission
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Broken

_ATTRIBUTE: Final = "route_policy"
_SCOPE_KEY: Final = "callsheet.policy"
_ROUTED_TYPES: Final = frozenset({"http", "websocket"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_BY_METHOD: Final = frozenset({"read", "write"})
"""Permissions that depend on the method where no route answers it."""
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class ErrorForm(Enum):
    """Form of error bodies."""

    API = "api"
    """`error`, `type`, and `remedy`, `details` and `retryAfterSeconds` where they help."""
    LESSON = "lesson"
    """The same; an unexpected error has a wording of its own."""
    LANGGRAPH = "langgraph"
    """`detail` alone, as LangGraph's clients expect; a value that breaks a rule is 422."""


class Streaming(Enum):
    """Requests that open a stream, which is counted for its owner."""

    NEVER = "never"
    IF_ACCEPTED = "if accepted"
    """Requests whose Accept header names `text/event-stream`."""
    ALWAYS = "always"


class OnOutage(Enum):
    """Behaviour while storage does not answer."""

    REFUSE = "refuse"
    """503 once a request has waited for storage in vain."""
    REPORT = "report"
    """The endpoint reports the outage itself, for monitoring: its requests are never refused or counted."""


@dataclass(frozen=True)
class BodyLimit:
    """Largest body of a request."""

    max_bytes: int | Callable[[Settings], int]
    """The number, or the function that reads it from the settings."""
    remedy: str = "send less"
    """Remedy in the error."""
    spooled: bool = False
    """True if the endpoint keeps the body in a file, not in memory."""

    def read_bytes(self, settings: Settings) -> int:
        """Return the limit in bytes."""
        return self.max_bytes if isinstance(self.max_bytes, int) else self.max_bytes(settings)


STANDARD_BODY: Final = BodyLimit(
    lambda settings: settings.max_body_bytes, "send less, or raise CALLSHEET_MAX_BODY_BYTES"
)
MESSAGE_BODY: Final = BodyLimit(
    lambda settings: settings.max_message_bytes, "send less, or raise CALLSHEET_MAX_MESSAGE_BYTES"
)
"""Limit of LangGraph's API, whose messages may have images."""


@dataclass(frozen=True)
class RoutePolicy:
    """Treatment of a route's requests before they reach the endpoint, and of its errors."""

    permission: Permission
    errors: ErrorForm = ErrorForm.API
    body: BodyLimit = STANDARD_BODY
    streaming: Streaming = Streaming.NEVER
    on_outage: OnOutage = OnOutage.REFUSE
    identifies: bool = False
    """True for a public route that knows its caller where there is a valid credential."""
    audit: str = ""
    """Name of the action that the audit records; deletions are recorded in any case."""
    cancels_on_disconnect: bool = False
    """True if the query parameter `cancel_on_disconnect` raises the permission to `write`."""


API_READ: Final = RoutePolicy("read")
API_WRITE: Final = RoutePolicy("write")
API_ADMIN: Final = RoutePolicy("admin")
API_RUN: Final = RoutePolicy("write", streaming=Streaming.IF_ACCEPTED)
LESSON_READ: Final = RoutePolicy("read", errors=ErrorForm.LESSON)
LESSON_WRITE: Final = RoutePolicy("write", errors=ErrorForm.LESSON)
LESSON_RUN: Final = RoutePolicy("write", errors=ErrorForm.LESSON, streaming=Streaming.IF_ACCEPTED)
LANGGRAPH_READ: Final = RoutePolicy("read", errors=ErrorForm.LANGGRAPH)
LANGGRAPH_WRITE: Final = RoutePolicy("write", errors=ErrorForm.LANGGRAPH, body=MESSAGE_BODY)
LANGGRAPH_READ_STREAM: Final = replace(LANGGRAPH_READ, streaming=Streaming.ALWAYS)
LANGGRAPH_WRITE_STREAM: Final = replace(LANGGRAPH_WRITE, streaming=Streaming.ALWAYS)
_UNKNOWN: Final = API_WRITE


def with_policy(policy: RoutePolicy) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the policy of an endpoint's routes; written between the route's decorator and the function."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _ATTRIBUTE, policy)
        return endpoint

    return declare


def policy_of(route: BaseRoute) -> RoutePolicy:
    """Return the policy of a route; raises `Broken` for a route without one."""
    policy = getattr(getattr(route, "endpoint", None), _ATTRIBUTE, None)
    if not isinstance(policy, RoutePolicy):
        raise Broken(
            f"route {_route_name(route)} has no policy, so it is not served",
            remedy="declare it: put @with_policy(API_READ), or another policy, on the endpoint",
        )
    return policy


def get_policy(scope: Mapping[str, Any]) -> RoutePolicy:
    """Return the policy that a request follows; before `resolve_policy`, that of a route that writes."""
    policy = scope.get(_SCOPE_KEY)
    return policy if isinstance(policy, RoutePolicy) else _UNKNOWN


def _route_name(route: BaseRoute) -> str:
    methods = "/".join(sorted(getattr(route, "methods", None) or ()))
    return repr(f"{methods} {getattr(route, 'path', type(route).__name__)}".strip())


class RoutePolicyMiddleware:
    """Finds the policy of a request, for the middleware further in and the form of errors."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        """`routes` is the application's own list, which grows until the server has started."""
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] in _ROUTED_TYPES:
            resolve_policy(scope, self._routes)
        await self._app(scope, receive, send)


def resolve_policy(scope: Scope, routes: Sequence[BaseRoute]) -> None:
    """Store in a request's scope the policy that it follows, and its path with encoded slashes inside ids.

    Raises `Broken` if its route has no policy.
    """
    raw = scope.get("raw_path") or b""
    if b"%" in raw:
        scope["path"] = "/".join(_decode_segment(part) for part in raw.split(b"/"))
    scope[_SCOPE_KEY] = _matched_policy(scope, routes) or _unmatched_policy(scope, routes)


def _matched_policy(scope: MutableMapping[str, Any], routes: Sequence[BaseRoute]) -> RoutePolicy | None:
    """Return the policy of the route that Starlette will call: the first that matches in full, or in part.

    A route that matches in full is stored in the scope.
    """
    same_path: BaseRoute | None = None
    for route in routes:
        match, _ = route.matches(scope)
        if match is Match.FULL:
            # As the router does later; a request that never gets there is logged by its route, too.
            scope["route"] = route
            return policy_of(route)
        if match is Match.PARTIAL and same_path is None:
            same_path = route
    return _by_method(policy_of(same_path), scope) if same_path else None


def _unmatched_policy(scope: Scope, routes: Sequence[BaseRoute]) -> RoutePolicy:
    """Return the policy of an unknown path: that of its route with or without a slash at the end, if any.

    Starlette redirects to that route. Other paths have the error form of the routes beside them.
    """
    path = scope["path"]
    other = path.rstrip("/") if path.endswith("/") else f"{path}/"
    if (
        scope["type"] == "http"
        and path != "/"
        and (policy := _matched_policy({**scope, "path": other}, routes))
    ):
        return policy
    similar = (
        route for route in routes if _first_segment(getattr(route, "path", "")) == _first_segment(path)
    )
    form = next((policy_of(route).errors for route in similar), ErrorForm.API)
    return _by_method(RoutePolicy("write", errors=form), scope)


def decode_path_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the path parameters decoded."""
    return {name: unquote(value) if isinstance(value, str) else value for name, value in params.items()}


def _by_method(policy: RoutePolicy, scope: Scope) -> RoutePolicy:
    """Return the policy with the permission of the method, for a request that no endpoint answers."""
    if policy.permission not in _BY_METHOD:
        return policy
    reads = scope["type"] == "http" and scope["method"] in _SAFE_METHODS
    return replace(policy, permission="read" if reads else "write")


def _first_segment(path: str) -> str:
    return path[1:].partition("/")[0]


def _decode_segment(part: bytes) -> str:
    return unquote(part.decode("ascii", "replace")).replace("%", "%25").replace("/", "%2F")
