"""Threads of ads and pages for which the client chose none."""

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
    with running_server(valkey_url, None, auth=("keys",)) as found:
        yield found


def client(url: str, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=20)


async def make_both(http: httpx.AsyncClient, name: str) -> list[Any]:
    """Make a page and an ad of one name; return their conversations."""
    said = {"message": "Make the headline teal", "provider": "offline"}
    page = await http.post(f"/api/pages/{name}/chat", json=said)
    brief = {"adId": name, "brief": "Miel, a bakery in Lyon. 20 seconds.", "provider": "offline"}
    ad = await http.post("/api/ai/generate", json=brief)
    assert (page.status_code, ad.status_code) == (200, 200), page.text + ad.text
    assert (await http.get(f"/api/pages/{name}")).json()["versionId"] == "v1"
    assert (await http.get(f"/api/ads/{name}")).json()["adId"] == name
    return [reply.json()["conversationId"] for reply in (page, ad)]


async def test_nobody_can_take_the_thread_of_an_ad_or_a_page_that_somebody_else_will_make(
    url: str, storage: Storage
) -> None:
    alice, bob = [bearer(await create_key(storage, name)) for name in ("alice", "bob")]
    async with client(url, **bob) as http:
        for kind in ("thread", "page", "ad"):
            taken = await http.post("/threads", json={"thread_id": storage_id("alice", kind, "future1")})
            assert taken.status_code == 200, taken.text
        theirs = await make_both(http, "future1")
    async with client(url, **alice) as http:
        made = await make_both(http, "future1")
        assert await make_both(http, "future1") == made, "the second message finds the same threads"
    assert len({*made, *theirs}) == 4


async def test_a_page_and_an_ad_may_have_one_name_without_authentication_too(valkey_url: str) -> None:
    with running_server(valkey_url, None) as url:
        async with client(url) as http:
            page, ad = await make_both(http, "spring")
            assert page == "spring", "the first one's thread is called like it"
            assert await make_both(http, "spring") == [page, ad]


async def test_a_local_page_is_made_though_somebody_has_a_thread_of_its_name(
    url: str, storage: Storage
) -> None:
    async with client(url, **bearer(await create_key(storage, "alice"))) as http:
        await http.post("/threads", json={"thread_id": "spring"})
    async with client(url, **bearer(await create_key(storage, "local"))) as http:
        assert "spring" not in await make_both(http, "spring")


async def test_a_thread_with_the_id_that_names_made_before_is_still_found(url: str, storage: Storage) -> None:
    old = Thread(storage_id("alice", "thread", "old"), "alice", "page_builder", "page:old")
    await threads.bind(storage, old)
    async with client(url, **bearer(await create_key(storage, "alice"))) as http:
        page, ad = await make_both(http, "old")
    assert page == old.id
    assert ad != old.id
