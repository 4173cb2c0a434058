"""JSON Web Tokens: signed by a secret we share with their issuer, or by keys the issuer publishes.

Which algorithms may be used follows from the setting and never from the token, so that a published key is
not taken for a secret, nor a token without signature for one with.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
from jwt import PyJWK, PyJWKClient

from callsheet.server.http.origins import is_loopback
from callsheet.server.settings import Settings
from callsheet.state.errors import Invalid, Unauthenticated, Unavailable

SHARED_SECRET_ALGORITHMS: Final = ("HS256",)
"""Algorithms of tokens signed by a secret."""
PUBLIC_KEY_ALGORITHMS: Final = ("RS256", "ES256")
"""Algorithms of tokens signed by the issuer's published keys."""
LEEWAY_S: Final = 10
"""By how much the issuer's clock may differ."""
MAX_TOKEN_CHARS: Final = 8_192
FRESH_S: Final = 300.0
"""How long published keys are used before they are fetched again."""
STALE_S: Final = 3_600.0
"""How long they are used while they cannot be fetched again."""
PAUSE_S: Final = 10.0
"""The least time between two attempts, so that made-up key ids cannot make us call the issuer all day."""
_FETCH_S: Final = 5
_LEAST_BYTES: Final = 32
_REMEDY: Final = "get a new token from its issuer"
_RULES: Final[tuple[tuple[type[jwt.InvalidTokenError], str], ...]] = (
    (jwt.ExpiredSignatureError, "the token has expired"),
    (jwt.ImmatureSignatureError, "the token is not valid yet"),
    (jwt.InvalidAudienceError, "the token is meant for another audience"),
    (jwt.InvalidIssuerError, "the token comes from another issuer"),
    (jwt.MissingRequiredClaimError, "the token lacks `exp`, `sub`, or a claim that the settings check"),
)
_log = logging.getLogger(__name__)


class Tokens:
    """Checks tokens as the settings say; raises `Invalid` for settings that would let in too much."""

    def __init__(self, settings: Settings, now_s: Callable[[], float] = time.monotonic) -> None:
        secret = settings.jwt_secret.get_secret_value() if settings.jwt_secret else ""
        if bool(secret) == bool(settings.jwks_url):
            raise Invalid(
                "tokens need either a secret or published keys to be checked by",
                remedy="set CALLSHEET_JWT_SECRET or CALLSHEET_JWKS_URL, and not both",
            )
        self._audience = settings.jwt_audience
        self._issuer = settings.jwt_issuer
        self._secret = secret
        if secret:
            _check_secret(secret)
        self._published = JwksClient(_checked_url(settings), now_s) if settings.jwks_url else None

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Return what a token says; raises `Unauthenticated` unless it is signed, in time, and meant for us.

        Raises `Unavailable` where the issuer's keys cannot be had.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise Unauthenticated(f"the token has over {MAX_TOKEN_CHARS} characters", remedy=_REMEDY)
        try:
            if self._published is None:
                return self._decoded(token, self._secret, SHARED_SECRET_ALGORITHMS)
            key = await self._published.find(_key_id(token))
            # Off the loop: a signature by a published key takes longer to check than many a request.
            return await asyncio.to_thread(self._decoded, token, key, PUBLIC_KEY_ALGORITHMS)
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(_rule(error), remedy=_REMEDY) from error

    def _decoded(self, token: str, key: PyJWK | str, algorithms: tuple[str, ...]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(algorithms),
            audience=self._audience,
            issuer=self._issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "sub"]},
        )
        return found


class JwksClient:
    """The keys an issuer publishes, fetched when they are needed and not more often than that."""

    def __init__(self, url: str, now_s: Callable[[], float]) -> None:
        self._url = url
        self._now_s = now_s
        self._keys: Mapping[str, PyJWK] = {}
        self._fetched_s = self._tried_s = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, key_id: str) -> PyJWK:
        """Return the key of this id; raises `jwt.InvalidTokenError` where the issuer has none.

        Raises `Unavailable` where the keys are older than `STALE_S` and cannot be fetched.
        """
        if self._due(key_id):
            async with self._lock:
                if self._due(key_id):
                    await self._fetch()
        if self._now_s() - self._fetched_s > STALE_S:
            raise Unavailable(
                "the issuer's keys cannot be fetched, so no token can be checked",
                remedy="try again; if it stays so, the log of the server says why",
            )
        if key_id not in self._keys:
            raise jwt.InvalidTokenError("no such key")
        return self._keys[key_id]

    def _due(self, key_id: str) -> bool:
        now_s = self._now_s()
        wanted = now_s - self._fetched_s > FRESH_S or key_id not in self._keys
        return wanted and now_s - self._tried_s > PAUSE_S

    async def _fetch(self) -> None:
        self._tried_s = self._now_s()
        client = PyJWKClient(self._url, cache_jwk_set=False, timeout=_FETCH_S)
        try:
            found = await asyncio.to_thread(client.get_jwk_set)
        except (jwt.PyJWTError, ValueError, OSError) as error:
            _log.warning("the keys at %r cannot be fetched: %s", self._url, error)
            return
        self._keys = {key.key_id: key for key in found.keys if key.key_id and _signs(key)}
        self._fetched_s = self._now_s()


def _signs(key: PyJWK) -> bool:
    return key.algorithm_name in PUBLIC_KEY_ALGORITHMS and key.public_key_use in {"sig", None}


def _key_id(token: str) -> str:
    """The id of the key a token says it is signed with, if the algorithm may be used at all."""
    header = jwt.get_unverified_header(token)
    if header.get("alg") not in PUBLIC_KEY_ALGORITHMS or not isinstance(header.get("kid"), str):
        raise jwt.InvalidTokenError("no published key signs like this")
    return str(header["kid"])


def _rule(error: jwt.InvalidTokenError) -> str:
    return next((rule for kind, rule in _RULES if isinstance(error, kind)), "the token is not known here")


def _check_secret(secret: str) -> None:
    if len(secret.encode()) < _LEAST_BYTES:
        raise Invalid(
            f"CALLSHEET_JWT_SECRET has fewer than {_LEAST_BYTES} bytes, and could be guessed",
            remedy="make one with: openssl rand -base64 48",
        )


def _checked_url(settings: Settings) -> str:
    url = str(settings.jwks_url)
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise Invalid(f"CALLSHEET_JWKS_URL {url!r} is not https", remedy="use the issuer's https:// address")
    if not (settings.jwt_audience and settings.jwt_issuer):
        raise Invalid(
            "published keys sign tokens for others too, so audience and issuer must be checked",
            remedy="set CALLSHEET_JWT_AUDIENCE and CALLSHEET_JWT_ISSUER",
        )
    if find_spec("cryptography") is None:
        raise Invalid("published keys need the package 'cryptography'", remedy="install callsheet[jwks]")
    return url
