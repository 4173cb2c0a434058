"""Pages over REST: looked at, compared, brought back, locked, exported (C27)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.pages.replies import (
    Diff,
    LockList,
    PageActivated,
    PageVersion,
    PageVersionList,
    PageView,
)
from callsheet.state.pages.page import digests
from callsheet.state.pages.starter import STARTER
from callsheet.storage import Storage
from callsheet.storage.threads.threads import Thread, bind
from callsheet.tools.guard.application import use_application
from tests.doubles.served import app_client, assert_documented, started_app
from tests.pages.page_double import PageDouble
from tests.pages.page_watch import page_faults


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
    await page.done("modify_element", elementId="heading-1", modifications={"content": "Fresh bread"})
    await page.done("create_element", parentId="page", elementType="form", properties={"label": "Contact"})
    return page


async def ok(client: httpx.AsyncClient, method: str, path: str, shape: Any, status: int = 200) -> Any:
    reply = await client.request(method, f"/api/pages/bakery{path}")
    assert reply.status_code == status, reply.text
    TypeAdapter(shape).validate_python(reply.json())
    return reply.json()


async def test_a_page_is_shown_with_its_tree_and_what_is_in_hand(
    client: httpx.AsyncClient, bakery: PageDouble
):
    shown = await ok(client, "GET", "", PageView)
    assert (shown["pageId"], shown["versionId"], shown["activeVersionId"]) == ("bakery", "v2", None)
    assert shown["title"] == "Fresh bread"
    assert shown["page"] == (await bakery.page()).data()
    assert shown["digests"]["footer-1"] == digests(STARTER)["footer-1"]
    assert shown["createdAt"] <= shown["updatedAt"]
    by_conversation = await client.get("/api/pages/t")
    assert by_conversation.status_code == 404, "no thread of this id is recorded"


async def test_a_conversation_that_has_changed_nothing_yet_shows_the_starter_page(
    client: httpx.AsyncClient, storage: Storage
):
    """X5: the page is found by its conversation, too."""
    await bind(storage, Thread("chat-1", "local", "page_builder", "page:new"))
    shown = (await client.get("/api/pages/chat-1")).json()
    assert (shown["pageId"], shown["conversationId"]) == ("new", "chat-1")
    assert (shown["versionId"], shown["page"]) == (None, STARTER.data())


async def test_versions_are_listed_shown_compared_and_activated(
    client: httpx.AsyncClient, bakery: PageDouble
):
    listed = await ok(client, "GET", "/versions", PageVersionList)
    assert [one["summary"] for one in listed["versions"]] == [
        'heading-1: content "Say what you offer in one line" → "Fresh bread"',
        "added form-1 (Contact) in page",
    ]
    assert listed["before"] is None
    newest = await ok(client, "GET", "/versions?limit=1", PageVersionList)
    assert [one["id"] for one in newest["versions"]] == ["v2"]
    older = await ok(client, "GET", f"/versions?limit=1&before={newest['before']}", PageVersionList)
    assert ([one["id"] for one in older["versions"]], older["before"]) == (["v1"], None)
    first = await ok(client, "GET", "/versions/v1", PageVersion)
    assert first["changes"][0]["before"] == "Say what you offer in one line"
    told = await ok(client, "GET", "/diff?from=start&to=v2", Diff)
    assert [change["kind"] for change in told["changes"]] == ["added", "changed"]
    assert "footer-1" in told["unchanged"]
    assert not {"page", "section-1", "heading-1", "form-1"} & set(told["unchanged"])
    active = await ok(client, "POST", "/versions/v1/activate", PageActivated)
    assert (active["active"], active["status"]) == ("v1", "active")
    assert (await ok(client, "GET", "", PageView))["activeVersionId"] == "v1"


async def test_an_earlier_version_is_brought_back_as_a_new_one(client: httpx.AsyncClient, bakery: PageDouble):
    made = await ok(client, "POST", "/versions/start/restore", PageVersion, 201)
    assert (made["id"], made["createdBy"]) == ("v3", "local")
    assert (await bakery.page()).root == STARTER.root
    made = await ok(client, "POST", "/versions/v2/restore", PageVersion, 201)
    assert (made["id"], made["parent"]) == ("v4", "v2")
    again = await client.post("/api/pages/bakery/versions/v2/restore")
    assert (again.status_code, again.json()["type"]) == (400, "invalid")
    assert (await bakery.done("undo"))["restored"] == "v3", "a restored version can be taken back"


async def test_what_a_person_locks_stays_until_they_unlock_it(client: httpx.AsyncClient, bakery: PageDouble):
    locked = await ok(client, "PUT", "/locks/heading-1", LockList)
    assert [(one["elementId"], one["by"]) for one in locked["locks"]] == [("heading-1", "local")]
    assert await ok(client, "PUT", "/locks/heading-1", LockList) == locked
    refused = await bakery.refused("modify_element", elementId="heading-1", modifications={"content": "x"})
    assert refused["type"] == "permission_denied"
    restored = await client.post("/api/pages/bakery/versions/start/restore")
    assert restored.status_code == 403
    assert "locked" in restored.json()["error"]
    assert (await ok(client, "GET", "", PageView))["locks"] == locked["locks"]
    assert await ok(client, "DELETE", "/locks/heading-1", LockList) == {"locks": []}
    await bakery.done("modify_element", elementId="heading-1", modifications={"content": "x"})
    assert (await client.put("/api/pages/bakery/locks/gone-1")).status_code == 404


async def test_any_version_is_exported_as_a_file_that_can_do_no_harm(
    client: httpx.AsyncClient, bakery: PageDouble
):
    await bakery.done(
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
    assert first.headers["content-disposition"].startswith("attachment; filename*=UTF-8''bakery.html")
    assert "form-1" not in first.text
    start = await client.get("/api/pages/bakery/export?version=start")
    assert "Say what you offer in one line" in start.text


NOT_THERE = [
    ("GET", "/api/pages/nobodys", 404),
    ("GET", "/api/pages/bakery/versions/v9", 404),
    ("GET", "/api/pages/bakery/versions?before=v9", 404),
    ("GET", "/api/pages/bakery/versions?limit=0", 400),
    ("GET", "/api/pages/bakery/diff?from=v1", 400),
    ("GET", "/api/pages/bakery/diff?from=v1&to=v9", 404),
    ("POST", "/api/pages/bakery/versions/v9/activate", 404),
    ("POST", "/api/pages/bakery/versions/v9/restore", 404),
    ("GET", "/api/pages/bakery/export?version=v9", 404),
]


async def test_what_is_not_there_is_said_to_be_so(client: httpx.AsyncClient, bakery: PageDouble):
    for method, path, status in NOT_THERE:
        reply = await client.request(method, path)
        assert reply.status_code == status, (path, reply.text)
        assert reply.json()["error"]
    nobodys = (await client.get("/api/pages/nobodys")).json()
    assert nobodys["remedy"] == "create it with POST /api/pages/nobodys/chat"


async def test_the_operator_may_name_the_hosts_that_data_comes_from(valkey_url: str, storage: Storage):
    async with started_app(valkey_url, fetch_hosts=("data.example",)) as app, app_client(app) as client:
        assert (await client.get("/api/pages/bakery")).status_code == 404, "it has started"
        with use_application(app.state.context.application):
            refused = await PageDouble(storage).refused("fetch_data", url="https://other.example/")
        assert (refused["type"], refused["suggestion"]) == ("permission_denied", "use data.example")
    assert "data.example" not in str(await PageDouble(storage).call("fetch_data", url="ftp://x.example/"))


async def test_a_page_is_brought_back_beside_edits_of_the_same_moment(
    client: httpx.AsyncClient, bakery: PageDouble
):
    edits = [
        bakery.again("modify_element", f"e{i}", elementId=f"text-{i}", modifications={"content": f"T{i}"})
        for i in range(1, 5)
    ]
    asked = client.post("/api/pages/bakery/versions/start/restore")
    restored, made = await asyncio.gather(asked, asyncio.gather(*edits))
    assert restored.status_code == 201
    assert all(outcome.ok for outcome in made)
    kept = await bakery.artefact.stream("page")
    assert len(kept.versions) == 2 + 5
    assert [one.data["back"] for one in kept.versions[1:]] == [one.id for one in kept.versions[:-1]]
