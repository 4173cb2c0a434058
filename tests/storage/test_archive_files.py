"""What a thread's file has beside one artefact: what people sent, and what else was made on the thread."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import pytest

from tests.doubles.served import BRIEF, served_app
from tests.pages.test_uploads import JPG
from tests.storage.test_archive import changed, emptied, file_of

Line = dict[str, Any]
OFFLINE: Mapping[str, str] = {"provider": "offline"}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as one:
        yield one


async def page_with_a_picture(client: httpx.AsyncClient) -> str:
    """The address of the picture of a page that shows it."""
    said = {"message": "Change the headline to “Bread at four”", **OFFLINE}
    assert (await client.post("/api/pages/bakery/chat", json=said)).status_code == 200
    query = {"fileType": "image", "fileName": "loaf.jpg"}
    reply = await client.post("/api/pages/bakery/uploads", params=query, content=JPG)
    assert reply.status_code == 201, reply.text
    address = str(reply.json()["url"])
    shown = {"message": f"add an image http://127.0.0.1{address} to the hero", **OFFLINE}
    assert (await client.post("/api/pages/bakery/chat", json=shown)).status_code == 200
    return address


@pytest.mark.slow
async def test_what_people_sent_goes_along_and_is_the_importers(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """C23: a page that comes back shows its pictures, under another name its own copies of them."""
    address = await page_with_a_picture(client)
    content = await file_of(client, "bakery")
    emptied(valkey_url)
    for name in ("bakery", "copy"):
        reply = await client.post(f"/api/threads/import?as={name}", content=content)
        assert reply.status_code == 201, reply.text
        (sent,) = (await client.get(f"/api/pages/{name}/uploads")).json()["uploads"]
        assert sent["status"] == "ready"
        assert sent["url"] == address.replace("bakery", name)
        assert (await client.get(sent["url"])).content == JPG
        page = (await client.get(f"/api/pages/{name}")).text
        assert sent["url"] in page
    assert address not in page
    again = await file_of(client, "bakery")
    assert [one for one in again.splitlines() if b'"piece"' in one] == [
        one for one in content.splitlines() if b'"piece"' in one
    ]


def _at(lines: list[Line], kind: str) -> int:
    return [line["type"] for line in lines].index(kind)


def _of(kind: str) -> Callable[[list[Line]], Line]:
    return lambda lines: lines[_at(lines, kind)]["data"]


BAD: Mapping[str, tuple[Callable[[list[Line]], Any], str]] = {
    "other bytes": (lambda lines: _of("piece")(lines).update(base64="AAAA"), "other bytes"),
    "no base64": (lambda lines: _of("piece")(lines).update(base64="!"), "cannot be read"),
    "another type": (lambda lines: _of("file")(lines).update(type="image/png"), "not of type"),
    "another name": (lambda lines: _of("file")(lines).update(name="loaf.png"), "contains jpg"),
    "a path": (lambda lines: _of("file")(lines).update(id="../x"), "id"),
    "bytes of no file": (
        lambda lines: lines.remove(next(x for x in lines if x["type"] == "file")),
        "no file",
    ),
    "an artefact twice": (lambda lines: lines.insert(-1, lines[_at(lines, "artefact")]), "twice"),
    "versions of no artefact": (lambda lines: lines.pop(_at(lines, "artefact")), "no artefact"),
    "a ticket that is none": (
        lambda lines: next(
            x["data"] for x in lines if x["type"] == "version" and x["data"]["stream"] == "uploads"
        )["data"].update(fileType="program"),
        "fileType",
    ),
}


@pytest.mark.slow
async def test_a_file_that_nobody_sent_so_is_refused_before_anything_is_written(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """C23: digest, size and type are those that were noted when it came."""
    await page_with_a_picture(client)
    content = await file_of(client, "bakery")
    emptied(valkey_url)
    for name, (change, word) in BAD.items():
        reply = await client.post("/api/threads/import", content=changed(content, change))
        assert reply.status_code in {400, 422}, (name, reply.text)
        assert word in reply.json()["error"], name
    assert (await client.get("/api/pages")).json()["pages"] == []


async def test_everything_that_was_made_on_a_thread_is_in_its_file(
    client: httpx.AsyncClient, valkey_url: str
) -> None:
    """A29, X7: a second ad of one thread, too; as a copy it has the copy's name before its own."""
    await client.post("/threads", json={"thread_id": "t"})
    wish = {"messages": [{"role": "user", "content": "make the music calmer"}]}
    for name, said in (("first", {"brief": BRIEF}), ("second", {"brief": BRIEF}), ("first", wish)):
        body = {"assistant_id": "ad_creation", "input": {**said, "ad_id": name}, "context": OFFLINE}
        assert (await client.post("/threads/t/runs/wait", json=body)).status_code == 200
    content = await file_of(client, "t")
    made = [json.loads(one) for one in content.splitlines() if b'"type":"artefact"' in one]
    assert [one["data"]["id"] for one in made] == ["first", "second"]
    assert (await client.post("/api/threads/import", content=content)).status_code == 409
    reply = await client.post("/api/threads/import?as=copy", content=content)
    assert reply.json()["artefact"] == "ad:copy", reply.text
    for theirs, ours in (("first", "copy"), ("second", "copy-second")):
        music = (await client.get(f"/api/ads/{theirs}/music")).json()["versions"]
        assert music
        assert (await client.get(f"/api/ads/{ours}/music")).json()["versions"] == music
    assert b"copy-second" in await file_of(client, "copy")
