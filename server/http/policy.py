"""Policies of routes: permission, body limit, error form, streaming, and behaviour during an outage.

A route's policy is declared on its endpoint. `RouteTable` finds route and policy of a request once, for the
middleware and the router. Without a policy, a route is not served. A slash inside an id arrives as `%2F` and
stays so in the path that routes are matched with.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.server.engine.permissions import Permission
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Broken

_ATTRIBUTE: Final = "route_policy"
_SCOPE_KEY: Final = "callsheet.policy"
_ROUTED_TYPES: Final = frozenset({"http", "websocket"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MATCH_KEY: Final = "callsheet.match"
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

    def read_bytes(self, settings: Settings) -> int:
        """Return the limit in bytes."""
        return self.max_bytes if isinstance(self.max_bytes, int) else self.max_bytes(settings)


STANDARD_BODY: Final = BodyLimit(
    lambda settings: settings.max_body_bytes, "send less, or raise CALLSHEET_MAX_BODY_BYTES"
)


@dataclass(frozen=True)
class RoutePolicy:
    """Treatment of a route's requests before they reach the endpoint, and of its errors."""

    permission: Permission
    errors: ErrorForm = ErrorForm.API
    body: BodyLimit = STANDARD_BODY
    streaming: Streaming = Streaming.NEVER
    on_outage: OnOutage = OnOutage.REFUSE
    cancels_on_disconnect: bool = False
    """True if the query parameter `cancel_on_disconnect` raises the permission to `write`."""
    before_loading: bool = False
    """True if requests are answered while the workflows are still loaded."""


API_READ: Final = RoutePolicy("read")
API_WRITE: Final = RoutePolicy("write")
API_RUN: Final = RoutePolicy("write", streaming=Streaming.IF_ACCEPTED)
LESSON_READ: Final = RoutePolicy("read", errors=ErrorForm.LESSON)
LESSON_WRITE: Final = RoutePolicy("write", errors=ErrorForm.LESSON)
LESSON_RUN: Final = RoutePolicy("write", errors=ErrorForm.LESSON, streaming=Streaming.IF_ACCEPTED)
LANGGRAPH_READ: Final = RoutePolicy("read", errors=ErrorForm.LANGGRAPH)
LANGGRAPH_WRITE: Final = RoutePolicy("write", errors=ErrorForm.LANGGRAPH)
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
    """Return the policy that a request follows; before `set_policy`, that of a route that writes."""
    policy = scope.get(_SCOPE_KEY)
    return policy if isinstance(policy, RoutePolicy) else _UNKNOWN


def set_policy(scope: MutableMapping[str, Any], policy: RoutePolicy) -> None:
    """Store the policy that a request follows in its scope."""
    scope[_SCOPE_KEY] = policy


def _route_name(route: BaseRoute) -> str:
    methods = "/".join(sorted(getattr(route, "methods", None) or ()))
    return repr(f"{methods} {getattr(route, 'path', type(route).__name__)}".strip())


class RouteMatch(NamedTuple):
    """The route that matches a request."""

    route: BaseRoute
    match: Match
    child_scope: Scope
    policy: RoutePolicy


