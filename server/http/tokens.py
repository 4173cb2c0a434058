"""JSON Web Tokens, signed with a shared secret or with keys that the issuer publishes.

The setting decides the algorithms, never the token. So a published key is not taken for a secret, and an
unsigned token is refused.
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
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid, Unauthenticated, Unavailable

SHARED_SECRET_ALGORITHMS: Final = ("HS256",)
"""Algorithms with a shared secret."""
PUBLIC_KEY_ALGORITHMS: Final = ("RS256", "ES256")
"""Algorithms with published keys."""
LEEWAY_S: Final = 10
"""Tolerated difference to the issuer's clock."""
MAX_TOKEN_CHARS: Final = 8_192
REFRESH_S: Final = 300.0
"""Seconds until published keys are fetched again."""
MAX_AGE_S: Final = 3_600.0
"""Seconds that they are used while they cannot be fetched."""
MIN_RETRY_S: Final = 10.0
"""Seconds between two fetches, so that invented key ids cannot cause many calls to the issuer."""
_FETCH_S: Final = 5
_MIN_SECRET_BYTES: Final = 32
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
    """Validates tokens by the settings; raises `Invalid` for unsafe settings."""

    def __init__(self, settings: Settings, now_s: Callable[[], float] = time.monotonic) -> None:
        secret = settings.jwt_secret.get_secret_value() if settings.jwt_secret else ""
        if bool(secret) == bool(settings.jwks_url):
            raise Invalid(
                "tokens need a secret or published keys for their signatures",
                remedy="set CALLSHEET_JWT_SECRET or CALLSHEET_JWKS_URL, and not both",
            )
        self._audience = settings.jwt_audience
        self._issuer = settings.jwt_issuer
        self._secret = secret
        if secret:
            _check_secret(secret)
        self._published = JwksClient(_check_url(settings), now_s) if settings.jwks_url else None

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims; raises `Unauthenticated` unless signature, time and audience are valid.

        Raises `Unavailable` if the issuer's keys cannot be fetched.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise Unauthenticated(f"the token has over {MAX_TOKEN_CHARS} characters", remedy=_REMEDY)
        try:
            if self._published is None:
                return self._decode(token, self._secret, SHARED_SECRET_ALGORITHMS)
            key = await self._published.find(_key_id(token))
            # In a thread: checking a public-key signature takes longer than many a request.
            return await asyncio.to_thread(self._decode, token, key, PUBLIC_KEY_ALGORITHMS)
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(_rule(error), remedy=_REMEDY) from error

    def _decode(self, token: str, key: PyJWK | str, algorithms: tuple[str, ...]) -> Mapping[str, Any]:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(algorithms),
            audience=self._audience,
            issuer=self._issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "sub"]},
        )
        return claims


class JwksClient:
    """Published keys of the issuer, fetched when needed."""

    def __init__(self, url: str, now_s: Callable[[], float]) -> None:
        self._url = url
        self._now_s = now_s
        self._keys: Mapping[str, PyJWK] = {}
        self._fetched_s = self._tried_s = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, key_id: str) -> PyJWK:
        """Return the key of this id; raises `jwt.InvalidTokenError` if the issuer has none.

        Raises `Unavailable` if the keys are older than `MAX_AGE_S` and cannot be fetched.
        """
        if self._needs_fetch(key_id):
            async with self._lock:
                if self._needs_fetch(key_id):
                    await self._fetch()
        if self._now_s() - self._fetched_s > MAX_AGE_S:
            raise Unavailable(
                "the issuer's keys cannot be fetched, so no token can be checked",
                remedy="try again; the server's log says why",
            )
        if key_id not in self._keys:
            raise jwt.InvalidTokenError("no such key")
        return self._keys[key_id]

    def _needs_fetch(self, key_id: str) -> bool:
        now_s = self._now_s()
        outdated = now_s - self._fetched_s > REFRESH_S or key_id not in self._keys
        return outdated and now_s - self._tried_s > MIN_RETRY_S

    async def _fetch(self) -> None:
        self._tried_s = self._now_s()
        client = PyJWKClient(self._url, cache_jwk_set=False, timeout=_FETCH_S)
        try:
            published = await asyncio.to_thread(client.get_jwk_set)
        except (jwt.PyJWTError, ValueError, OSError) as error:
            _log.warning("cannot fetch the keys at %r: %s", self._url, error)
            return
        self._keys = {key.key_id: key for key in published.keys if key.key_id and _is_signing_key(key)}
        self._fetched_s = self._now_s()


def _is_signing_key(key: PyJWK) -> bool:
    return key.algorithm_name in PUBLIC_KEY_ALGORITHMS and key.public_key_use in {"sig", None}


def _key_id(token: str) -> str:
    """Return the id of a token's key; raises for an algorithm that is not allowed."""
    header = jwt.get_unverified_header(token)
    if header.get("alg") not in PUBLIC_KEY_ALGORITHMS or not isinstance(header.get("kid"), str):
        raise jwt.InvalidTokenError("no published key signs like this")
    return str(header["kid"])


def _rule(error: jwt.InvalidTokenError) -> str:
    return next((rule for kind, rule in _RULES if isinstance(error, kind)), "the token is invalid")


def _check_secret(secret: str) -> None:
    if len(secret.encode()) < _MIN_SECRET_BYTES:
        raise Invalid(
            f"CALLSHEET_JWT_SECRET has fewer than {_MIN_SECRET_BYTES} bytes",
            remedy="make one with: openssl rand -base64 48",
        )


def _check_url(settings: Settings) -> str:
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
