"""Headers of a request that its runs get (`http.configurable_headers` in langgraph.json)."""

from collections.abc import Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.server.engine.project_options import HeaderPatterns

_SECRET: Final = frozenset({"x-api-key", "x-tenant-id", "x-service-key"})
"""Never passed: what is passed is stored with the run."""
_CREDENTIALS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Passed only if their name is in the list without `*`, and this server does not read credentials itself."""
_passed: ContextVar[Mapping[str, str]] = ContextVar("_passed", default=MappingProxyType({}))


def passed_headers() -> Mapping[str, str]:
    """Return the headers of the current request that runs get, by name in lower case."""
    return _passed.get()


class ConfigurableHeadersMiddleware:
    """Keeps the headers that the project passes to its runs, while a request is answered."""

    def __init__(self, app: ASGIApp, patterns: HeaderPatterns, *, authenticates: bool) -> None:
        """`authenticates` says that the server itself reads credentials from headers."""
        self._app = app
        self._includes = [pattern.casefold() for pattern in patterns.includes]
        self._excludes = [pattern.casefold() for pattern in patterns.excludes]
        self._authenticates = authenticates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        token = _passed.set({name: value for name, value in headers.items() if self._is_passed(name)})
        try:
            await self._app(scope, receive, send)
        finally:
            _passed.reset(token)

    def _is_passed(self, name: str) -> bool:
        if name in _SECRET or any(fnmatchcase(name, pattern) for pattern in self._excludes):
            return False
        if name in _CREDENTIALS:
            return name in self._includes and not self._authenticates
        return any(fnmatchcase(name, pattern) for pattern in self._includes)
