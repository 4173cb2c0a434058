"""Kill -9 of a server during an execution: another goes on, and every scene changes exactly once."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.command import RunningServer, start_server, stop_server
from tests.doubles.killing import Kill, WarmParent, sample_points
from tests.doubles.waiting import eventually
from tests.video.video_double import SCENES, PlanningModel, VideoClient, edit

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(1800)]


@pytest.fixture
def planning_model() -> Iterator[PlanningModel]:
    with PlanningModel() as one:
        yield one
        one.release()


def started(warm_parent: WarmParent, folder: Path, planning_model: PlanningModel) -> RunningServer:
    folder.mkdir(exist_ok=True)
    return start_server(
        folder, folder.parent / "data", warm_parent, CALLSHEET_LEASE_S="1", **planning_model.environ
    )


async def test_a_killed_executor_is_gone_on_with_and_no_scene_changes_twice(
    warm_parent: WarmParent, tmp_path: Path, planning_model: PlanningModel
):
    """D27, D29, D33: two steps done, one running; then each of four scenes is exactly one version further."""
    planning_model.hold("third")
    first = started(warm_parent, tmp_path / "one", planning_model)
    async with httpx.AsyncClient(base_url=first.url, timeout=30) as http:
        video = VideoClient(http, planning_model)
        await video.create()
        name = await video.start(
            "x",
            edit("scene-1", prompt="first"),
            edit("scene-2", prompt="second"),
            edit("scene-3", prompt="third"),
            edit("scene-4", prompt="fourth", like=["scene-3"]),
        )
        await video.until(name, lambda one: one["counts"] == {"completed": 2, "in-progress": 1, "pending": 1})
        seen = await video.execution(name)
    first.process.send_signal(signal.SIGKILL)
    second = started(warm_parent, tmp_path / "two", planning_model)
    planning_model.release()
    async with httpx.AsyncClient(base_url=second.url, timeout=30) as http:
        video = VideoClient(http, planning_model)
        done = await video.ended(name)
        assert done["counts"] == {"completed": 4}
        assert await video.revisions() == dict.fromkeys(seen_scenes(seen), 2)
        lines = (await http.get(f"/api/execution-progress/{name}")).text.splitlines()
    data = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    completed = [one["stepId"] for one in data if one.get("status") == "completed" and "stepId" in one]
    assert sorted(completed) == ["s1", "s2", "s3", "s4"], "each is told once"
    stop_server(second)


def seen_scenes(execution: dict[str, Any]) -> list[str]:
    return [step["params"]["sceneId"] for step in execution["plan"]["steps"]]


async def edited(base: str, name: str) -> None:
    """Create a project of four scenes, if it is not there, and edit all of them once."""
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        await http.post("/api/projects", json={"id": name, "scenes": SCENES})
        headers = {"Idempotency-Key": "all-faster"}
        body = {"message": "make all scenes faster", "provider": "offline"}
        reply = await http.post(f"/api/projects/{name}/executions", json=body, headers=headers)
        execution = reply.json()["executionId"]

        async def over() -> bool:
            return (await http.get(f"/api/executions/{execution}")).json()["success"] is not None

        await eventually(over, "the execution is over")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_execution_killed_anywhere_changes_each_scene_once(killable_server, when, request):
    """Every effect once, wherever the process dies."""
    count = await killable_server.count_messages(lambda base, turn: edited(base, f"dry-{turn}"))
    assert count > 10, "the walk must have somewhere to go"
    for at in sample_points(count, 3, seed=5, all_points=request.config.getoption("--long")):
        name = f"video-{when}-{at}"
        await killable_server.run_until_killed(
            Kill(at=at, when=when), lambda base, name=name: edited(base, name)
        )
        async with killable_server.serve() as base:
            await asyncio.wait_for(edited(base, name), 60)
            async with httpx.AsyncClient(base_url=base, timeout=30) as http:
                scenes = (await http.get(f"/api/projects/{name}/scenes")).json()["scenes"]
                listed = (await http.get(f"/api/projects/{name}/executions")).json()["executions"]
        assert [one["revision"] for one in scenes] == [2, 2, 2, 2], (at, scenes)
        assert [one["counts"] for one in listed if one["success"]] == [{"completed": 4}], (at, listed)
