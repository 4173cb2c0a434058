"""Uploads to a page: allowed names, types and sizes, and downloads (C23, C-R3)."""

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.pages.schemas import Upload, UploadList
from callsheet.state import uploads
from callsheet.state.errors import Invalid
from callsheet.state.pages.page import UPLOADS
from callsheet.state.uploads import FORMATS, MEDIA, create_ticket, media_type
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact
from tests.doubles.documented import assert_documented
from tests.doubles.served import app_client, started_app
from tests.pages.page_double import PageDouble


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(comment: bytes = b"", size: int = 1) -> bytes:
    head = struct.pack(">IIBBBBB", size, 1, 8, 2, 0, 0, 0)
    picture = zlib.compress(b"\0" + b"\xff\0\0" * size)
    texts = chunk(b"tEXt", b"Comment\0" + comment) if comment else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + texts + chunk(b"IDAT", picture) + chunk(b"IEND")


def box(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", 8 + len(data)) + kind + data


JPG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    b"\xff\xda\x00\x08\x01\x01\0\0\x3f\0\xab\xcd\xff\xd9"
)
GIF = (
    b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0\x21\xf9\x04\0\0\0\0\0"
    b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b"
)
WEBP = b"RIFF" + struct.pack("<I", 12) + b"WEBPVP8 \0\0\0\0"
MP4 = box(b"ftyp", b"isom\0\0\0\0") + box(b"mdat", b"film")
LONG = box(b"ftyp", b"isom\0\0\0\0") + struct.pack(">I4sQ", 1, b"mdat", 20) + b"film"
WEBM = b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm" + b"\0" * 20
PDF = b"%PDF-1.7\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n"
ZIP = b"PK\x03\x04x.js" + b"PK\x05\x06" + b"\0" * 18
GOOD = {
    "png": png(),
    "jpg": JPG,
    "gif": GIF,
    "webp": WEBP,
    "mp4": MP4,
    "webm": WEBM,
    "pdf": PDF,
    "txt": "สวัสดี\tbread\r\n".encode(),
}
POLYGLOTS = {
    "a page behind an image": png() + b"<html><script>alert(1)</script>",
    "a script in an image's comment": png(b"<script>alert(1)</script>"),
    "a program in an image's comment": png(b"<?php system($_GET[0]) ?>"),
    "a document in an image's comment": png(b"%PDF-1.4"),
    "an archive behind an image": JPG + ZIP,
    "an archive in an image's comment": png(ZIP),
    "an archive that ends like an image": JPG[:-2] + ZIP + b"\xff\xd9",
    "an archive behind a document": PDF + ZIP,
    "a script that begins like an image": b"GIF89a/*" + b"*/=alert(1)//;",
    "an image that is cut off": png()[:-5],
    "a film with more behind it": MP4 + b"tail",
    "a film of a broken box": box(b"ftyp") + struct.pack(">I", 3) + b"xxxx",
    "a drawing": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "a page": b"\xef\xbb\xbf <!DOCTYPE html><body>",
    "a program": b"MZ\x90\0" + b"\0" * 60,
    "an archive": ZIP,
    "nothing": b"",
    "half an image": b"GIF89a",
    "a picture without its end": JPG[:-1],
    "a picture without a picture": b"\xff\xd8\xff\xe0\x00\x04\0\0\0\0",
}


@pytest.mark.parametrize("name", GOOD)
def test_the_type_of_a_file_is_detected_from_its_bytes(name: str):
    assert uploads.detect_type(GOOD[name]) == name
    (kind,) = [kind for kind, formats in FORMATS.items() if name in formats]
    ticket = create_ticket("1", kind, f"a.{name}", None, None)
    assert media_type(ticket["fileName"], GOOD[name]) == MEDIA[name]


def test_mp4_with_a_64_bit_or_open_ended_box_is_detected():
    assert uploads.detect_type(LONG) == "mp4"
    assert uploads.detect_type(box(b"ftyp", b"isom") + struct.pack(">I", 0) + b"mdatfilm") == "mp4"
    assert uploads.detect_type(GIF.replace(b"\0\0\x02\x02", b"\0\x80\xff\xff\xff\0\0\0\x02\x02")) == "gif"


@pytest.mark.parametrize("name", POLYGLOTS)
def test_a_polyglot_or_broken_file_is_refused(name: str):
    """Polyglots, broken files, and files of another type."""
    with pytest.raises(Invalid) as refused:
        uploads.detect_type(POLYGLOTS[name])
    assert refused.value.remedy


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd.png",
        "..\\..\\windows\\system.png",
        "/etc/cron.d/x.png",
        "C:\\x.png",
        "a/b.png",
        "a\0.png",
        ".htaccess.png",
        "a..png",
        "a\u202egnp.exe.png",
        "png",
        "a.p n g",
        "x" * 201 + ".png",
        "",
    ],
)
def test_a_file_name_that_looks_like_a_path_is_refused(name: str):
    with pytest.raises(Invalid, match="not a plain file name"):
        create_ticket("1", "image", name, None, None)


