"""The export of an owner's data while the owner deletes parts of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.redis import keys
from tests.doubles.holding_proxy import HoldingProxy
from tests.doubles.served import generate_ad, served_app
from tests.lessons.lesson_client import SESSION, LessonClient
from tests.pages.test_uploads import png
from tests.storage.test_lifetimes import OFFLINE, CountingClient, make_lesson


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[CountingClient]:
    async with served_app(valkey_url) as http:
        yield CountingClient(http)


@pytest.fixture
async def proxy(tmp_path: Path, valkey_url: str) -> AsyncIterator[HoldingProxy]:
    target = valkey_url.removeprefix("unix://").partition("?")[0]
    async with HoldingProxy(str(tmp_path / "proxy"), target) as held:
        yield held


async def export_while(
    proxy: HoldingProxy, text: str, client: CountingClient, path: str, message: Any = None
) -> bytes:
    """Return the owner's file; once a message with this text is to be sent, something is deleted, or said."""
    async with served_app(proxy.url) as slow:
        proxy.hold(text)
        export = asyncio.create_task(slow.get("/api/data/export"))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        await client.ok("POST" if message else "DELETE", path, message)
        proxy.release()
        return (await export).content


async def test_a_picture_that_is_deleted_during_an_export_leaves_a_file_that_can_be_imported(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """Its record was in the file without its bytes, and the whole file was refused."""
    await make_lesson(client, "leaf")
    [row] = (await client.ok("GET", "/api/artefacts/lesson"))["artefacts"]
    lesson = LessonClient(client.http, row["id"])
    reply = await lesson.request("POST", f"{SESSION}/assets/files?fileName=a.png", content=png())
    asset = reply.json()["id"]
    path = f"{SESSION}/assets/{asset}?sessionId={row['id']}"
    content = await export_while(proxy, keys.file("lesson", row["id"], asset), client, path)
    inspector.flushdb()
    done = await client.ok("POST", "/api/data/import", content=content)
    assert (done["imported"]["thread"], done["leftOut"]) == (1, [])


async def test_an_ad_that_is_deleted_during_an_export_is_not_in_the_file_without_its_versions(
    client: CountingClient, proxy: HoldingProxy
) -> None:
    """It was imported elsewhere as a conversation about an empty ad."""
    await generate_ad(client.http)
    content = await export_while(proxy, keys.mixer("ad", "ad-1"), client, "/api/artefacts/ad/ad-1")
    types = [json.loads(line)["type"] for line in content.splitlines()]
    assert types == ["header", "end"]


async def test_a_thread_whose_draft_is_deleted_during_an_export_is_named_as_left_out(
    client: CountingClient, proxy: HoldingProxy, storage: Storage
) -> None:
    """Its ad was in the file without its conversation, and nothing said so."""
    thread = (await generate_ad(client.http))["conversationId"]
    ad = Artefact(storage, "ad", "ad-1", LOCAL)
    newest = (await ad.stream_head("music")).newest
    assert newest
    for _ in range(120):
        await ad.create_version(NewVersion("music", newest.data, "llm", "one"))
    # The newest hundred are read first, then those before v22.
    content = await export_while(proxy, "\r\nv22\r\n", client, "/api/ads/ad-1/music/v22")
    lines = [json.loads(line) for line in content.splitlines()]
    named = [line["data"] for line in lines if line["type"] == "left-out"]
    assert [(one["thread"], "'v22'" in one["reason"]) for one in named] == [(thread, True)]
    assert "thread-file" not in [line["type"] for line in lines]


async def test_a_pending_question_of_a_turn_during_an_export_is_in_the_file(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """The file had the thread as it was before the turn, with the states behind it."""
    chat = "/api/pages/shop/chat"
    await client.ok("POST", chat, {"message": "make the headline teal", **OFFLINE})
    request = {"message": "delete the features section", **OFFLINE}
    content = await export_while(proxy, keys.run_keys("shop").lease, client, chat, request)
    inspector.flushdb()
    await client.ok("POST", "/api/data/import", content=content)
    assert (await client.ok("GET", "/threads/shop"))["status"] == "interrupted"
    assert len((await client.ok("GET", "/api/questions"))["questions"]) == 1
