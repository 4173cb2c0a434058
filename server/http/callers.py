"""Callers, their permissions, and the permission that a request needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection
from starlette.types import Scope

from callsheet.server.http.policy import Permission, get_policy
from callsheet.state.errors import Broken, Forbidden
from callsheet.state.owners import LOCAL

PERMISSIONS: Final = ("read", "write", "admin")
"""Permissions; each includes those before it."""
_SCOPE_KEY: Final = "callsheet.caller"
_CHECK_KEY: Final = "callsheet.check_credential"
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True)
class Caller:
    """An authenticated caller."""

    owner: str
    """Owner of everything that the request may see."""
    permissions: frozenset[str]
    name: str
    """Name of the credential, for logs and messages; never a secret."""

    def require(self, permission: str) -> None:
        """Raise `Forbidden` unless the caller has this permission."""
        if permission not in self.permissions:
            raise Forbidden(
                f"this needs the permission {permission!r}, which {self.name} does not have",
                remedy=f"use a key or a token that has {permission!r}",
            )


ANYONE: Final = Caller(LOCAL, frozenset(PERMISSIONS), "this machine")
"""The caller without authentication."""


def implied_permissions(*permissions: str) -> tuple[str, ...]:
    """Return these permissions and those they imply; unknown words are ignored."""
    known = [PERMISSIONS.index(word) for word in permissions if word in PERMISSIONS]
    return PERMISSIONS[: max(known) + 1] if known else ()


def current_caller(connection: HTTPConnection) -> Caller:
    """Return the caller; raises `Broken` if authentication was bypassed."""
    return get_caller(connection.scope)


def current_owner(connection: HTTPConnection) -> str:
    """Return the caller's owner."""
    return current_caller(connection).owner


def get_caller(scope: Scope) -> Caller:
    """Return the caller that `set_caller` stored."""
    caller = scope.get(_SCOPE_KEY)
    if not isinstance(caller, Caller):
        raise Broken("a request bypassed authentication")
    return caller


def set_caller(scope: Scope, caller: Caller, check: Callable[[], Awaitable[object]]) -> None:
    """Store the caller in the request's scope, and the check of its credential."""
    scope[_SCOPE_KEY] = caller
    scope[_CHECK_KEY] = check


async def check_credential(connection: HTTPConnection) -> None:
    """Check again, as the request did; raises `Unauthenticated` for a credential revoked or expired since."""
    await connection.scope[_CHECK_KEY]()


def required_permission(scope: Scope) -> Permission:
    """Return the permission that a request needs, by the policy of its route."""
    policy = get_policy(scope)
    if policy.permission == "read" and policy.cancels_on_disconnect and _cancels_on_disconnect(scope):
        return "write"
    return policy.permission


def _cancels_on_disconnect(scope: Scope) -> bool:
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return any(value.casefold() not in _FALSE for value in query.get("cancel_on_disconnect", ()))
