"""The routes of a project's own application (`http.app` in langgraph.json), behind the server's middleware.

They come before the server's routes, as on LangGraph's server; its documentation, and what it mounts at the
root, come after them. The permission is that of the method: `read`, or `write` where something may change.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Receive, Scope, Send

from callsheet.server.http.policy import MESSAGE_BODY, RoutePolicy, with_policy
from callsheet.state.errors import Invalid

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DOCUMENTATION: Final = frozenset({"openapi", "swagger_ui_html", "swagger_ui_redirect", "redoc_html"})
"""Names of the routes that FastAPI adds to every application."""


class ProjectRoutes(BaseRoute):
    """Some routes of an application, for requests that may change something or for all others."""

    def __init__(self, app: Starlette, served: Sequence[BaseRoute], *, safe: bool) -> None:
        self._app = app
        self._served = served
        self._safe = safe
        self.endpoint = with_policy(RoutePolicy("read" if safe else "write", body=MESSAGE_BODY))(
            partial(self._call)
        )

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether a route of the application has the path; it answers wrong methods itself."""
        is_safe = scope["type"] == "http" and scope["method"] in _SAFE_METHODS
        if is_safe is not self._safe or all(one.matches(scope)[0] is Match.NONE for one in self._served):
            return Match.NONE, {}
        return Match.FULL, {"endpoint": self.endpoint}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application."""
        await self.endpoint(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The application writes itself into the scope, which the server's middleware reads after it.
        await self._app(dict(scope), receive, send)


def project_routes(app: Any) -> tuple[list[ProjectRoutes], list[ProjectRoutes]]:
    """Return the routes that come before and after the server's; raises `Invalid` for no application."""
    if not isinstance(app, Starlette):
        raise Invalid(
            f"application 'http.app' is of type {type(app).__name__}",
            remedy="name a FastAPI or Starlette object",
        )
    own = [one for one in app.routes if getattr(one, "name", "") not in _DOCUMENTATION]
    last = [one for one in own if isinstance(one, Mount) and not one.path]
    groups = [one for one in own if one not in last], last
    before, after = ([ProjectRoutes(app, group, safe=safe) for safe in (True, False)] for group in groups)
    return before, after
