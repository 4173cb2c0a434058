"""Kill -9 of a server during an execution: another server continues, and every scene changes exactly once."""

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


def start_video_server(warm_parent: WarmParent, folder: Path, planning_model: PlanningModel) -> RunningServer:
    folder.mkdir(exist_ok=True)
    return start_server(
        folder, folder.parent / "data", warm_parent, CALLSHEET_LEASE_S="1", **planning_model.environ
    )


async def test_an_execution_of_a_killed_server_continues_and_each_scene_changes_once(
    warm_parent: WarmParent, tmp_path: Path, planning_model: PlanningModel
):
    """D27, D29, D33: two steps have completed and one is running when the server is killed."""
    planning_model.hold("third")
    first = start_video_server(warm_parent, tmp_path / "one", planning_model)
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
        await video.wait_until(
            name, lambda one: one["counts"] == {"completed": 2, "in-progress": 1, "pending": 1}
        )
        before = await video.execution(name)
    first.process.send_signal(signal.SIGKILL)
    second = start_video_server(warm_parent, tmp_path / "two", planning_model)
    planning_model.release()
    async with httpx.AsyncClient(base_url=second.url, timeout=30) as http:
        video = VideoClient(http, planning_model)
        done = await video.wait_for_end(name)
        assert done["counts"] == {"completed": 4}
        assert await video.revisions() == dict.fromkeys(edited_scenes(before), 2)
        lines = (await http.get(f"/api/execution-progress/{name}")).text.splitlines()
    data = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    completed = [one["stepId"] for one in data if one.get("status") == "completed" and "stepId" in one]
    assert sorted(completed) == ["s1", "s2", "s3", "s4"], "each completion is reported once"
    stop_server(second)


def edited_scenes(execution: dict[str, Any]) -> list[str]:
    return [step["params"]["sceneId"] for step in execution["plan"]["steps"]]


async def edit_all_scenes(base: str, name: str) -> None:
    """Create a project of four scenes if it does not exist, and edit all of them once."""
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        await http.post("/api/projects", json={"id": name, "scenes": SCENES})
        headers = {"Idempotency-Key": "all-faster"}
        body = {"message": "make all scenes faster", "provider": "offline"}
        reply = await http.post(f"/api/projects/{name}/executions", json=body, headers=headers)
        execution = reply.json()["executionId"]

        async def has_ended() -> bool:
            return (await http.get(f"/api/executions/{execution}")).json()["success"] is not None

        await eventually(has_ended, "the execution has ended")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_execution_killed_at_any_command_changes_each_scene_once(killable_server, when, request):
    """Before and after the command."""
    count = await killable_server.count_messages(lambda base, turn: edit_all_scenes(base, f"dry-{turn}"))
    assert count > 10, "there are enough commands to kill at"
    for at in sample_points(count, 2, seed=5, all_points=request.config.getoption("--long")):
        name = f"video-{when}-{at}"
        await killable_server.run_until_killed(
            Kill(at=at, when=when), lambda base, name=name: edit_all_scenes(base, name)
        )
        async with killable_server.serve() as base:
            await asyncio.wait_for(edit_all_scenes(base, name), 60)
            async with httpx.AsyncClient(base_url=base, timeout=30) as http:
                scenes = (await http.get(f"/api/projects/{name}/scenes")).json()["scenes"]
                listed = (await http.get(f"/api/projects/{name}/executions")).json()["executions"]
        assert [one["revision"] for one in scenes] == [2, 2, 2, 2], (at, scenes)
        assert [one["counts"] for one in listed if one["success"]] == [{"completed": 4}], (at, listed)
