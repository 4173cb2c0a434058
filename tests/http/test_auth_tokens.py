"""JSON Web Tokens: the accepted ones, and every kind that must be refused (X16)."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import jwt
import pytest

from callsheet.server.http.tokens import MAX_AGE_S, MAX_TOKEN_CHARS, MIN_RETRY_S, REFRESH_S, Tokens
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid, Unauthenticated, Unavailable
from tests.doubles.signing import (
    AUDIENCE,
    ISSUER,
    SECRET,
    Issuer,
    claims,
    running_issuer,
    shared_secret_token,
)


def create_tokens(**settings: Any) -> Tokens:
    """Return a verifier with these settings."""
    return Tokens(Settings(auth=("jwt",), **{"jwt_audience": AUDIENCE, "jwt_issuer": ISSUER, **settings}))


class ManualClock:
    """A clock whose time a test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def signer() -> Iterator[Issuer]:
    with running_issuer() as issuer:
        issuer.add_key("ec")
        issuer.add_key("rsa", "RS256")
        yield issuer


@pytest.fixture
def issuer(signer: Issuer) -> Iterator[Issuer]:
    """The module's issuer, with its first keys."""
    keys = dict(signer.keys)
    signer.request_count, signer.down = 0, False
    yield signer
    signer.keys = keys


def unsigned_token(header: dict[str, Any], payload: dict[str, Any]) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in (header, payload)
    )
    return ".".join((*parts, ""))


async def test_a_token_signed_with_the_secret_gives_its_claims() -> None:
    verified = await create_tokens(jwt_secret=SECRET).claims(shared_secret_token())
    assert (verified["sub"], verified["scope"]) == ("alice", "read write")


NOW = int(time.time())
INVALID_TOKENS: list[tuple[Callable[[], str], str]] = [
    (lambda: shared_secret_token(exp=NOW - 60), "expired"),
    (lambda: shared_secret_token(exp=None), "lacks"),
    (lambda: shared_secret_token(sub=None), "lacks"),
    (lambda: shared_secret_token(sub=7), "(unknown|invalid)"),
    (lambda: shared_secret_token(nbf=NOW + 86_400), "not valid yet"),
    (lambda: shared_secret_token(iat=NOW + 86_400), "not valid yet"),
    (lambda: shared_secret_token(aud="another"), "another audience"),
    (lambda: shared_secret_token(aud=None), "lacks"),
    (lambda: shared_secret_token(iss="https://evil.example"), "another issuer"),
    (lambda: shared_secret_token(iss=None), "lacks"),
    (lambda: shared_secret_token(SECRET[::-1]), "(unknown|invalid)"),
    (lambda: shared_secret_token(algorithm="HS384"), "(unknown|invalid)"),
    (lambda: unsigned_token({"alg": "none", "typ": "JWT"}, claims()), "(unknown|invalid)"),
    (lambda: unsigned_token({"alg": "HS256", "typ": "JWT"}, claims()), "(unknown|invalid)"),
    (lambda: shared_secret_token()[:-4] + "AAAA", "(unknown|invalid)"),
    (lambda: "", "(unknown|invalid)"),
    (lambda: "a.b.c", "(unknown|invalid)"),
    (lambda: "ä.ö.ü", "(unknown|invalid)"),
    (lambda: shared_secret_token() + " ", "(unknown|invalid)"),
    (lambda: "x" * (MAX_TOKEN_CHARS + 1), "characters"),
]


@pytest.mark.parametrize(("token", "rule"), INVALID_TOKENS, ids=[str(i) for i in range(len(INVALID_TOKENS))])
async def test_an_invalid_token_is_refused_without_being_quoted(token: Callable[[], str], rule: str) -> None:
    text = token()
    with pytest.raises(Unauthenticated, match=rule) as caught:
        await create_tokens(jwt_secret=SECRET).claims(text)
    assert not text or text not in f"{caught.value.message} {caught.value.remedy}"


async def test_a_token_with_an_audience_is_refused_where_none_is_configured() -> None:
    """RFC 7519, 4.1.3."""
    tokens = create_tokens(jwt_secret=SECRET, jwt_audience=None, jwt_issuer=None)
    assert (await tokens.claims(shared_secret_token(aud=None, iss=None)))["sub"] == "alice"
    with pytest.raises(Unauthenticated, match="another audience"):
        await tokens.claims(shared_secret_token())


