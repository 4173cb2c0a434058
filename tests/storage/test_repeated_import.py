"""The import of an owner's data that is sent again: while it is at work, or after it was cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from callsheet.storage.archive.owner_file import read_entries
from callsheet.storage.archive.owner_records import CHUNK
from callsheet.storage.redis import caller_keys, keys
from tests.doubles.holding_proxy import HoldingProxy
from tests.doubles.served import served_app
from tests.pages.test_uploads import png
from tests.storage.test_lifetimes import OFFLINE, CountingClient, make_page, make_video
from tests.storage.test_owner_data import export_data

PATH = "/api/data/import"


@pytest.fixture
async def proxy(tmp_path: Path, valkey_url: str) -> AsyncIterator[HoldingProxy]:
    target = valkey_url.removeprefix("unix://").partition("?")[0]
    async with HoldingProxy(str(tmp_path / "proxy"), target) as held:
        yield held


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[CountingClient]:
    async with served_app(valkey_url) as http:
        yield CountingClient(http)


async def export_pages(client: CountingClient, inspector: Redis, *names: str, deleted: bool = False) -> bytes:
    """Return the file of an owner with these pages; their conversations may be deleted."""
    for name in names:
        await make_page(client, name)
        if deleted:
            await client.ok("DELETE", f"/threads/{name}")
    content = await export_data(client)
    inspector.flushdb()
    return content


async def thread_ids(client: CountingClient) -> list[Any]:
    rows = await client.ok("POST", "/threads/search", {"limit": 100})
    return sorted(row["thread_id"] for row in rows)


async def change_headline(client: CountingClient, page: str) -> None:
    message = {"message": "Change the headline to “My own”", **OFFLINE}
    assert (await client.ok("POST", f"/api/pages/{page}/chat", message))["drafts"]


async def test_a_thread_that_changes_during_an_export_is_in_the_file_once(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """It was twice, and no import took the file."""
    names = [f"t{number:03}" for number in range(CHUNK + 1)]
    for name in names:
        await client.ok("POST", "/threads", {"thread_id": name})
    assert len(await thread_ids(client)) == CHUNK
    async with served_app(proxy.url) as slow:
        proxy.hold(keys.thread_meta(names[-2]))
        export = asyncio.create_task(slow.get("/api/data/export"))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        await client.ok("PATCH", f"/threads/{names[0]}", {"metadata": {"pinned": True}})
        assert len(await thread_ids(client)) == CHUNK
        proxy.release()
        content = (await export).content
    entries = [entry.data["id"] for entry in read_entries(BytesIO(content))]
    assert sorted(entries) == names


async def test_a_page_whose_deletion_was_cut_is_not_exported(
    client: CountingClient, inspector: Redis
) -> None:
    """Its copy could not be changed elsewhere either."""
    await make_page(client, "one")
    await client.ok("DELETE", "/threads/one")
    assert b"page:one" in await export_data(client)
    inspector.hset(keys.artefact_meta("page", "one"), "deleting", 1)
    assert b"page:one" not in await export_data(client)


async def test_the_same_file_is_refused_while_its_import_is_at_work(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    content = await export_pages(client, inspector, "one", "two")
    async with served_app(proxy.url) as slow:
        proxy.hold("thread:{two}:lease")
        first = asyncio.create_task(slow.post(PATH, content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        again = await client.http.post(PATH, content=content)
        assert (again.status_code, again.json()["type"]) == (409, "busy"), again.text
        assert "is at work" in again.json()["error"]
        assert again.headers["Retry-After"] == "15"
        proxy.release()
        assert (await first).status_code == 201
    assert await thread_ids(client) == ["one", "two"]
    assert not inspector.exists(caller_keys.import_lease("local"))
    assert (await client.http.post(PATH, content=content)).json()["type"] == "conflict"


async def test_an_import_that_stood_still_for_too_long_writes_and_removes_nothing_more(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    content = await export_pages(client, inspector, "one", "two", "three")
    async with served_app(proxy.url) as slow:
        proxy.hold("thread:{three}:lease")
        first = asyncio.create_task(slow.post(PATH, content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        # Its lease has ended, as after a long pause of its process.
        inspector.delete(caller_keys.import_lease("local"))
        assert (await client.http.post(PATH, content=content)).status_code == 201
        proxy.release()
        late = await first
    assert (late.status_code, "some of kind" in late.json()["error"]) == (409, True), late.text
    assert await thread_ids(client) == ["one", "three", "two"]


async def test_a_page_whose_import_was_cut_at_its_last_step_is_never_overwritten(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    await make_page(client, "one")
    content = (await client.http.get("/api/threads/one/export")).content
    inspector.flushdb()
    async with served_app(proxy.url) as slow:
        # From then on the name of the page's mark is sent only to remove it.
        assert (await slow.post("/api/threads/import?as=other", content=content)).status_code == 201
        proxy.hold("importing")
        first = asyncio.create_task(slow.post("/api/threads/import", content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        await change_headline(client, "one")
        before = await client.ok("GET", "/api/pages/one")
        await client.ok("DELETE", "/threads/one")
        again = await client.http.post("/api/threads/import", content=content)
        assert (again.status_code, again.json()["type"]) == (409, "conflict"), again.text
        assert await client.ok("GET", "/api/pages/one") == before
        first.cancel()
        await asyncio.wait([first])


@asynccontextmanager
async def cut_before(proxy: HoldingProxy, content: bytes, thread: str) -> AsyncIterator[None]:
    """An import that ends before it writes this thread."""
    async with served_app(proxy.url) as slow:
        proxy.hold(f"thread:{{{thread}}}:lease")
        first = asyncio.create_task(slow.post(PATH, content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        first.cancel()
        await asyncio.wait([first])
        yield


async def test_a_conversation_that_began_after_the_cut_stays_when_the_import_is_completed(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    content = await export_pages(client, inspector, "alone", "last", deleted=True)
    async with cut_before(proxy, content, "last"):
        assert await thread_ids(client) == []
        await change_headline(client, "alone")
        messages = (await client.ok("GET", "/threads/alone/state"))["values"]["messages"]
        done = await client.ok("POST", PATH, content=content)
    assert done["imported"]["thread"] == 2
    assert await thread_ids(client) == ["alone"]
    assert (await client.ok("GET", "/threads/alone/state"))["values"]["messages"] == messages
    assert (await client.ok("GET", "/api/pages/last"))["versionId"] == "v2"


async def test_a_page_that_is_being_deleted_is_not_taken_for_an_imported_one(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    content = await export_pages(client, inspector, "alone", "last", deleted=True)
    async with cut_before(proxy, content, "last"):
        # Its deletion was cut.
        inspector.hset(keys.artefact_meta("page", "alone"), "deleting", 1)
        again = await client.http.post(PATH, content=content)
        assert (again.status_code, "is being deleted" in again.json()["error"]) == (409, True), again.text
        await client.ok("DELETE", "/api/pages/alone")
        await client.ok("POST", PATH, content=content)
    assert (await client.ok("GET", "/api/pages/alone"))["versionId"] == "v2"


async def test_another_file_in_between_leaves_a_cut_import_to_be_completed(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    other = await export_pages(client, inspector, "other")
    content = await export_pages(client, inspector, "one", "two")
    async with cut_before(proxy, content, "two"):
        await client.ok("POST", PATH, content=other)
        await client.ok("POST", PATH, content=content)
    assert await thread_ids(client) == ["one", "other", "two"]
    assert [*inspector.scan_iter(caller_keys.unfinished_import("local", "*"))] == []


async def test_a_thread_that_was_made_after_the_cut_is_left_alone_and_named(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """It had got the lifetime of the file's thread, and counted as imported."""
    await client.ok("POST", "/threads", {"thread_id": "one"})
    await client.ok("POST", "/threads", {"thread_id": "two", "ttl": {"ttl": 1}})
    content = await export_data(client)
    inspector.flushdb()
    async with cut_before(proxy, content, "two"):
        await client.ok("POST", "/threads", {"thread_id": "two", "metadata": {"mine": True}})
        before = await client.ok("GET", "/threads/two?include=ttl")
        done = await client.ok("POST", PATH, content=content)
        assert done["imported"]["thread"] == 1
        assert done["leftOut"] == [{"thread": "two", "reason": "thread 'two' exists already"}]
        assert await client.ok("GET", "/threads/two?include=ttl") == before
        # The file can still be completed.
        await client.ok("DELETE", "/threads/two")
        done = await client.ok("POST", PATH, content=content)
    assert (done["imported"]["thread"], done["leftOut"]) == (2, [])
    assert (await client.ok("GET", "/threads/two?include=ttl"))["ttl"]["ttl_minutes"] == 1
    assert inspector.zcard(keys.THREADS_EXPIRING) == 1


