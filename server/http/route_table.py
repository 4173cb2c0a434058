"""The routes with their policies: finds the route of a request once, for the middleware and the router.

A slash inside an id arrives as `%2F` and stays so in the path that routes are matched with.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.server.http.policy import ErrorForm, RoutePolicy, policy_of, set_policy
from callsheet.state.errors import Broken

_ROUTED_TYPES: Final = frozenset({"http", "websocket"})
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SCOPE_KEY: Final = "callsheet.match"
_BY_METHOD: Final = frozenset({"read", "write"})
"""Permissions that depend on the method where no route answers it."""


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
        scope[_SCOPE_KEY] = None
        matched = scope[_SCOPE_KEY] = self._find(scope)
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
        await scope[_SCOPE_KEY].route.handle(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """Raise `NoMatchFound`: the route has no path of its own."""
        raise NoMatchFound(name, path_params)


def find_match(scope: Scope) -> RouteMatch | None:
    """Return the match that `RouteTable.resolve` stored."""
    matched: RouteMatch | None = scope.get(_SCOPE_KEY)
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
