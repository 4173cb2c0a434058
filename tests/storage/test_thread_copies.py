"""A copied thread has artefacts of its own with all versions, and the original is unchanged."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.doubles.served import chat_about_ad, generate_ad, served_app


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as client:
        yield client


async def versions(http: httpx.AsyncClient, ad: str, stream: str) -> list[str]:
    return [one["id"] for one in (await http.get(f"/api/ads/{ad}/{stream}")).json()["versions"]]


async def test_the_copy_of_an_ad_continues_with_versions_of_its_own(http: httpx.AsyncClient) -> None:
    first = await generate_ad(http)
    await chat_about_ad(http, "Make the music more upbeat")
    reply = await http.post(f"/threads/{first['conversationId']}/copy")
    assert reply.status_code == 200, reply.text
    copied: dict[str, Any] = reply.json()
    ad = copied["thread_id"]
    assert copied["metadata"]["graph_id"] == "ad_creation"
    assert await versions(http, ad, "music") == ["v1", "v2"]
    for stream in ("voices", "sfx"):
        copy, original = [(await http.get(f"/api/ads/{one}/{stream}/v1")).json() for one in (ad, "ad-1")]
        assert copy["data"] == original["data"]
    body = {"message": "Make the music calmer", "provider": "offline"}
    changed = await http.post(f"/api/ads/{ad}/chat", json=body)
    assert changed.json()["drafts"] == {"music": "v3"}
    assert await versions(http, ad, "music") == ["v1", "v2", "v3"]
    assert await versions(http, "ad-1", "music") == ["v1", "v2"], "the original stays"
    assert (await chat_about_ad(http, "Make the music more upbeat"))["drafts"] == {"music": "v3"}


async def test_the_copy_of_a_page_has_its_elements_and_undo(http: httpx.AsyncClient) -> None:
    body = {"message": 'Change the headline to "Bread at four"', "provider": "offline"}
    first = (await http.post("/api/pages/bakery/chat", json=body)).json()
    copied = (await http.post(f"/threads/{first['conversationId']}/copy")).json()["thread_id"]
    page = (await http.get(f"/api/pages/{copied}")).json()
    assert "Bread at four" in str(page)
    reply = await http.post(f"/api/pages/{copied}/chat", json={"message": "undo that", "provider": "offline"})
    assert reply.json()["drafts"] == {"page": "v2"}
    assert "Bread at four" in str((await http.get("/api/pages/bakery")).json())


async def test_a_thread_without_artefacts_is_copied_with_its_metadata(http: httpx.AsyncClient) -> None:
    thread = (await http.post("/threads", json={"metadata": {"a": 1}})).json()["thread_id"]
    copied = (await http.post(f"/threads/{thread}/copy")).json()
    assert copied["thread_id"] != thread
    assert copied["metadata"] == {"a": 1}
