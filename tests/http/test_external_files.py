"""Previews and exports load the server's own files; what lies elsewhere only if the owner wants it."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from callsheet.storage import Storage
from tests.doubles.served import served_app
from tests.pages.page_double import PageDouble
from tests.pages.page_scanner import page_faults
from tests.pages.test_uploads import png

AWAY = "https://evil.example/a.png?secret=budget"
FILM = "http://films.example:8080/f.mp4"


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server; every reply must have a documented status."""
    async with served_app(valkey_url) as http:
        yield http


async def create_page(client: httpx.AsyncClient, storage: Storage) -> str:
    """Make a page with an image and a film from elsewhere, and an uploaded image; return its address."""
    page = PageDouble(storage)
    await page.result_of("create_element", parentId="page", elementType="image", properties=_image(AWAY))
    film = {"attributes": {"src": FILM, "poster": AWAY}}
    await page.result_of("create_element", parentId="page", elementType="video", properties=film)
    upload = (await client.post("/api/pages/bakery/uploads?fileName=a.png", content=png())).json()
    own = _image(upload["url"])
    await page.result_of("create_element", parentId="page", elementType="image", properties=own)
    return str(upload["url"])


def _image(address: str) -> dict[str, object]:
    return {"attributes": {"src": address, "alt": "A leaf"}}


async def test_an_export_loads_nothing_from_elsewhere_and_names_the_addresses(
    client: httpx.AsyncClient, storage: Storage
):
    await create_page(client, storage)
    reply = await client.get("/api/pages/bakery/export")
    linked = await client.get("/api/pages/bakery/export?images=linked")
    assert not page_faults(linked.text)
    sources = re.findall(r'(?:src|poster)="([^"]*)"', reply.text)
    assert [source.partition(";")[0] for source in sources] == ["data:image/png"]
    for address in (AWAY, FILM):
        assert f"Not loaded: {address}" in reply.text
    policy = reply.headers["content-security-policy"]
    assert "img-src 'self' data:;" in policy
    assert "media-src 'self';" in policy


async def test_the_owner_may_link_what_lies_elsewhere_and_the_policy_names_those_servers_alone(
    client: httpx.AsyncClient, storage: Storage
):
    own = await create_page(client, storage)
    reply = await client.get("/api/pages/bakery/export?external=linked&images=linked")
    assert not page_faults(reply.text)
    sources = re.findall(r'(?:src|poster)="([^"]*)"', reply.text)
    assert sorted(sources) == sorted([AWAY, FILM, AWAY, own])
    policy = reply.headers["content-security-policy"]
    assert "img-src 'self' data: http://films.example:8080 https://evil.example;" in policy
    assert "https:;" not in policy


async def test_a_preview_of_a_video_loads_no_image_and_names_its_address(client: httpx.AsyncClient):
    elements = [{"id": "i", "kind": "image", "src": AWAY}, {"id": "d", "kind": "device", "src": AWAY}]
    project = {"id": "film", "scenes": [{"name": "One", "elements": elements}]}
    assert (await client.post("/api/projects", json=project)).status_code == 201
    for path in ("/api/projects/film/preview", "/api/projects/film/scenes/scene-1/preview"):
        reply = await client.get(path)
        assert "<img" not in reply.text
        assert reply.text.count(f"Not loaded: {AWAY}") == len(elements)
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "https:" not in policy
        assert "img-src" not in policy
