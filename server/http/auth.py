"""Authentication by API key or JSON Web Token, if the settings require it.

Keys and tokens arrive as `X-Api-Key` or `Authorization: Bearer`. A browser cannot set headers of a web
socket; it offers the subprotocols `bearer` and the credential, and the server accepts `bearer`. The console's
pages have a cookie in place of a key (`server/http/sessions.py`). Public routes are open to everyone. Without
authentication every caller on this machine is the local owner.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.engine.permissions import PERMISSIONS, Permission, implied_permissions
from callsheet.server.http import api_keys, sessions
from callsheet.server.http.errors import reject
from callsheet.server.http.policy import OnOutage, get_policy
from callsheet.server.http.tokens import Tokens
from callsheet.server.settings.local_sockets import OWNER_HEADER
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry import logs
from callsheet.state.errors import Broken, CallsheetError, Forbidden, Invalid, StorageDown, Unauthenticated
from callsheet.state.owners import LOCAL, is_owner
from callsheet.storage import Storage
from callsheet.storage.api_keys import StoredKey

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
    key_id: str = ""
    """Id of the API key; empty for any other credential."""

    def require(self, permission: str) -> None:
        """Raise `Forbidden` unless the caller has this permission."""
        if permission not in self.permissions:
            raise Forbidden(
                f"this needs the permission {permission!r}, which {self.name} does not have",
                remedy=f"use a key or a token that has {permission!r}",
            )


OPERATOR: Final = "callsheet.operator"
"""Key of a request's scope: true for one that came through a socket that only the operator reaches."""
ANYONE: Final = Caller(LOCAL, frozenset(PERMISSIONS), "this machine")
"""The caller without authentication."""


def current_owner(connection: HTTPConnection) -> str:
    """Return the caller's owner; raises `Broken` if authentication was bypassed."""
    return get_caller(connection.scope).owner


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


ANONYMOUS: Final = Caller("", frozenset(), "nobody")
"""Caller of a public route."""
_BEARER: Final = "bearer"
"""Scheme of the header, and the subprotocol before the credential."""
_CHALLENGE: Final = 'Bearer realm="callsheet"'
_RESERVED_PREFIXES: Final = ("__", "langgraph_auth_")
"""Prefixes of config keys that only the server sets."""
_RESERVED_NAMES: Final = frozenset({"thread_id", "run_id"})
"""Config keys of a run that only the server sets; a caller could reach another thread with them."""
_log = logging.getLogger(__name__)


class Authenticator:
    """Identifies callers by the settings; raises `Invalid` for contradictory settings."""

    def __init__(self, settings: Settings) -> None:
        self.required = bool(settings.auth)
        self._keys = "keys" in settings.auth
        self._tokens = _create_tokens(settings)
        self._scopes_claim = settings.jwt_scopes_claim
        self._patience_s = settings.storage_patience_s

    async def authenticate(self, scope: Scope) -> Caller:
        """Return the caller.

        Raises `Unauthenticated` for a missing or wrong credential, `Forbidden` for a missing permission, and
        storage's errors.
        """
        if scope.get(OPERATOR):
            return _operator(scope)
        if not self.required:
            return ANYONE
        permission = required_permission(scope)
        if permission == "public":
            return await self._identify(scope) if get_policy(scope).identifies else ANONYMOUS
        caller = await self._caller(scope)
        caller.require(permission)
        return caller

    async def _identify(self, scope: Scope) -> Caller:
        try:
            return await self._caller(scope)
        except (Unauthenticated, Forbidden):
            return ANONYMOUS

    async def _caller(self, scope: Scope) -> Caller:
        if text := _credential(scope):
            return await self._credential_caller(text, scope)
        token = sessions.session_token(scope) if self._keys else ""
        if not token:
            raise Unauthenticated("the request has no API key or token", remedy=self._remedy())
        sessions.require_own_page(scope)
        return await self._key_caller(lambda storage: sessions.authenticate_session(storage, token), scope)

    async def _credential_caller(self, text: str, scope: Scope) -> Caller:
        if self._keys and text.startswith(api_keys.PREFIX):
            return await self._key_caller(lambda storage: api_keys.authenticate_key(storage, text), scope)
        if self._tokens is None:
            raise Unauthenticated("the API key is unknown", remedy=self._remedy())
        claims = await self._tokens.claims(text)
        owner = claims["sub"]
        if not is_owner(owner) or owner == LOCAL:
            raise Unauthenticated(f"the token's sub {owner[:40]!r} cannot be an owner", remedy=self._remedy())
        return Caller(owner, frozenset(implied_permissions(*self._scopes(claims))), "the token")

    async def _key_caller(self, check: Callable[[Storage], Awaitable[StoredKey]], scope: Scope) -> Caller:
        storage: Storage = scope["app"].state.context.storage
        try:
            # Monitoring must not wait for storage that hangs; `StorageOutageMiddleware` answers other routes.
            reports = get_policy(scope).on_outage is OnOutage.REPORT
            async with asyncio.timeout(self._patience_s if reports else None):
                record = await check(storage)
                await api_keys.note_use(storage, record)
        except TimeoutError as error:
            raise StorageDown(f"{storage.origin} does not answer, so no key can be checked") from error
        return Caller(record.owner, frozenset(record.permissions), f"API key {record.id!r}", record.id)

    def _scopes(self, claims: Mapping[str, Any]) -> list[str]:
        claim = claims.get(self._scopes_claim, "")
        words = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
        return [str(word).removeprefix("callsheet:") for word in words]

    def _remedy(self) -> str:
        ways = []
        if self._keys:
            ways.append("an API key (callsheet keys create) as X-Api-Key or Authorization: Bearer")
        if self._tokens:
            ways.append("a token as Authorization: Bearer")
        return f"send {', or '.join(ways)}"


