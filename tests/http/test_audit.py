"""The audit: answers, deletions, keys, budgets, exports and imports, by whom; keys that are rotated."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.server.http import api_keys
from callsheet.server.telemetry import audit
from callsheet.state.errors import Conflict
from callsheet.storage import Storage
from callsheet.storage import api_keys as stored_keys
from tests.doubles.auth_cases import create_key
from tests.doubles.served import app_client, generate_ad, served_app, started_app
from tests.doubles.waiting import eventually
from tests.lessons.lesson_material import material


@pytest.fixture
async def http(valkey_url: str, storage: Storage) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server, with a key of anna's that may do everything."""
    async with served_app(valkey_url, auth=("keys",), budgets='{"day": 20}') as client:
        client.headers["X-Api-Key"] = await create_key(storage, "anna", "admin")
        yield client


async def actions(http: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    reply = await http.get("/api/admin/audit", params=query)
    assert reply.status_code == 200, reply.text
    return list(reply.json()["actions"])


async def test_deletions_exports_and_imports_are_recorded_with_key_and_request(http: httpx.AsyncClient):
    key_id = str(http.headers["X-Api-Key"]).split("_")[1]
    thread = (await generate_ad(http))["conversationId"]
    exported = await http.get(f"/api/threads/{thread}/export", headers={"X-Request-Id": "my-request"})
    imported = await http.post(
        "/api/threads/import", params={"as": "copy"}, content=exported.content, headers={}
    )
    assert imported.status_code == 201, imported.text
    assert (await http.delete("/api/ads/ad-1")).status_code == 200
    assert (await http.delete("/api/ads/unknown")).status_code == 404
    deleted, brought, taken = await actions(http, limit=3)
    assert [one["action"] for one in (deleted, brought, taken)] == [
        "delete",
        "thread.import",
        "thread.export",
    ]
    assert deleted["target"] == "DELETE /api/ads/ad-1"
    assert brought["details"] == {"query": "as=copy"}
    assert taken["target"] == f"GET /api/threads/{thread}/export"
    assert (taken["owner"], taken["keyId"], taken["requestId"]) == ("anna", key_id, "my-request")


async def test_an_answer_is_recorded_with_its_question(http: httpx.AsyncClient) -> None:
    page = {"message": "Change the headline to “Fresh bread”", "provider": "offline"}
    assert (await http.post("/api/pages/shop/chat", json=page)).status_code == 200
    question = {"message": "delete the features section", "provider": "offline"}
    assert (await http.post("/api/pages/shop/chat", json=question)).json()["outcome"] == "waiting"
    answer = {"decisions": [{"type": "approve"}]}
    assert (await http.post("/api/pages/shop/decisions", json=answer)).status_code == 200
    [recorded] = await actions(http, action="answer")
    assert recorded["owner"] == "anna"
    assert recorded["details"]["graph"] == "page_builder"
    assert "approve" in recorded["details"]["answer"]
    assert recorded["details"]["sentence"]


MATERIAL = {"messages": [{"role": "user", "content": material("photosynthesis").text}]}


def request_of(way: str, turn: dict[str, Any], waiting: str) -> tuple[str, dict[str, Any]]:
    """Return path and body of a request that answers the question of a lesson's turn."""
    facts, session = (
        turn["interrupt"]["value"]["facts"],
        {"sessionId": turn["sessionId"], "provider": "offline"},
    )
    run = {"assistant_id": "fact_narration", "context": {"provider": "offline"}}
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "chat": (
            "/api/agent-create/tools",
            {"messages": [{"role": "user", "content": "1 and 2"}], **session},
        ),
        "question": (
            f"/api/questions/{waiting}/answer",
            {"answer": {"facts": [one["id"] for one in facts]}},
        ),
        "facts": ("/api/agent-create/tools", {"messages": [], "selectedFacts": facts, **session}),
        "wire": (f"/threads/{turn['sessionId']}/runs/wait", {**run, "input": {"messages": "1 and 2"}}),
    }
    return ways[way]