def test_the_error_for_a_size_or_format_names_the_limit():
    """C-R3."""
    with pytest.raises(Invalid, match="at most 5000000 bytes"):
        create_ticket("1", "image", "a.png", 5_000_001, None)
    with pytest.raises(Invalid, match=r"'exe' is not allowed") as refused:
        create_ticket("1", "document", "a.pdf", None, ["exe"])
    assert "pdf, txt, csv" in refused.value.remedy
    with pytest.raises(Invalid, match="does not end in one of png"):
        create_ticket("1", "image", "a.jpg", None, ["png"])
    assert create_ticket("1", "image", "a.JPG", 10, [".JPG", "image/png"])["allowedFormats"] == ["jpg", "png"]
    ticket = create_ticket("1", "image", "a.jpeg", None, None)
    assert media_type(ticket["fileName"], JPG) == "image/jpeg"
    with pytest.raises(Invalid, match="contains png, not jpeg"):
        media_type(ticket["fileName"], png())


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        started_app(valkey_url) as app,
        app_client(app, event_hooks={"response": [assert_documented]}) as one,
    ):
        yield one


async def put_file(client: httpx.AsyncClient, url: str, data: bytes, status: int = 200) -> dict[str, object]:
    reply = await client.put(url, content=data)
    assert reply.status_code == status, reply.text
    body: dict[str, object] = reply.json()
    return body


@pytest.mark.slow
async def test_a_file_requested_by_the_model_is_uploaded_and_shown_on_the_page(
    client: httpx.AsyncClient, storage: Storage
):
    """C-R3: a ticket, the bytes, and an image element; the file is served so that it cannot run."""
    bakery = PageDouble(storage)
    ticket = await bakery.result_of("upload_file", fileType="image", fileName="logo.png", maxSize=100_000)
    assert (ticket["status"], ticket["method"], ticket["maxSize"]) == ("waiting", "PUT", 100_000)
    assert (await client.get(ticket["url"])).status_code == 404
    error = await put_file(client, ticket["url"], POLYGLOTS["a page behind an image"], 422)
    assert "of an unsupported type" in str(error["error"])
    size_error = await put_file(client, ticket["url"], png() + b"x" * 100_001, 413)
    assert "100000 bytes" in str(size_error["error"])
    uploaded = await put_file(client, ticket["url"], png())
    TypeAdapter(Upload).validate_python(uploaded)
    assert await put_file(client, ticket["url"], png()) == uploaded, "an equal upload changes nothing"
    conflict = await put_file(client, ticket["url"], png(size=2), 409)
    assert conflict["type"] == "conflict"
    reply = await client.get(ticket["url"])
    assert reply.content == png()
    assert reply.headers["content-type"] == "image/png"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-disposition"] == "attachment; filename*=UTF-8''logo.png"
    assert "sandbox" in reply.headers["content-security-policy"]
    ready = await bakery.result_of("upload_file", fileType="image", fileName="logo.png")
    assert (ready["status"], ready["src"]) == ("ready", ticket["url"])
    await bakery.result_of(
        "create_element",
        parentId="section-1",
        elementType="image",
        properties={"attributes": {"src": ready["src"], "alt": "Logo"}},
    )
    html = (await client.get("/api/pages/bakery/export")).text
    assert 'src="data:image/png;base64,' in html
    linked = (await client.get("/api/pages/bakery/export?images=linked")).text
    assert f'src="{ready["src"]}"' in linked


@pytest.mark.slow
async def test_no_polyglot_can_be_uploaded(client: httpx.AsyncClient, storage: Storage):
    """C58: under any name, with a ticket or without; nothing is stored."""
    bakery = PageDouble(storage)
    ticket = await bakery.result_of("upload_file", fileType="image", fileName="logo.png")
    for data in POLYGLOTS.values():
        await put_file(client, ticket["url"], data, 422)
        for name, kind in (("a.jpg", "image"), ("a.mp4", "video"), ("a.pdf", "document")):
            query = {"fileName": name, "fileType": kind}
            reply = await client.post("/api/pages/bakery/uploads", params=query, content=data)
            assert reply.status_code == 422, (name, data[:20])
    (waiting,) = (await client.get("/api/pages/bakery/uploads")).json()["uploads"]
    assert waiting["status"] == "waiting"


