"""The page's documents and assets, and the sentence where it is not built."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from callsheet.server.console.build import PROBLEM
from callsheet.server.console.pages import PATHS, pages_router
from tests.doubles.served import app_client, started_app

PAGES = [path.replace("{thread}", "th-1") for path in PATHS]
ASSET = "console.log('of the page')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a built page, with a file outside of it."""
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html><title>Callsheet</title>")
    (static / "app.js").write_text(ASSET)
    (static / "assets" / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "secret.txt").write_text("outside")
    return static


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    app.router.routes.extend(pages_router(folder).routes)
    async with app_client(app) as client:
        yield client


@pytest.mark.parametrize("path", PAGES)
async def test_every_path_of_the_page_shows_the_same_document(client: httpx.AsyncClient, path: str) -> None:
    reply = await client.get(path)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert "<title>Callsheet</title>" in reply.text


@pytest.mark.parametrize("path", ["/", "/console/app.js"])
async def test_pages_and_assets_allow_nothing_from_elsewhere(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["base-uri"] == policy["frame-ancestors"] == policy["object-src"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


async def test_assets_have_their_type_and_an_unchanged_one_is_not_sent_again(
    client: httpx.AsyncClient,
) -> None:
    reply = await client.get("/console/app.js")
    assert (reply.text, reply.headers["content-type"].split(";")[0]) == (ASSET, "text/javascript")
    assert (await client.get("/console/assets/icon.svg")).headers["content-type"] == "image/svg+xml"
    again = await client.get("/console/app.js", headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["../secret.txt", "%2e%2e/secret.txt", "/etc/passwd", "nothing.js"])
async def test_no_file_outside_of_the_built_page_is_sent(client: httpx.AsyncClient, name: str) -> None:
    reply = await client.get(f"/console/{name}")
    assert reply.status_code == 404
    assert "outside" not in reply.text


async def test_a_page_that_is_not_built_says_why_and_what_to_do(
    client: httpx.AsyncClient, folder: Path
) -> None:
    (folder / "index.html").unlink()
    (folder / PROBLEM).write_text("npm <ci> failed")
    reply = await client.get("/")
    assert reply.status_code == 404
    assert "npm &lt;ci&gt; failed" in reply.text
    assert "make console" in reply.text
    assert "default-src 'self'" in reply.headers["content-security-policy"]


async def test_a_folder_that_does_not_exist_is_a_page_that_nobody_built(tmp_path: Path) -> None:
    app = FastAPI()
    app.router.routes.extend(pages_router(tmp_path / "nothing").routes)
    async with app_client(app) as client:
        assert (await client.get("/")).status_code == 404
        assert (await client.get("/console/app.js")).status_code == 404


async def test_the_page_is_for_everyone_and_the_data_is_not(valkey_url: str) -> None:
    """X16: the page holds nothing; each of its calls is authorized."""
    async with started_app(valkey_url, auth=("keys",)) as app, app_client(app) as client:
        assert {(await client.get(path)).status_code for path in PAGES} <= {200, 404}
        assert (await client.get("/api/ads")).status_code == 401
        assert (await client.get("/info")).status_code == 401