@pytest.mark.parametrize("way", ["chat", "question", "facts", "wire"])
async def test_an_answer_about_a_lesson_is_recorded_once_whichever_way_it_comes(
    http: httpx.AsyncClient, way: str
) -> None:
    key_id = str(http.headers["X-Api-Key"]).split("_")[1]
    turn = (await http.post("/api/agent-create/tools", json={**MATERIAL, "provider": "offline"})).json()
    [waiting] = (await http.get("/api/questions")).json()["questions"]
    path, body = request_of(way, turn, waiting["id"])
    reply = await http.post(path, json=body)
    assert reply.status_code in {200, 202}, reply.text

    async def is_recorded() -> bool:
        thread = (await http.get(f"/threads/{turn['sessionId']}")).json()
        return thread["status"] == "idle" and bool(await actions(http, action="answer"))

    await eventually(is_recorded, "the lesson is told, and its answer is in the audit")
    assert (await http.get("/api/questions")).json()["questions"] == []
    [recorded] = await actions(http, action="answer")
    details, by = recorded["details"], (recorded["owner"], recorded["keyId"], recorded["target"])
    assert by == ("anna", key_id, turn["sessionId"])
    assert (details["question"], details["graph"]) == (turn["interrupt"]["id"], "fact_narration")
    assert "Which shall the lesson tell?" in details["sentence"]
    first = turn["interrupt"]["value"]["facts"][0]["id"]
    assert ("1 and 2" if way in {"chat", "wire"} else first) in details["answer"]
    [answered] = (await http.get("/api/questions", params={"state": "answered"})).json()["questions"]
    assert answered["answeredBy"] == f"API key {key_id!r}"
    # A later message about something else answers nothing.
    later = {"messages": [{"role": "user", "content": "Make the hook shorter"}], "provider": "offline"}
    later |= {"sessionId": turn["sessionId"]}
    assert (await http.post("/api/agent-create/tools", json=later)).status_code == 200
    assert len(await actions(http, action="answer")) == 1


async def test_a_message_that_leaves_a_question_behind_is_no_answer(http: httpx.AsyncClient) -> None:
    turn = (await http.post("/api/agent-create/tools", json={**MATERIAL, "provider": "offline"})).json()
    other = {"messages": [{"role": "user", "content": "My student is 9."}]}
    body = {**other, "sessionId": turn["sessionId"], "provider": "offline"}
    assert (await http.post("/api/agent-create/tools", json=body)).status_code == 200
    assert await actions(http, action="answer") == []
    assert (await http.get("/api/questions", params={"state": "answered"})).json()["questions"] == []


async def test_budgets_that_differ_from_those_of_the_last_start_are_recorded(
    http: httpx.AsyncClient, valkey_url: str
) -> None:
    async with started_app(valkey_url, budgets='{"day": 20}'):
        pass
    async with started_app(valkey_url, budgets='{"day": 30}'):
        pass
    second, first = await actions(http, action="budgets")
    assert first["details"] == {"before": "{}", "now": '{"day": 20}'}
    assert second["details"] == {"before": '{"day": 20}', "now": '{"day": 30}'}


async def test_the_audit_has_pages_and_keeps_as_many_entries_as_the_setting_says(
    http: httpx.AsyncClient, storage: Storage
) -> None:
    for number in range(7):
        await audit.record_action(storage, "delete", f"thing {number}", owner="ben")
    page = (await http.get("/api/admin/audit", params={"action": "delete", "limit": 5})).json()
    assert [one["target"] for one in page["actions"]] == [f"thing {number}" for number in range(6, 1, -1)]
    query = {"action": "delete", "limit": 5, "after": page["next"]}
    rest = (await http.get("/api/admin/audit", params=query)).json()
    assert [one["target"] for one in rest["actions"]] == ["thing 1", "thing 0"]
    assert rest["next"] is None
    await audit.trim(storage, 3)
    assert [one["target"] for one in await actions(http)] == ["thing 6", "thing 5", "thing 4"]
    assert await actions(http, since="2099-01-01T00:00:00Z") == []
    writer = await create_key(storage, "ben")
    refused = await http.get("/api/admin/audit", headers={"X-Api-Key": writer})
    assert refused.status_code == 403