def _operator(scope: Scope) -> Caller:
    """Return the operator as a caller, for the owner that the request names."""
    owner = unquote(Headers(scope=scope).get(OWNER_HEADER, LOCAL))
    if not is_owner(owner):
        raise Invalid(f"{owner[:40]!r} cannot be an owner", remedy="see callsheet keys list for the owners")
    return Caller(owner, frozenset({*PERMISSIONS, "operator"}), "the terminal")


class AuthenticationMiddleware:
    """Rejects requests without a valid credential; sets the caller of the others."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._authenticator.authenticate(scope)
        except CallsheetError as error:
            # A request without a credential may be a browser's for an icon; a wrong key is worth a log line.
            level = logging.INFO if _credential(scope) else logging.DEBUG
            _log.log(level, "rejected: %s", error.message)
            await reject(error, scope, receive, send, _challenge(error, scope))
            return
        set_caller(scope, caller, partial(self._authenticator.authenticate, scope))
        with logs.log_context(owner=caller.owner, key_id=caller.key_id):
            await self._app(scope, receive, _accept_subprotocol(scope, send))


_LIMITS: Final = ("recursion_limit", "max_concurrency")
"""Fields of a config that are numbers."""


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's config for a run without the keys that only the server sets.

    Drops `callbacks`, and from `configurable` and `metadata` every key of the owner, thread or run. Dropped
    and not refused, because clients send back what they received. Raises `Invalid` unless both are objects,
    and for limits and tags that LangGraph cannot use.
    """
    public = {name: value for name, value in config.items() if name not in {"callbacks", "run_id"}}
    for limit in _LIMITS:
        number = public.get(limit)
        if number is not None and not (isinstance(number, int) and number >= 1):
            raise Invalid(f"config.{limit} is {number!r:.80}", remedy="send a whole number from 1, or none")
    tags = public.get("tags")
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise Invalid(f"config.tags is {tags!r:.80}", remedy="send a list of texts, or none")
    for part in ("configurable", "metadata"):
        if public.get(part) is None:
            public.pop(part, None)
            continue
        section = public[part]
        if not isinstance(section, Mapping):
            raise Invalid(f"config.{part} {section!r:.80} is not an object", remedy="send an object, or none")
        public[part] = {name: value for name, value in section.items() if _is_public_name(name)}
    return public


def _is_public_name(name: object) -> bool:
    return isinstance(name, str) and not name.startswith(_RESERVED_PREFIXES) and name not in _RESERVED_NAMES


def _credential(scope: Scope) -> str:
    headers = Headers(scope=scope)
    scheme, _, text = headers.get("authorization", "").partition(" ")
    credential = text if scheme.casefold() == _BEARER else headers.get("x-api-key", "")
    return credential.strip() or _subprotocol_credential(scope)


def _subprotocol_credential(scope: Scope) -> str:
    """Return the subprotocol after `bearer`; empty without one."""
    offered = [*scope.get("subprotocols", ())]
    return str(offered[1]) if len(offered) > 1 and offered[0] == _BEARER else ""


def _accept_subprotocol(scope: Scope, send: Send) -> Send:
    """Accept the offered subprotocol: browsers close a web socket that accepts none."""
    if not _subprotocol_credential(scope):
        return send

    async def send_accepting(message: Message) -> None:
        if message["type"] == "websocket.accept":
            message = {**message, "subprotocol": message.get("subprotocol") or _BEARER}
        await send(message)

    return send_accepting


def _challenge(error: CallsheetError, scope: Scope) -> dict[str, str]:
    """Return the `WWW-Authenticate` header of a refusal (RFC 6750)."""
    if isinstance(error, Forbidden):
        return {
            "WWW-Authenticate": (
                f'{_CHALLENGE}, error="insufficient_scope", scope="{required_permission(scope)}"'
            )
        }
    if not isinstance(error, Unauthenticated):
        return {}
    tried = ', error="invalid_token"' if _credential(scope) else ""
    return {"WWW-Authenticate": f"{_CHALLENGE}{tried}"}


def _create_tokens(settings: Settings) -> Tokens | None:
    if "jwt" not in settings.auth:
        if settings.jwt_secret or settings.jwks_url:
            raise Invalid(
                "tokens are configured, but CALLSHEET_AUTH does not include jwt",
                remedy="add jwt to CALLSHEET_AUTH, or unset CALLSHEET_JWT_SECRET and CALLSHEET_JWKS_URL",
            )
        return None
    return Tokens(settings)
