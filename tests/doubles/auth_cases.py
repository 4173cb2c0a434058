"""Keys for tests of authentication, each remembered as a secret that no log may show."""

import logging
from collections.abc import Iterator

import pytest

from callsheet.server.http import api_keys
from callsheet.storage import Storage

SECRETS: set[str] = set()
"""Every key and token that was made in this process."""


@pytest.fixture(autouse=True)
def no_secret_in_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail any test whose log, at the finest level of every library, shows a key or a token."""
    caplog.set_level(logging.DEBUG)
    yield
    for when in ("setup", "call"):
        log = "".join(f"{record.getMessage()} {record.exc_text or ''}" for record in caplog.get_records(when))
        assert not [secret for secret in SECRETS if secret in log]


async def create_key(
    storage: Storage, owner: str, permission: str = "write", *, lifetime_s: float = 0
) -> str:
    """Create an API key of the owner and return its text."""
    key = await api_keys.create_key(storage, owner, permission, lifetime_s=lifetime_s)
    SECRETS.add(key.text)
    return key.text


def bearer(text: str) -> dict[str, str]:
    """The header that carries a key or a token."""
    if len(text) > len("cs_nonsense"):
        SECRETS.add(text)
    return {"Authorization": f"Bearer {text}"}
