"""Files that are small to send and large to read never hold the loop or the server's memory (X13)."""

import asyncio
import base64
import io
import random
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import ormsgpack
import psutil
import pytest

from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.uploads import detect_type
from callsheet.storage.archive.lines import LineWriter
from callsheet.tools.lessons.web_sources import fetch_source
from tests.guard.test_fetching import FakeNetwork, fetch, web_client

MAX_GAP_S = 1.0
"""Most seconds of processor time that the loop may stand; a quiet one stands for some milliseconds."""
MAX_WAIT_S = 5.0
"""Most seconds by the clock, which on a busy machine counts what other processes do."""
MAX_GROWTH = 700 * 2**20
"""Most bytes that the server's own process may take for a file."""
HEAD = b"id,company,channel,capture_date\n"
ROW = b'{"id":"1","company":"A","channel":"tv","capture_date":"2026-01-01","offer":'


def workbook(**parts: bytes) -> bytes:
    """Return a ZIP file with the parts of a workbook."""
    sheet = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    usual = {
        "[Content_Types].xml": b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        b'<Override PartName="/xl/workbook.xml" ContentType='
        b'"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>',
        "xl/workbook.xml": b'<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        b'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">'
        b'<sheets><sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": b"<Relationships xmlns="
        b'"http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Target='
        b'"worksheets/sheet1.xml" Type='
        b'"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"/></Relationships>',
        "xl/worksheets/sheet1.xml": sheet.encode(),
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in usual.items():
            archive.writestr(name, content + parts.get(name.rpartition("/")[2].partition(".")[0], b""))
    return target.getvalue()


def thread_file(value: bytes) -> bytes:
    """Return a thread's file whose state has this JSON, with a line that is no line of a thread."""
    line = b'{"type":"value","sha256":"0","data":{"values":' + value + b"}}\n"
    return LineWriter().header({}) + line


IMPORTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a row of 20 million cells": ("a.csv", lambda: HEAD + b"," * 19_999_999),
    "3 million empty lines": ("b.csv", lambda: HEAD + b"\n" * 3_000_000),
    "a quote in every line": ("c.csv", lambda: HEAD + b'"""\n' * 2_000_000),
    "one cell of 40 MB": ("d.csv", lambda: HEAD + b'"' + b"x" * 40_000_000),
    "UTF-16 of line ends": ("e.csv", lambda: b"\xff\xfe" + b"\n\0" * 10_000_000),
    "random bytes": ("f.csv", lambda: HEAD + random.Random(1).randbytes(10_000_000)),
    "20 million lists": ("g.json", lambda: b"[" + ROW + b"[" + b"[]," * 20_000_000 + b"1]}]"),
    "a deep list": ("h.json", lambda: b"[" * 20_000_000),
    "long numbers": ("i.json", lambda: b"[" + ROW + b"[" + (b"9" * 4_000 + b",") * 5_000 + b"1]}]"),
    "a line of 10 million numbers": ("j.jsonl", lambda: ROW + b"[" + b"1," * 10_000_000 + b"1]}"),
    "many columns": ("k.jsonl", lambda: b"".join(b'{"k%d":1}\n' % n for n in range(300_000))),
    "a workbook that unpacks to 30 MB": (
        "l.xlsx",
        lambda: workbook(sheet1=b'<row r="1"><c r="A1"><v>1</v></c></row>' * 800_000),
    ),
    "a workbook of nested elements": ("m.xlsx", lambda: workbook(sheet1=b"<a>" * 1_000_000)),
}
PAGES = {
    "nested tags": lambda: b"<div>" * 25_000,
    "nested lists": lambda: b"<ul><li>" * 200_000,
    "unclosed formatting": lambda: b"<p><b><i><font>" * 300_000,
    "attributes": lambda: b"<a " + b"x=1 " * 2_000_000 + b">",
}
THREADS = {
    "10 million lists": lambda: thread_file(b"[" + b"[]," * 10_000_000 + b"1]"),
    "a line of 10 million numbers": lambda: thread_file(b"[" + b"1," * 10_000_000 + b"1]"),
}


