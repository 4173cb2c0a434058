"""LangGraph's own client on a server that asks (X16)."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
)

from storage import Storage
from tests.auth_cases import bearer, key, nothing_told  # noqa: F401 -- used by every test
from tests.signing import SECRET, shared
from tests.wire_server import serving

MOST = 20
CHOSEN: dict[str, Any] = {
    "auth": ("keys", "jwt"),
    "jwt_secret": SECRET,
    "jwt_audience": "callsheet",
    "requests_per_minute": MOST,
}
Clients = Callable[..., LangGraphClient]


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with serving(valkey_url, **CHOSEN) as found:
        yield found


@pytest.fixture
async def client(url: str) -> AsyncIterator[Clients]:
    """Makes clients, which are closed in the end."""
    async with AsyncExitStack() as stack:

        def made(**options: Any) -> LangGraphClient:
            found = get_client(url=url, **options)
            stack.push_async_callback(found.aclose)
            return found

        yield made


async def test_the_client_gets_in_with_a_key_or_a_token_and_sees_its_own(
    client: Clients, storage: Storage
) -> None:
    alices = client(api_key=await key(storage, "alice"))
    made = await alices.threads.create(metadata={"of": "alice"})
    again = client(api_key=None, headers=bearer(shared(sub="alice")))
    assert [one["thread_id"] for one in await again.threads.search()] == [made["thread_id"]]
    await alices.store.put_item(["notes"], "a", {"text": "hers"})
    bobs = client(api_key=await key(storage, "bob"))
    assert await bobs.threads.search() == []
    assert (await bobs.store.search_items(["notes"]))["items"] == []
    with pytest.raises(NotFoundError):
        await bobs.threads.get(made["thread_id"])


async def test_the_client_understands_every_refusal(client: Clients, storage: Storage) -> None:
    for wrong in (client(api_key="lsv2_pt_x"), client(headers=bearer(shared(exp=1)))):
        with pytest.raises(AuthenticationError):
            await wrong.threads.search()
    reading = client(api_key=await key(storage, "alice", "read"))
    with pytest.raises(PermissionDeniedError, match="'write'"):
        await reading.threads.create()
    for _ in range(MOST):
        await reading.threads.search()
    with pytest.raises(RateLimitError, match=f"more than {MOST} requests"):
        await reading.threads.search()