async def test_work_that_is_done_during_an_import_stays_when_a_later_thread_is_taken(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """All threads of the import were deleted then, with what the owner had done in them."""
    content = await export_pages(client, inspector, "one", "two")
    async with served_app(proxy.url) as slow:
        proxy.hold("thread:{two}:lease")
        first = asyncio.create_task(slow.post(PATH, content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        await change_headline(client, "one")
        await client.ok("POST", "/threads", {"thread_id": "two"})
        proxy.release()
        done = (await first).json()
    assert (done["imported"]["thread"], done["leftOut"][0]["thread"]) == (1, "two")
    assert (await client.ok("GET", "/api/pages/one"))["versionId"] == "v3"


async def test_an_overtaken_import_deletes_no_state_of_the_complete_thread(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """It deleted all of them."""
    await make_video(client, "one")
    content = (await client.http.get("/api/threads/one/export")).content
    inspector.flushdb()
    async with served_app(proxy.url) as slow:
        proxy.hold("owner:{local}:execution:")
        first = asyncio.create_task(slow.post("/api/threads/import", content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        # Its lease has ended, as after a long pause of its process.
        inspector.delete(keys.run_keys("one").lease)
        await client.ok("POST", "/api/threads/import", content=content)
        before = await client.ok("POST", "/threads/one/history", {"limit": 100})
        proxy.release()
        late = await first
    assert (late.status_code, late.json()["type"]) == (409, "fenced"), late.text
    assert await client.ok("POST", "/threads/one/history", {"limit": 100}) == before != []


async def test_an_overtaken_import_replaces_no_artefact_of_the_later_one(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis, tmp_path: Path, valkey_url: str
) -> None:
    """A page lost its uploaded pictures."""
    await make_page(client, "one")
    picture = await client.ok("POST", "/api/pages/one/uploads?fileName=a.png", content=png())
    content = (await client.http.get("/api/threads/one/export")).content
    inspector.flushdb()
    target = valkey_url.removeprefix("unix://").partition("?")[0]
    async with (
        HoldingProxy(str(tmp_path / "second"), target) as later,
        served_app(proxy.url) as slow,
        served_app(later.url) as fast,
    ):
        proxy.hold(keys.receipts("page", "one"))
        first = asyncio.create_task(slow.post("/api/threads/import", content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        inspector.delete(keys.run_keys("one").lease)
        later.hold(keys.checkpoints("one").records)
        second = asyncio.create_task(fast.post("/api/threads/import", content=content))
        await asyncio.wait_for(later.has_held.wait(), 20)
        proxy.release()
        assert (await first).status_code == 409
        later.release()
        assert (await second).status_code == 201
    assert (await client.http.get(picture["url"])).status_code == 200


async def test_a_thread_whose_import_was_cut_takes_no_message_and_no_change(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """A message made the part look complete, and what was missing never came."""
    await make_page(client, "one")
    content = (await client.http.get("/api/threads/one/export")).content
    inspector.flushdb()
    async with served_app(proxy.url) as slow:
        proxy.hold(keys.checkpoints("one").records)
        first = asyncio.create_task(slow.post("/api/threads/import", content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        # Its server was killed, and its lease has ended.
        inspector.delete(keys.run_keys("one").lease)
        message = {"message": "Change the headline to “My own”", **OFFLINE}
        for method, path, body in (
            ("POST", "/api/pages/one/chat", message),
            ("POST", "/threads/one/state", {"values": {}}),
            ("PATCH", "/threads/one", {"metadata": {"title": "My own"}}),
        ):
            reply = await client.http.request(method, path, json=body)
            assert (reply.status_code, "is not finished" in reply.text) == (409, True), reply.text
        await client.ok("POST", "/api/threads/import", content=content)
        await change_headline(client, "one")
        first.cancel()
        await asyncio.wait([first])


async def test_a_page_that_was_changed_after_the_cut_is_not_replaced(
    client: CountingClient, proxy: HoldingProxy, inspector: Redis
) -> None:
    """The change was lost."""
    await make_page(client, "one")
    content = await export_data(client)
    inspector.flushdb()
    async with served_app(proxy.url) as slow:
        proxy.hold(keys.checkpoints("one").records)
        first = asyncio.create_task(slow.post(PATH, content=content))
        await asyncio.wait_for(proxy.has_held.wait(), 20)
        # Its server was killed, and its leases have ended.
        inspector.delete(keys.run_keys("one").lease, caller_keys.import_lease("local"))
        await client.ok("DELETE", "/api/pages/one/locks/footer-1")
        restored = await client.ok("POST", "/api/pages/one/versions/v1/restore")
        done = await client.ok("POST", PATH, content=content)
        reason = "page 'one' was changed after its import was cut"
        assert done["leftOut"] == [{"thread": "one", "reason": reason}]
        assert (await client.ok("GET", "/api/pages/one"))["versionId"] == restored["id"]
        first.cancel()
        await asyncio.wait([first])