async def test_a_file_can_be_uploaded_before_the_model_requests_it(
    client: httpx.AsyncClient, storage: Storage
):
    bakery = PageDouble(storage)
    await bakery.result_of("modify_element", elementId="heading-1", modifications={"content": "Bread"})
    big = b"bread\n" * 200_000
    query = {"fileName": "price list.txt", "fileType": "document"}
    reply = await client.post("/api/pages/bakery/uploads", params=query, content=big)
    assert reply.status_code == 201, reply.text
    assert reply.json()["size"] == len(big)
    listed = (await client.get("/api/pages/bakery/uploads")).json()
    TypeAdapter(UploadList).validate_python(listed)
    assert listed["uploads"] == [reply.json()]
    ready = await bakery.result_of("upload_file", fileType="document", fileName="price list.txt")
    assert ready["status"] == "ready"
    download = await client.get(ready["src"])
    assert download.content == big
    smaller = await bakery.result_of(
        "upload_file", fileType="document", fileName="price list.txt", maxSize=1000
    )
    assert smaller["status"] == "waiting"
    for query, content in (
        ({"fileName": "../x.txt", "fileType": "document"}, b"x"),
        ({"fileName": "x.html", "fileType": "document"}, b"x"),
        ({"fileName": "x.txt", "fileType": "program"}, b"x"),
        ({"fileName": "x.txt", "fileType": "document"}, b""),
    ):
        refused = await client.post("/api/pages/bakery/uploads", params=query, content=content)
        assert refused.status_code == 422, refused.text
    assert len((await client.get("/api/pages/bakery/uploads")).json()["uploads"]) == 2


async def test_an_upload_over_the_limit_is_refused_before_it_is_read_completely(
    client: httpx.AsyncClient, storage: Storage
):
    """The body is read in pieces; neither a declared nor an undeclared length gets past."""
    bakery = PageDouble(storage)
    ticket = await bakery.result_of("upload_file", fileType="video", fileName="film.mp4")
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while read < 100_000_000:
            read += 1_000_000
            yield b"x" * 1_000_000

    reply = await client.put(ticket["url"], content=endless())
    assert reply.status_code == 413
    assert read <= 27_000_000
    reply = await client.put(ticket["url"], content=b"", headers={"Content-Length": "99999999999"})
    assert reply.status_code == 413


async def test_an_upload_id_with_a_path_is_refused(client: httpx.AsyncClient, storage: Storage):
    bakery = PageDouble(storage)
    await bakery.result_of("upload_file", fileType="image", fileName="logo.png")
    for upload in ("..%2F..%2Fetc%2Fpasswd", "%2e%2e", "v1", "x" * 300, "%00"):
        for method in ("GET", "PUT"):
            reply = await client.request(method, f"/api/pages/bakery/uploads/{upload}", content=png())
            assert reply.status_code in {400, 404, 405, 422}, (upload, reply.status_code)


async def test_the_files_of_a_page_are_limited_in_total(storage: Storage):
    from callsheet.storage.artefacts import files

    page = Artefact(storage, "page", "bakery", "local")
    await page.open(owner="local", thread="t", facts={})
    record = files.FileRecord(name="a.txt", type="text/plain", size=6, sha256="")
    await files.store(storage, page, "one", [b"abc", b"def"], record, 10)
    with pytest.raises(Exception, match="exceed 10 bytes in total"):
        await files.store(storage, page, "two", [b"abcdef"], record, 10)
    assert [piece async for piece in files.pieces(storage, page, "one")] == [b"abc", b"def"]
    assert list(await files.records(storage, page)) == ["one"]
    with pytest.raises(Exception, match="took too long"):
        await files.store(storage, page, "three", [], record, 100)


async def test_concurrent_uploads_to_one_ticket_store_one_file(client: httpx.AsyncClient, storage: Storage):
    ticket = await PageDouble(storage).result_of("upload_file", fileType="image", fileName="logo.png")
    replies = await asyncio.gather(*(client.put(ticket["url"], content=png(size=i)) for i in (1, 2, 3)))
    assert sorted(reply.status_code for reply in replies) == [200, 409, 409]
    (stored_digest,) = [reply.json()["sha256"] for reply in replies if reply.status_code == 200]
    (upload,) = (await client.get("/api/pages/bakery/uploads")).json()["uploads"]
    assert upload["sha256"] == stored_digest


async def test_a_repeated_request_returns_the_same_ticket(opened: Storage):
    bakery = PageDouble(opened)
    first = await bakery.call_step("upload_file", "k1", fileType="image", fileName="logo.png")
    assert await bakery.call_step("upload_file", "k1", fileType="image", fileName="logo.png") == first
    assert len((await bakery.artefact.stream(UPLOADS)).versions) == 1
    error = await bakery.error_of("upload_file", fileType="image", fileName="logo.svg")
    assert (error["type"], "png" in error["suggestion"]) == ("validation_error", True)
