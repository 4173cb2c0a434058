"""Plans and steps in the words of their documents, through REST: honoured or refused (D3, D6)."""

import json
from typing import Any

import pytest

from tests.video.video_double import VideoClient, edit, status_is


def step_of(execution: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a step of an execution."""
    [step] = [one for one in execution["plan"]["steps"] if one["id"] == name]
    return dict(step)


SUBMITTED = {
    "type": "parallel",
    "totalSteps": 3,
    "estimatedTime": 30,
    "userFeedback": "Three changes.",
    "context": {"needsWebSearch": False, "sharedStyle": "calm and blue"},
    "steps": [
        {
            "id": "a",
            "toolName": "editScene",
            "displayName": "Making it calm",
            "params": {"targetSceneId": "scene-1", "prompt": "first"},
            "dependencies": [],
            "canParallelize": True,
            "contextKeys": ["style:scene-3"],
        },
        {"id": "b", "toolName": "trimScene", "targetSceneId": "scene-2", "params": {"duration": 4}},
        {
            "id": "c",
            "toolName": "editScene",
            "params": {"targetSceneId": "scene-3", "prompt": "third"},
            "dependencies": ["a"],
            "canParallelize": False,
        },
    ],
}
"""A plan in the words of the documents."""


async def test_dependencies_parallelism_and_names_of_a_submitted_plan_are_honoured(video: VideoClient):
    """D3, D5, D-R2: a step waits for its `dependencies`, and one that cannot be parallel runs alone."""
    video.model.hold("first")
    video.model.plans.append({"executionPlan": SUBMITTED, "reasoning": "because"})
    name = (await video.post_execution("change three scenes"))["executionId"]
    await video.wait_until(name, status_is("b", "completed"))
    execution = await video.execution(name)
    assert await video.statuses(name) == {"a": "in-progress", "b": "completed", "c": "pending"}
    assert step_of(execution, "c")["dependencies"] == ["a"]
    assert step_of(execution, "c")["canParallelize"] is False
    assert step_of(execution, "a")["displayName"] == "Making it calm"
    assert step_of(execution, "a")["contextKeys"] == ["style:scene-3"]
    assert step_of(execution, "b")["params"] == {"sceneId": "scene-2", "durationSeconds": 4}
    assert execution["plan"]["userFeedback"] == "Three changes."
    assert execution["plan"]["reasoning"] == "because"
    assert execution["plan"]["context"]["sharedStyle"] == "calm and blue"
    video.model.release()
    assert (await video.wait_for_end(name))["success"]


async def test_a_sequential_plan_without_dependencies_runs_in_its_order(video: VideoClient):
    """D-R2."""
    steps = [edit("scene-1", prompt="one"), edit("scene-2", prompt="two")]
    video.model.plans.append({"type": "sequential", "steps": steps})
    started = await video.post_execution("one, then two")
    assert [step["dependencies"] for step in started["plan"]["steps"]] == [[], ["s1"]]
    await video.wait_for_end(started["executionId"])


async def test_a_field_that_a_plan_cannot_have_is_refused_with_the_form(video: VideoClient):
    """D-R11: a field with a meaning is never dropped; the model hears it once, and corrects its plan."""
    video.model.plans.append({"steps": [edit("scene-1", unless="scene-2 is red")]})
    name = await video.start("x", edit("scene-1", prompt="right"))
    await video.wait_for_end(name)
    [refused] = [
        one["content"]
        for one in video.model.requests[1].messages
        if one["role"] == "tool" and "unless" in one["content"]
    ]
    assert "behind" in json.loads(refused.partition("\n\n<state>")[0])["error"], "the fields are listed"


@pytest.mark.parametrize("name", ["Intro", "intro", "SCENE 2", "Scene-2"])
async def test_a_plan_may_name_a_scene_by_its_name_or_place_in_any_case(video: VideoClient, name: str):
    """D14."""
    video.model.patch = lambda prompt: {"name": "Intro"} if prompt == "rename" else {"background": "#010203"}
    await video.wait_for_end(await video.start("x", edit("scene-2", prompt="rename")))
    started = await video.post_execution("y", edit(name))
    assert started["plan"]["steps"][0]["params"]["sceneId"] == "scene-2"
    await video.wait_for_end(started["executionId"])


async def test_a_step_is_inserted_in_the_words_in_which_plans_are_shown(video: VideoClient):
    """D3, D-R16: `toolName`, `params` and `dependencies`, as GET has them."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    step = {
        "toolName": "trimScene",
        "displayName": "Shorter",
        "params": {"sceneId": "scene-2", "durationSeconds": 2},
        "dependencies": ["s1"],
    }
    execution = await video.call("POST", f"/api/executions/{name}/steps", json={"step": step})
    shown = step_of(execution, "i1")
    assert {field: shown[field] for field in step} == step
    refused = await video.call(
        "POST", f"/api/executions/{name}/steps", 422, json={"step": {**step, "colour": "red"}}
    )
    assert "remedy" in refused
    video.model.release()
    assert (await video.wait_for_end(name))["success"]