class RouteTable:
    """The routes of an application by depth and first segment, and their policies."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        """`routes` is the application's own list, which grows once the workflows are loaded."""
        self._routes = routes
        self._known = 0
        self._groups: dict[tuple[int, str], list[tuple[BaseRoute, RoutePolicy]]] = {}
        self._forms: dict[str, ErrorForm] = {}

    def refresh(self) -> None:
        """Read all routes again; raises `Broken` for one without a policy."""
        groups: dict[tuple[int, str], list[tuple[BaseRoute, RoutePolicy]]] = {}
        forms: dict[str, ErrorForm] = {}
        for route in self._routes:
            if isinstance(route, MatchedRoute):
                continue
            policy, path = policy_of(route), str(getattr(route, "path", "/"))
            if path.startswith("/{") or ":path}" in path:
                raise Broken(f"route {path!r} matches paths of several depths or first segments")
            groups.setdefault(_group(path), []).append((route, policy))
            forms.setdefault(_group(path)[1], policy.errors)
        self._known, self._groups, self._forms = len(self._routes), groups, forms

    def resolve(self, scope: Scope) -> None:
        """Store a request's match and policy in its scope, and its path; raises `Broken` as `refresh`."""
        if self._known != len(self._routes):
            self.refresh()
        raw = scope.get("raw_path") or b""
        if b"%" in raw:
            scope["path"] = "/".join(_decode_segment(part) for part in raw.split(b"/"))
        scope[_MATCH_KEY] = None
        matched = scope[_MATCH_KEY] = self._find(scope)
        if matched is None:
            set_policy(scope, self._unmatched_policy(scope))
        elif matched.match is Match.FULL:
            set_policy(scope, matched.policy)
        else:
            set_policy(scope, _by_method(matched.policy, scope))

    def _find(self, scope: Scope) -> RouteMatch | None:
        """Return the first route that matches in full, else the first of the path, as Starlette does."""
        partial: RouteMatch | None = None
        for route, policy in self._candidates(scope):
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                return RouteMatch(route, match, child_scope, policy)
            if match is Match.PARTIAL and partial is None:
                partial = RouteMatch(route, match, child_scope, policy)
        return partial

    def _candidates(self, scope: Scope) -> Iterator[tuple[BaseRoute, RoutePolicy]]:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return iter(self._groups.get(_group(path), ()))

    def _unmatched_policy(self, scope: Scope) -> RoutePolicy:
        """Return the policy of an unknown path: that of its route with or without a slash at the end, if any.

        Starlette redirects to that route. Other paths have the error form of the routes beside them.
        """
        path = scope["path"]
        other = path.rstrip("/") if path.endswith("/") else f"{path}/"
        if scope["type"] == "http" and path != "/" and (matched := self._find({**scope, "path": other})):
            return matched.policy if matched.match is Match.FULL else _by_method(matched.policy, scope)
        form = self._forms.get(_group(path)[1], ErrorForm.API)
        return _by_method(RoutePolicy("write", errors=form), scope)


class RoutePolicyMiddleware:
    """Finds the policy that the middleware further in follows."""

    def __init__(self, app: ASGIApp, table: RouteTable) -> None:
        self._app = app
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] in _ROUTED_TYPES:
            self._table.resolve(scope)
        await self._app(scope, receive, send)


class MatchedRoute(BaseRoute):
    """First route of the router: stands for the one that the table found, which is thus searched once."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match if the table found a route that answers."""
        matched = find_match(scope)
        if matched is None or matched.match is not Match.FULL:
            return Match.NONE, {}
        return Match.FULL, matched.child_scope

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the route that the table found."""
        await scope[_MATCH_KEY].route.handle(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """Raise `NoMatchFound`: the route has no path of its own."""
        raise NoMatchFound(name, path_params)


def find_match(scope: Scope) -> RouteMatch | None:
    """Return the match that `RouteTable.resolve` stored."""
    matched: RouteMatch | None = scope.get(_MATCH_KEY)
    return matched


def decode_path_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the path parameters decoded."""
    return {name: unquote(value) if isinstance(value, str) else value for name, value in params.items()}


def _by_method(policy: RoutePolicy, scope: Scope) -> RoutePolicy:
    """Return the policy with the permission of the method, for a request that no endpoint answers."""
    if policy.permission not in _BY_METHOD:
        return policy
    reads = scope["type"] == "http" and scope["method"] in _SAFE_METHODS
    return replace(policy, permission="read" if reads else "write")


def _group(path: str) -> tuple[int, str]:
    """Return the depth of a path and its first segment, which is never a parameter."""
    return path.count("/"), path[1:].partition("/")[0]


def _decode_segment(part: bytes) -> str:
    return unquote(part.decode("ascii", "replace")).replace("%", "%25").replace("/", "%2F")
