"""Executions whose run was cancelled or failed: cancelled, retried, continued (D-R5, D-R8, D-R15)."""

import asyncio
import itertools
import random
from typing import cast

import pytest
from redis import Redis

from callsheet.state import live_plan
from callsheet.state.live_plan import Execution
from callsheet.state.owners import LOCAL
from callsheet.state.plan import Step
from callsheet.state.video.plan import RULES
from callsheet.storage import Storage
from callsheet.storage.artefacts.plans import Executions
from tests.doubles.served import served_app
from tests.video.test_video_decisions import start_unapproved
from tests.video.video_double import PlanningModel, VideoClient, edit, status_is


async def running_step(video: VideoClient) -> tuple[str, str]:
    """Start two edits of a scene, and return the ids of execution and run while the first is executed."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    runs = (await video.http.get(f"/threads/{video.thread}/runs")).json()
    [run] = [one["run_id"] for one in runs if one["status"] == "running"]
    return name, run


async def cancel_run(video: VideoClient, run: str, action: str = "interrupt") -> None:
    """Cancel a run by LangGraph's route, and wait for its end."""
    options = {"wait": "true", "action": action}
    await video.http.post(f"/threads/{video.thread}/runs/{run}/cancel", params=options)
    await video.wait_until_idle()


EXPECTED_CHANGES = {"nothing": [], "pause": ["paused"], "cancel": ["cancelled"]}


@pytest.mark.parametrize("before", EXPECTED_CHANGES)
@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_cancelling_the_run_cancels_its_execution_which_can_be_retried(
    video: VideoClient, action: str, before: str
):
    """D-R15: LangGraph's route ends the run, so the execution must end with it."""
    name, run = await running_step(video)
    following = asyncio.create_task(video.http.get(f"/api/execution-progress/{name}"))
    if before != "nothing":
        await video.call("POST", f"/api/executions/{name}/{before}")
    await cancel_run(video, run, action)
    execution = await video.execution(name)
    assert (execution["status"], execution["counts"]) == ("cancelled", {"cancelled": 2})
    assert [one["kind"] for one in execution["changes"]] == EXPECTED_CHANGES[before]
    assert "execution-complete" in (await asyncio.wait_for(following, 20)).text
    await video.call("POST", "/api/projects/launch/undo", 409)
    video.model.release()
    await video.call("POST", f"/api/executions/{name}/steps/s1/retry")
    await video.wait_until(name, status_is("s1", "completed"))


async def test_a_rolled_back_run_cancels_all_steps_of_its_execution(video: VideoClient):
    """D-R15: also if the execution was not read before the next message."""
    name, run = await running_step(video)
    await cancel_run(video, run, "rollback")
    await video.wait_for_end(await video.start("y", edit("scene-2")))
    assert (await video.execution(name))["counts"] == {"cancelled": 2}


async def test_a_failed_run_cancels_its_execution(valkey_url: str, planning_model: PlanningModel):
    """D-R15."""
    async with served_app(valkey_url, run_timeout_s=1.0) as http:
        video = VideoClient(http, planning_model)
        await video.create()
        name, _ = await running_step(video)
        await video.wait_until_idle()
        assert (await video.http.get(f"/threads/{video.thread}")).json()["status"] == "error"
        assert (await video.execution(name))["counts"] == {"cancelled": 2}


@pytest.mark.slow
@pytest.mark.parametrize("action", ["interrupt", "rollback"])
async def test_steps_of_a_cancelled_run_are_completed_where_their_effect_happened_and_undo_knows_them(
    video: VideoClient, action: str
):
    """D-R8, D-R15: cancelled at any moment, the plan shows what changed, and undo restores exactly that."""
    chance, colors = random.Random(action), itertools.count(1)
    video.model.patch = lambda _: {"background": f"#{next(colors):06x}"}
    undone = 0
    for _ in range(12):
        before, revisions = await video.contents(), await video.revisions()
        name = await video.start("x", *(edit(scene, prompt="new") for scene in before))
        await asyncio.sleep(chance.uniform(0, 0.2))
        runs = (await video.http.get(f"/threads/{video.thread}/runs")).json()
        for run in [one["run_id"] for one in runs if one["status"] in {"pending", "running"}]:
            await cancel_run(video, run, action)
        await video.wait_until_idle()
        steps = (await video.execution(name))["plan"]["steps"]
        completed = {one["params"]["sceneId"] for one in steps if one["status"] == "completed"}
        changed = {scene for scene, now in (await video.revisions()).items() if now > revisions[scene]}
        assert completed == changed
        if completed:
            undone += 1
            undo = await video.call("POST", "/api/projects/launch/undo")
            await video.wait_for_end(undo["executionId"])
            assert await video.contents() == before
    assert undone


