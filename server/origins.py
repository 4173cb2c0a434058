"""Who may call while nobody has to say who they are: this machine, and no website but those allowed.

A page on the web can make a browser send requests to this machine, under this machine's name (DNS rebinding)
or its own. So a request must be addressed to a loopback name, arrive at a loopback address, and, where a page
sent it, come from a loopback page, from the Studio site, or from one the settings allow.
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from server import problems
from server.settings import Settings
from state.errors import Forbidden, Invalid
from state.owners import LOCAL

STUDIO: Final = "https://smith.langchain.com"
"""The page of LangGraph Studio, which calls the server on the user's own machine."""


def owner(connection: HTTPConnection) -> str:
    """Return who is asking."""
    del connection
    return LOCAL


def require_loopback(host: str) -> None:
    """Raise `Invalid` for an address others can reach, since nobody would be asked who they are."""
    if not is_loopback(host):
        raise Invalid(
            f"host {host!r} can be reached from outside, and there is no authentication",
            remedy="listen on 127.0.0.1, and let a proxy that authenticates stand in front",
        )


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address without port, is this machine and nothing else."""
    name = host.strip("[]").rstrip(".").casefold()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def known_host(header: str, allowed: Collection[str]) -> bool:
    """Return whether a Host header names this machine or one of the `allowed` names, with or without port."""
    name = _hostname(f"//{header}")
    return name is not None and (is_loopback(name) or _listed(name, header, allowed))


def known_origin(header: str, allowed: Collection[str]) -> bool:
    """Return whether an Origin header is a loopback page's, the Studio's, or one of the `allowed`."""
    if header == STUDIO or header in {origin.rstrip("/") for origin in allowed}:
        return True
    name = _hostname(header) if header.startswith(("http://", "https://")) else None
    return name is not None and is_loopback(name)


class Gate:
    """Lets in what may call; answers all else with 403."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._origins = settings.allow_origins
        self._hosts = settings.allow_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await problems.response(refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Forbidden | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        arrived = (scope.get("server") or ("localhost",))[0]
        if not known_host(host, self._hosts):
            return Forbidden(
                f"host {host[:80]!r} is not a name of this server",
                remedy="call it as 127.0.0.1 or localhost, or add the name to CALLSHEET_ALLOW_HOSTS",
            )
        if not (is_loopback(arrived) or arrived.startswith("/")):
            return Forbidden("calls from other machines need authentication", remedy="listen on 127.0.0.1")
        if origin is not None and not known_origin(origin, self._origins):
            return Forbidden(
                f"pages of {origin[:80]!r} may not call this server",
                remedy="add the origin to CALLSHEET_ALLOW_ORIGINS if you trust it",
            )
        return None


def _hostname(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if not parts.username and not parts.path.strip("/") else None


def _listed(name: str, header: str, allowed: Collection[str]) -> bool:
    return bool({name.casefold(), header.casefold()} & {known.casefold() for known in allowed})
