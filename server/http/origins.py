"""Checks of Host and Origin headers.

A page on the web can make a browser send requests to this machine, also under this machine's name (DNS
rebinding). So a request must name a loopback host, arrive at a loopback address, and, if a page sent it, come
from a loopback page, LangGraph Studio, or an allowed origin. With authentication the address does not matter,
since no page can send a key it does not have; the origin is checked all the same.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.server.engine.project_options import Cors
from callsheet.server.http.errors import reject
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Forbidden, Invalid

STUDIO: Final = "https://smith.langchain.com"
"""Origin of LangGraph Studio, which calls a server on the user's machine."""


def require_safe_binding(settings: Settings) -> None:
    """Raise `Invalid` for a reachable address without authentication."""
    if not settings.auth and not is_loopback(settings.host):
        raise Invalid(
            f"host {settings.host!r} can be reached from outside, and there is no authentication",
            remedy="set CALLSHEET_AUTH=keys and make a key (callsheet keys create), or listen on 127.0.0.1",
        )


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return True if `host`, a name or an address without port, is a loopback one."""
    name = host.strip("[]").rstrip(".").casefold()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_allowed_host(header: str, allowed: Collection[str]) -> bool:
    """Return True if a Host header names this machine or an `allowed` host, with or without port."""
    name = _hostname(f"//{header}")
    return name is not None and (is_loopback(name) or _is_listed(name, header, allowed))


def is_allowed_origin(header: str, allowed: Collection[str]) -> bool:
    """Return True if an Origin is a loopback page, LangGraph Studio, or `allowed`."""
    if header == STUDIO or header in {origin.rstrip("/") for origin in allowed}:
        return True
    name = _hostname(header) if header.startswith(("http://", "https://")) else None
    return name is not None and is_loopback(name)


def allowed_origins(settings: Settings, cors: Cors) -> tuple[str, ...]:
    """Return the origins that may call; all of them (`*`) only with authentication, else none of those."""
    origins = (*settings.allow_origins, *cors.allow_origins)
    return tuple(each for each in origins if each != "*" or settings.auth)


class HostOriginMiddleware:
    """Rejects requests with a foreign host or origin with 403."""

    def __init__(self, app: ASGIApp, settings: Settings, cors: Cors | None = None) -> None:
        """`cors` are the origins that the project allows beside those of the settings."""
        self._app = app
        allowed = allowed_origins(settings, cors or Cors())
        self._origins, self._pattern = allowed, cors and cors.allow_origin_regex
        self._hosts = settings.allow_hosts
        self._authenticates = bool(settings.auth)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await reject(refusal, scope, receive, send)

    def _refusal(self, scope: Scope) -> Forbidden | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._authenticates and (elsewhere := self._host_refusal(host, scope)):
            return elsewhere
        if (
            origin is None
            or is_allowed_origin(origin, self._origins)
            or "*" in self._origins
            or (self._pattern and re.fullmatch(self._pattern, origin))
            or (self._authenticates and is_own_origin(origin, host))
        ):
            return None
        return Forbidden(
            f"pages of {origin[:80]!r} may not call this server",
            remedy="add the origin to CALLSHEET_ALLOW_ORIGINS if you trust it",
        )

    def _host_refusal(self, host: str, scope: Scope) -> Forbidden | None:
        arrived = (scope.get("server") or ("localhost",))[0]
        if not is_allowed_host(host, self._hosts):
            return Forbidden(
                f"host {host[:80]!r} is not a name of this server",
                remedy="call it as 127.0.0.1 or localhost, or add the name to CALLSHEET_ALLOW_HOSTS",
            )
        if not (is_loopback(arrived) or arrived.startswith("/")):
            return Forbidden(
                "calls from other machines need authentication",
                remedy="listen on 127.0.0.1, or set CALLSHEET_AUTH",
            )
        return None


def is_own_origin(origin: str, host: str) -> bool:
    """Return True if the origin is this server's own host."""
    return bool(host) and origin.casefold() in {f"http://{host}".casefold(), f"https://{host}".casefold()}


def _hostname(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    host = parts.hostname or ""
    bracketed = f"[{host}]" if ":" in host else host
    # urlsplit ignores what follows the bracket in "[::1].evil".
    is_exact = parts.netloc.casefold() in {bracketed, f"{bracketed}:{parts.port}"}
    return host if host and is_exact and not parts.path.strip("/") else None


def _is_listed(name: str, header: str, allowed: Collection[str]) -> bool:
    return bool({name.casefold(), header.casefold()} & {known.casefold() for known in allowed})
