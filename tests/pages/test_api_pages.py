"""Pages over REST: read, compare, restore, lock, export (C27)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.pages.schemas import (
    Diff,
    LockList,
    PageActivated,
    PageVersion,
    PageVersionList,
    PageView,
)
from callsheet.state.pages.history import STARTER
from callsheet.state.pages.page import digests
from callsheet.storage import Storage
from callsheet.storage.threads.threads import Thread, bind
from callsheet.tools.guard.tool_environment import use_tool_environment
from tests.doubles.documented import assert_documented
from tests.doubles.served import app_client, started_app
from tests.pages.page_double import PageDouble
from tests.pages.page_scanner import page_faults


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server; every reply must have a documented status."""
    async with (
        started_app(valkey_url) as app,
        app_client(app, event_hooks={"response": [assert_documented]}) as one,
    ):
        yield one


@pytest.fixture
async def bakery(client: httpx.AsyncClient, storage: Storage) -> PageDouble:
    """A page of two versions: another heading, then a form."""
    page = PageDouble(storage)
    await page.result_of("modify_element", elementId="heading-1", modifications={"content": "Fresh bread"})
    await page.result_of(
        "create_element", parentId="page", elementType="form", properties={"label": "Contact"}
    )
    return page


async def request_ok(client: httpx.AsyncClient, method: str, path: str, shape: Any, status: int = 200) -> Any:
    reply = await client.request(method, f"/api/pages/bakery{path}")
    assert reply.status_code == status, reply.text
    TypeAdapter(shape).validate_python(reply.json())
    return reply.json()


async def test_a_page_is_shown_with_its_tree_versions_and_digests(
    client: httpx.AsyncClient, bakery: PageDouble
):
    shown = await request_ok(client, "GET", "", PageView)
    assert (shown["pageId"], shown["versionId"], shown["activeVersionId"]) == ("bakery", "v2", None)
    assert shown["title"] == "Fresh bread"
    assert shown["page"] == (await bakery.page()).data()
    assert shown["digests"]["footer-1"] == digests(STARTER)["footer-1"]
    assert shown["createdAt"] <= shown["updatedAt"]
    by_conversation = await client.get("/api/pages/t")
    assert by_conversation.status_code == 404, "no thread of this id is recorded"


async def test_the_starter_page_is_shown_for_a_conversation_without_changes(
    client: httpx.AsyncClient, storage: Storage
):
    """X5: a page is also found by the id of its conversation."""
    await bind(storage, Thread("chat-1", "local", "page_builder", "page:new"))
    shown = (await client.get("/api/pages/chat-1")).json()
    assert (shown["pageId"], shown["conversationId"]) == ("new", "chat-1")
    assert (shown["versionId"], shown["page"]) == (None, STARTER.data())


async def test_versions_are_listed_shown_compared_and_activated(
    client: httpx.AsyncClient, bakery: PageDouble
):
    listed = await request_ok(client, "GET", "/versions", PageVersionList)
    assert [one["summary"] for one in listed["versions"]] == [
        'heading-1: content "Say what you offer in one line" → "Fresh bread"',
        "added form-1 (Contact) to the page",
    ]
    assert listed["before"] is None
    newest = await request_ok(client, "GET", "/versions?limit=1", PageVersionList)
    assert [one["id"] for one in newest["versions"]] == ["v2"]
    older = await request_ok(client, "GET", f"/versions?limit=1&before={newest['before']}", PageVersionList)
    assert ([one["id"] for one in older["versions"]], older["before"]) == (["v1"], None)
    first = await request_ok(client, "GET", "/versions/v1", PageVersion)
    assert first["changes"][0]["before"] == "Say what you offer in one line"
    comparison = await request_ok(client, "GET", "/diff?from=start&to=v2", Diff)
    assert [change["kind"] for change in comparison["changes"]] == ["added", "changed"]
    assert "footer-1" in comparison["unchanged"]
    assert not {"page", "section-1", "heading-1", "form-1"} & set(comparison["unchanged"])
    active = await request_ok(client, "POST", "/versions/v1/activate", PageActivated)
    assert (active["active"], active["status"]) == ("v1", "active")
    assert (await request_ok(client, "GET", "", PageView))["activeVersionId"] == "v1"


async def test_an_earlier_version_is_restored_as_a_new_version(client: httpx.AsyncClient, bakery: PageDouble):
    restored = await request_ok(client, "POST", "/versions/start/restore", PageVersion, 201)
    assert (restored["id"], restored["createdBy"]) == ("v3", "local")
    assert (await bakery.page()).root == STARTER.root
    restored = await request_ok(client, "POST", "/versions/v2/restore", PageVersion, 201)
    assert (restored["id"], restored["parent"]) == ("v4", "v2")
    repeated = await client.post("/api/pages/bakery/versions/v2/restore")
    assert (repeated.status_code, repeated.json()["type"]) == (422, "invalid")
    assert (await bakery.result_of("undo"))["restored"] == "v3", "a restore can be undone"


