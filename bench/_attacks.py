"""Requests that are meant to hold a server or fill its memory: texts, files, bodies, answers of a model."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.doubles.chat_double import Raw, Reply, Say
from tests.doubles.pdf_writer import drawn_pdf, line, pdf

_SMALL: Final = 9_600
"""Characters of a message, just below what is accepted."""
_MIB: Final = 2**20
_CHATS: Final[Mapping[str, str]] = {
    "ad": "/api/ads/hostile/chat",
    "page": "/api/pages/hostile/chat",
    "lesson": "/api/agent-create",
    "video": "/api/projects/hostile/executions",
    "campaigns": "/api/chat",
}
AD: Final[Mapping[str, Any]] = {
    "adId": "hostile",
    "brief": {"clientDescription": "Miel, a bakery in Lyon", "targetAudience": "families"},
    "provider": "offline",
}
"""Body of `POST /api/ai/generate` that makes the ad."""


@dataclass(frozen=True)
class Attack:
    """One request, and the answer of the model that it meets."""

    name: str
    path: str
    content: Callable[[], bytes]
    method: str = "POST"
    media_type: str = "application/json"
    answer: Callable[[], Reply] | None = None
    """Answer of the model; None where the request needs no model but the offline one."""
    headers: Mapping[str, str] = field(default_factory=dict)


def _json(value: Any) -> Callable[[], bytes]:
    return lambda: json.dumps(value).encode()


def _between(prefix: bytes, middle: Callable[[], bytes], suffix: bytes = b"") -> Callable[[], bytes]:
    return lambda: prefix + middle() + suffix


def _lists(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def _sheet(rows: int, cell: str) -> bytes:
    """Return an Excel sheet of one column, which packs to a thousandth."""
    first = '<c t="inlineStr"><is><t>company</t></is></c>'
    row = f'<row><c t="inlineStr"><is><t>{cell}</t></is></c></row>'
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/'
        'officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
        'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>'
        '<sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/'
        'relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
        'relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/'
        f'main"><sheetData><row>{first}</row>{row * rows}</sheetData></worksheet>',
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return buffer.getvalue()


def _png(side: int) -> bytes:
    """Return a grey image that packs to a thousandth."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(bytes(1 + side // 8)) for _ in range(side)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


