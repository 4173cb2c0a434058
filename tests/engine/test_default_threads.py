"""Threads that an ad or a page gets when it is created by its name."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from callsheet.state.owners import storage_id
from callsheet.storage import Storage
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from tests.doubles.auth_cases import bearer, create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.wire_server import running_server


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, None, auth=("keys",)) as server_url:
        yield server_url


def client(url: str, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=20)


async def create_page_and_ad(http: httpx.AsyncClient, name: str) -> list[Any]:
    """Create a page and an ad with the same name; return the ids of their conversations."""
    message = {"message": "Make the headline teal", "provider": "offline"}
    page = await http.post(f"/api/pages/{name}/chat", json=message)
    brief = {"adId": name, "brief": "Miel, a bakery in Lyon. 20 seconds.", "provider": "offline"}
    ad = await http.post("/api/ai/generate", json=brief)
    assert (page.status_code, ad.status_code) == (200, 200), page.text + ad.text
    assert (await http.get(f"/api/pages/{name}")).json()["versionId"] == "v1"
    assert (await http.get(f"/api/ads/{name}")).json()["adId"] == name
    return [reply.json()["conversationId"] for reply in (page, ad)]


async def test_another_owner_cannot_occupy_the_thread_of_a_future_ad_or_page(
    url: str, storage: Storage
) -> None:
    alice, bob = [bearer(await create_key(storage, name)) for name in ("alice", "bob")]
    async with client(url, **bob) as http:
        for kind in ("thread", "page", "ad"):
            reply = await http.post("/threads", json={"thread_id": storage_id("alice", kind, "future1")})
            assert reply.status_code == 200, reply.text
        bobs_threads = await create_page_and_ad(http, "future1")
    async with client(url, **alice) as http:
        alices_threads = await create_page_and_ad(http, "future1")
        assert await create_page_and_ad(http, "future1") == alices_threads, (
            "a second message uses the same threads"
        )
    assert len({*alices_threads, *bobs_threads}) == 4


async def test_a_page_and_an_ad_may_have_the_same_name_without_authentication(valkey_url: str) -> None:
    with running_server(valkey_url, None) as url:
        async with client(url) as http:
            page, ad = await create_page_and_ad(http, "spring")
            assert page == "spring", "the first thread has the name as its id"
            assert await create_page_and_ad(http, "spring") == [page, ad]


async def test_a_page_gets_another_thread_id_if_an_owners_thread_has_its_name_as_id(
    url: str, storage: Storage
) -> None:
    async with client(url, **bearer(await create_key(storage, "alice"))) as http:
        await http.post("/threads", json={"thread_id": "spring"})
    async with client(url, **bearer(await create_key(storage, "local"))) as http:
        assert "spring" not in await create_page_and_ad(http, "spring")


async def test_a_page_keeps_a_thread_whose_id_has_the_earlier_form(url: str, storage: Storage) -> None:
    old = Thread(storage_id("alice", "thread", "old"), "alice", "page_builder", "page:old")
    await threads.bind(storage, old)
    async with client(url, **bearer(await create_key(storage, "alice"))) as http:
        page, ad = await create_page_and_ad(http, "old")
    assert page == old.id
    assert ad != old.id
