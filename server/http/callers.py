"""Who is asking, what that allows, and what a request needs."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection
from starlette.types import Scope

from callsheet.state.errors import Broken, Forbidden
from callsheet.state.owners import LOCAL

PERMISSIONS: Final = ("read", "write", "admin")
"""What a caller may be allowed; each includes those before it."""
_SCOPE_KEY: Final = "callsheet.caller"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ADMIN: Final = frozenset({"/metrics"})
"""What tells of every owner at once."""
_ASKING: Final = (
    ("assistants", "search"),
    ("assistants", "count"),
    ("assistants", "*", "versions"),
    ("threads", "search"),
    ("threads", "count"),
    ("threads", "*", "history"),
    ("threads", "*", "state", "checkpoint"),
    ("threads", "*", "stream", "events"),
    ("runs", "crons", "search"),
    ("runs", "crons", "count"),
    ("store", "items", "search"),
    ("store", "namespaces"),
)
"""Paths whose POST only asks."""
_NO: Final = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True)
class Caller:
    """Who is asking."""

    owner: str
    """Whose things the request is about; no other's exist for it."""
    permissions: frozenset[str]
    name: str
    """For logs: how the caller said who it is; never a secret."""

    def require(self, permission: str) -> None:
        """Raise `Forbidden` unless the caller has this permission."""
        if permission not in self.permissions:
            raise Forbidden(
                f"this needs the permission {permission!r}, which {self.name} does not have",
                remedy=f"use a key or a token that has {permission!r}",
            )


ANYONE: Final = Caller(LOCAL, frozenset(PERMISSIONS), "this machine")
"""The caller where nobody has to say who they are."""


def implied_permissions(*permissions: str) -> tuple[str, ...]:
    """Return the permissions that these amount to; words that are none are left out."""
    known = [PERMISSIONS.index(word) for word in permissions if word in PERMISSIONS]
    return PERMISSIONS[: max(known) + 1] if known else ()


def current_caller(connection: HTTPConnection) -> Caller:
    """Return who is asking; raises `Broken` where nobody was asked."""
    return get_caller(connection.scope)


def current_owner(connection: HTTPConnection) -> str:
    """Return whose things the request is about."""
    return current_caller(connection).owner


def get_caller(scope: Scope) -> Caller:
    """Return who is asking, as `call` wrote it down."""
    found = scope.get(_SCOPE_KEY)
    if not isinstance(found, Caller):
        raise Broken("a request came past the door without being asked who it is")
    return found


def set_caller(scope: Scope, found: Caller) -> None:
    """Write down who is asking, for all that the request passes on its way."""
    scope[_SCOPE_KEY] = found


def required_permission(scope: Scope) -> str:
    """Return the permission that a request needs; what is not known to only ask needs `write`.

    So does a web socket, which may carry commands, and a viewer whose leaving is to end the run.
    """
    path = scope["path"]
    if path in _ADMIN:
        return "admin"
    if scope["type"] != "http":
        return "write"
    return "read" if _asks(scope["method"], path) and not _cancels(scope) else "write"


def _asks(method: str, path: str) -> bool:
    parts = path.strip("/").split("/")
    return method in _SAFE or (method == "POST" and any(_fits(parts, known) for known in _ASKING))


def _fits(parts: list[str], known: tuple[str, ...]) -> bool:
    return len(parts) == len(known) and all(
        want in {"*", part} for part, want in zip(parts, known, strict=True)
    )


def _cancels(scope: Scope) -> bool:
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return any(value.casefold() not in _NO for value in query.get("cancel_on_disconnect", ()))