async def test_an_action_that_the_audit_cannot_take_is_done_and_logged(
    http: httpx.AsyncClient, storage: Storage, inspector: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """A deletion is what makes room again."""
    await generate_ad(http)
    limit = inspector.config_get("maxmemory")["maxmemory"] or 0
    inspector.config_set("maxmemory", 1)
    try:
        assert (await http.delete("/api/ads/ad-1")).status_code == 200
    finally:
        inspector.config_set("maxmemory", limit)
    [line] = [one for one in caplog.records if "the audit has no entry" in one.getMessage()]
    assert vars(line)["target"] == "DELETE /api/ads/ad-1"
    assert await actions(http, action="delete") == []


async def test_a_rotated_key_works_for_its_grace_and_the_new_one_is_alike(storage: Storage) -> None:
    old = await api_keys.create_key(storage, "anna", "admin", name="laptop", lifetime_s=3_600)
    new, left_s = await api_keys.rotate_key(storage, old.id, 60)
    assert left_s == 60
    before, after = [await stored_keys.find(storage, key.id) for key in (old, new)]
    assert before
    assert after
    assert (after.owner, after.permissions, after.name) == ("anna", before.permissions, "laptop")
    assert before.status == after.status == "active"
    assert before.expires_ms is not None
    assert after.expires_ms is not None
    assert before.expires_ms - before.now_ms <= 60_000
    assert 3_590_000 <= after.expires_ms - after.created_ms <= 3_600_000
    second, left_s = await api_keys.rotate_key(storage, old.id, 3_600)
    assert left_s <= 60
    twice = await stored_keys.find(storage, second.id)
    assert twice
    assert twice.expires_ms is not None
    assert twice.expires_ms - twice.created_ms == 3_600_000, "the end by the rotation is not inherited"
    again = await stored_keys.find(storage, old.id)
    assert again
    assert again.expires_ms == before.expires_ms, "a longer grace does not give a key more time"
    await stored_keys.revoke(storage, old.id)
    with pytest.raises(Conflict, match="revoked"):
        await api_keys.rotate_key(storage, old.id, 60)


async def test_a_key_without_an_end_has_successors_without_an_end(storage: Storage) -> None:
    old = await api_keys.create_key(storage, "anna", "read")
    for _ in range(2):
        new, _ = await api_keys.rotate_key(storage, old.id, 60)
        stored = await stored_keys.find(storage, new.id)
        assert stored
        assert stored.expires_ms is None


async def test_the_last_use_of_a_key_is_kept_without_a_write_for_each_request(
    http: httpx.AsyncClient, storage: Storage
) -> None:
    key_id = str(http.headers["X-Api-Key"]).split("_")[1]
    unused = await stored_keys.find(storage, key_id)
    assert unused
    assert (unused.used_ms, unused.use_is_known) == (None, True)
    await storage.redis.hdel(f"apikey:{{{key_id}}}", "usedMs")
    of_earlier_version = await stored_keys.find(storage, key_id)
    assert of_earlier_version
    assert not of_earlier_version.use_is_known
    assert (await http.get("/api/ads")).status_code == 200
    used = await stored_keys.find(storage, key_id)
    assert used
    assert used.used_ms is not None
    assert unused.now_ms <= used.used_ms <= used.now_ms
    for _ in range(3):
        assert (await http.get("/api/ads")).status_code == 200
    later = await stored_keys.find(storage, key_id)
    assert later
    assert later.used_ms == used.used_ms


@pytest.mark.parametrize("path", ["/api/questions/events", "/threads/{thread}/stream"])
async def test_streams_of_a_revoked_key_end_with_an_error(
    valkey_url: str, storage: Storage, path: str
) -> None:
    """X16: within two seconds, by the server that has the stream, whoever revoked the key."""
    async with started_app(valkey_url, auth=("keys",)) as app, app_client(app) as http:
        key = await create_key(storage, "anna")
        other = await create_key(storage, "anna")
        http.headers["X-Api-Key"] = key
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        path = path.format(thread=thread)
        reading = asyncio.create_task(http.get(path))
        staying = asyncio.create_task(http.get(path, headers={"X-Api-Key": other}))

        async def streams() -> bool:
            return len(app.state.open_streams) == 2

        await eventually(streams, "both streams are open")
        await stored_keys.revoke(storage, key.split("_")[1])
        async with asyncio.timeout(10):
            reply = await reading
        assert reply.status_code == 200
        last = reply.text.replace("\r\n", "\n").strip().split("\n\n")[-1]
        assert "event: error" in last
        assert "is revoked" in last
        assert "unauthenticated" in last.casefold()
        assert not staying.done(), "the streams of other keys go on"
        staying.cancel()
        await asyncio.gather(staying, return_exceptions=True)
