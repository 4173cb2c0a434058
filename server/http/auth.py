"""The door: nobody comes in without saying who they are, where the settings ask for that (ARCHITECTURE 7).

API keys come as `X-Api-Key` or `Authorization: Bearer`, tokens as the latter. A page cannot give a web socket
headers; it offers the subprotocols `bearer` and the key or token, of which the server takes the former.
`/ok` says that the server is up and nothing else, and is open to all. Where nothing is asked, everyone on
this machine is the local owner.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.http import api_keys, outage
from callsheet.server.http.callers import ANYONE, Caller, implied_permissions, required_permission, set_caller
from callsheet.server.http.errors import reject
from callsheet.server.operations import logs
from callsheet.server.settings import Settings
from callsheet.state.errors import CallsheetError, Forbidden, Invalid, StorageDown, Unauthenticated
from callsheet.state.owners import LOCAL, is_owner
from callsheet.storage import Storage

PUBLIC_PATHS: Final = frozenset({"/ok"})
"""Paths that are answered without asking."""
ANONYMOUS: Final = Caller("", frozenset(), "nobody")
"""The caller of such a path where others are asked."""
_BEARER: Final = "bearer"
"""The scheme, and the subprotocol after which a page offers what it would say in a header."""
_CHALLENGE: Final = 'Bearer realm="callsheet"'
_OURS: Final = ("__", "langgraph_auth_")
"""How the names begin that only the server gives to a graph."""
_NAMED: Final = frozenset({"thread_id", "run_id"})
"""What the server says of a run; a caller who could say it would be on another's thread."""
_log = logging.getLogger(__name__)


class _Tokens(Protocol):
    async def claims(self, token: str) -> Mapping[str, Any]:
        """Return what a token says."""
        ...


class Authenticator:
    """Finds out who is asking, as the settings say; raises `Invalid` for settings that do not go together."""

    def __init__(self, settings: Settings) -> None:
        self.asks = bool(settings.auth)
        self._keys = "keys" in settings.auth
        self._tokens = _tokens(settings)
        self._scopes_claim = settings.jwt_scopes_claim
        self._patience_s = settings.storage_patience_s

    async def authenticate(self, scope: Scope) -> Caller:
        """Return who is asking.

        Raises `Unauthenticated` where nobody has said so or it is not true, `Forbidden` where that does not
        allow what is asked for, and what storage raises.
        """
        if not self.asks:
            return ANYONE
        if scope["path"] in PUBLIC_PATHS:
            return ANONYMOUS
        text = _credential(scope)
        if not text:
            raise Unauthenticated("nobody has said who is asking", remedy=self._remedy())
        found = await self._named(text, scope)
        found.require(required_permission(scope))
        return found

    async def _named(self, text: str, scope: Scope) -> Caller:
        if self._keys and text.startswith(api_keys.PREFIX):
            return await self._key(text, scope)
        if self._tokens is None:
            raise Unauthenticated("the API key is not known here", remedy=self._remedy())
        claims = await self._tokens.claims(text)
        owner = claims["sub"]
        if not is_owner(owner) or owner == LOCAL:
            raise Unauthenticated(f"the token's sub {owner[:40]!r} cannot be an owner", remedy=self._remedy())
        return Caller(owner, frozenset(implied_permissions(*self._scopes(claims))), "the token")

    async def _key(self, text: str, scope: Scope) -> Caller:
        storage: Storage = scope["app"].state.parts.storage
        try:
            # Monitoring must not wait for storage that hangs; `StorageOutageMiddleware` answers all others.
            async with asyncio.timeout(self._patience_s if scope["path"] in outage.EXEMPT_PATHS else None):
                found = await api_keys.authenticate_key(storage, text)
        except TimeoutError as error:
            raise StorageDown(f"{storage.origin} gave no answer, so no key can be checked") from error
        return Caller(found.owner, frozenset(found.permissions), f"API key {found.id!r}")

    def _scopes(self, claims: Mapping[str, Any]) -> list[str]:
        said = claims.get(self._scopes_claim, "")
        words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
        return [str(word).removeprefix("callsheet:") for word in words]

    def _remedy(self) -> str:
        ways = []
        if self._keys:
            ways.append("an API key (callsheet keys create) as X-Api-Key or Authorization: Bearer")
        if self._tokens:
            ways.append("a token as Authorization: Bearer")
        return f"send {', or '.join(ways)}"


class AuthenticationMiddleware:
    """Lets nobody in whom the keeper does not know, and writes down who is asking."""

    def __init__(self, app: ASGIApp, keeper: Authenticator) -> None:
        self._app = app
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            found = await self._keeper.authenticate(scope)
        except CallsheetError as error:
            # Whoever sends nothing may be a browser that asks for an icon; a wrong key is worth a look.
            level = logging.INFO if _credential(scope) else logging.DEBUG
            _log.log(level, "turned away: %s", error.message)
            await reject(error, scope, receive, send, _challenge(error, scope))
            return
        set_caller(scope, found)
        with logs.log_context(owner=found.owner if self._keeper.asks else ""):
            await self._app(scope, receive, _taking(scope, send))


def public_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a caller's config for a run without what only the server may say.

    Dropped are `callbacks`, and from `configurable` and `metadata` whatever would name the owner, the thread
    or the run. Dropped rather than refused: clients send back what they were shown. Raises `Invalid` where
    one of the two is not an object.
    """
    public = {name: value for name, value in config.items() if name not in {"callbacks", "run_id"}}
    for part in ("configurable", "metadata"):
        if public.get(part) is None:
            public.pop(part, None)
            continue
        given = public[part]
        if not isinstance(given, Mapping):
            raise Invalid(f"config.{part} {given!r:.80} is not an object", remedy="send an object, or none")
        public[part] = {name: value for name, value in given.items() if _may_say(name)}
    return public


def _may_say(name: object) -> bool:
    return isinstance(name, str) and not name.startswith(_OURS) and name not in _NAMED


def _credential(scope: Scope) -> str:
    headers = Headers(scope=scope)
    scheme, _, text = headers.get("authorization", "").partition(" ")
    said = text if scheme.casefold() == _BEARER else headers.get("x-api-key", "")
    return said.strip() or _offered(scope)


def _offered(scope: Scope) -> str:
    """What a page offers as the subprotocol that follows `bearer`; empty without one."""
    offered = [*scope.get("subprotocols", ())]
    return str(offered[1]) if len(offered) > 1 and offered[0] == _BEARER else ""


def _taking(scope: Scope, send: Send) -> Send:
    """Take the subprotocol that a page offered: a browser gives up a web socket that takes none of them."""
    if not _offered(scope):
        return send

    async def taking(message: Message) -> None:
        if message["type"] == "websocket.accept":
            message = {**message, "subprotocol": message.get("subprotocol") or _BEARER}
        await send(message)

    return taking


def _challenge(error: CallsheetError, scope: Scope) -> dict[str, str]:
    """What a refusal says of how to be let in, as RFC 6750 has it."""
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


def _tokens(settings: Settings) -> _Tokens | None:
    if "jwt" not in settings.auth:
        if settings.jwt_secret or settings.jwks_url:
            raise Invalid(
                "tokens are set up, but CALLSHEET_AUTH does not name them",
                remedy="add jwt to CALLSHEET_AUTH, or unset CALLSHEET_JWT_SECRET and CALLSHEET_JWKS_URL",
            )
        return None
    # Cryptography, where it is installed, takes longer to import than all the rest of this.
    from callsheet.server.http.tokens import Tokens  # noqa: PLC0415

    return Tokens(settings)
