"""The format of the stored data: its number, migrations from recorded data, and the refusal of newer data."""

import os
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.server.operations import doctor
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid
from callsheet.storage import Storage
from callsheet.storage.migrations import FORMAT, migrate
from callsheet.storage.redis import keys
from callsheet.storage.redis.health import server_time_s
from callsheet.storage.redis.renamed_fields import RUN_FIELDS, THREAD_FIELDS
from tests.doubles.killing import Kill, KillingProxy, WarmParent
from tests.doubles.served import chat_about_ad, generate_ad, served_app, started_app
from tests.doubles.waiting import eventually
from tests.storage.recorded_data import OFFLINE, dump, restore

FIRST = "format_1.json.gz"


async def ok(reply: Any) -> Any:
    response: httpx.Response = await reply
    assert response.is_success, response.text
    return response.json()


def former_names(data: dict[str, Any]) -> set[str]:
    """The field names of format 1 in the hashes of threads and runs."""
    hashes = [
        value for name, (kind, _, value) in data.items() if name.startswith("thread:") and kind == "hash"
    ]
    return {field for value in hashes for field, _ in value} & (RUN_FIELDS.keys() | THREAD_FIELDS.keys())


async def statuses(client: httpx.AsyncClient, thread: str) -> list[str]:
    return [run["status"] for run in await ok(client.get(f"/threads/{thread}/runs"))]


@pytest.mark.slow
async def test_all_that_waits_in_recorded_data_of_format_1_goes_on(
    valkey_url: str, storage: Storage, inspector: Redis
) -> None:
    """A lesson, a page, a paused plan, runs that wait or were handed over, a cron, and an equal message."""
    restore(valkey_url, FIRST)
    assert former_names(dump(inspector)) == {"told", "webhookTold", "spared", "answered"}
    async with served_app(valkey_url, max_wait_s=0) as client:
        assert (await ok(client.get("/health")))["storage"]["format"] == FORMAT
        assert not former_names(dump(inspector))
        for thread, number in (("waiting", 2), ("handed-over", 1)):

            async def have_succeeded(thread: str = thread, number: int = number) -> bool:
                return await statuses(client, thread) == ["success"] * number

            await eventually(have_succeeded, f"the runs of {thread}", patience_s=30)

        async def has_fired() -> bool:
            return bool(await storage.redis.zcount(keys.CRONS_DUE, 1, "+inf"))

        await eventually(has_fired, "the cron's next time")
        await answer_all(client)
        assert (await chat_about_ad(client, "make the music more upbeat"))["drafts"] == {"music": "v3"}
        [hooked] = await ok(client.get("/threads/hooked/runs"))
        assert await storage.redis.hget(keys.run("hooked", hooked["run_id"]), "webhookCalled")


async def answer_all(client: httpx.AsyncClient) -> None:
    """Answer the questions of the recorded data, and check what follows."""
    waiting = (await ok(client.get("/api/questions")))["questions"]
    by_graph = {one["workflow"]: one for one in waiting}
    assert by_graph.keys() == {"fact_narration", "page_builder", "scene_edit"}
    session = {"X-Session-Id": by_graph["fact_narration"]["thread"]}
    body: dict[str, Any] = {"messages": [], "selectedFacts": [1, 2], **OFFLINE}
    lesson = await ok(client.post("/api/agent-create/tools", json=body, headers=session))
    assert lesson["status"] == "script_generated"
    body = {"decisions": [{"type": "approve"}], **OFFLINE}
    assert (await ok(client.post("/api/pages/shop/decisions", json=body)))["drafts"] == {"page": "v2"}
    [plan] = (await ok(client.get("/api/projects/launch/executions")))["executions"]
    assert plan["status"] == "paused"
    await ok(client.post(f"/api/executions/{plan['id']}/resume"))

    async def has_ended() -> bool:
        return bool((await ok(client.get(f"/api/executions/{plan['id']}")))["status"] == "completed")

    await eventually(has_ended, "the end of the plan")