@asynccontextmanager
async def responsive(api: httpx.AsyncClient) -> AsyncIterator[None]:
    """Require that meanwhile the loop turns, `/ok` answers, and the process grows little."""
    assert (await api.get("/ok")).status_code == 200
    process, gaps, waits, done = psutil.Process(), [0.0], [0.0], asyncio.Event()
    before = process.memory_info().rss

    async def tick() -> None:
        while not done.is_set():
            worked_s, began_s = time.process_time(), time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.process_time() - worked_s)
            waits.append(time.monotonic() - began_s)

    async def ask() -> None:
        while not done.is_set():
            assert (await api.get("/ok")).status_code == 200
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(tick()), asyncio.create_task(ask())]
    try:
        yield
    finally:
        done.set()
        await asyncio.gather(*tasks)
    assert max(gaps) < MAX_GAP_S
    assert max(waits) < MAX_WAIT_S
    assert process.memory_info().rss - before < MAX_GROWTH


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", IMPORTS)
async def test_a_hostile_file_of_campaigns_is_refused_while_the_server_answers(
    api: httpx.AsyncClient, name: str
):
    """Read in a process of its own with limits of time and memory."""
    file_name, content = IMPORTS[name]
    body = await asyncio.to_thread(content)
    async with responsive(api):
        reply = await api.post(
            "/api/campaigns/import", params={"fileName": file_name}, content=body, timeout=200
        )
    assert reply.status_code in {200, 400, 413, 422}, reply.text
    if reply.status_code == 200:
        assert reply.json()["imported"] <= 1
    assert len(reply.content) < 2_000_000


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", PAGES)
async def test_a_hostile_page_is_read_or_refused_while_the_server_answers(
    api: httpx.AsyncClient, opened: Any, name: str
):
    """Nested tags hold a parser for seconds."""
    small = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{'A sentence of a page. ' * 20}</p>"
    assert (await fetch_source("http://a.example/", web_client(FakeNetwork(a_example=small)))).text
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGES[name]()
    async with responsive(api):
        client = web_client(FakeNetwork(a_example=page), max_bytes=20_000_000)
        with suppress(Invalid, TooLarge):
            await fetch_source("http://a.example/", client)
        outcome = await fetch(
            opened, web_client(FakeNetwork(a_example=page), max_bytes=20_000_000), "http://a.example/"
        )
    assert outcome.ok or outcome.output["suggestion"]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", THREADS)
async def test_a_hostile_file_of_a_thread_is_refused_while_the_server_answers(
    api: httpx.AsyncClient, name: str
):
    """Its values are counted before the server holds them."""
    body = await asyncio.to_thread(THREADS[name])
    async with responsive(api):
        reply = await api.post("/api/threads/import", content=body, timeout=100)
    assert reply.status_code in {400, 413, 422}, reply.text


@pytest.mark.slow
async def test_a_film_of_angle_brackets_is_checked_while_the_server_answers(api: httpx.AsyncClient):
    """A pattern holds the interpreter's lock to the end of its search."""
    film = b"\0\0\0\x10ftypmp42" + bytes(4) + b"\0\0\0\0mdat" + b"<" * 24_000_000
    async with responsive(api):
        assert await asyncio.to_thread(detect_type, film) == "mp4"
        with pytest.raises(Invalid, match="contains a program"):
            await asyncio.to_thread(detect_type, film[:1_000_090] + b"<script>" + film[:1_000_000])


@pytest.mark.parametrize(
    "value",
    [
        lambda: {"json": list(range(1_100_000))},
        lambda: {"as": "msgpack", "base64": base64.b64encode(ormsgpack.packb([0] * 1_100_000)).decode()},
    ],
    ids=["JSON", "LangGraph's encoding"],
)
async def test_a_thread_with_too_many_values_is_refused(api: httpx.AsyncClient, value: Callable[[], Any]):
    """Also one whose file is small: they are counted before the server makes objects of them."""
    writer = LineWriter()
    lines = [writer.header({}), writer.line("value", {"ns": "", "value": await asyncio.to_thread(value)})]
    body = b"".join([*lines, writer.end()])
    reply = await api.post("/api/threads/import", content=body)
    assert (reply.status_code, "a line may have 1000000" in reply.text) == (422, True), reply.text
