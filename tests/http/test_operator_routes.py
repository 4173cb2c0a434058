"""Runs and use of models of all owners, over REST with an admin key."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callsheet.state.budgets import Budgets
from callsheet.storage import Storage, spending
from callsheet.storage.runs.records import RunAttempt, RunRequest, request_fields
from callsheet.storage.runs.runs import Runs
from callsheet.storage.spending import Account, ModelUsage
from callsheet.storage.threads.threads import NewThread, create
from tests.doubles.ad_model import call
from tests.doubles.auth_cases import create_key
from tests.doubles.chat_double import ChatDouble, Fail, Say, Silence
from tests.doubles.served import GENERATE, app_client, served_app, started_app
from tests.doubles.waiting import eventually, until

OWNERS = [f"owner-{number:02}" for number in range(50)]


@pytest.fixture
async def admin(valkey_url: str, storage: Storage) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that executes no runs, with the key of an administrator."""
    async with served_app(valkey_url, auth=("keys",), carry_runs=False) as http:
        http.headers["X-Api-Key"] = await create_key(storage, "root", "admin")
        yield http


@pytest.fixture
async def runs(storage: Storage) -> Runs:
    """A pending run of each of 50 owners; those of the first two are running, one for the second time."""
    store = Runs(storage, lease_s=0.05)

    async def record(owner: str) -> None:
        await create(storage, NewThread(f"thread-{owner}", owner))
        request = request_fields(input={"messages": "secret words"})
        await store.create(RunRequest(f"thread-{owner}", f"run-{owner}", "ad_creation", owner, request))

    await asyncio.gather(*(record(owner) for owner in OWNERS))
    assert isinstance(await store.claim("thread-owner-00", "run-owner-00"), RunAttempt)

    async def is_claimed() -> bool:
        return isinstance(await store.claim("thread-owner-01", "run-owner-01"), RunAttempt)

    await eventually(is_claimed, "the first attempt")
    await eventually(is_claimed, "the second attempt, after the lease of the first")
    return store