@pytest.mark.parametrize("key", ["ec", "rsa"])
async def test_a_token_signed_with_a_published_key_gives_its_subject(issuer: Issuer, key: str) -> None:
    tokens = create_tokens(jwks_url=issuer.url)
    assert (await tokens.claims(issuer.token(key)))["sub"] == "alice"
    assert (await tokens.claims(issuer.token(key, sub="bob")))["sub"] == "bob"
    assert issuer.request_count == 1, "the keys are cached"


async def test_a_published_key_is_never_used_as_an_hmac_secret(issuer: Issuer) -> None:
    """Everybody knows the public key, so a token signed with its text as an HMAC secret is forged."""
    header = {"alg": "HS256", "typ": "JWT", "kid": "rsa"}
    text = unsigned_token(header, claims()).rstrip(".")
    mac = hmac.new(issuer.pem("rsa"), text.encode(), hashlib.sha256).digest()
    forged = f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    with pytest.raises(Unauthenticated, match="invalid"):
        await create_tokens(jwks_url=issuer.url).claims(forged)
    assert issuer.request_count == 0


async def test_a_token_whose_key_id_names_a_key_of_another_algorithm_is_refused(issuer: Issuer) -> None:
    token = jwt.encode(claims(), issuer.keys["ec"], algorithm="ES256", headers={"kid": "rsa"})
    with pytest.raises(Unauthenticated, match="invalid"):
        await create_tokens(jwks_url=issuer.url).claims(token)


@pytest.mark.parametrize(
    "header", [{"typ": "JWT"}, {"jku": "https://evil.example/keys", "kid": "unknown"}, {"kid": "unknown"}]
)
async def test_a_token_without_a_known_key_id_is_refused(issuer: Issuer, header: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated, match="invalid"):
        await create_tokens(jwks_url=issuer.url).claims(issuer.token("ec", header))


async def test_a_new_key_is_fetched_but_unknown_key_ids_do_not_cause_a_fetch_each(issuer: Issuer) -> None:
    clock = ManualClock()
    settings = Settings(auth=("jwt",), jwks_url=issuer.url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    tokens = Tokens(settings, clock)
    await tokens.claims(issuer.token("ec"))
    issuer.add_key("new")
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            await tokens.claims(issuer.token("new"))
    assert issuer.request_count == 1
    clock.now_s += MIN_RETRY_S + 1
    assert (await tokens.claims(issuer.token("new")))["sub"] == "alice"
    assert issuer.request_count == 2


async def test_a_withdrawn_key_is_refused_after_the_refresh(issuer: Issuer) -> None:
    clock = ManualClock()
    settings = Settings(auth=("jwt",), jwks_url=issuer.url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    tokens = Tokens(settings, clock)
    token = issuer.token("rsa")
    await tokens.claims(token)
    del issuer.keys["rsa"]
    clock.now_s += REFRESH_S + 1
    with pytest.raises(Unauthenticated):
        await tokens.claims(token)


async def test_cached_keys_are_used_during_an_outage_of_the_issuer_up_to_a_maximum_age(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    settings = Settings(auth=("jwt",), jwks_url=issuer.url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    tokens = Tokens(settings, clock)
    await tokens.claims(issuer.token("ec"))
    issuer.down = True
    clock.now_s += REFRESH_S + 1
    assert (await tokens.claims(issuer.token("ec")))["sub"] == "alice"
    assert "cannot fetch" in caplog.text
    clock.now_s += MAX_AGE_S
    with pytest.raises(Unavailable, match="cannot be fetched"):
        await tokens.claims(issuer.token("ec"))
    issuer.down = False
    clock.now_s += MIN_RETRY_S + 1
    assert (await tokens.claims(issuer.token("ec")))["sub"] == "alice"


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, "CALLSHEET_JWT_SECRET or CALLSHEET_JWKS_URL"),
        ({"jwt_secret": SECRET, "jwks_url": "https://a.example"}, "not both"),
        ({"jwt_secret": "short"}, "openssl rand"),
        ({"jwks_url": "http://issuer.example/keys"}, "https"),
        ({"jwks_url": "file:///etc/passwd"}, "https"),
        ({"jwks_url": "https://a.example", "jwt_audience": None}, "CALLSHEET_JWT_AUDIENCE"),
        ({"jwks_url": "https://a.example", "jwt_issuer": None}, "CALLSHEET_JWT_ISSUER"),
    ],
)
def test_insecure_jwt_settings_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(Invalid) as caught:
        create_tokens(**settings)
    assert rule in caught.value.remedy
    assert "short" not in caught.value.message
