"""Data of a release, recorded with everything in it that can wait, to be opened by later releases.

`python -m tests.storage.recorded_data FILE`, run with the release itself, writes a file of tests/data.
"""

import asyncio
import gzip
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from redis import Redis

from callsheet.storage.embedded import server as embedded
from tests.doubles.redis_server import free_port
from tests.doubles.served import app_client, chat_about_ad, generate_ad, started_app
from tests.doubles.tcp_server import tcp_server
from tests.doubles.waiting import eventually

FOLDER: Final = Path(__file__).parents[1] / "data"
OFFLINE: Final = {"provider": "offline"}
MATERIAL: Final = (
    "My student is 10. Plants make their own food. Leaves take in carbon dioxide through tiny holes called "
    "stomata. Roots take up water from the soil."
)
BRIEF: Final = "20 seconds for Harbour Bikes, e-bikes by the hour in Porto."
_DUE: Final = ("{runs}:open", "crons:due")
"""Sorted sets by the time at which something is due."""
_OURS: Final = (b"callsheet:marker", b"callsheet:checks", b"callsheet:owners-listed", b"callsheet:format")
"""Keys that begin like those of the task queue, which is not recorded: it may be lost at any time."""


def run_of_ads(**more: Any) -> dict[str, Any]:
    """The body of a request that starts a run."""
    messages = {"messages": [{"role": "user", "content": BRIEF}]}
    return {"assistant_id": "ad_creation", "input": messages, "context": OFFLINE, **more}


def restore(url: str, name: str) -> None:
    """Write the recorded data of a file to an empty server, as if all that waits for its time were due."""
    recorded = json.loads(gzip.decompress((FOLDER / name).read_bytes()))
    with Redis.from_url(url) as server:
        for key, (kind, left_ms, value) in recorded.items():
            _write(server, _bytes(key), kind, value)
            if left_ms >= 0:
                server.pexpire(_bytes(key), left_ms)
        for key in _DUE:
            _write(server, _bytes(key), "zset", [(_text(one), 0) for one in _members(server, key)])


def _write(server: Any, key: bytes, kind: str, value: Any) -> None:
    match kind:
        case "string":
            server.set(key, _bytes(value))
        case "hash":
            server.hset(key, mapping={_bytes(field): _bytes(text) for field, text in value})
        case "list":
            server.rpush(key, *map(_bytes, value))
        case "zset":
            server.zadd(key, {_bytes(member): score for member, score in value})
        case "stream":
            for entry, fields in value:
                server.xadd(key, {_bytes(field): _bytes(text) for field, text in fields}, entry)
        case _:
            raise ValueError(kind)


def _members(server: Any, key: str) -> list[bytes]:
    return list(server.zrange(key, 0, -1))


def _read(server: Any, key: bytes, kind: str) -> Any:
    match kind:
        case "string":
            return _text(server.get(key))
        case "hash":
            return sorted([_text(field), _text(value)] for field, value in server.hgetall(key).items())
        case "list":
            return [_text(one) for one in server.lrange(key, 0, -1)]
        case "zset":
            return [[_text(member), score] for member, score in server.zrange(key, 0, -1, withscores=True)]
        case "stream":
            return [
                [entry.decode(), [[_text(name), _text(value)] for name, value in fields.items()]]
                for entry, fields in server.xrange(key)
            ]
    raise ValueError(kind)


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def dump(server: Any) -> dict[str, Any]:
    """Return the server's data: type, milliseconds left and value by key; bytes as Latin-1."""
    names = sorted(
        name
        for name in server.scan_iter()
        if name in _OURS or not name.startswith((b"callsheet:", b"{callsheet"))
    )
    kinds = {name: server.type(name).decode() for name in names}
    return {
        _text(name): (kind, server.pttl(name), _read(server, name, kind))
        for name, kind in kinds.items()
        if kind != "none"
    }