_TEXTS: Final[Mapping[str, str]] = {
    "lines": "```json" + "\n" * _SMALL,
    "brackets": "[" * _SMALL,
    "words": "not a " * (_SMALL // 6),
    "digits": "9" * _SMALL,
    "signs": "\u202e\U0001f469\u200d\U0001f4bb" * (_SMALL // 6),
}
_ANSWERS: Final[Mapping[str, Callable[[], Reply]]] = {
    "60,000 lines after a fence": lambda: Say("```json" + "\n" * 60_000, piece=1_000),
    "1 MB of words in pieces of 5": lambda: Say("word " * (_MIB // 5)),
    "1 MB of digits": lambda: Say("9" * _MIB, piece=10_000),
    "1 MB without a space": lambda: Say("a" * _MIB, piece=100_000),
    "3,000 nested lists": lambda: Say(_lists(3_000).decode(), piece=6_000),
    "a million brackets": lambda: Say("[" * _MIB, piece=1_000),
    "arguments that are no JSON, 40 kB": lambda: _call("x" * 40_000, piece=1_000),
    "arguments of 1 MB in pieces of 100": lambda: _call('{"a": "' + "x" * _MIB, piece=100),
    "arguments of 1 MB in one piece": lambda: _call('{"a": "' + "x" * _MIB, piece=_MIB),
    "arguments of 3,000 nested lists": lambda: _call('{"a": ' + _lists(3_000).decode() + "}", piece=500),
    "500 calls": lambda: Say("", [(f"c{number}", "no_such_tool", "{}") for number in range(500)]),
    "a body that is no JSON, 20 MB": lambda: Raw(b"[" * (20 * _MIB)),
}


def _call(arguments: str, *, piece: int) -> Say:
    return Say("", [("call-1", "no_such_tool", arguments)], piece=piece)


def _chat_attacks() -> Iterator[Attack]:
    for kind, path in _CHATS.items():
        for name, text in _TEXTS.items():
            yield Attack(f"{kind}: {name}", path, _json(_message(kind, text, "offline")))


def _message(kind: str, text: str, provider: str) -> dict[str, Any]:
    if kind == "lesson":
        return {"messages": [{"role": "user", "content": text}], "provider": provider}
    return {"message": text, "provider": provider}


def _model_attacks() -> Iterator[Attack]:
    for number, (name, answer) in enumerate(_ANSWERS.items()):
        kind = ("page", "campaigns")[number % 2]
        content = _json(_message(kind, "Make the headline blue.", "openai"))
        yield Attack(f"model, {kind}: {name}", _CHATS[kind], content, answer=answer)


def _import_attacks() -> Iterator[Attack]:
    files: Mapping[str, tuple[str, Callable[[], bytes]]] = {
        "30 MB of commas": ("text/csv", lambda: b"company,offer\n" + b"," * (30 * _MIB)),
        "one cell of 30 MB": ("text/csv", lambda: b"company,offer\na," + b"x" * (30 * _MIB)),
        "a quote that never ends": ("text/csv", lambda: b'company,offer\n"' + b"a,b\n" * (5 * _MIB)),
        "5 million empty rows": ("text/csv", lambda: b"company,offer\n" + b",\n" * 5_000_000),
        "a million nested lists": ("application/json", lambda: _lists(_MIB)),
        "30 MB of numbers": ("application/json", lambda: b"[" + b"1," * (15 * _MIB) + b"1]"),
        "3 million empty objects": ("application/jsonl", lambda: b"{}\n" * 3_000_000),
        "one text of 40 MB": ("application/json", lambda: b'["' + b"x" * (40 * _MIB) + b'"]'),
        "a sheet of 500,000 rows": (
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            lambda: _sheet(500_000, "x" * 100),
        ),
        "a sheet with one cell of 20 MB": (
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            lambda: _sheet(1, "x" * (20 * _MIB)),
        ),
    }
    for name, (media_type, content) in files.items():
        yield Attack(f"import: {name}", "/api/campaigns/import", content, media_type=media_type)
    threads: Mapping[str, Callable[[], bytes]] = {
        "a million nested lists": lambda: _lists(_MIB),
        "40 MB of empty lines": lambda: b"\n" * (40 * _MIB),
        "1 million empty objects": lambda: b"{}\n" * _MIB,
    }
    for name, content in threads.items():
        yield Attack(f"thread file: {name}", "/api/threads/import", content, media_type="application/jsonl")


def _file_attacks() -> Iterator[Attack]:
    sources: Mapping[str, tuple[str, Callable[[], bytes]]] = {
        "a PDF of 2,000 pages": ("application/pdf", lambda: pdf("bees make honey " * 200_000)),
        "a page of 200,000 pieces": (
            "application/pdf",
            lambda: drawn_pdf([line(50, 700, "a") * 200_000]),
        ),
        "a PDF that is none": ("application/pdf", lambda: b"%PDF-1.7\n" + b"1 0 obj << " * 500_000),
        "1.9 MB without a space": ("text/plain", lambda: b"a" * 1_900_000),
        "1.9 MB of full stops": ("text/plain", lambda: b"a. " * 630_000),
        "1.9 MB of brackets": ("text/plain", lambda: b"[(" * 950_000),
    }
    for number, (name, (media_type, content)) in enumerate(sources.items()):
        suffix = "pdf" if media_type.endswith("pdf") else "txt"
        path = f"/api/agent-create/session/source/files?sessionId=hostile-{number}&fileName=a.{suffix}"
        yield Attack(f"material: {name}", path, content, media_type=media_type)
    image = "/api/pages/hostile/uploads?fileName=a.png"
    yield Attack("image: 30,000 × 30,000", image, lambda: _png(30_000), media_type="image/png")
    yield Attack(
        "image: a PNG that is none",
        image,
        lambda: b"\x89PNG\r\n\x1a\n" + bytes(8 * _MIB),
        media_type="image/png",
    )


def _wire_attacks() -> Iterator[Attack]:
    large = "x" * 900_000
    bodies: Mapping[str, tuple[str, Callable[[], bytes]]] = {
        "metadata of 15 MB": ("/threads", _json({"metadata": {"a": "x" * (15 * _MIB)}})),
        "metadata nested 100,000 deep": (
            "/threads",
            _between(b'{"metadata": ', lambda: _lists(100_000), b"}"),
        ),
        "input of 15 MB of small numbers": (
            "/runs/wait",
            _between(
                b'{"assistant_id": "page_builder", "input": {"a": [', lambda: b"1," * (7 * _MIB), b"1]}}"
            ),
        ),
        "messages: 200,000 of them": (
            "/runs/wait",
            _json({"assistant_id": "page_builder", "input": {"messages": [["user", "a"]] * 200_000}}),
        ),
        "search by 100,000 ids": ("/threads/search", _json({"ids": ["a" * 36] * 100_000})),
        "search by 100,000 metadata": (
            "/threads/search",
            _json({"metadata": {str(number): number for number in range(100_000)}}),
        ),
        "an item of 900 kB": ("/store/items", _json({"namespace": ["a"], "key": "k", "value": {"a": large}})),
        "search of items for 900 kB of words": (
            "/store/items/search",
            _json({"namespace_prefix": ["a"], "query": "word " * 180_000}),
        ),
        "a body of 15 MB of open brackets": ("/threads", lambda: b"[" * (15 * _MIB)),
        "a number of 900,000 digits": ("/threads", lambda: b'{"metadata": {"a": ' + b"9" * 900_000 + b"}}"),
    }
    for name, (path, content) in bodies.items():
        method = "PUT" if path == "/store/items" else "POST"
        yield Attack(f"wire: {name}", path, content, method=method)


ATTACKS: Final[tuple[Attack, ...]] = (
    *_chat_attacks(),
    *_model_attacks(),
    *_import_attacks(),
    *_file_attacks(),
    *_wire_attacks(),
)
