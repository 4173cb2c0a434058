"""Uploads and further artefacts in the file of a thread."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import pytest

from tests.doubles.served import BRIEF, served_app
from tests.pages.test_uploads import JPG
from tests.storage.test_archive import change_lines, export_thread, flush

Line = dict[str, Any]
OFFLINE: Mapping[str, str] = {"provider": "offline"}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as one:
        yield one


async def create_page_with_image(client: httpx.AsyncClient) -> str:
    """Create a page that shows an uploaded image; the path of the image."""
    headline = {"message": "Change the headline to “Bread at four”", **OFFLINE}
    assert (await client.post("/api/pages/bakery/chat", json=headline)).status_code == 200
    query = {"fileType": "image", "fileName": "loaf.jpg"}
    reply = await client.post("/api/pages/bakery/uploads", params=query, content=JPG)
    assert reply.status_code == 201, reply.text
    image_path = str(reply.json()["url"])
    image = {"message": f"add an image http://127.0.0.1{image_path} to the hero", **OFFLINE}
    assert (await client.post("/api/pages/bakery/chat", json=image)).status_code == 200
    return image_path


@pytest.mark.slow
async def test_uploads_are_imported_with_the_page_that_shows_them(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """C23: an imported page shows its images; under another id it shows its own copies of them."""
    image_path = await create_page_with_image(client)
    content = await export_thread(client, "bakery")
    flush(valkey_url)
    for name in ("bakery", "copy"):
        reply = await client.post(f"/api/threads/import?as={name}", content=content)
        assert reply.status_code == 201, reply.text
        (upload,) = (await client.get(f"/api/pages/{name}/uploads")).json()["uploads"]
        assert upload["status"] == "ready"
        assert upload["url"] == image_path.replace("bakery", name)
        assert (await client.get(upload["url"])).content == JPG
        page = (await client.get(f"/api/pages/{name}")).text
        assert upload["url"] in page
    assert image_path not in page
    again = await export_thread(client, "bakery")
    assert [one for one in again.splitlines() if b'"piece"' in one] == [
        one for one in content.splitlines() if b'"piece"' in one
    ]


def _index_of(lines: list[Line], kind: str) -> int:
    return [line["type"] for line in lines].index(kind)


def _data_of(kind: str) -> Callable[[list[Line]], Line]:
    return lambda lines: lines[_index_of(lines, kind)]["data"]


CHANGED_FILES: Mapping[str, tuple[Callable[[list[Line]], Any], str]] = {
    "other bytes": (lambda lines: _data_of("piece")(lines).update(base64="AAAA"), "other bytes"),
    "no base64": (lambda lines: _data_of("piece")(lines).update(base64="!"), "cannot be read"),
    "another type": (lambda lines: _data_of("file")(lines).update(type="image/png"), "not of type"),
    "another name": (lambda lines: _data_of("file")(lines).update(name="loaf.png"), "contains jpg"),
    "a path": (lambda lines: _data_of("file")(lines).update(id="../x"), "id"),
    "bytes of no file": (
        lambda lines: lines.remove(next(x for x in lines if x["type"] == "file")),
        "no file",
    ),
    "an artefact twice": (lambda lines: lines.insert(-1, lines[_index_of(lines, "artefact")]), "twice"),
    "versions of no artefact": (lambda lines: lines.pop(_index_of(lines, "artefact")), "no artefact"),
    "a ticket that is none": (
        lambda lines: next(
            x["data"] for x in lines if x["type"] == "version" and x["data"]["stream"] == "uploads"
        )["data"].update(fileType="program"),
        "fileType",
    ),
}


@pytest.mark.slow
async def test_a_file_with_a_changed_upload_is_refused_before_anything_is_written(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """C23: digest, size and type must be those of the upload."""
    await create_page_with_image(client)
    content = await export_thread(client, "bakery")
    flush(valkey_url)
    for name, (change, word) in CHANGED_FILES.items():
        reply = await client.post("/api/threads/import", content=change_lines(content, change))
        assert reply.status_code in {400, 422}, (name, reply.text)
        assert word in reply.json()["error"], name
    assert (await client.get("/api/pages")).json()["pages"] == []


async def test_a_file_has_all_artefacts_of_its_thread(client: httpx.AsyncClient, valkey_url: str) -> None:
    """A29, X7: a second ad of the thread, too; in a copy its id begins with the copy's id."""
    await client.post("/threads", json={"thread_id": "t"})
    edit = {"messages": [{"role": "user", "content": "make the music calmer"}]}
    for name, values in (("first", {"brief": BRIEF}), ("second", {"brief": BRIEF}), ("first", edit)):
        body = {"assistant_id": "ad_creation", "input": {**values, "ad_id": name}, "context": OFFLINE}
        assert (await client.post("/threads/t/runs/wait", json=body)).status_code == 200
    content = await export_thread(client, "t")
    artefacts = [json.loads(one) for one in content.splitlines() if b'"type":"artefact"' in one]
    assert [one["data"]["id"] for one in artefacts] == ["first", "second"]
    assert (await client.post("/api/threads/import", content=content)).status_code == 409
    reply = await client.post("/api/threads/import?as=copy", content=content)
    assert reply.json()["artefact"] == "ad:copy", reply.text
    for original, copy in (("first", "copy"), ("second", "copy-second")):
        music = (await client.get(f"/api/ads/{original}/music")).json()["versions"]
        assert music
        assert (await client.get(f"/api/ads/{copy}/music")).json()["versions"] == music
    assert b"copy-second" in await export_thread(client, "copy")
