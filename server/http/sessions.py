"""Sessions of the console: a cookie in place of an API key, for pages of this server alone.

A browser sends cookies by itself, also when a page of somebody else makes the request. So a cookie counts
only where the browser says that a page of this server made it: by `Sec-Fetch-Site`, which pages cannot set,
else by `Origin`. Where it says neither, nothing but reading is allowed.
"""

import hashlib
import secrets
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from callsheet.server.http import api_keys
from callsheet.server.http.origins import is_own_origin
from callsheet.state.errors import Forbidden, Unauthenticated
from callsheet.storage import api_keys as stored_keys
from callsheet.storage import sessions
from callsheet.storage.api_keys import StoredKey
from callsheet.storage.redis.caller_keys import SESSION_TTL_S
from callsheet.storage.redis.connection import Storage

COOKIE: Final = "callsheet_session"
LIFETIME_S: Final = int(SESSION_TTL_S)
_TOKEN_BYTES: Final = 32
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def session_token(scope: Scope) -> str:
    """Return the value of the request's cookie; empty without one."""
    header = Headers(scope=scope).get("cookie", "")
    return cookie_parser(header).get(COOKIE, "") if COOKIE in header else ""


def require_own_page(scope: Scope) -> None:
    """Raise `Forbidden` unless a page of this server made the request, or it only reads and no page did."""
    headers = Headers(scope=scope)
    reads = scope["type"] == "http" and scope["method"] in _SAFE_METHODS
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        # `none` is an address that a person typed or chose.
        is_own = site == "same-origin" or (site == "none" and reads)
    elif origin is not None:
        is_own = is_own_origin(origin, headers.get("host", ""))
    else:
        is_own = reads
    if not is_own:
        raise Forbidden(
            "a session counts for pages of this server only",
            remedy="send an API key, or open the page of this server; a proxy must pass on Host and Origin",
        )


async def create_session(storage: Storage, key: str) -> str:
    """Return the token of a new session of this API key; raises `Unauthenticated` unless it is active."""
    record = await api_keys.authenticate_key(storage, key)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    await sessions.create(storage, _digest(token), record.id)
    return token


async def authenticate_session(storage: Storage, token: str) -> StoredKey:
    """Return the API key of a session; raises `Unauthenticated` once either has ended."""
    key_id = await sessions.find(storage, _digest(token))
    record = await stored_keys.find(storage, key_id) if key_id else None
    if record is None:
        raise Unauthenticated("the session has ended", remedy="sign in again")
    return api_keys.require_active(record)


async def end_session(storage: Storage, token: str) -> None:
    """End a session. Twice is safe."""
    await sessions.delete(storage, _digest(token))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