async def every_page(http: httpx.AsyncClient, path: str, **query: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    after: Any = None
    while True:
        chosen = query if after is None else {**query, "after": after}
        reply = await http.get(path, params=chosen)
        assert reply.status_code == 200, reply.text
        page = reply.json()
        assert len(page.get("runs", page.get("rows"))) <= query["limit"]
        rows += page.get("runs", page.get("rows"))
        after = page["next"]
        if after is None:
            return rows


async def test_unfinished_runs_of_50_owners_are_listed_in_pages(admin: httpx.AsyncClient, runs: Runs) -> None:
    listed = await every_page(admin, "/api/admin/runs", limit=20)
    assert sorted(run["owner"] for run in listed) == OWNERS
    assert listed == sorted(listed, key=lambda run: run["createdAt"], reverse=True)
    by_owner = {run["owner"]: run for run in listed}
    assert (by_owner["owner-00"]["status"], by_owner["owner-00"]["attempts"]) == ("running", 1)
    assert (by_owner["owner-01"]["status"], by_owner["owner-01"]["attempts"]) == ("running", 2)
    one = by_owner["owner-49"]
    assert (one["status"], one["attempts"], one["error"]) == ("pending", 0, None)
    assert (one["runId"], one["threadId"], one["graph"]) == (
        "run-owner-49",
        "thread-owner-49",
        "ad_creation",
    )
    assert 0 <= one["ageSeconds"] < 60
    assert "secret words" not in str(listed), "an operator sees that there are runs, not what is in them"


async def test_runs_are_chosen_by_status_owner_and_time(admin: httpx.AsyncClient, runs: Runs) -> None:
    running = await every_page(admin, "/api/admin/runs", limit=20, status="running")
    assert {run["owner"] for run in running} == {"owner-00", "owner-01"}
    of_one = await every_page(admin, "/api/admin/runs", limit=20, owner="owner-07")
    assert [run["runId"] for run in of_one] == ["run-owner-07"]
    assert await every_page(admin, "/api/admin/runs", limit=20, since="2099-01-01T00:00:00Z") == []
    all_times = {"since": "1805-01-01T00:00:00Z", "status": ["error", "running"]}
    early = await every_page(admin, "/api/admin/runs", limit=20, **all_times)
    assert {run["owner"] for run in early} == {"owner-00", "owner-01"}
    audit = await admin.get("/api/admin/audit", params={"since": "1805-01-01T00:00:00"})
    assert audit.status_code == 200, audit.text
    for wrong in ({"status": "odd"}, {"after": "x"}, {"since": "yesterday"}, {"limit": 1000}):
        assert (await admin.get("/api/admin/runs", params=wrong)).status_code == 422


async def test_a_running_run_shows_the_step_that_it_has_stored(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    music = call("c1", "create_music_draft", adId="ad-1", prompt="gentle piano")
    with ChatDouble(Say(calls=(music,)), Silence()) as model:
        for name, value in model.environ.items():
            monkeypatch.setenv(name, value)
        async with served_app(valkey_url, stop_grace_s=0) as http:
            thread = (await http.post("/threads", json={"graph_id": "ad_creation"})).json()["thread_id"]
            words = {"messages": [{"role": "user", "content": "Gentle music for an ad of a bakery"}]}
            body = {"assistant_id": "ad_creation", "input": words, "context": {"provider": "openai"}}
            assert (await http.post(f"/threads/{thread}/runs", json=body)).status_code == 200
            await asyncio.to_thread(until, lambda: len(model.requests) == 2, "the second call of the model")
            [run] = await every_page(http, "/api/admin/runs", limit=1)
            assert run["threadId"] == thread
            assert run["step"] >= 2


async def test_failed_runs_are_listed_with_their_error(
    valkey_url: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatDouble() as model:
        for name, value in {**model.environ, "OPENAI_MODEL": "gpt-4o-mini"}.items():
            monkeypatch.setenv(name, value)
        async with started_app(valkey_url, auth=("keys",)) as app, app_client(app) as http:
            for owner in ("anna", "ben"):
                model.script(Fail(500))
                http.headers["X-Api-Key"] = await create_key(storage, owner)
                reply = await http.post("/api/ai/generate", json={**GENERATE, "provider": "openai"})
                assert reply.status_code == 503
            http.headers["X-Api-Key"] = await create_key(storage, "root", "admin")

            async def failures() -> list[dict[str, Any]]:
                listed = await every_page(http, "/api/admin/runs", limit=1, status="error")
                return listed if len(listed) == 2 else []

            await eventually(failures, "both failures are listed")
            ben, anna = await failures()
    assert (anna["owner"], ben["owner"]) == ("anna", "ben")
    assert (ben["status"], ben["error"], ben["attempts"]) == ("error", "Unavailable", 1)
    assert "OpenAI" in ben["message"]
    assert ben["endedAt"] >= ben["createdAt"]


async def test_the_use_of_models_is_reported_by_owner_model_and_day(
    admin: httpx.AsyncClient, storage: Storage
) -> None:
    budgets = Budgets()
    for number, owner in enumerate(OWNERS):
        account = await spending.with_redis_day(storage, Account(owner, "t", "m"))
        for model in ("m1", "m2"):
            await spending.reserve(storage, account, model, 0.0, budgets, 60)
            await spending.settle(storage, account, model, model, ModelUsage(1, 10, 5, 0, 0.001 * number))
    rows = await every_page(admin, "/api/admin/usage", limit=30)
    assert [row["owner"] for row in rows] == [owner for owner in OWNERS for _ in range(2)]
    assert {row["model"] for row in rows} == {"m1", "m2"}
    assert rows[-1]["costUsd"] == pytest.approx(0.049)
    by_model = await every_page(admin, "/api/admin/usage", limit=30, by="model")
    assert [(row["model"], row["owner"], row["modelCalls"]) for row in by_model] == [
        ("m1", None, 50),
        ("m2", None, 50),
    ]
    total = (await admin.get("/api/admin/usage", params={"by": ["day"], "limit": 1})).json()["total"]
    assert total["costUsd"] == pytest.approx(2 * 0.001 * sum(range(50)))
    assert (await admin.get("/api/admin/usage", params={"from": "2000-01-01"})).status_code == 422


@pytest.mark.parametrize("path", ["/api/admin/runs", "/api/admin/usage"])
async def test_only_an_admin_key_sees_all_owners(
    admin: httpx.AsyncClient, storage: Storage, path: str
) -> None:
    for permission, status in (("read", 403), ("write", 403), ("admin", 200)):
        key = await create_key(storage, "alice", permission)
        assert (await admin.get(path, headers={"X-Api-Key": key})).status_code == status
    assert (await admin.get(path, headers={"X-Api-Key": "cs_unknown"})).status_code == 401
