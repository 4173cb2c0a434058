"""JSON Web Tokens: what lets a caller in, and everything that must not (X16)."""

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
from callsheet.server.settings import Settings
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


def checking(**more: Any) -> Tokens:
    return Tokens(Settings(auth=("jwt",), **{"jwt_audience": AUDIENCE, "jwt_issuer": ISSUER, **more}))


class Clock:
    """A clock that stands until it is moved."""

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
    """The module's issuer, as it was at first."""
    keys = dict(signer.keys)
    signer.request_count, signer.down = 0, False
    yield signer
    signer.keys = keys


def unsigned(header: dict[str, Any], said: dict[str, Any]) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, said)
    )
    return ".".join((*parts, ""))


async def test_a_token_signed_by_the_secret_says_who_is_asking() -> None:
    found = await checking(jwt_secret=SECRET).claims(shared_secret_token())
    assert (found["sub"], found["scope"]) == ("alice", "read write")


NOW = int(time.time())
WRONG: list[tuple[Callable[[], str], str]] = [
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
    (lambda: unsigned({"alg": "none", "typ": "JWT"}, claims()), "(unknown|invalid)"),
    (lambda: unsigned({"alg": "HS256", "typ": "JWT"}, claims()), "(unknown|invalid)"),
    (lambda: shared_secret_token()[:-4] + "AAAA", "(unknown|invalid)"),
    (lambda: "", "(unknown|invalid)"),
    (lambda: "a.b.c", "(unknown|invalid)"),
    (lambda: "ä.ö.ü", "(unknown|invalid)"),
    (lambda: shared_secret_token() + " ", "(unknown|invalid)"),
    (lambda: "x" * (MAX_TOKEN_CHARS + 1), "characters"),
]


@pytest.mark.parametrize(("token", "rule"), WRONG, ids=[str(i) for i in range(len(WRONG))])
async def test_any_other_token_lets_nobody_in(token: Callable[[], str], rule: str) -> None:
    text = token()
    with pytest.raises(Unauthenticated, match=rule) as refused:
        await checking(jwt_secret=SECRET).claims(text)
    assert not text or text not in f"{refused.value.message} {refused.value.remedy}"


async def test_a_token_for_others_is_refused_even_where_no_audience_is_set() -> None:
    """RFC 7519, 4.1.3."""
    tokens = checking(jwt_secret=SECRET, jwt_audience=None, jwt_issuer=None)
    assert (await tokens.claims(shared_secret_token(aud=None, iss=None)))["sub"] == "alice"
    with pytest.raises(Unauthenticated, match="another audience"):
        await tokens.claims(shared_secret_token())


@pytest.mark.parametrize("key", ["ec", "rsa"])
async def test_a_token_signed_by_a_published_key_says_who_is_asking(issuer: Issuer, key: str) -> None:
    tokens = checking(jwks_url=issuer.url)
    assert (await tokens.claims(issuer.token(key)))["sub"] == "alice"
    assert (await tokens.claims(issuer.token(key, sub="bob")))["sub"] == "bob"
    assert issuer.request_count == 1, "the keys are kept"


async def test_a_published_key_is_never_taken_for_a_secret(issuer: Issuer) -> None:
    """The public key is known to all, so a token signed with its text as a secret must not count."""
    head = {"alg": "HS256", "typ": "JWT", "kid": "rsa"}
    text = unsigned(head, claims()).rstrip(".")
    mac = hmac.new(issuer.pem("rsa"), text.encode(), hashlib.sha256).digest()
    forged = f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    with pytest.raises(Unauthenticated, match="invalid"):
        await checking(jwks_url=issuer.url).claims(forged)
    assert issuer.request_count == 0


async def test_a_key_cannot_be_used_with_the_algorithm_of_another(issuer: Issuer) -> None:
    token = jwt.encode(claims(), issuer.keys["ec"], algorithm="ES256", headers={"kid": "rsa"})
    with pytest.raises(Unauthenticated, match="invalid"):
        await checking(jwks_url=issuer.url).claims(token)


@pytest.mark.parametrize(
    "header", [{"typ": "JWT"}, {"jku": "https://evil.example/keys", "kid": "unknown"}, {"kid": "unknown"}]
)
async def test_a_token_without_a_known_key_lets_nobody_in(issuer: Issuer, header: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated, match="invalid"):
        await checking(jwks_url=issuer.url).claims(issuer.token("ec", header))


async def test_a_new_key_is_found_and_made_up_ones_are_not_asked_for_all_day(issuer: Issuer) -> None:
    clock = Clock()
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


async def test_a_key_that_was_taken_back_is_forgotten(issuer: Issuer) -> None:
    clock = Clock()
    settings = Settings(auth=("jwt",), jwks_url=issuer.url, jwt_audience=AUDIENCE, jwt_issuer=ISSUER)
    tokens = Tokens(settings, clock)
    token = issuer.token("rsa")
    await tokens.claims(token)
    del issuer.keys["rsa"]
    clock.now_s += REFRESH_S + 1
    with pytest.raises(Unauthenticated):
        await tokens.claims(token)


async def test_keys_outlive_an_issuer_that_is_away_but_not_for_ever(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
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
def test_settings_that_would_let_in_too_much_are_refused(settings: dict[str, Any], rule: str) -> None:
    with pytest.raises(Invalid) as refused:
        checking(**settings)
    assert rule in refused.value.remedy
    assert "short" not in refused.value.message