async def test_data_of_a_newer_format_is_refused(valkey_url: str, storage: Storage) -> None:
    await storage.redis.hset(keys.DATA_FORMAT, "version", FORMAT + 1)
    with pytest.raises(Invalid, match=rf"data of format {FORMAT + 1}, and this version reads") as refusal:
        async with started_app(valkey_url):
            pass
    assert "restore the backup" in refusal.value.remedy
    findings = await doctor.diagnose(Settings(redis_url=valkey_url, port=0), {})
    [finding] = [one for one in findings if one.part == "Data format"]
    assert finding.status == "fail"


async def test_a_process_that_a_newer_format_overtakes_says_so(valkey_url: str, storage: Storage) -> None:
    async with served_app(valkey_url) as client:
        await storage.redis.hset(keys.DATA_FORMAT, "version", FORMAT + 1)
        health = await ok(client.get("/health"))
    assert (health["status"], health["degraded"]) == ("degraded", ["format"])
    assert health["storage"]["format"] == FORMAT + 1


async def test_a_migration_waits_for_the_lease_of_another_process(storage: Storage) -> None:
    """The other one has died, and the data is migrated once its lease is over."""
    thread = keys.thread_meta("old")
    await storage.redis.hset(thread, mapping={"owner": "local", "also": '["ad:other"]'})
    await storage.redis.set("callsheet:owners-listed", 1)
    end_ms = int(await server_time_s(storage.redis) * 1000) + 500
    await storage.redis.hset(keys.DATA_FORMAT, mapping={"holder": "another", "untilMs": end_ms})
    await migrate(storage)
    assert await server_time_s(storage.redis) * 1000 >= end_ms
    assert await storage.redis.hgetall(keys.DATA_FORMAT) == {b"version": str(FORMAT).encode()}
    assert await storage.redis.hgetall(thread) == {b"owner": b"local", b"otherArtefacts": b'["ad:other"]'}
    assert not await storage.redis.exists("callsheet:owners-listed")


async def test_fields_that_an_older_process_writes_after_the_migration_count(
    valkey_url: str, storage: Storage
) -> None:
    """During a rolling upgrade: an answer that an older server has sent is not sent for another request."""
    async with served_app(valkey_url) as client:
        await generate_ad(client)
        await chat_about_ad(client, "make the music more upbeat")
        [newest, *_] = await ok(client.get("/threads/ad-1/runs"))
        run = keys.run("ad-1", newest["run_id"])
        await storage.redis.hdel(run, "answerSent")
        await storage.redis.hset(run, "told", 1)
        assert (await chat_about_ad(client, "make the music more upbeat"))["drafts"] == {"music": "v3"}
        assert await storage.redis.hmget(run, "told", "answerSent") == [None, b"1"]


@pytest.mark.slow
async def test_a_migration_that_is_killed_at_any_command_is_finished_by_the_next_process(
    valkey_url: str, storage: Storage, inspector: Redis, warm_parent: WarmParent, tmp_path: Path
) -> None:
    restore(valkey_url, FIRST)
    await migrate(storage)
    expected = values(dump(inspector))
    target = valkey_url.removeprefix("unix://").split("?")[0]
    async with KillingProxy(f"{target}-proxy-{os.getpid()}", target) as proxy:
        for at in count(1):
            inspector.flushall()
            restore(valkey_url, FIRST)
            folder = tmp_path / str(at)
            folder.mkdir()
            await run_victim(proxy, warm_parent, folder, at)
            await migrate(storage)
            assert values(dump(inspector)) == expected
            if not proxy.kill.done:
                break
    assert at > 10


async def run_victim(proxy: KillingProxy, warm_parent: WarmParent, folder: Path, at: int) -> None:
    """Migrate in a process that is killed at its message number `at`, and wait for its end."""
    proxy.kill = Kill(at=at, when="before")
    proxy.kill.pid = warm_parent.fork(
        "tests.storage.migration_victim:migrate_data",
        redis_url=f"unix://{proxy.path}?db=0",
        folder=str(folder),
    )
    proxy.kill.armed = True
    (folder / "start").touch()

    async def has_ended() -> bool:
        return proxy.kill.done or (folder / "end").exists()

    await eventually(has_ended, "the end of the process")


def values(data: dict[str, Any]) -> dict[str, Any]:
    """The data without the time that is left to it."""
    return {name: value for name, (_, _, value) in data.items()}
