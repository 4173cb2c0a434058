"""Uploads as browsers send them, in forms (multipart/form-data), beside bodies that are the file itself."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.state.uploads import MAX_FILE
from tests.doubles.served import generate_ad, served_app
from tests.lessons.lesson_material import material
from tests.pages.test_uploads import png

OFFLINE = {"provider": "offline"}
PICTURE = png(b"--boundary\r\n--" * 100)
SOURCE = "/api/agent-create/session/source/files"
ASSETS = "/api/agent-create/session/assets/files"


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that has a page; every reply must have a documented status."""
    async with served_app(valkey_url) as http:
        await http.post("/api/pages/p/chat", json={"message": "make the headline teal", **OFFLINE})
        yield http


async def create_lesson(client: httpx.AsyncClient, **form: Any) -> httpx.Response:
    """Send material in a form and name the lesson in all further requests."""
    reply = await client.post(SOURCE, **form)
    client.headers["X-Session-Id"] = reply.headers["X-Session-Id"]
    return reply


async def test_a_form_with_a_picture_is_an_upload_to_a_page(client: httpx.AsyncClient):
    """Fields beside the file are left out, and a folder in its name, too."""
    form: dict[str, Any] = {
        "files": {"file": ("C:\\fakepath\\logo.png", PICTURE, "image/png")},
        "data": {"note": "mine"},
    }
    reply = await client.post("/api/pages/p/uploads", **form)
    assert reply.status_code == 201, reply.text
    assert (reply.json()["fileName"], reply.json()["size"]) == ("logo.png", len(PICTURE))
    assert (await client.get(reply.json()["url"])).content == PICTURE
    named = await client.post("/api/pages/p/uploads?fileName=other.png", **form)
    assert named.json()["fileName"] == "other.png"
    raw = await client.post("/api/pages/p/uploads?fileName=raw.png", content=PICTURE)
    assert raw.json()["sha256"] == reply.json()["sha256"]


async def test_a_form_answers_a_request_for_a_file(client: httpx.AsyncClient):
    """The name is that of the request."""
    form: dict[str, Any] = {"files": {"file": ("mine.png", PICTURE, "image/png")}}
    upload = (await client.post("/api/pages/p/uploads", **form)).json()
    again = await client.put(f"/api/pages/p/uploads/{upload['uploadId']}", **form)
    assert (again.status_code, again.json()["sha256"]) == (200, upload["sha256"])


async def test_forms_add_material_and_assets_to_a_lesson(client: httpx.AsyncClient):
    text = material("photosynthesis").text.encode()
    reply = await create_lesson(client, files={"file": ("leaf.txt", text, "text/plain")})
    assert (reply.status_code, reply.json()["name"]) == (201, "leaf.txt")
    reply = await client.post(ASSETS, files={"file": ("leaf.png", PICTURE)}, params={"credit": "Ann"})
    assert reply.status_code == 201, reply.text
    assert (reply.json()["metadata"]["title"], reply.json()["metadata"]["credit"]) == ("leaf.png", "Ann")


async def test_a_form_imports_a_thread(client: httpx.AsyncClient):
    ad = await generate_ad(client)
    lines = (await client.get(f"/api/threads/{ad['conversationId']}/export")).content
    reply = await client.post("/api/threads/import?as=copy", files={"file": ("ad.jsonl", lines)})
    assert (reply.status_code, reply.json()["threadId"]) == (201, "copy")


def form_of(*parts: bytes) -> dict[str, Any]:
    """A request whose form has these parts, each with its headers."""
    body = b"".join(b"--b\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts)
    return {"content": body + b"--b--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}


FILE = b'name="file"; filename="a.png"\r\n\r\n' + PICTURE


@pytest.mark.parametrize(
    ("request_parts", "status", "words"),
    [
        (form_of(b'name="file"\r\n\r\nx'), 400, "the form has no file"),
        (form_of(FILE, FILE), 400, "several files"),
        (form_of(FILE) | {"content": form_of(FILE)["content"][:-6]}, 400, "incomplete"),
        (form_of(FILE) | {"headers": {"Content-Type": "multipart/form-data"}}, 400, "no boundary"),
        (form_of(b'name="f"; filename=""\r\n\r\nx'), 422, "has no name"),
        (form_of(b'name="f"; filename="a.png"\r\n\r\n'), 422, "is empty"),
        (form_of(b'name="f"; filename="a.png"\r\n\r\n<script>'), 422, "unsupported type"),
        (form_of(b'name="f"; filename="a.exe"\r\n\r\nMZ'), 422, "a.exe"),
        (form_of(b"x" * 10_000), 400, "no end of its headers"),
        (form_of(b'name="x"\r\n\r\n' + b"x" * 70_000, FILE), 400, "long fields"),
        ({"content": PICTURE}, 422, "has no name"),
    ],
)
async def test_a_form_that_breaks_a_rule_is_refused_with_the_reason(
    client: httpx.AsyncClient, request_parts: dict[str, Any], status: int, words: str
):
    reply = await client.post("/api/pages/p/uploads", **request_parts)
    assert reply.status_code == status, reply.text
    assert words in reply.json()["error"]
    assert reply.json()["remedy"]
    assert (await client.get("/api/pages/p/uploads")).json() == {"uploads": []}


@pytest.mark.slow
async def test_a_form_with_a_file_over_the_limit_is_too_large(client: httpx.AsyncClient):
    """The limit is that of the file; the form around it has room of its own."""
    largest = b"RIFF" + b"x" * (MAX_FILE - 4)
    reply = await client.post("/api/pages/p/uploads", files={"file": ("a.webp", largest + b"x")})
    assert (reply.status_code, reply.json()["type"]) == (413, "too_large")