async def _fill(url: str) -> None:
    async with (
        _webhook_receiver() as hook,
        started_app(url, webhook_private=True, stop_grace_s=0) as app,
        app_client(app) as client,
    ):
        await generate_ad(client)
        await chat_about_ad(client, "make the music more upbeat")
        await _ok(client.post("/threads", json={"thread_id": "hooked", "if_exists": "do_nothing"}))
        await _ok(client.post("/threads/hooked/runs", json=run_of_ads(webhook=hook)))
        await _wait_for_success(client, "hooked")
        await _ok(client.post("/runs/crons", json=run_of_ads(schedule="0 9 * * *")))
        await _ask(client)
        await _pause_video(client)
        await _ok(client.post("/threads", json={"thread_id": "handed-over", "if_exists": "do_nothing"}))
        await _ok(client.post("/threads/handed-over/runs", json=run_of_ads()))
    async with started_app(url, carry_runs=False) as app, app_client(app) as client:
        await _ok(client.post("/threads", json={"thread_id": "waiting", "if_exists": "do_nothing"}))
        await _ok(client.post("/threads/waiting/runs", json=run_of_ads()))
        await _ok(client.post("/threads/waiting/runs", json=run_of_ads(multitask_strategy="enqueue")))


async def _ask(client: httpx.AsyncClient) -> None:
    """Leave a lesson at its choice of facts and a page at its approval."""
    messages = [{"role": "user", "content": MATERIAL}]
    lesson = await _ok(client.post("/api/agent-create/tools", json={"messages": messages, **OFFLINE}))
    assert lesson["waitsFor"] == "select_facts"
    for text in ('Change the headline to "Bread at four"', "delete the features section"):
        page = await _ok(client.post("/api/pages/shop/chat", json={"message": text, **OFFLINE}))
    assert page["question"]


async def _pause_video(client: httpx.AsyncClient) -> None:
    """Leave a video's plan paused before its last step."""
    await _ok(client.post("/api/projects", json={"id": "launch", "starter": "product-launch"}))
    body = {"message": "make all scenes faster", **OFFLINE}
    execution = (await _ok(client.post("/api/projects/launch/executions", json=body)))["executionId"]
    paused = await _ok(client.post(f"/api/executions/{execution}/pause"))
    assert paused["status"] == "paused"
    await eventually(lambda: _asks(client, execution), "the paused plan waits for a person")


async def _asks(client: httpx.AsyncClient, execution: str) -> bool:
    waiting = (await _ok(client.get("/api/questions")))["questions"]
    return any(execution in json.dumps(one) for one in waiting)


async def _wait_for_success(client: httpx.AsyncClient, thread: str) -> None:
    async def are_called() -> bool:
        runs = await _ok(client.get(f"/threads/{thread}/runs"))
        return {run["status"] for run in runs} == {"success"}

    await eventually(are_called, "the run has ended")


async def _ok(reply: Any) -> Any:
    response: httpx.Response = await reply
    assert response.is_success, response.text
    return response.json()


@asynccontextmanager
async def _webhook_receiver() -> AsyncIterator[str]:
    """The URL of a server that takes every webhook."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async with tcp_server(answer, free_port()) as port:
        yield f"http://127.0.0.1:{port}/"


def record(file: Path) -> None:
    """Fill a server with this release, and write its data."""
    with tempfile.TemporaryDirectory(prefix="callsheet-recorded-") as folder:
        lease = embedded.ensure_running(Path(folder))
        try:
            asyncio.run(_fill(lease.url))
            with Redis.from_url(lease.url) as server:
                recorded = dump(server)
        finally:
            lease.close()
    encode = partial(json.dumps, ensure_ascii=False)
    lines = ",\n".join(f"{encode(key)}: {encode(value)}" for key, value in recorded.items())
    file.write_bytes(gzip.compress(("{\n" + lines + "\n}\n").encode(), mtime=0))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
