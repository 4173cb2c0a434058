"""Executions whose run was cancelled or failed: cancelled, retried, gone on with (D-R5, D-R8, D-R15)."""

import asyncio
from typing import cast

import pytest
from redis import Redis

from callsheet.state import live_plan
from callsheet.state.live_plan import Execution
from callsheet.state.owners import LOCAL
from callsheet.state.plan import Step
from callsheet.state.video.plan_rules import RULES
from callsheet.storage import Storage
from callsheet.storage.plans import Executions
from tests.doubles.served import served_app
from tests.video.test_video_decisions import asked
from tests.video.video_double import PlanningModel, VideoClient, edit, status_is


async def running_step(video: VideoClient) -> tuple[str, str]:
    """Start two edits of a scene, and return the ids of execution and run while the first is carried out."""
    video.director.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.until(name, status_is("s1", "in-progress"))
    runs = (await video.http.get(f"/threads/{video.thread}/runs")).json()
    [run] = [one["run_id"] for one in runs if one["status"] == "running"]
    return name, run


async def cancel_run(video: VideoClient, run: str, action: str = "interrupt") -> None:
    """Cancel a run by LangGraph's route, and wait for its end."""
    options = {"wait": "true", "action": action}
    await video.http.post(f"/threads/{video.thread}/runs/{run}/cancel", params=options)
    await video.idle()


CHANGES = {"nothing": [], "pause": ["paused"], "cancel": ["cancelled"]}


@pytest.mark.parametrize("before", CHANGES)
@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_an_execution_whose_run_was_cancelled_is_cancelled_and_retried(
    video: VideoClient, action: str, before: str
):
    """D-R15: LangGraph's route ends the run, and nobody else would end what the run was at."""
    name, run = await running_step(video)
    following = asyncio.create_task(video.http.get(f"/api/execution-progress/{name}"))
    if before != "nothing":
        await video.call("POST", f"/api/executions/{name}/{before}")
    await cancel_run(video, run, action)
    shown = await video.execution(name)
    assert (shown["status"], shown["counts"]) == ("cancelled", {"cancelled": 2})
    assert [one["kind"] for one in shown["changes"]] == CHANGES[before]
    assert "execution-complete" in (await asyncio.wait_for(following, 20)).text
    await video.call("POST", "/api/projects/launch/undo", 409)
    video.director.release()
    await video.call("POST", f"/api/executions/{name}/steps/s1/retry")
    await video.until(name, status_is("s1", "completed"))


async def test_a_run_that_was_rolled_back_leaves_no_step_behind(video: VideoClient):
    """D-R15: also where the next message came before anybody looked."""
    name, run = await running_step(video)
    await cancel_run(video, run, "rollback")
    await video.ended(await video.start("y", edit("scene-2")))
    assert (await video.execution(name))["counts"] == {"cancelled": 2}


async def test_a_plan_whose_run_failed_is_cancelled(valkey_url: str, planning_model: PlanningModel):
    """D-R15."""
    async with served_app(valkey_url, run_timeout_s=1.0) as http:
        video = VideoClient(http, planning_model)
        await video.create()
        name, _ = await running_step(video)
        await video.idle()
        assert (await video.http.get(f"/threads/{video.thread}")).json()["status"] == "error"
        assert (await video.execution(name))["counts"] == {"cancelled": 2}


@pytest.mark.parametrize("looks", [0, 1])
async def test_a_run_without_input_goes_on_with_a_cancelled_one(video: VideoClient, looks: int):
    """D-R15: as LangGraph's clients mean it, whether or not somebody has looked meanwhile."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    for _ in range(looks):
        assert (await video.execution(name))["status"] == "cancelled"
    video.director.release()
    body = {"assistant_id": "scene_edit", "input": None, "context": {"provider": "openai"}}
    await video.http.post(f"/threads/{video.thread}/runs/wait", json=body)
    shown = await video.ended(name)
    assert (shown["status"], shown["counts"]) == ("completed", {"completed": 2})
    assert (await video.revisions())["scene-1"] == 2, "both edits are the same"


async def test_a_person_may_cancel_what_a_run_without_input_would_go_on_with(video: VideoClient):
    """D-R15: a no is final."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    await video.call("POST", f"/api/executions/{name}/cancel")
    video.director.release()
    body = {"assistant_id": "scene_edit", "input": None, "context": {"provider": "openai"}}
    await video.http.post(f"/threads/{video.thread}/runs/wait", json=body)
    shown = await video.execution(name)
    assert (shown["status"], shown["counts"]) == ("cancelled", {"cancelled": 2})
    assert [one["kind"] for one in shown["changes"]] == ["cancelled"]