@pytest.mark.parametrize(
    "params",
    [{"prompt": ""}, {"prompt": "x" * 4_001}, {"durationSeconds": -3}, {"prompt": ["x"] * 90_000}],
)
async def test_an_edit_of_a_pending_step_that_its_tool_would_refuse_changes_nothing(
    video: VideoClient, params: dict[str, Any]
):
    """D41: 422 with the reason."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    path = f"/api/executions/{name}/steps/s2"
    refused = await video.call("PATCH", path, 422, json={"params": params})
    assert refused["error"]
    execution = await video.execution(name)
    assert step_of(execution, "s2")["params"] == {"sceneId": "scene-1", "prompt": "second"}
    assert execution["changes"] == []
    video.model.release()
    assert (await video.wait_for_end(name))["success"]


async def test_an_inserted_step_that_its_tool_would_refuse_is_refused(video: VideoClient):
    """D-R16: 422, and the plan is as it was."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    path = f"/api/executions/{name}/steps"
    for wrong in (
        {"tool": "trimScene", "scenes": ["scene-2"], "seconds": 0.1},
        {"tool": "addAudio", "scenes": ["scene-2"], "prompt": "x" * 1_001},
        {"tool": "restoreVersion", "scenes": ["scene-2"], "version": "two"},
    ):
        refused = await video.call("POST", path, 422, json={"step": wrong})
        assert refused["error"], refused
    assert (await video.execution(name))["plan"]["totalSteps"] == 1
    video.model.release()
    await video.wait_for_end(name)


async def test_the_changes_of_a_plan_are_bounded_in_bytes(video: VideoClient):
    """D41, D49: 409 once people's changes would fill a megabyte."""
    video.model.hold("first")
    name = await video.start("x", edit("scene-1", prompt="first"), edit("scene-1", prompt="second"))
    await video.wait_until(name, status_is("s1", "in-progress"))
    path = f"/api/executions/{name}/steps/s2"
    statuses = []
    for number in range(100):
        body = {"params": {"prompt": f"{number:03}" + "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 3_997}}
        statuses.append((await video.http.patch(path, json=body)).status_code)
        if statuses[-1] != 200:
            break
    assert statuses[-1] == 409
    assert len(json.dumps((await video.execution(name))["changes"], ensure_ascii=False).encode()) < 1_100_000
    video.model.release()
    assert (await video.wait_for_end(name))["success"]


@pytest.mark.parametrize(
    "step",
    [
        {"tool": "deleteScene", "scenes": ["scene-2"]},
        {"tool": "reorderScenes", "order": ["scene-1", "scene-3", "scene-2", "scene-4"]},
        {"tool": "trimScene", "scenes": ["scene-2"], "seconds": 2},
    ],
)
async def test_a_plan_about_attached_scenes_leaves_the_others_alone(video: VideoClient, step: dict[str, Any]):
    """D8, D-R12: `sceneIds` holds for every tool."""
    video.model.plans += [{"steps": [step]}, "It cannot be done."]
    started = await video.post_execution("change it", sceneIds=["scene-1"])
    assert started["plan"] is None
    assert [one["id"] for one in await video.scenes()] == [f"scene-{n}" for n in range(1, 5)]
    moved = {"tool": "reorderScenes", "scenes": ["scene-1"], "behind": "scene-3"}
    await video.wait_for_end(await video.start("move it", moved, sceneIds=["scene-1"]))
    assert [one["id"] for one in await video.scenes()] == ["scene-2", "scene-3", "scene-1", "scene-4"]


async def test_a_step_is_not_inserted_while_the_plan_waits_for_approval(video: VideoClient):
    """D-R16: 409, since the answer would be about another plan."""
    name = await video.start("x", edit("scene-1"), approve=True)
    await video.wait_until_idle()
    refused = await video.call("POST", f"/api/executions/{name}/steps", 409, json={"step": edit("scene-2")})
    assert "waits for approval" in refused["error"]
    assert refused["remedy"]
    await video.call("POST", f"/api/executions/{name}/decision", json={"decisions": [{"type": "approve"}]})
    assert (await video.wait_for_end(name))["counts"] == {"completed": 1}


async def test_no_plan_grows_past_its_steps(video: VideoClient):
    """D49: inserted steps count, too."""
    video.model.hold("first")
    many = [edit(f"scene-{1 + n % 4}", prompt="more", id=f"x{n}") for n in range(99)]
    name = await video.start("x", edit("scene-1", prompt="first"), *many)
    await video.wait_until(name, status_is("s1", "in-progress"))
    refused = await video.call("POST", f"/api/executions/{name}/steps", 409, json={"step": edit("scene-2")})
    assert "100 steps" in refused["error"]
    await video.call("POST", f"/api/executions/{name}/cancel")
    video.model.release()
    await video.wait_for_end(name)