@pytest.mark.parametrize("reads", [0, 1])
async def test_a_run_without_input_continues_the_execution_of_a_cancelled_run(video: VideoClient, reads: int):
    """D-R15: as in LangGraph, whether or not the execution was read in between."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    for _ in range(reads):
        assert (await video.execution(name))["status"] == "cancelled"
    video.model.release()
    body = {"assistant_id": "scene_edit", "input": None, "context": {"provider": "openai"}}
    await video.http.post(f"/threads/{video.thread}/runs/wait", json=body)
    execution = await video.wait_for_end(name)
    assert (execution["status"], execution["counts"]) == (
        "completed",
        {"completed": 2, "unchanged": 1},
    )
    assert (await video.revisions())["scene-1"] == 2, "the two edits make equal scenes"


async def test_a_run_without_input_does_not_continue_an_execution_that_a_person_cancelled(video: VideoClient):
    """D-R15: a person's cancellation is final."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    await video.call("POST", f"/api/executions/{name}/cancel")
    video.model.release()
    body = {"assistant_id": "scene_edit", "input": None, "context": {"provider": "openai"}}
    await video.http.post(f"/threads/{video.thread}/runs/wait", json=body)
    execution = await video.execution(name)
    assert (execution["status"], execution["counts"]) == ("cancelled", {"cancelled": 2})
    assert [one["kind"] for one in execution["changes"]] == ["cancelled"]


async def test_a_plan_offered_again_by_a_later_run_is_not_cancelled_with_the_first_run(
    video: VideoClient, storage: Storage
):
    """D-R5: the run that recorded the plan was cancelled before its question; reading cancels nothing."""
    _, run = await running_step(video)
    await cancel_run(video, run)
    video.model.release()
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
    await video.wait_until("e", status_is("s1", "completed"))


async def test_the_execution_of_a_cancelled_run_can_be_read_when_storage_is_full(
    video: VideoClient, valkey_url: str
):
    """X13: reading writes nothing."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    with Redis.from_url(valkey_url) as server:
        server.config_set("maxmemory", 1)
        try:
            execution = await video.execution(name)
        finally:
            server.config_set("maxmemory", 0)
    assert (execution["status"], execution["counts"]) == ("cancelled", {"cancelled": 2})


@pytest.mark.parametrize("change", ["pause", "resume"])
async def test_the_execution_of_a_cancelled_run_cannot_be_paused_or_resumed(video: VideoClient, change: str):
    """D43: a request that would have no effect is refused."""
    name, run = await running_step(video)
    await cancel_run(video, run)
    refused = await video.call("POST", f"/api/executions/{name}/{change}", 409)
    assert "is cancelled" in refused["error"]


async def test_a_plan_can_be_approved_after_the_record_of_its_run_is_deleted(video: VideoClient):
    """D-R5: the question is still open."""
    name = await start_unapproved(video, edit("scene-1"))
    [run] = (await video.http.get(f"/threads/{video.thread}/runs")).json()
    await video.http.delete(f"/threads/{video.thread}/runs/{run['run_id']}")
    assert (await video.execution(name))["status"] == "planned"
    approval = {"decisions": [{"type": "approve"}]}
    await video.call("POST", f"/api/executions/{name}/decision", json=approval)
    assert (await video.wait_for_end(name))["success"]


async def test_reading_an_execution_without_a_run_record_does_not_cancel_it(storage: Storage):
    """D-R8: a graph that runs without the server has no record of a run."""
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
