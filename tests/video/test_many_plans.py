"""A project costs the same however many plans it had, and undo needs versions that are kept."""

import uuid
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest

from callsheet.state.owners import LOCAL
from callsheet.state.video.plan import RULES
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion, OldVersions
from callsheet.storage.artefacts.plans import Executions
from callsheet.storage.redis.scripts import read_time_ms
from tests.doubles.served import served_app
from tests.doubles.trips import SlowProxy
from tests.doubles.waiting import eventually
from tests.video.video_double import PlanningModel, VideoClient, edit

FEW, MANY = 5, 45
PATHS = ("/api/projects/launch", "/api/threads/launch/export")


@pytest.fixture
async def proxy(valkey_url: str) -> SlowProxy:
    return SlowProxy(urlsplit(valkey_url).path)


@pytest.fixture
async def slow_video(proxy: SlowProxy, planning_model: PlanningModel) -> AsyncIterator[VideoClient]:
    """The project, with its storage behind the proxy."""
    async with proxy.open() as url, served_app(url) as client:
        video = VideoClient(client, planning_model)
        await video.create()
        yield video


async def add_plans(storage: Storage, like: str, count: int) -> None:
    """Store plans like an ended one of the project, until it has so many."""
    executions = Executions(storage, "video", "launch", LOCAL, RULES)
    record = await executions.settle(like)
    for _ in range(count - len(await executions.kept_ids())):
        await executions.create({**record, "id": f"plan-{uuid.uuid4().hex}"})


async def count_trips(proxy: SlowProxy, http: httpx.AsyncClient, path: str) -> int:
    await eventually(proxy.is_quiet, "the end of the requests before")
    proxy.count(to_run=False)
    assert (await http.get(path)).status_code == 200
    proxy.stop()
    return proxy.trips


@pytest.mark.slow
async def test_a_project_and_its_file_need_as_many_round_trips_with_many_plans_as_with_few(
    slow_video: VideoClient, proxy: SlowProxy, storage: Storage
) -> None:
    plan = await slow_video.start("make it red", edit("scene-1"))
    await slow_video.wait_for_end(plan)
    for path in PATHS:
        # The first request loads the scripts.
        await slow_video.http.get(path)
    trips = []
    for count in (FEW, MANY):
        await add_plans(storage, plan, count)
        trips.append([await count_trips(proxy, slow_video.http, path) for path in PATHS])
    assert all(many <= few + 1 for few, many in zip(*trips, strict=True)), trips


async def test_undo_is_offered_after_more_undone_plans_than_are_read_at_first(
    video: VideoClient, storage: Storage
) -> None:
    plan = await video.start("make it red", edit("scene-1"))
    await video.wait_for_end(plan)
    await add_plans(storage, plan, 7)
    executions = Executions(storage, "video", "launch", LOCAL, RULES)
    record = await executions.settle(plan)
    for undone in range(1, 8):
        # Of the same millisecond, the later id is the newer one.
        await executions.create({**record, "id": f"undo-{undone}", "kind": "undo"})
        view = await video.call("GET", "/api/projects/launch")
        assert (view["canUndo"], view["canRedo"]) == (undone < 7, True)


async def test_a_plan_whose_versions_are_not_kept_any_more_cannot_be_undone(
    video: VideoClient, storage: Storage
) -> None:
    plan = await video.start("make it red", edit("scene-1"))
    await video.wait_for_end(plan)
    scene = Artefact(storage, "video", "launch", LOCAL)
    newest = await scene.version("scene-1", "v2")
    await scene.create_version(NewVersion("scene-1", newest.data, "llm", "later"))
    old = OldVersions("scene-1", 1, (), await read_time_ms(storage.redis) + 60_000, "v3")
    assert await scene.remove_old_versions(old, 0, 100) == (2, None)
    reply = await video.call("POST", "/api/projects/launch/undo", 410, json={"executionId": plan})
    assert "'v1'" in reply["error"]


@pytest.mark.slow
async def test_a_plan_that_waits_keeps_the_version_that_it_restores(
    valkey_url: str, storage: Storage, planning_model: PlanningModel
) -> None:
    scene = Artefact(storage, "video", "launch", LOCAL)
    async with served_app(valkey_url) as client:
        video = VideoClient(client, planning_model)
        await video.create()
        newest = await scene.version("scene-1", "v1")
        for number in range(2, 31):
            data = {"scene": {**newest.data["scene"], "name": f"Name {number}"}}
            await scene.create_version(NewVersion("scene-1", data, "llm", f"batch-{number}"))
        restore = {"tool": "restoreVersion", "scenes": ["scene-1"], "version": "v9"}
        deletion = {"tool": "deleteScene", "scenes": ["scene-3", "scene-4"]}
        plan = await video.start("as in v9, and without 3 and 4", restore, deletion, approve=True)
        await video.wait_until_idle()
        assert (await video.execution(plan))["status"] == "planned"
    async with served_app(valkey_url, kept_versions="2") as client:
        video = VideoClient(client, planning_model)

        async def are_few() -> bool:
            return await scene.counts(["scene-1"]) == {"scene-1": 3}

        await eventually(are_few, "the old versions are removed")
        assert [one.id for one in (await scene.stream("scene-1")).versions] == ["v9", "v29", "v30"]
        approval = {"decisions": [{"type": "approve"}]}
        await video.call("POST", f"/api/executions/{plan}/decision", json=approval)
        done = await video.wait_for_end(plan)
        assert done["status"] == "completed"
        assert (await video.contents())["scene-1"]["name"] == "Name 9"