async def test_a_locked_element_cannot_be_changed_until_it_is_unlocked(
    client: httpx.AsyncClient, bakery: PageDouble
):
    locked = await request_ok(client, "PUT", "/locks/heading-1", LockList)
    assert [(one["elementId"], one["by"]) for one in locked["locks"]] == [("heading-1", "local")]
    assert await request_ok(client, "PUT", "/locks/heading-1", LockList) == locked
    refused = await bakery.error_of("modify_element", elementId="heading-1", modifications={"content": "x"})
    assert refused["type"] == "permission_denied"
    restored = await client.post("/api/pages/bakery/versions/start/restore")
    assert restored.status_code == 403
    assert "locked" in restored.json()["error"]
    assert (await request_ok(client, "GET", "", PageView))["locks"] == locked["locks"]
    assert await request_ok(client, "DELETE", "/locks/heading-1", LockList) == {"locks": []}
    await bakery.result_of("modify_element", elementId="heading-1", modifications={"content": "x"})
    assert (await client.put("/api/pages/bakery/locks/gone-1")).status_code == 404


async def test_every_version_is_exported_as_harmless_html(client: httpx.AsyncClient, bakery: PageDouble):
    await bakery.result_of(
        "modify_element", elementId="text-2", modifications={"content": "</style><script>alert(1)</script>"}
    )
    reply = await client.get("/api/pages/bakery/export")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert not page_faults(reply.text)
    policy = reply.headers["content-security-policy"]
    assert "sandbox allow-forms" in policy
    assert "allow-scripts" not in policy
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "&lt;script&gt;" in reply.text
    first = await client.get("/api/pages/bakery/export?version=v1&view=attachment")
    assert first.headers["content-disposition"].startswith(
        "attachment; filename*=UTF-8''Fresh%20bread%20v1.html"
    )
    assert "form-1" not in first.text
    framed = (await client.get("/api/pages/bakery/export?view=frame")).headers["content-security-policy"]
    assert framed.endswith("sandbox allow-same-origin; frame-ancestors 'self'")
    uploads = f"{client.base_url.netloc.decode()}/api/pages/bakery/uploads/"
    assert f"img-src {uploads} data:; media-src {uploads};" in framed, "its images reach no other route"
    odd = await client.get("/api/pages/bakery/export?view=frame", headers={"Host": "[::1]:2024"})
    assert "img-src  data:; media-src ;" in odd.headers["content-security-policy"]
    start = await client.get("/api/pages/bakery/export?version=start")
    assert "Say what you offer in one line" in start.text


INVALID_REQUESTS = [
    ("GET", "/api/pages/nobodys", 404),
    ("GET", "/api/pages/bakery/versions/v9", 404),
    ("GET", "/api/pages/bakery/versions?before=v9", 404),
    ("GET", "/api/pages/bakery/versions?limit=0", 422),
    ("GET", "/api/pages/bakery/diff?from=v1", 422),
    ("GET", "/api/pages/bakery/diff?from=v1&to=v9", 404),
    ("POST", "/api/pages/bakery/versions/v9/activate", 404),
    ("POST", "/api/pages/bakery/versions/v9/restore", 404),
    ("GET", "/api/pages/bakery/export?version=v9", 404),
]


async def test_a_missing_page_or_version_is_refused_with_an_error(
    client: httpx.AsyncClient, bakery: PageDouble
):
    for method, path, status in INVALID_REQUESTS:
        reply = await client.request(method, path)
        assert reply.status_code == status, (path, reply.text)
        assert reply.json()["error"]
    missing = (await client.get("/api/pages/nobodys")).json()
    assert missing["remedy"] == "create it with POST /api/pages/nobodys/chat"


async def test_data_is_fetched_only_from_hosts_that_the_operator_allows(valkey_url: str, storage: Storage):
    async with started_app(valkey_url, fetch_hosts=("data.example",)) as app, app_client(app) as client:
        assert (await client.get("/api/pages/bakery")).status_code == 404, "the server has started"
        with use_tool_environment(app.state.context.tool_environment):
            refused = await PageDouble(storage).error_of("fetch_data", url="https://other.example/")
        assert (refused["type"], refused["suggestion"]) == ("permission_denied", "use data.example")
    assert "data.example" not in str(await PageDouble(storage).call("fetch_data", url="ftp://x.example/"))


async def test_a_restore_concurrent_with_edits_loses_no_version(
    client: httpx.AsyncClient, bakery: PageDouble
):
    edits = [
        bakery.call_step("modify_element", f"e{i}", elementId=f"text-{i}", modifications={"content": f"T{i}"})
        for i in range(1, 5)
    ]
    restore = client.post("/api/pages/bakery/versions/start/restore")
    restored, outcomes = await asyncio.gather(restore, asyncio.gather(*edits))
    assert restored.status_code == 201
    assert all(outcome.ok for outcome in outcomes)
    history = await bakery.artefact.stream("page")
    assert len(history.versions) == 2 + 5
    assert [one.data["back"] for one in history.versions[1:]] == [one.id for one in history.versions[:-1]]