async def test_a_plan_that_another_run_asks_about_is_its_own(video: VideoClient, storage: Storage):
    """D-R5: the run that recorded the plan was cancelled before its question; a look cancels nothing."""
    _, run = await running_step(video)
    await cancel_run(video, run)
    video.director.release()
    record = bare_record()
    step = record["steps"][0]["step"]
    step |= {"params": {"sceneId": "scene-1", "prompt": "x"}, "writes": ["scene-1"]}
    planned: Execution = {**record, "thread": video.thread, "run": run, "status": "planned", "task": ""}
    await Executions(storage, "video", "launch", LOCAL, RULES).create(
        {**planned, "asks": True, "started_ms": 0}
    )
    values = {"plan": {"id": "e", "steps": [step]}, "decided": False}
    update = {"values": values, "as_node": "planner"}
    assert (await video.http.post(f"/threads/{video.thread}/state", json=update)).status_code == 200
    context = {"provider": "openai", "approve_plan": True}
    body = {"assistant_id": "scene_edit", "input": None, "context": context}
    await video.http.post(f"/threads/{video.thread}/runs/wait", json=body)
    assert (await video.execution("e"))["status"] == "planned"
    decision = {"decisions": [{"type": "approve"}]}
    await video.call("POST", "/api/executions/e/decision", json=decision)
    await video.until("e", status_is("s1", "completed"))


async def test_a_cancelled_run_is_shown_where_storage_takes_no_writes(video: VideoClient, valkey_url: str):
    """X13: reading needs no room."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    with Redis.from_url(valkey_url) as server:
        server.config_set("maxmemory", 1)
        try:
            shown = await video.execution(name)
        finally:
            server.config_set("maxmemory", 0)
    assert (shown["status"], shown["counts"]) == ("cancelled", {"cancelled": 2})


@pytest.mark.parametrize("change", ["pause", "resume"])
async def test_an_execution_whose_run_was_cancelled_takes_no_change(video: VideoClient, change: str):
    """D43: a request that nobody would carry out is refused."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    refused = await video.call("POST", f"/api/executions/{name}/{change}", 409)
    assert "is cancelled" in refused["error"]


async def test_a_plan_outlives_the_record_of_the_run_that_asked(video: VideoClient):
    """D-R5: its question still waits."""
    name = await asked(video, edit("scene-1"))
    [run] = (await video.http.get(f"/threads/{video.thread}/runs")).json()
    await video.http.delete(f"/threads/{video.thread}/runs/{run['run_id']}")
    assert (await video.execution(name))["status"] == "planned"
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    assert (await video.ended(name))["success"]


async def test_an_execution_without_a_server_goes_on_while_it_is_read(storage: Storage):
    """D-R8: a graph that runs by itself has no record of a run."""
    executions = Executions(storage, "video", "launch", LOCAL, RULES)
    await executions.create(bare_record())
    assert (await executions.settle("e"))["status"] == "running"


def bare_record() -> Execution:
    texts = {"kind": "plan", "request": "", "reasoning": "", "feedback": "", "approved": "", "task": "t"}
    times = {"epoch": 1, "estimated_s": 1.0, "created_ms": 0, "started_ms": 1, "ended_ms": 0}
    step = Step(id="s1", tool="editScene", display="", params={}, dependencies=[], reads=[], writes=[])
    steps = live_plan.live_steps([step])
    named = {"id": "e", "thread": "t", "project": "launch", "run": "r", "status": "running"}
    return cast("Execution", {**named, **texts, **times, "steps": steps, "changes": []})
